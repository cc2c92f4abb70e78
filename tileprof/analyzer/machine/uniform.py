"""Branches that all threads of a block take alike, as what they ask about is a block's.

In: a kernel's machine code.  Out: whether a branch's predicate is made of what the launch gives and
the number of the block alone. Values are followed back in the order of instructions, each to the
nearest that surely made it; what comes from memory, from other lanes or from the number of a thread
may differ.
"""

from __future__ import annotations

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.repeats import parsed
from tileprof.binary.register_effects import effects

__all__ = ["is_of_block"]

_APART = (
    "LD", "ATOM", "RED", "SHFL", "VOTE", "MATCH", "ELECT", "REDUX", "CS2R", "SYNCS", "CALL", "TLD",
    "R2P", "LEPC",
)  # fmt: skip
"""Opcodes, by their beginning, whose results may be other ones in other threads."""
_GIVEN = ("LDC", "CS2R")


def is_of_block(code: KernelCode, branch: int) -> bool:
    """Return whether all threads of a block take a branch alike; False where that is not known."""
    held = parsed(code)
    needed = {*effects(held[branch]).reads}
    for at in range(branch - 1, -1, -1):
        if not needed:
            return True
        does = effects(held[at])
        if needed.isdisjoint(does.writes):
            continue
        each = held[at]
        special = each.operands[-1] if each.operands else ""
        if special.startswith("SR_") and "CTAID" not in special and special != "SRZ":
            return False
        if each.name.startswith(_APART) and not (each.name in _GIVEN and "SR_" not in special):
            return False
        if not each.predicate:
            needed -= {*does.writes}
        needed |= {*does.reads}
    return not any(name.lstrip("U").startswith(("R", "P")) for name in needed)
