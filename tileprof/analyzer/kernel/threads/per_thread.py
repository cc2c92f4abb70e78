"""What narrow accesses cost beside their queue: bytes under way, and work done for each thread.

In: a kernel; accesses of less than 16 bytes a thread.  Out: samples, by row, that go where a thread
moves 16 bytes at once, so that as many threads fewer, or turns, do.

Little's law: what a multiprocessor gets in a second is what its warps have under way by how long
that takes. Loads of a loop whose bytes, of all warps that it holds, are fewer than its part of the
memory's rate times the latency under load wait for nothing but latency, and wait as long for 16
bytes as for 4. Under way are the loads of which nothing was used yet: where a register is read, or
written again, its load has come. Copies that run ahead are all under way.

Addresses, bounds and indices are worked out once for each access, not for each byte: of what makes
them, the part goes that has no access of its own any more; accesses of 4 bytes share half of it as
they are, at offsets of one register. So does, where latency is the limit and
a thread has one access a turn, what threads do outside of the loop: sums over lanes, for one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.kernel.global_memory import LOADS, width_of
from tileprof.analyzer.kernel.launches import clock_mhz, launch_of
from tileprof.analyzer.kernel.queues import FULL
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.repeats import COMPUTES, address_of, parsed
from tileprof.analyzer.machine.strides import goes_by_pitch
from tileprof.analyzer.numbers.kernels import (
    PACE_UNDER_LOAD,
    PER_THREAD_OF_WORD,
    PER_THREAD_TURNS,
    PER_THREAD_WORD,
)
from tileprof.analyzer.numbers.shared import HALFWAY, WIDEST
from tileprof.binary.instructions import Instruction
from tileprof.binary.occupancy import WARP
from tileprof.binary.register_effects import effects

_COPIES = ("LDGSTS",)
_ANSWER = ("long_scoreboard",)


def short_of(case: KernelCase, code: KernelCode, where: Collection[int]) -> float:
    """Return how many times as many bytes had to be under way so that memory is busy; 0 where that
    is not known, or enough are, or their loop goes from row to row and there are no more threads
    than the device holds at once, or shared memory, which grows with a tile, has room for no more:
    as few bytes would be under way of fewer threads. So they would be where registers limit how
    many threads there are, and hold what is made of each element."""
    launch, peak = launch_of(case), case.roofs.memory_peak
    hot = code.hottest([i for i in where if code.instructions[i].name == "LDG"])
    loop = loop_around(code, hot.index) if hot else None
    if launch is None or peak is None or not clock_mhz(case) or loop is None:
        return 0.0
    limit = case.attributes.get("limited_by")
    if launch.waves < 1 or limit == "shared memory":
        inside = [index for index in where if index in loop]
        moved = sum(width_of(code.instructions[index].opcode) for index in inside)
        if goes_by_pitch(code, loop, where, launch.threads * moved):
            return 0.0
    if limit == "registers" and not _stages(code, loop):
        return 0.0
    warps = min(launch.held, launch.each) * launch.warps
    asked = warps * WARP * _under_way(code, loop)
    if not asked:
        return 0.0
    latency = PACE_UNDER_LOAD / (clock_mhz(case) * 1e6)
    short = peak.value / launch.multiprocessors * latency / asked
    return short if short > 1 else 0.0


def _stages(code: KernelCode, loop: range) -> bool:
    """Return whether a loop stores to shared memory what it loads, as it is or as another type."""
    held, moved = parsed(code), set[str]()
    for index in loop:
        each, does = held[index], effects(held[index])
        if each.name == "STS" and not moved.isdisjoint(effects(each).reads):
            return True
        if each.name in LOADS or (
            not COMPUTES.match(each.name) and not moved.isdisjoint(does.reads)
        ):
            moved.update(does.writes)
        elif not each.predicate:
            moved.difference_update(does.writes)
    return False


def _under_way(code: KernelCode, loop: range) -> int:
    """Bytes that a thread has under way at most, in two turns of a loop."""
    held = parsed(code)
    copies = sum(width_of(held[i].opcode) for i in loop if held[i].name in _COPIES)
    pending, most = dict[str, tuple[int, int]](), 0
    for index in (*loop, *loop):
        each = held[index]
        does = effects(each)
        come = {pending[name][0] for name in (*does.reads, *does.writes) if name in pending}
        pending = {name: load for name, load in pending.items() if load[0] not in come}
        if each.name == "LDG" and code.n([index]):
            pending |= dict.fromkeys(does.writes, (index, width_of(each.opcode)))
        most = max(most, sum(dict(pending.values()).values()))
    return most + copies


def by_latency(code: KernelCode, where: Collection[int], short: float) -> Weights:
    """By row, samples that go where as many fewer threads have more bytes under way."""
    widths = [width_of(code.instructions[index].opcode) for index in where]
    fewer = min(WIDEST / min(widths), short)
    outside = code.taken(code.rows(code.where(lambda each: each.depth == 0)))
    waits = np.maximum(code.waiting_for(where, _ANSWER), outside)
    return (1 - 1 / fewer) * np.maximum(waits, code.taken(code.rows(made_for(code, where))))


def by_turns(code: KernelCode, where: Collection[int]) -> Weights:
    """Return by row the samples that wait for loads of which each is used before the next one
    begins, as far as fewer and wider loads save them; nothing where most are under way together.

    A branch around each access, which checks an index that was loaded, does that to a loop of
    points that stands there point by point.
    """
    held = parsed(code)
    loads = sorted(i for i in where if held[i].name == "LDG" and code.n([i]))
    alone = [at for at, after in pairwise(loads) if _is_used(held, at, after)]
    if len(loads) < PER_THREAD_TURNS or len(alone) < HALFWAY * len(loads):
        return np.zeros(len(code.counts))
    width = min(width_of(code.instructions[index].opcode) for index in loads)
    return (1 - width / WIDEST) * code.waiting_for(loads, _ANSWER)


def _is_used(held: Sequence[Instruction], load: int, end: int) -> bool:
    given = {*effects(held[load]).writes}
    return any(not given.isdisjoint(effects(held[at]).reads) for at in range(load + 1, end))


def by_addresses(code: KernelCode, where: Collection[int]) -> Weights:
    """By row, samples of what makes addresses of accesses of at most 4 bytes, as far as it goes."""
    taken = np.zeros(len(code.counts))
    narrow = [i for i in where if width_of(code.instructions[i].opcode) <= PER_THREAD_WORD]
    for width in {width_of(code.instructions[index].opcode) for index in narrow}:
        same = [i for i in narrow if width_of(code.instructions[i].opcode) == width]
        made = code.rows([*same, *made_for(code, same)])
        held = code.taken(made & ~code.rows(reasons=(*_ANSWER, *FULL)))
        part = (1 - width / WIDEST) * (PER_THREAD_OF_WORD if width == PER_THREAD_WORD else 1.0)
        taken = np.maximum(taken, part * held)
    return taken


def made_for(code: KernelCode, where: Collection[int]) -> list[int]:
    """Return the places of what works out addresses and guards of accesses, in their loops."""
    held, found = parsed(code), set[int]()
    for index in where:
        around = loop_around(code, index)
        begin = around[0] if around else 0
        each = held[index]
        needed = {*address_of(each), each.predicate.lstrip("@!")}
        _slice(held, index, begin, needed, found)
    return sorted(found)


def _slice(
    held: Sequence[Instruction], index: int, begin: int, needed: set[str], found: set[int]
) -> None:
    """Add what made registers, the nearest first; uniform instructions are done once a warp."""
    for at in range(index - 1, begin - 1, -1):
        does = effects(held[at])
        if needed.isdisjoint(does.writes):
            continue
        if not held[at].predicate:
            needed -= {*does.writes}
        needed |= {*does.reads}
        found.add(at)
