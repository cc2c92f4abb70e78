"""Loops whose warps wait for tiles that come by themselves, and how long.

In: code with samples.  Out: `TileWait` for each loop that uses such tiles: samples of warps that
wait for an asynchronous copy while nobody issues, as a share of the time of these warps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.machine.code import COPIES, KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loop_around, slow_paths, turns
from tileprof.analyzer.numbers.kernels import TILE_WAITS_READY

_REASONS = ("long_scoreboard", "branch_resolving")


@dataclass(frozen=True, eq=False)
class TileWait:
    """A loop that waits for its tiles."""

    loop: range
    """Whose turns count; of several in turn the one with the most."""
    where: tuple[int, ...]
    exposed: Weights
    """By row, samples that wait while nobody issues, beyond what a wait takes that need not."""
    share: float
    """Of the time of the warps that use the tiles."""
    inside: float
    """Of it, what the loop takes."""
    cycles: float
    """By turn."""


def waits_for_tiles(code: KernelCode) -> Iterator[TileWait]:
    """The loops with waits for copies."""
    copies = set(code.named(*COPIES))
    offsets = {code.instructions[index].offset for index in copies}
    waiting = {b.offset for b in code.function.blames if b.producer in offsets}
    at = code.where(lambda each: each.offset in waiting)
    loops = {loop for index in at if (loop := loop_around(code, index))}
    # Where some loops only use tiles, those that load them wait for free slots.
    users = {loop for loop in loops if not copies & set(loop)}
    for loop in users or loops:
        where = tuple(index for index in at if index in loop)
        yield _wait(code, loop, where, max(code.whole - loading_apart(code, loop), 1.0))


def in_turn(code: KernelCode, waits: Iterable[TileWait]) -> Iterator[TileWait]:
    """Waits of loops that take the tiles of one pipeline in turn, together: one that was rotated or
    peeled is several loops. The one that turns most often says what a turn is, also for a loop
    around them; what asks an mbarrier apart is a part of its loop."""
    found = list(waits)
    asking = {index for each in found for index in slow_paths(code, each.loop)}
    loops = [each for each in found if each.loop[0] not in asking]
    parts = [each for each in loops if is_innermost(code, each.loop)]
    if len(parts) < 2:
        yield from found
        return
    often = [turns(code, each.loop) for each in parts]
    steady, turned = parts[often.index(max(often))].loop, max(sum(often), 1.0)
    yield _together(parts, steady, sum(a.cycles * n for a, n in zip(parts, often)) / turned)
    for each in loops:
        if each not in parts:
            late = each.cycles * turns(code, each.loop)
            around = steady[0] in each.loop
            yield replace(each, loop=steady, cycles=late / turned) if around else each


def _together(parts: Sequence[TileWait], steady: range, cycles: float) -> TileWait:
    return TileWait(
        steady, tuple(sorted(index for each in parts for index in each.where)),
        np.sum([each.exposed for each in parts], axis=0),
        sum(each.share for each in parts), sum(each.inside for each in parts), cycles,
    )  # fmt: skip


def loading_apart(code: KernelCode, loop: range) -> int:
    """Samples of warps that do nothing but load for those of a loop: theirs is another one."""
    loops = {loop_around(code, index) for index in code.named(*COPIES)}
    apart = [each for each in loops if each and not set(each) & set(loop)]
    # One of them may be around another: what both have counts once.
    return code.n({i for each in apart for i in (*each, *slow_paths(code, each))})


def _wait(code: KernelCode, loop: range, where: tuple[int, ...], whole: float) -> TileWait:
    slow, turned = slow_paths(code, loop), turns(code, loop)
    idle = code.n(where, _REASONS, idle=True) + code.n(slow, idle=True)
    # What asks an mbarrier, and the branch on its answer, are one wait.
    waits = sum(code.instructions[index].name != "SYNCS" for index in where)
    late = max(0.0, idle - TILE_WAITS_READY * turned * max(waits, 1))
    all_waits = code.taken(code.rows(where, _REASONS) | code.rows(slow))
    # What goes is a share of these warps' time, and told as that share of all samples.
    scale = late / max(float(all_waits.sum()), 1.0) * code.whole / whole
    return TileWait(
        loop, where, all_waits * scale, late / whole, code.n([*loop, *slow]) / whole,
        late / turned if turned else 0.0,
    )  # fmt: skip
