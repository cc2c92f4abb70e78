"""The loops of machine code, and how often a warp turned in them.

In: code with samples.  Out: loops as ranges of instructions, and samples that stand for turns.

A pipelined loop that was rotated or peeled is several loops here, one after the other: those who
ask for a loop with some instruction get all of them, and samples tell which takes the time.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import numpy as np

from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import targets
from tileprof.analyzer.numbers.machine import LOOPS_ENOUGH


@lru_cache(maxsize=4)
def loops_of(code: KernelCode) -> tuple[range, ...]:
    """Places of the instructions of each loop, the shortest first.

    A loop goes from where a branch leads back to, to the branch. Parts that stand elsewhere, as the
    slow path of a wait, are left out.
    """
    found = dict[int, range]()
    for end, start in targets(code).items():
        body = range(start, end + 1)
        if start < end and _is_loop(code, body):
            found[start] = max(found.get(start, range(0)), body, key=len)
    return tuple(sorted(found.values(), key=len))


def _is_loop(code: KernelCode, body: range) -> bool:
    least = min(code.instructions[index].depth for index in body)
    return 0 < least == code.instructions[body[-1]].depth


def loop_around(code: KernelCode, index: int) -> range | None:
    """The innermost loop with an instruction."""
    return next((loop for loop in loops_of(code) if index in loop), None)


def loops_with(code: KernelCode, names: Collection[str]) -> tuple[range, ...]:
    """The innermost loops with instructions of these names, in their order."""
    found = {loop_around(code, index) for index in code.named(*names)}
    return tuple(sorted((loop for loop in found if loop), key=lambda loop: loop[0]))


def is_innermost(code: KernelCode, loop: range) -> bool:
    """Whether no other loop is in it."""
    others = (each for each in loops_of(code) if each != loop)
    return not any(each[0] in loop and each[-1] in loop for each in others)


def slow_paths(code: KernelCode, loop: range) -> list[int]:
    """The places of loops elsewhere that ask an mbarrier until it answers, then lead back in."""
    found = (each for each, back in _asking(code) if each[0] not in loop and back in loop)
    return [index for each in found for index in each]


@lru_cache(maxsize=4)
def _asking(code: KernelCode) -> tuple[tuple[range, int], ...]:
    """Loops that ask an mbarrier, and to where what comes next leads back at any rate."""
    found, to = list[tuple[range, int]](), targets(code)
    for each in loops_of(code):
        after = each[-1] + 1
        if after in to and not code.instructions[after].text.startswith("@"):
            asks = any("PHASECHK" in code.instructions[index].opcode for index in each)
            found += [(each, to[after])] if asks else []
    return tuple(found)


def turns(code: KernelCode, loop: Collection[int]) -> float:
    """Samples of a warp that issues one of the loop's instructions: that many turns.

    The median of them: some do not run in each turn, and what a branch leads to is never seen. The
    mean, where they are few.
    """
    found = np.zeros(len(code.instructions))
    issued = code.rows(loop, (ISSUED,))
    np.add.at(found, code.at[issued], code.counts[issued])
    inside = found[list(loop)]
    middle = float(np.median(inside)) if len(inside) else 0.0
    return middle if middle >= LOOPS_ENOUGH or not len(inside) else float(inside.mean())
