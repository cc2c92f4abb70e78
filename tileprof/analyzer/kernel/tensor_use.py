"""How busy tensor cores are in a loop.

In: a kernel, its code with samples, a loop of it.  Out: warp groups, shares of the loop's time.

A warp that issues an instruction is in that state for one cycle. So samples of warps that wait
somewhere, by samples of a warp that issues there, are cycles that one execution waits.
"""

from __future__ import annotations

import re

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.machine.code import Instruction, KernelCode
from tileprof.analyzer.machine.loops import slow_paths, turns
from tileprof.analyzer.numbers.shared import GROUP_THREADS

_SHAPE = re.compile(r"GMMA\.64x(\d+)x")


def groups_of(case: KernelCase, code: KernelCode, loop: range) -> float:
    """Warp groups that a multiprocessor holds for a loop; 1, the fewest, where that is not known.

    One that only loads, in another loop, is none of them.
    """
    loads = code.named("UTMALDG", "UBLKCP")
    apart = bool(loads) and not any(index in loop for index in loads)
    filled = (case.number("blocks_per_sm") or 1.0) * min(1.0, case.number("waves") or 1.0)
    # A multiprocessor without a block has no samples.
    return max(1.0, max(filled, 1.0) * (case.extent("block") // GROUP_THREADS - apart))


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
