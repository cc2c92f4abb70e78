"""Blocks that take tiles in turn, so that more blocks take fewer each.

In: a kernel with its launch.  Out: whether its loop begins at the number of its program, or steps
by the number of blocks; of its time, what is left with as many blocks as a device holds at once.

    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):    scf.for %tile = %pid to …

Such a loop is dealt out to however many blocks there are, so none of its turns gets longer, nor is
one more needed: with s times as many multiprocessors at work it takes 1 / s of the time. Further
blocks share a multiprocessor with one that is there already, and go as far as that lets them
(`side_by_side`; tensor cores are a station as well). No less is left than what bytes and products
take of the time at what is reached of their roofs.
"""

from __future__ import annotations

import re

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import Launch
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.kernel.side_by_side import demands, faster
from tileprof.analyzer.kernel.tensor_use import tensor_use
from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.machine.grid_steps import loop_by_grid
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.numbers.shared import HALFWAY

_NUMBER = re.compile(r"%(\w+) = tt\.get_program_id ")
_LOOP = re.compile(r"scf\.for %\w+ = %(\w+) to ")


def is_dealt_out(case: KernelCase, launch: Launch) -> bool:
    """Whether each block takes tiles in turn, as many as the number of blocks leaves it."""
    begins = launch.tiles > launch.blocks if launch.tiles else _begins_at_its_number(case)
    return begins or _steps_by_blocks(case)


def _steps_by_blocks(case: KernelCase) -> bool:
    """Whether most of its time is in a loop that steps by the number of its blocks."""
    code = case.sampled
    loop = loop_by_grid(code) if code else None
    return code is not None and loop is not None and code.n(loop) >= HALFWAY * code.whole


def _begins_at_its_number(case: KernelCase) -> bool:
    text = case.code.ttgir if case.code else ""
    return not {*_NUMBER.findall(text)}.isdisjoint(_LOOP.findall(text))


def left_with_more(case: KernelCase, launch: Launch) -> float:
    """Of its time, what is left where as many blocks as the device holds share the turns."""
    times, code, memory = 1 / launch.each, case.sampled, memory_use(case)
    bound = max(memory.share / memory.reached if memory else 0.0, at_roof(case, 1.0))
    if code is None:
        return min(1.0, max(launch.each, bound))
    moving, *others = demands(case, code)
    if memory:  # all multiprocessors that work ask for as much
        moving = max(moving, min(1.0, memory.share / memory.reached * times))
    more = faster([moving, *others, _multiplying(case, code)], 1, float(launch.held))
    return min(1.0, max(1 / (times * more), bound))


def _multiplying(case: KernelCase, code: KernelCode) -> float:
    """Of the time of a multiprocessor with a block, the share in which its tensor cores work."""
    loops = loops_with(code, PRODUCTS)
    busy = sum(tensor_use(case, code, loop) * code.n(loop) for loop in loops)
    return min(1.0, busy / code.whole) if code.whole else 0.0
