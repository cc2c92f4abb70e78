"""Which code some warps of a block run longer than others.

In: a kernel's code, its IR, and the barriers at which its warps meet.  Out: the places of
instructions on the way to a barrier that not all warps run, or not as often.
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.machine.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.machine.jumps import skipped, targets
from tileprof.analyzer.machine.uniform import is_of_block
from tileprof.analyzer.numbers.kernels import (
    LATE_WARPS_ALL,
    LATE_WARPS_AS_OFTEN,
    LATE_WARPS_BEFORE,
    LATE_WARPS_FEWEST,
)
from tileprof.analyzer.tiles.tile_loops import uneven_lines


def late_at(
    case: KernelCase, code: KernelCode, bars: list[int], way: range
) -> tuple[list[int], str]:
    """What some warps run longer on the way to a barrier, and how that is known."""
    if uneven := [each for each in _uneven(case, code) if each in way]:
        return uneven, "it is in a loop whose number of iterations depends on the data"
    return _late(code, bars, way), "a branch lets some warps of the block skip it"


def of_turns(case: KernelCase, code: KernelCode, lines: frozenset[int]) -> list[int]:
    """Where samples stand of loops of these lines: their instructions, and those behind them.

    A warp that jumps back is seen at what stands behind the jump until it has jumped: on an H200
    for some five cycles each turn, as many as at the jump itself, and of the first instruction of
    the loop nothing is seen that issues.
    """
    found = of_lines(case, code, lines)
    back = {index for index, to in targets(code).items() if to <= index}
    return sorted({*found, *(each + 1 for each in back.intersection(found))})


def of_lines(case: KernelCase, code: KernelCode, lines: frozenset[int]) -> list[int]:
    """Instructions that come from these lines of the kernel."""

    def is_one(each: Instruction) -> bool:
        here = case.user_line(each.place)
        return here is not None and here.line in lines

    return code.where(is_one)


def _uneven(case: KernelCase, code: KernelCode) -> list[int]:
    """Instructions of loops that turn more often for some elements than for others."""
    lines = uneven_lines(case.tiles, case.cuda)
    found = of_lines(case, code, lines) if lines else []
    return [each for each in found if code.instructions[each].depth > 0]


def _late(code: KernelCode, bars: list[int], way: range) -> list[int]:
    """Instructions on the way to a barrier that some warps step over."""
    found = set[int]()
    for branch, stepped in skipped(code):
        if not any(bar in stepped for bar in bars) and not _by_all(code, branch, stepped):
            found.update(each for each in stepped if each in way)
    return sorted(found)


def _by_all(code: KernelCode, branch: int, stepped: range) -> bool:
    """Whether counts, or else samples, say that all warps run it, or none; or what it asks does.

    A warp that issues is sampled as often at each instruction that it comes by, so where warps step
    over some, those have fewer such samples than what stands before the branch.
    """
    if is_of_block(code, branch):
        return True
    came, went = (code.executed([each], "executions") for each in (branch, stepped[0]))
    if came is not None and went is not None:
        return came > 0 and not 0 < went < LATE_WARPS_ALL * came
    depth = code.instructions[branch].depth
    before, behind = (
        [each for each in where if code.instructions[each].depth == depth]
        for where in (range(max(0, branch - LATE_WARPS_BEFORE), branch), stepped)
    )
    if not before or not behind or code.n(before, (ISSUED,)) < LATE_WARPS_FEWEST:
        return False
    each, other = (code.n(where, (ISSUED,)) / len(where) for where in (before, behind))
    return other >= LATE_WARPS_AS_OFTEN * each
