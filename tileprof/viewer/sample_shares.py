"""Shares of samples inside kernels as a reader sees them: notes of sites, columns, fields of lines.

In: a profile with samples of kernels.  Out: text and numbers; a share always has its interval;
there is none where samples are too few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tileprof.profile import Profile
from tileprof.profile.shares import Share, line_shares, roles_of, shares_of
from tileprof.profile.units import format_value

LEGEND = "At sites: their part of the samples of the kernel, with its 95 % interval."
_PARTS = {"share": "share", "share_low": "low", "share_high": "high"}


def share_names(profile: Profile) -> list[str]:
    """Return names of sample columns: `share`, `share_low`, `consumer_share`, …"""
    return [f"{_prefix(role)}{part}" for role in roles_of(profile) for part in _PARTS]


def share_column(profile: Profile, name: str) -> npt.NDArray[np.float64]:
    """Return the values of such a column; NaN where there are too few samples for one."""
    values = np.full(len(profile), np.nan)
    for node, shares in shares_of(profile).items():
        for share in shares:
            for part, attribute in _PARTS.items():
                if f"{_prefix(share.role)}{part}" == name and not math.isnan(share.share):
                    values[node] = getattr(share, attribute)
    return values


def share_notes(shares: Sequence[Share]) -> list[str]:
    """Return the notes of a site: `consumer 61.2 % (60.9 – 61.5), 12,345 samples`."""
    return [f"{share.role} {share_text(share)}".removeprefix("block ") for share in shares]


def share_text(share: Share) -> str:
    """Return one share with its interval and how many samples it is of."""
    count = count_text(share.samples)
    if math.isnan(share.share):
        return f"– ({count})"
    low, high = _ends(share)
    return f"{share.share:.1%} ({low} – {high}), {count}".replace("%", " %")


def line_texts(
    profile: Profile, places: Sequence[tuple[str, int]], index: Sequence[int]
) -> dict[tuple[str, int], str]:
    """Return the note of each line; a node belongs to the place at its index, -1 to none."""
    of_nodes = {node: places[at] for node, at in enumerate(index) if at >= 0}
    return {place: share_text(share) for place, share in line_shares(profile, of_nodes).items()}


def count_text(samples: int) -> str:
    """Return a number of samples as text: `1,234 samples`."""
    return f"{format_value(samples, '1') if samples else 'no'} sample{'' if samples == 1 else 's'}"


def _ends(share: Share) -> tuple[str, str]:
    """Return both ends with enough digits to tell them apart."""
    digits = 2 if share.high - share.low < 0.002 else 1
    return f"{share.low * 100:.{digits}f}", f"{share.high * 100:.{digits}f}"


def _prefix(role: str) -> str:
    return "" if role == "block" else f"{role}_"
