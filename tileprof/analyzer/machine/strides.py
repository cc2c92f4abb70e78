"""By how much an access moves on from one iteration of a loop to the next.

In: a kernel's machine code, a loop, accesses in it.  Out: whether their addresses go on from row to
row: by a number that only the launch knows, as the pitch of rows, or by more bytes than the block's
threads load in an iteration. Along a row they go on by the extent of a tile, which is a constant.
Registers are followed back to what made them, around the loop: who depends on itself there is
carried from iteration to iteration, and what is added to it is the step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tileprof.analyzer.machine.by_number import factor_of
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.repeats import address_of, parsed
from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.binary.instructions import Instruction
from tileprof.binary.register_effects import effects

__all__ = ["goes_by_elements", "goes_by_pitch"]

_ADDS = ("IADD3", "VIADD", "UIADD3")
"""Opcodes all of whose numbers are terms."""
_SUMS = ("IADD3", "VIADD", "IMAD", "UIADD3", "UIMAD", "LEA", "ULEA")


def goes_by_pitch(
    code: KernelCode, loop: range, where: Collection[int], across: float = math.inf
) -> bool:
    """Return whether all of these accesses go on by a number that the launch gives, or by a
    constant above `across` bytes.

    False where none of them is in the loop, or a step is not known.
    """
    inside = [index for index in where if index in loop]
    makers = _makers(code, loop)
    return bool(inside) and all(_by_pitch(code, makers, index, across) for index in inside)


def goes_by_elements(code: KernelCode, access: int) -> bool:
    """Return whether an access goes on by a constant number of bytes, in each iteration of the loop
    around it, that is no multiple of the widest access: then most iterations could not use one."""
    loop = loop_around(code, access)
    if loop is None:
        return False
    lines, makers = parsed(code), _makers(code, loop)
    sought = {(name, access, 1.0) for name in address_of(lines[access])}
    seen = set[tuple[str, int, float]]()
    while sought:
        name, reader, scale = each = sought.pop()
        at = makers[reader].get(name)
        if at is None or each in seen:
            continue
        seen.add(each)
        if makers[at].get(name) == at:
            steps = _terms(lines[at])
            if len(steps) == 1 and scale * steps[0] % WIDEST:
                return True
            continue
        reads = (one for one in effects(lines[at]).reads if one.lstrip("U").startswith("R"))
        sought |= {(one, at, scale * factor_of(lines[at], one)) for one in reads}
    return False


def _makers(code: KernelCode, loop: range) -> dict[int, dict[str, int]]:
    """By place in a loop, what made the registers that are read there: places in the loop."""
    lines, last, found = parsed(code), dict[str, int](), dict[int, dict[str, int]]()
    for index in (*loop, *loop):  # the second time, with what the iteration before made
        does = effects(lines[index])
        found[index] = {name: last[name] for name in does.reads if name in last}
        last |= dict.fromkeys(does.writes, index)
    return found


def _by_pitch(
    code: KernelCode, makers: Mapping[int, Mapping[str, int]], access: int, across: float
) -> bool:
    """Whether what is carried of an address has a step that nothing in the loop makes."""
    lines = parsed(code)
    begins = {makers[access][name] for name in address_of(lines[access]) if name in makers[access]}
    carried = [at for at in _behind(makers, begins) if at in _behind(makers, makers[at].values())]
    sums = [at for at in carried if lines[at].name in _SUMS]
    if any(step > across for at in sums for step in _terms(lines[at])):
        return True
    return any(
        name.lstrip("U").startswith("R") and name not in makers[at]
        for at in sums for name in effects(lines[at]).reads
    ) or any("c[" in operand for at in sums for operand in lines[at].operands)  # fmt: skip


def _terms(each: Instruction) -> list[int]:
    """Return the numbers that an instruction adds."""
    added = each.operands if each.name in _ADDS else ()
    return [int(operand, 16) for operand in added if operand.startswith("0x")]


def _behind(makers: Mapping[int, Mapping[str, int]], begins: Collection[int]) -> set[int]:
    """Places that these depend on in the loop, themselves included."""
    found, left = set[int](), [*begins]
    while left:
        if (at := left.pop()) not in found:
            found.add(at)
            left += makers[at].values()
    return found
