"""The columns of CTAs' timelines as bytes of a file.

In: columns.  Out: their bytes, in the form of those of a timeline (`timeline_bytes.py`); the warp
and the begin of a visit as differences to the visit before, ends as lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile.ctas import Cta, CtaFlights, CtaLaunch, CtaTimelines, CtaVisits, CtaWarp
from tileprof.profile.storage.limits import VISITS
from tileprof.profile.storage.timeline_bytes import packed, unpacked

_FLIGHTS = tuple(each.name for each in fields(CtaFlights))


def to_bytes(timelines: CtaTimelines) -> dict[str, bytes]:
    """Return the bytes of each column, by its name."""
    visits, flights = timelines.visits, timelines.flights
    columns: dict[str, npt.NDArray[np.integer]] = {
        "visit_warp": np.diff(visits.warp, prepend=0),
        "visit_site": visits.site,
        "visit_begin": np.diff(visits.begin, prepend=0),
        "visit_length": visits.end - visits.begin,
    }
    columns |= {f"flight_{name}": getattr(flights, name) for name in _FLIGHTS}
    return {name: packed(column, 8) for name, column in columns.items()}


def from_bytes(
    launches: Sequence[CtaLaunch],
    ctas: Sequence[Cta],
    warps: Sequence[CtaWarp],
    queues: Sequence[str],
    columns: Mapping[str, bytes],
) -> CtaTimelines:
    """Return the timelines of a file; the columns are read when they are asked for."""

    def make() -> tuple[CtaVisits, CtaFlights]:
        try:
            found = _read(columns)
            CtaTimelines(launches, ctas, warps, queues, lambda: found).check_columns()
        except (KeyError, InternalError, ProfileFileError):
            raise ProfileFileError(
                "the profile's timelines of CTAs are damaged",
                hint="Make it again with `tileprof run`; the rest of it can be read.",
            ) from None
        return found

    return CtaTimelines(launches, ctas, warps, queues, make) if launches else CtaTimelines()


def _read(columns: Mapping[str, bytes]) -> tuple[CtaVisits, CtaFlights]:
    def numbers(name: str) -> npt.NDArray[np.integer]:
        return unpacked(columns[name], 8, f"column `{name}` of the CTAs", VISITS * 8)

    warp, site, begin, length = (
        numbers(f"visit_{name}") for name in ("warp", "site", "begin", "length")
    )
    flights = [numbers(f"flight_{name}") for name in _FLIGHTS]
    for group in ((warp, site, begin, length), flights):
        if len({len(column) for column in group}) != 1:
            raise ProfileFileError("the columns of the CTAs' timelines are not of one length")
    begins = np.cumsum(begin)
    return (
        CtaVisits.typed(np.cumsum(warp), site, begins, begins + length),
        CtaFlights.typed(*flights),
    )
