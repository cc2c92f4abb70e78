"""Dimensions of matrix products whose tiles have all that their tensors have.

In: a kernel, and one of its products by line.  Out: whether a tile has the whole extent of a
dimension, as the 16 heads of a group that share keys: no larger tile has more to multiply.

    %Q_tile = view %Q, [%b, %c0] {sizes = [1, 16, 128]}      of a tensor of 8 × 16 × 128
    copy %Q_tile, %query
    gemm %query, %key, %scores                                M is 16, and all there is
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel

__all__ = ["Dimension", "is_whole"]

Dimension: TypeAlias = Literal["M", "N", "K"]


def is_whole(kernel: TileKernel, line: int, dimension: Dimension) -> bool:
    """Return whether a product of that line has a tile with the whole extent of a tensor there."""
    copies = [op for op in kernel.named(*COPIES) if len(op.operands) > 1]
    views = {op.result: op for op in kernel.named("view")}
    for op in kernel.named(*PRODUCTS):
        if op.line == line and len(op.operands) > 2:
            for buffer, dim in _sides(op, dimension):
                held = (e.operands[:2] for e in copies if buffer in e.operands[:2])
                tiles = (views[name] for pair in held for name in pair if name in views)
                if any(_has_all(kernel, tile, dim) for tile in tiles):
                    return True
    return False


def _sides(op: Op, dimension: Dimension) -> Iterator[tuple[str, int]]:
    """Yield the buffers of a product that have a dimension, each with its place from the end."""
    a, b, c = op.operands[:3]
    rows, columns = -2, -1
    if dimension != "N":
        yield a, columns if (dimension == "K") != op.says("transpose_a") else rows
    if dimension != "M":
        yield b, columns if (dimension == "N") != op.says("transpose_b") else rows
    if dimension != "K":
        yield c, rows if dimension == "M" else columns


def _has_all(kernel: TileKernel, tile: Op, dim: int) -> bool:
    extents, sizes = kernel.extents.get(tile.source, ()), tile.numbers("sizes")
    return min(len(sizes), len(extents)) >= -dim and sizes[dim] == extents[dim]
