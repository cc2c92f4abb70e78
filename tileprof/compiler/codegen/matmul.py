"""`gemm` as a call of the prelude's product: which operands are packed first, and how.

The product runs in one type: that of `c`, or float for 16- and 8-bit floats, which are rounded once
at the end.  An operand of that type whose rows lie as the micro-kernel wants them is read in place;
others are converted, transposed or padded into memory of the block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.errors import KernelError

from .buffers import Tile
from .context import Context
from .types import is_narrow, value_type

LINE = 64
"""Rows of `b` and `c` are padded to whole cache lines, in bytes."""
PANEL_ROWS = 256
"""TP_GEMM_DEPTH of the prelude."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An operand: where it starts and the strides of its rows and columns."""

    pointer: str
    type: str
    rows: int
    columns: int
    row: int
    column: int


def emit_gemm(ctx: Context, op: ir.Gemm, a_tile: Tile, b_tile: Tile, c_tile: Tile) -> None:
    """`c += a b`, every operand in memory of the block."""
    m, n, k = op.mnk
    dtype = op.c.dtype
    type_ = value_type(dtype)
    size = 4 if is_narrow(dtype) else dtype.bytes
    if dtype.kind == "bool":
        raise KernelError("a product of matrices cannot be added up in bool", location=op.span)
    lanes = LINE // size
    wide = (n + lanes - 1) // lanes * lanes
    a = _matrix(a_tile, op.transpose_a)
    b = _matrix(b_tile, op.transpose_b)
    c = _matrix(c_tile, False)
    if a.type != type_ or 1 not in (a.row, a.column):
        a = _pack(ctx, a, type_)
    if b.type != type_ and b.column != 1:
        # Converting where it lies is one fast pass; transposing then reads the product's type.
        b = _pack(ctx, b, type_)
    if b.type != type_ or b.column != 1 or wide != n:
        b = _pack_rows(ctx, b, type_, wide)
    direct = c.type == type_ and c.column == 1 and wide == n
    target = c if direct else _Matrix(_memory(ctx, type_, m * wide), type_, m, wide, wide, 1)
    if not direct and not op.clear:
        _call_pack(ctx, target, c, n)
    panel = _memory(ctx, type_, min(k, PANEL_ROWS) * 2 * lanes)
    shape = f"{type_}, {m}, {wide}, {k}, {a.row}, {a.column}, {b.row}, {target.row}"
    clear = str(op.clear).lower()
    ctx.writer.line(
        f"tp_gemm<{shape}>({a.pointer}, {b.pointer}, {target.pointer}, {clear}, {panel});"
    )
    if not direct:
        _copy_back(ctx, c, target, n)


def _matrix(tile: Tile, transposed: bool) -> _Matrix:
    """The operand as rows and columns of the product, transposition undone by its strides."""
    dims = [d for d, s in enumerate(tile.size) if s != 1]
    rank = len(tile.size)
    first, second = dims if len(dims) == 2 and dims[0] < rank - 2 else (rank - 2, rank - 1)
    sizes = [int(tile.size[d]) for d in (first, second)]
    strides = [int(tile.buffer.strides[d]) for d in (first, second)]
    type_ = tile.buffer.type
    if transposed:
        sizes.reverse()
        strides.reverse()
    return _Matrix(tile.pointer, type_, sizes[0], sizes[1], strides[0], strides[1])


def _memory(ctx: Context, type_: str, count: int) -> str:
    size = {"float": 4, "double": 8}.get(type_) or int(re.sub(r"\D", "", type_)) // 8
    return f"({type_} *){ctx.take(count * size)}"


def _pack(ctx: Context, source: _Matrix, type_: str) -> _Matrix:
    """The operand in another type, in the order in which it lies."""
    if source.column == 1 or source.row != 1:
        return _pack_rows(ctx, source, type_, source.columns)
    turned = _pack_rows(ctx, _turned(source), type_, source.rows)
    return _turned(turned)


def _turned(matrix: _Matrix) -> _Matrix:
    return replace(
        matrix,
        rows=matrix.columns,
        columns=matrix.rows,
        row=matrix.column,
        column=matrix.row,
    )


def _pack_rows(ctx: Context, source: _Matrix, type_: str, width: int) -> _Matrix:
    """The operand row by row, each `width` elements wide: zeros behind its own columns."""
    pointer = _memory(ctx, type_, source.rows * width)
    made = _Matrix(pointer, type_, source.rows, source.columns, width, 1)
    _call_pack(ctx, made, source, source.columns)
    return made


def _call_pack(ctx: Context, target: _Matrix, source: _Matrix, columns: int) -> None:
    ctx.writer.line(
        f"tp_pack<{source.rows}, {columns}, {target.row}>"
        f"({target.pointer}, {source.pointer}, {source.row}, {source.column});"
    )


def _copy_back(ctx: Context, c: _Matrix, made: _Matrix, columns: int) -> None:
    size = f"{{{c.rows}, {columns}}}"
    to = f"TpTile<{c.type}, 2>{{{c.pointer}, {{{c.row}, {c.column}}}, {size}}}"
    at = f"TpTile<const {made.type}, 2>{{{made.pointer}, {{{made.row}, 1}}, {size}}}"
    ctx.writer.line(f"tp_copy({to}, {at}, {c.type}{{}});")
