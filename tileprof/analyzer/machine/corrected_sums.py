"""Sums of a Triton kernel that carry a correction for what rounding lost.

In: a module's TTGIR.  Out: lines of operations that only compute the correction.

    %next = arith.addf %sum, %term
    %gained = arith.subf %next, %sum
    %lost = arith.subf %gained, %term              zero, but for rounding
"""

from __future__ import annotations

from tileprof.analyzer.machine.triton_ops import operations

__all__ = ["correction_lines"]


def correction_lines(text: str) -> tuple[int, ...]:
    """Return the lines of all such corrections that are known."""
    if "arith.subf" not in text:
        return ()
    ops = list(operations(text).walk())
    made = {op.results[0]: op for op in ops if len(op.results) == 1}
    found = dict[int, None]()
    for op in ops:
        if op.name != "arith.subf" or (gained := made.get(op.operands[0])) is None:
            continue
        whole = made.get(gained.operands[0]) if gained.name == "arith.subf" else None
        if whole is not None and whole.name == "arith.addf":
            parts = sorted((gained.operands[1], op.operands[1]))
            if sorted(whole.operands) == parts:
                found |= dict.fromkeys(line for line in (gained.line, op.line) if line)
    return tuple(found)
