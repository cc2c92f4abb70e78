"""Rules for the shapes of a tile operation's operands, and the sentence for a broken one."""

from __future__ import annotations

from collections.abc import Sequence

Shape = Sequence[int | str | None]


def squeezed(shape: Shape) -> tuple[int | str | None, ...]:
    """Return a shape without extents of 1."""
    return tuple(d for d in shape if d != 1)


def _matrix(shape: Shape) -> tuple[int | str | None, ...]:
    """Return the two extents of a matrix: leading extents of 1 go, or else all extents of 1."""
    lead, last = shape[:-2], tuple(shape[-2:])
    return last if all(d == 1 for d in lead) else squeezed(shape)


def gemm_problem(
    a: Shape, b: Shape, c: Shape, transpose_a: bool, transpose_b: bool
) -> tuple[str, str] | None:
    """Return what is wrong with `c += a @ b`, and the rule that is broken; None where nothing
    is."""
    held = [_matrix(s) for s in (a, b, c)]
    if any(len(m) != 2 for m in held):
        return (
            "each must be a matrix",
            "Operands have two dimensions, leading extents of 1 left out.",
        )
    (am, ak), (bk, bn), (m, n) = held
    if transpose_a:
        am, ak = ak, am
    if transpose_b:
        bk, bn = bn, bk
    product = f"{am}×{ak} times {bk}×{bn} into {m}×{n}"
    if ak != bk:
        flag = "" if transpose_a or transpose_b else " (or pass `transpose_A` or `transpose_B`)"
        return product, f"Columns of A ({ak}) must equal rows of B ({bk}){flag}."
    if am != m:
        return product, f"Rows of A ({am}) must equal rows of C ({m})."
    if bn != n:
        return product, f"Columns of B ({bn}) must equal columns of C ({n})."
    return None


def reduce_problem(source: Shape, target: Shape, dim: int) -> str | None:
    """Return the rule that a reduction breaks; None where it breaks none."""
    left = [d for at, d in enumerate(source) if at != dim]
    if squeezed(left) == squeezed(target):
        return None
    shown = "×".join(map(str, left)) or "1"
    return f"The target has the source's shape without dimension {dim}: {shown}."
