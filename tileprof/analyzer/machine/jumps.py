"""Where machine code jumps to: loops, what a branch steps over, subroutines.

In: the code of a kernel with its samples.  Out: places of instructions. Targets are read from the
text of branches and calls; a jump whose target is not in it (`BRX`, `RET`) is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.machine.code import Instruction, KernelCode

__all__ = ["loop_around", "loops", "shown", "skipped", "subroutines", "targets"]

_TARGET = re.compile(r"\b(0x[0-9a-f]+)\s*$")


def targets(code: KernelCode) -> dict[int, int]:
    """By place of a branch, that of the instruction that it goes to."""
    return dict(_jumps(code, "BRA"))


def _jumps(code: KernelCode, name: str) -> Iterator[tuple[int, int]]:
    at = {each.offset: each.index for each in code.instructions}
    for index in code.named(name):
        found = _TARGET.search(code.instructions[index].text)
        if found and (to := at.get(int(found[1], 16))) is not None:
            yield index, to


def loops(code: KernelCode) -> list[range]:
    """The instructions of each loop, without what was moved away from between its ends."""
    back = ((to, end) for end, to in targets(code).items() if to <= end)
    return [range(to, end + 1) for to, end in back if code.instructions[end].depth > 0]


def loop_around(code: KernelCode, index: int) -> range:
    """The smallest loop around an instruction; nothing where there is none."""
    around = (each for each in loops(code) if index in each)
    return min(around, key=len, default=range(0))


def skipped(code: KernelCode) -> Iterator[tuple[int, range]]:
    """Each branch that some warps may take over instructions that others run, and these."""
    for index, to in targets(code).items():
        if to > index + 1 and code.instructions[index].text.startswith("@"):
            yield index, range(index + 1, to)


def subroutines(code: KernelCode) -> list[int]:
    """The places of instructions of what is called: from where a call goes to, to its return."""
    found, ends = set[int](), sorted(code.named("RET"))
    for _, start in _jumps(code, "CALL"):
        end = next((each for each in ends if each >= start), start)
        found.update(range(start, end + 1))
    return sorted(found)


def shown(instruction: Instruction | None) -> str:
    """`line 12`, or the offset where the line is not known."""
    if instruction is None:
        return "an instruction that is not known"
    place = instruction.place
    return f"line {place.line}" if place else f"0x{instruction.offset:04x}"
