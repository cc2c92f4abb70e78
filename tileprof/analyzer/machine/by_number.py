"""Accesses of global memory whose places other loads found.

In: a kernel's machine code.  Out: whether the address of an access is made of a loaded value, and
whether that is a number of elements, so that nothing tells where a row begins.

    LDG R2, [R4.64] ; IMAD.WIDE R6, R2, 0x80, R8 ; LDGSTS [R10], [R6.64]      rows of 128 bytes
    LDG R2, [R4.64] ; IMAD.WIDE R6, R2, 0x4, R8 ; LDG R0, [R6.64]             elements of 4 bytes
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.repeats import address_of, parsed
from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.binary.instructions import Instruction
from tileprof.binary.register_effects import effects

__all__ = ["begins_by_number", "factor_of", "is_found_by_number"]

_LOADS = ("LDG", "LDS")
"""Loads of numbers; what a kernel is launched with comes by `LDC`."""
_PRODUCTS = ("IMAD", "UIMAD")
_SHIFTED = ("LEA", "ULEA", "SHF", "USHF")
"""Opcodes that move their first operand up by their last number of bits."""


def is_found_by_number(code: KernelCode, access: int) -> bool:
    """Return whether registers of an access's address come from a load, by the code before it."""
    return next(_loaded(code, access), None) is not None


def begins_by_number(code: KernelCode, access: int) -> bool:
    """Return whether a loaded value, times fewer bytes than the widest access has, is a term of an
    access's address, so that it may begin at any element."""
    return any(scale < WIDEST for scale in _loaded(code, access))


def _loaded(code: KernelCode, access: int) -> Iterator[float]:
    """Yield, for each loaded value in an access's address, how many bytes one more of it is; inf
    where the factor is not known, as the length of a row."""
    lines = parsed(code)
    sought = {(name, access, 1.0) for name in address_of(lines[access])}
    seen = set[tuple[str, int, float]]()
    while sought:
        name, before, scale = sought.pop()
        at = next((i for i in range(before - 1, -1, -1) if name in effects(lines[i]).writes), None)
        if at is None or (name, at, scale) in seen:
            continue
        seen.add((name, at, scale))
        if lines[at].name in _LOADS:
            yield scale
            continue
        for each in effects(lines[at]).reads:
            if each.lstrip("U").startswith("R"):
                sought.add((each, at, scale * factor_of(lines[at], each)))


def factor_of(made: Instruction, register: str) -> float:
    """Return what an instruction multiplies a register by, before it adds others."""
    operands = made.operands[1:]
    where = [at for at, each in enumerate(operands) if register in _REGISTER.findall(each)]
    if not where or len(operands) < 2:
        return 1.0
    if made.name in _PRODUCTS and where[0] < 2:
        factor = _number(operands[1 - where[0]])
        return math.inf if factor is None else max(factor, 1.0)
    if made.name in _SHIFTED and where[0] == _first(operands) and ".R" not in made.opcode:
        bits = [number for each in operands if (number := _number(each)) is not None]
        return 2.0 ** bits[-1] if bits else math.inf
    return 1.0


def _first(operands: Sequence[str]) -> int:
    """Return the place of the first operand that is no predicate."""
    return next((at for at, each in enumerate(operands) if "P" not in each), 0)


def _number(operand: str) -> float | None:
    return float(int(operand, 16)) if re.fullmatch(r"0x[0-9a-f]+", operand) else None


_REGISTER = re.compile(r"U?R\d+")
