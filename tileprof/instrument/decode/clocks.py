"""Time from the clocks of warps: 32 bits of cycles in a record, cycles and ns in the slots' heads.

In: slots.  Out: how long a cycle was, with its error, and the cycles of each record since its warp
began.  A multiprocessor's cycles are exact and its own; the ns of a GPU are the same everywhere but
step coarsely (32 ns, on some GPUs 1 µs), so only all slots of a launch together give their ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof.instrument.slots import SlotHeads, Slots, cycles_of_heads

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LARGEST_ERROR = 0.1
"""Largest standard error, as a share, of a launch's own ratio; else the common ratio is used."""
COARSEST_NS = 1024.0
"""Step of the slowest globaltimer, in ns; a few stamps alone suggest a coarser step."""
_WRAP = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class LaunchClocks:
    """Length of a cycle in each launch."""

    ns_per_cycle: Floats
    """(slots): ns per clock cycle of the slot's launch."""
    error: float
    """Standard error as a share, of the launch that is known worst; NaN where the length that was
    handed in had to be taken, infinite where nothing is known and a cycle counts as 1 ns."""


def launch_clocks(slots: Slots, ns_per_cycle: float | None = None) -> LaunchClocks:
    """Return each launch's ns per cycle; `ns_per_cycle` stands in where all are too short."""
    tag: NDArray[np.uint32] = slots.heads["tag"]
    tags, launch = np.unique(tag, return_inverse=True)
    together = _ratio(slots.heads)
    known = [together]
    if len(tags) > 1:
        known = [_ratio(slots.heads[launch == number]) for number in range(len(tags))]
    if together[1] > LARGEST_ERROR:
        together = (1.0, math.inf) if ns_per_cycle is None else (ns_per_cycle, math.nan)
    taken = [each if each[1] <= LARGEST_ERROR else together for each in known]
    ratios, errors = np.array(taken).reshape(-1, 2).T
    return LaunchClocks(ratios[launch], float(errors.max(initial=0.0)))


def _ratio(heads: SlotHeads) -> tuple[float, float]:
    """Return the ns of a cycle over some slots, and its standard error as a share.

    Each stamp is off by up to a step of the clock, evenly, so a difference by step / √6; slots that
    began at the same stamp are off together and count once.
    """
    begin, end = heads["begin_ns"].astype(np.int64), heads["end_ns"].astype(np.int64)
    cycles = cycles_of_heads(heads).sum()
    ns = float((end - begin).sum())
    if ns <= 0 or cycles <= 0:
        return 1.0, math.inf
    stamps = np.concatenate([begin, end])
    step = min(float(np.gcd.reduce(stamps - stamps.min())), COARSEST_NS)
    independent = 1 + np.count_nonzero(np.diff(np.sort(begin)))
    error = step / math.sqrt(6 * independent) / (ns / len(heads))
    return ns / float(cycles), error


def cycles_of(slots: Slots) -> tuple[Floats, Flags]:
    """Return cycles from a warp's begin to each record, and (slots): whether they make sense.

    They do not where a clock goes back, nor where a warp made no mark for 2**32 cycles, some two
    seconds: then how often its clock went round is not known.
    """
    starts, length, missing = slots.starts, slots.length, slots.lacks
    clock: NDArray[np.uint32] = slots.records["clock"]
    begin: NDArray[np.uint64] = slots.heads["begin_clock"]
    since = clock - np.repeat(begin.astype(np.uint32), np.diff(starts))
    cycles = since.astype(np.float64)
    goes_round = missing & slots.goes_round
    for number in np.flatnonzero(length >= _WRAP).tolist():
        mine = slice(*starts[number : number + 2].tolist())
        known = length[number] if goes_round[number] else None
        cycles[mine] = _unwrapped(cycles[mine], known)
    there = np.flatnonzero(np.diff(starts))
    first, last = starts[there], starts[there + 1] - 1
    back = cycles[1:] < cycles[:-1]
    back[first[1:] - 1] = False
    good = np.ones(len(slots), np.bool_)
    if back.any():
        good[np.searchsorted(starts, np.flatnonzero(back), side="right") - 1] = False
    rest = length[there] - cycles[last]
    open_end = missing[there] & ~goes_round[there]
    good[there] &= (rest >= 0) & ((rest < _WRAP) | open_end)
    return cycles, good


def _unwrapped(cycles: Floats, length: float | None) -> Floats:
    """Return cycles of a warp that ran for longer than 32 bits count.

    Where the oldest records are missing it is the end that is known: `length` cycles after the
    begin."""
    made = cycles + np.cumsum(np.diff(cycles, prepend=0.0) < 0) * float(_WRAP)
    if length is not None and len(made):
        made += (length - made[-1]) // _WRAP * _WRAP
    return np.asarray(made)
