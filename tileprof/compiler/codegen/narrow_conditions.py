"""Choices between wide elements by a condition on narrow ones, which GCC may translate wrongly.

    for (int64_t i = 0; i < 128; ++i)
      for (int64_t j = 0; j < 8; ++j)
        z[i * 8 + j] = flag[i * 8 + j] != 0 ? x[i * 8 + j] : y[i * 8 + j];

With `flag` of 8 bits, `x` of 32 bits and AVX, GCC 12.2 gives about a third of the elements of such
loops the wrong one (found on 2026-11-29: inner loops of 4, 8 and 16 iterations, data of 16 to 64
bits, `-O3 -march=native`).  Without its pass `forwprop`, which folds the masks of the vectors, all
of them are right.  In: a kernel.  Out: whether it has such a choice.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof import ir

__all__ = ["PRAGMA", "has_narrow_conditions"]

PRAGMA = (
    "#if defined(__GNUC__) && !defined(__clang__)",
    '#pragma GCC optimize ("no-tree-forwprop")',
    "#endif",
)
"""Lines in front of everything else in the text of such a kernel."""


def has_narrow_conditions(kernel: ir.Kernel) -> bool:
    """Return whether an element decides over wider ones in a kernel."""
    found: dict[ir.Value, int | None] = {}
    for op in ir.walk(kernel.body):
        if isinstance(op, ir.If | ir.Select):
            narrow = _narrowest(op.condition, found)
            if narrow is not None and any(bits > narrow for bits in _widths(op)):
                return True
    return False


def _narrowest(value: ir.Value, found: dict[ir.Value, int | None]) -> int | None:
    """Return the bits of the narrowest element that a value depends on; None for none."""
    if value not in found:
        found[value] = None
        op = value.owner
        if isinstance(op, ir.Load) and op.indices:
            found[value] = op.buffer.dtype.bits
        elif isinstance(op, ir.ScalarOp):
            parts = [_narrowest(v, found) for v in op.operand_values()]
            found[value] = min((p for p in parts if p is not None), default=None)
    return found[value]


def _widths(op: ir.If | ir.Select) -> Iterator[int]:
    """Yield the bits of the elements that a choice gives, loads or stores."""
    yield from (v.dtype.bits for v in op.results)
    for block in op.blocks():
        for inner in ir.walk(block):
            if isinstance(inner, ir.Load | ir.Store | ir.Atomic):
                yield inner.buffer.dtype.bits
