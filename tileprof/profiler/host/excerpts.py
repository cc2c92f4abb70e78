"""Timelines of single blocks of launches, until they become those of a profile's CTAs.

In: from the runtime, excerpts of launches whose records were read.  Out: tables of a profile, of
one launch for each function of each kernel and as many visits as a profile holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tileprof.profile import Cta, CtaFlights, CtaLaunch, CtaTimelines, CtaVisits, CtaWarp

if TYPE_CHECKING:
    from tileprof.instrument.decode.excerpts import Excerpt

MOST_VISITS = 200_000
"""Largest number of excerpts kept in one profile."""


class Excerpts:
    """Excerpts of one session."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, str, str], Excerpt] = {}
        """Excerpts, keyed by (kernel's place among the recorder's, function, device)."""

    def take(self, kernel: int, excerpt: Excerpt) -> None:
        """Keep the first of a function that was not its first launch, which warms up."""
        key = (kernel, excerpt.function, excerpt.device)
        known = self._held.get(key)
        if known is None or (known.launch == 0 and excerpt.launch > 0):
            self._held[key] = excerpt

    def items(self) -> list[tuple[tuple[int, str, str], Excerpt]]:
        """Return all of them with their keys."""
        return [*self._held.items()]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A block that a profile has room for."""

    launch: int
    """Place of its excerpt."""
    block: int
    """Place in the excerpt."""


def cta_timelines(
    sessions: Sequence[Excerpts], places: Mapping[int, int], most: int = MOST_VISITS
) -> tuple[CtaTimelines, dict[str, str]]:
    """Return the timelines of a profile, and what provenance tells of CTAs that were left out.
    Of two sessions the later one goes first. `places`: by kernel of the recorder that in the
    profile."""
    found: dict[tuple[int, str, str], Excerpt] = {}
    for session in sessions:
        found |= session.items()
    kept = [(places[key[0]], e) for key, e in found.items() if key[0] in places]
    kept.sort(key=lambda each: each[0])
    excerpts = [excerpt for _, excerpt in kept]
    chosen, left_out = _fitting(excerpts, most)
    launches = [
        CtaLaunch(kernel, e.function, e.device, e.launch, e.recorded, e.issued_ns)
        for kernel, e in kept
    ]
    facts = {}
    if left_out:
        of = len(chosen) + left_out
        facts["CTAs left out"] = f"{left_out:,} of {of:,}; {most:,} visits are kept at most"
    return _timelines(launches, excerpts, chosen), facts


def _fitting(excerpts: Sequence[Excerpt], most: int) -> tuple[list[_Chosen], int]:
    """Return as many blocks as there is room for, the median of each launch first; and the number
    of others."""
    turns = [
        (rank, launch, block)
        for launch, excerpt in enumerate(excerpts)
        for rank, block in enumerate(_by_reason(excerpt))
    ]
    chosen, left_out = [], 0
    counts = [
        np.bincount([w.block for w in e.warps], _visits_by_warp(e), len(e.blocks)) for e in excerpts
    ]
    for _, launch, block in sorted(turns):
        size = int(counts[launch][block])
        if size > most:
            left_out += 1
            continue
        most -= size
        chosen.append(_Chosen(launch, block))
    return sorted(chosen, key=lambda each: (each.launch, each.block)), left_out


def _by_reason(excerpt: Excerpt) -> list[int]:
    """Return the blocks of an excerpt, the median first, then the extremes."""
    order = ("median", "longest", "shortest", "first", "last", "")
    ranks = [order.index(block.chosen.split(", ")[0]) for block in excerpt.blocks]
    return sorted(range(len(ranks)), key=ranks.__getitem__)


def _visits_by_warp(excerpt: Excerpt) -> list[int]:
    counted: list[int] = np.bincount(excerpt.warp, minlength=len(excerpt.warps)).tolist()
    return counted


def _timelines(
    launches: list[CtaLaunch], excerpts: Sequence[Excerpt], chosen: Sequence[_Chosen]
) -> CtaTimelines:
    if not chosen:
        return CtaTimelines()
    used = sorted({each.launch for each in chosen})
    ctas: list[Cta] = []
    warps: list[CtaWarp] = []
    queues = list(dict.fromkeys(queue for e in excerpts for queue in e.queues))
    visits, flights = [], []
    for number, launch in enumerate(used):
        excerpt = excerpts[launch]
        place = np.full(len(excerpt.warps), -1, np.int64)
        for each in (c for c in chosen if c.launch == launch):
            block = excerpt.blocks[each.block]
            for row, warp in enumerate(excerpt.warps):
                if warp.block == each.block:
                    place[row] = len(warps)
                    warps.append(_warp(len(ctas), excerpt, row))
            ctas.append(
                Cta(number, block.number, block.sm, block.begin_ns, block.end_ns, block.chosen)
            )
        visits.append(_visits(excerpt, place))
        flights.append(_flights(excerpt, place, queues))
    columns = (
        CtaVisits.typed(*np.concatenate(visits, axis=1)),
        CtaFlights.typed(*np.concatenate(flights, axis=1)),
    )
    return CtaTimelines([launches[i] for i in used], ctas, warps, queues, lambda: columns)


_Rows = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def _warp(cta: int, excerpt: Excerpt, row: int) -> CtaWarp:
    warp = excerpt.warps[row]
    return CtaWarp(cta, warp.number, warp.role, warp.begin, warp.end, warp.missing)


def _visits(excerpt: Excerpt, place: _Rows) -> _Rows:
    rows = np.stack([place[excerpt.warp], excerpt.site, excerpt.begin, excerpt.end])
    return rows[:, rows[0] >= 0]


def _flights(excerpt: Excerpt, place: _Rows, queues: list[str]) -> _Rows:
    held = excerpt.passages
    named = np.array([queues.index(queue) for queue in excerpt.queues], np.int64)
    rows = np.stack([
        named[held.queue], place[held.issuer], place[held.waiter], held.site, held.waited_at,
        held.issued, held.wait, held.retired,
    ])  # fmt: skip
    return rows[:, rows[1] >= 0]
