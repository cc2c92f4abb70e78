"""The loops of a kernel's machine code, how long a turn takes, and how busy tensor cores are then.

In: code with samples.  Out: loops as ranges of instructions, cycles by turn, shares.

A warp that issues an instruction is in that state for one cycle. So samples of warps that wait
somewhere, by samples of a warp that issues there, are cycles that one execution waits.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.machine.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.machine.jumps import targets

__all__ = [
    "COPIES", "PRODUCTS", "groups_of", "is_innermost", "loop_around", "loops_of", "loops_with",
    "slow_paths", "tensor_use", "turns",
]  # fmt: skip

COPIES = ("UTMALDG", "UBLKCP", "LDGSTS")
"""Instructions that copy to shared memory while the warp goes on."""
PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
"""Matrix products of a warp group, by type."""
_BACK = re.compile(r"\bBRA(?:\.\w+)* (?:!?U?P\w+, )?0x([0-9a-f]+)")
_SHAPE = re.compile(r"GMMA\.64x(\d+)x")
_GROUP = 128
_ENOUGH = 10
"""Samples of an instruction, from which on the median of a loop's is a good one."""


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


def slow_paths(code: KernelCode, loop: range) -> list[int]:
    """The places of loops elsewhere that ask an mbarrier until it answers, then lead back in."""
    found = list[int]()
    offsets = {code.instructions[index].offset for index in loop}
    for each in loops_of(code):
        after = code.instructions[each[-1] + 1 : each[-1] + 2]
        back = _BACK.fullmatch(after[0].text) if after else None
        asks = any("PHASECHK" in code.instructions[index].opcode for index in each)
        if asks and back and int(back[1], 16) in offsets and each[0] not in loop:
            found += each
    return found


def is_innermost(code: KernelCode, loop: range) -> bool:
    """Whether no other loop is in it."""
    others = (each for each in loops_of(code) if each != loop)
    return not any(each[0] in loop and each[-1] in loop for each in others)


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
    return middle if middle >= _ENOUGH or not len(inside) else float(inside.mean())


def groups_of(case: KernelCase, code: KernelCode, loop: range) -> float:
    """Warp groups that a multiprocessor holds for a loop; 1, the fewest, where that is not known.

    One that only loads, in another loop, is none of them.
    """
    loads = code.named("UTMALDG", "UBLKCP")
    apart = bool(loads) and not any(index in loop for index in loads)
    filled = (case.number("blocks_per_sm") or 1.0) * min(1.0, case.number("waves") or 1.0)
    # A multiprocessor without a block has no samples.
    return max(1.0, max(filled, 1.0) * (case.extent("block") // _GROUP - apart))


def tensor_use(case: KernelCase, code: KernelCode, loop: range) -> float:
    """The share of a loop's time in which tensor cores multiply, as far as it is known.

    Time in its slow paths is part of it.

    A wgmma of N columns takes N / 2 cycles, whatever its types: K is 32 bytes (4,096 operations of
    16-bit floats a cycle and multiprocessor).
    """
    waited = code.n([*loop, *slow_paths(code, loop)])
    cycles = groups_of(case, code, loop) * sum(_cycles(code.instructions[i]) for i in loop)
    return min(1.0, cycles * turns(code, loop) / waited) if waited else 0.0


def _cycles(each: Instruction) -> float:
    shape = _SHAPE.search(each.opcode)
    return int(shape[1]) / 2 if shape else 0.0


def loops_with(code: KernelCode, names: Collection[str]) -> tuple[range, ...]:
    """The innermost loops with instructions of these names, in their order."""
    found = {loop_around(code, index) for index in code.named(*names)}
    return tuple(sorted((loop for loop in found if loop), key=lambda loop: loop[0]))
