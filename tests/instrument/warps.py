"""Warps that record, for tests: what they do, the slots they leave, a slow reading of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprof import ir
from tileprof.instrument.slots import RECORD, SLOT, Slots


def sites_of(parents: Sequence[int | None]) -> list[ir.Site]:
    """Sites `s0`, `s1`, … from the parent of each."""
    return [ir.Site(i, f"s{i}", "scope", None, parent) for i, parent in enumerate(parents)]


@dataclass
class Warp:
    """One warp: when it began and ended, and the marks that it made."""

    block: int = 0
    number: int = 0
    tag: int = 0
    begin: int = 0
    """In cycles, all 64 bits."""
    marks: list[tuple[int, ir.State]] = field(default_factory=list)
    """Cycles since the begin, and the state."""
    length: int = 0
    limit: int = 1 << 30
    goes_round: bool = False
    begin_ns: int = 0
    ns_per_cycle: int = 1
    sm: int = 0

    @property
    def kept(self) -> list[tuple[int, ir.State]]:
        """The marks whose records are there."""
        return self.marks[-self.limit :] if self.goes_round else self.marks[: self.limit]

    @property
    def no_begin(self) -> bool:
        """Whether the oldest are missing."""
        return self.goes_round and len(self.marks) > self.limit

    @property
    def no_end(self) -> bool:
        """Whether the newest are missing."""
        return not self.goes_round and len(self.marks) > self.limit


def slots_of(warps: Sequence[Warp], states: Sequence[ir.State]) -> Slots:
    """What the warps leave in the arena."""
    number = {state: at for at, state in enumerate(states)}
    heads, records = np.zeros(len(warps), SLOT), []
    for head, warp in zip(heads, warps, strict=True):
        end_ns = warp.begin_ns + warp.length * warp.ns_per_cycle
        values = {
            "tag": warp.tag, "block": warp.block, "warp": warp.number, "sm": warp.sm,
            "flags": int(warp.goes_round), "wanted": len(warp.marks), "kept": len(warp.kept),
            "begin_ns": warp.begin_ns, "end_ns": end_ns,
            "begin_clock": warp.begin, "end_clock": warp.begin + warp.length,
        }  # fmt: skip
        for name, value in values.items():
            head[name] = value
        records += [((warp.begin + at) % 2**32, number[state]) for at, state in warp.kept]
    return Slots(heads, np.array(records, RECORD))


@dataclass(frozen=True)
class Visit:
    """One visit of a site by a warp, read mark by mark."""

    site: int
    ns: float
    whole: bool


def visits_of(warp: Warp, sites: Sequence[ir.Site], record_cycles: float = 0) -> list[Visit]:
    """The visits of a warp, those that ended first before the others."""
    found: list[Visit] = []
    opened: list[tuple[int, float, bool]] = []
    scale = warp.ns_per_cycle

    def close(keep: int, now: float, whole: bool) -> None:
        while len(opened) > keep:
            site, begin, seen = opened.pop()
            found.append(Visit(site, max((now - begin) * scale, 0), whole and seen))

    for number, (at, state) in enumerate(warp.kept):
        now = at - record_cycles * number
        path: list[int] = []
        site: int | None = state.site
        while site is not None and site >= 0:
            path.insert(0, site)
            site = sites[site].parent
        if number == 0:
            opened += [(s, now, not warp.no_begin) for s in path[: state.fresh]]
        close(state.fresh, now, True)
        opened += [(s, now, True) for s in path[state.fresh :]]
    if warp.kept:
        last, marks = warp.kept[-1][0], len(warp.kept)
        end = last - record_cycles * (marks - 1) if warp.no_end else None
        whole_end = warp.length - record_cycles * marks
        close(0, whole_end if end is None else end, not warp.no_end)
    return found


def known_ns(warp: Warp, record_cycles: float = 0) -> float:
    """The time of a warp while its records were kept."""
    if not warp.kept:
        return (warp.length - record_cycles * len(warp.marks)) * warp.ns_per_cycle
    marks = len(warp.kept)
    end = warp.length - record_cycles * marks
    if warp.no_end:
        end = warp.kept[-1][0] - record_cycles * (marks - 1)
    return (end - (warp.kept[0][0] if warp.no_begin else 0)) * warp.ns_per_cycle
