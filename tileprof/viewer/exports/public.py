"""Names of `tileprof.viewer.exports`, loaded when one is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileprof.errors import UsageError, suggestion
from tileprof.profile import Profile
from tileprof.profile.transform.operations import without_estimates
from tileprof.viewer.exports.chrome import to_chrome
from tileprof.viewer.exports.collapsed import to_collapsed
from tileprof.viewer.exports.hatchet import to_hatchet_json
from tileprof.viewer.exports.parquet import to_parquet
from tileprof.viewer.exports.perfetto import to_perfetto
from tileprof.viewer.exports.speedscope import to_speedscope
from tileprof.viewer.figures.page import cta_page

__all__ = ["EXPORTS", "FOLDER_EXPORTS", "export", "export_folder"]

EXPORTS: dict[str, Callable[[Profile], str | bytes]] = {
    "chrome": to_chrome,
    "collapsed": to_collapsed,
    "hatchet": to_hatchet_json,
    "html-timeline": cta_page,
    "perfetto": to_perfetto,
    "speedscope": to_speedscope,
}
"""Formats that are one file of one profile."""

FOLDER_EXPORTS: dict[str, Callable[[Mapping[str, Profile]], dict[str, bytes]]] = {
    "parquet": to_parquet,
}
"""Formats that are a folder of files, of several profiles by name."""


def export(profile: Profile, format_name: str) -> str | bytes:
    """Return a file's content in the format `format_name`; UsageError lists the formats."""
    if format_name in FOLDER_EXPORTS:
        raise UsageError(
            f"`{format_name}` is a folder, not one file", hint="Use export_folder(profiles, name)."
        )
    _check(format_name)
    return EXPORTS[format_name](without_estimates(profile))


def export_folder(profiles: Mapping[str, Profile], format_name: str) -> dict[str, bytes]:
    """Return the files of a folder by their path in it; rows and files are called as the profiles.

    UsageError for a format that is not a folder.
    """
    if format_name in EXPORTS:
        raise UsageError(
            f"`{format_name}` is one file, not a folder", hint="Use export(profile, name)."
        )
    _check(format_name)
    shown = {name: without_estimates(profile) for name, profile in profiles.items()}
    return FOLDER_EXPORTS[format_name](shown)


def _check(format_name: str) -> None:
    known = [*EXPORTS, *FOLDER_EXPORTS]
    if format_name not in known:
        raise UsageError(
            f"there is no export format `{format_name}`",
            hint=f"{suggestion(format_name, known)}The formats are: {', '.join(known)}.",
        )
