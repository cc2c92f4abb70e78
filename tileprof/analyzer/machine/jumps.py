"""Where machine code jumps to: what a branch leads to, what it steps over, subroutines.

In: the code of a kernel with its samples.  Out: places of instructions. Targets are read from the
text of branches and calls; a jump whose target is not in it (`BRX`, `RET`) is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from tileprof.analyzer.machine.code import Instruction, KernelCode

_TARGET = re.compile(r"\b(0x[0-9a-f]+)\s*$")


@lru_cache(maxsize=4)
def targets(code: KernelCode) -> Mapping[int, int]:
    """By place of a branch, that of the instruction that it goes to."""
    return dict(_jumps(code, "BRA"))


def _jumps(code: KernelCode, name: str) -> Iterator[tuple[int, int]]:
    at = {each.offset: each.index for each in code.instructions}
    for index in code.named(name):
        found = _TARGET.search(code.instructions[index].text)
        if found and (to := at.get(int(found[1], 16))) is not None:
            yield index, to


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


def called_by_name(code: KernelCode, name: str) -> list[int]:
    """Return the places of subroutines, where all calls are of one whose name has this part in it.

    Calls tell no place then; subroutines are what stands between the last exit and a return.
    """
    calls = [code.instructions[index].text for index in code.named("CALL")]
    returns = code.named("RET")
    if not calls or not returns or not all(name in each for each in calls):
        return []
    ends = [index for index in code.named("EXIT") if index < returns[0]]
    return [*range(ends[-1] + 1, returns[-1] + 1)] if ends else []


def shown(instruction: Instruction | None) -> str:
    """`line 12`, or the offset where the line is not known."""
    if instruction is None:
        return "an instruction that is not known"
    place = instruction.place
    return f"line {place.line}" if place else f"0x{instruction.offset:04x}"
