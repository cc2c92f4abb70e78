"""Tensors of which an element is loaded with its neighbours in the row, as a stencil does.

In: a kernel.  Out: their names.

    %3 = add %x, %c1
    %4 = load %X, [%y, %x]
    %5 = load %X, [%y, %3]            one element farther in the same row

Such loads lie no whole number of 16 bytes apart, so however threads take elements, no more than one
of them begins where a wide access may.
"""

from __future__ import annotations

from functools import lru_cache

from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["loaded_with_neighbours"]


@lru_cache(maxsize=2)
def loaded_with_neighbours(kernel: TileKernel) -> frozenset[str]:
    """Return names of tensors in global memory that are loaded at both sides of a wide access's end."""
    numbers = {op.result: op.index for op in kernel.named("constant") if op.index is not None}
    shifts = {op.result: _shift(op, numbers) for op in kernel.named("add")}
    rows = dict[tuple[str, tuple[str, ...], str], set[int]]()
    for op in kernel.named("load"):
        held = kernel.types.get(op.source)
        if held is None or held.space != "global" or not op.listed:
            continue
        *outer, last = op.listed
        base, shift = shifts.get(last, (last, 0))
        rows.setdefault((op.source, tuple(outer), base), set()).add(shift * held.bits // 8 % WIDEST)
    return frozenset(tensor[1:] for (tensor, _, _), shift in rows.items() if len(shift) > 1)


def _shift(op: Op, numbers: dict[str, int]) -> tuple[str, int]:
    """Return the index that a sum goes on from, and by how many elements."""
    for base, more in (op.operands[:2], op.operands[1::-1]):
        if more in numbers and base not in numbers:
            return base, numbers[more]
    return op.result, 0
