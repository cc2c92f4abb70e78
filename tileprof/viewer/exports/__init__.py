"""Profiles for other people's tools: one file a format, one line in `EXPORTS`.

In: a profile.  Out: the text of a file. To add a format, write `FORMAT.py` with one function
`Profile -> str | bytes` and name it in the table below.
"""

from __future__ import annotations

from collections.abc import Callable

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer.exports.chrome import to_chrome
from tileprof.viewer.exports.collapsed import to_collapsed
from tileprof.viewer.exports.hatchet import to_hatchet_json
from tileprof.viewer.exports.speedscope import to_speedscope

__all__ = ["EXPORTS", "export"]

EXPORTS: dict[str, Callable[[Profile], str | bytes]] = {
    "chrome": to_chrome,
    "collapsed": to_collapsed,
    "hatchet": to_hatchet_json,
    "speedscope": to_speedscope,
}


def export(profile: Profile, format_name: str) -> str | bytes:
    """The content of a file of the format `format_name`; UsageError names the formats there are."""
    if format_name not in EXPORTS:
        raise UsageError(
            f"there is no export format `{format_name}`",
            hint=f"The formats are: {', '.join(EXPORTS)}.",
        )
    return EXPORTS[format_name](profile)
