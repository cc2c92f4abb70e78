"""Accesses of global memory whose places other loads found.

In: a kernel's machine code.  Out: whether the address of an access is made of a loaded value.

    LDG R2, [R4.64] ; IMAD.WIDE R6, R2, 0x80, R8 ; LDGSTS [R10], [R6.64]
"""

from __future__ import annotations

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.repeats import address_of, parsed
from tileprof.binary.register_effects import effects

__all__ = ["is_found_by_number"]

_LOADS = ("LDG", "LDS")
"""Loads of numbers; what a kernel is launched with comes by `LDC`."""


def is_found_by_number(code: KernelCode, access: int) -> bool:
    """Return whether registers of an access's address come from a load, by the code before it."""
    lines = parsed(code)
    sought = {(name, access) for name in address_of(lines[access])}
    seen = set[tuple[str, int]]()
    while sought:
        name, before = sought.pop()
        at = next((i for i in range(before - 1, -1, -1) if name in effects(lines[i]).writes), None)
        if at is None or (name, at) in seen:
            continue
        seen.add((name, at))
        if lines[at].name in _LOADS:
            return True
        registers = (each for each in effects(lines[at]).reads if each.lstrip("U").startswith("R"))
        sought |= {(each, at) for each in registers}
    return False
