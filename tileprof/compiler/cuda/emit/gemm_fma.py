"""Products without tensor cores: each thread adds up a block of the result.

    for (int k = 0; k < 64; k += 4) {
      float a[32], b[32];                      8 rows and 8 columns, 4 elements along K
      …                                        vectors from shared memory
      for (m …) for (n …) c[n + 8 * m] += a[…] * b[…];
    }

Rows and columns beyond the result repeat the last ones, and nobody reads their sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.codegen.types import value_type
from tileprof.compiler.cuda.layouts.instruction import Fma
from tileprof.compiler.cuda.layouts.matrix import Operand, accumulator_layout, matrix_dims
from tileprof.compiler.cuda.passes.copy_choice import multiple

from .buffers import SharedBuffer
from .context import Context
from .matrices import SharedTile, shared_tile
from .points import thread_coordinates

__all__ = ["emit_fma"]


@dataclass(frozen=True, slots=True)
class _Side:
    """How a thread reads one operand: `count` groups of `width` neighbours, `step` apart, along M
    or N, for `depth` elements along K."""

    value: ir.Value
    tile: SharedTile
    name: str
    across: int
    """The dimension of the operand along M or N; K is `along`."""
    along: int
    first: Extent
    """The thread's first row or column of the result."""
    extent: int
    width: int
    count: int
    step: int
    padded: bool

    def vector(self, depth: int) -> tuple[int, bool]:
        """Elements that are read at once, and whether they run along K."""
        layout = self.tile.buffer.layout
        size = layout.dtype.bytes
        if self.along > self.across:
            return self._fitting(depth, layout.panel * size), True
        return self._fitting(self.width, layout.panel * size), False

    def _fitting(self, wanted: int, pitch: int) -> int:
        size = self.tile.buffer.dtype.bytes
        view = self.value.owner
        start = multiple(view.offsets[-1]) * size if isinstance(view, ir.View) else 0
        for count in (16, 8, 4, 2):
            whole = count <= wanted and wanted % count == 0 and count * size <= 16
            if whole and start % (count * size) == 0 and pitch % (count * size) == 0:
                return count
        return 1


def emit_fma(ctx: Context, op: ir.Gemm, instruction: Fma, sums: str) -> None:
    """`sums += a b` element by element."""
    ctx.headers.add("memory.cuh")
    k = op.mnk[2]
    depth = next(d for d in (4, 2, 1) if k % d == 0)
    type_ = value_type(op.c.dtype)
    a, b = _side(ctx, op, "a", instruction), _side(ctx, op, "b", instruction)
    rows, columns = a.count * a.width, b.count * b.width
    line = ctx.writer.line
    line("TP_UNROLL(2)")
    with ctx.writer.braces(f"for (int k = 0; k < {k}; k += {depth})"):
        line(f"{type_} a[{rows * depth}], b[{columns * depth}];")
        for side in (a, b):
            _read(ctx, side, depth)
        line("TP_UNROLL_ALL")
        with ctx.writer.braces(f"for (int j = 0; j < {depth}; ++j)"):
            line("TP_UNROLL_ALL")
            with ctx.writer.braces(f"for (int m = 0; m < {rows}; ++m)"):
                line("TP_UNROLL_ALL")
                start = f"({sums})" if "+" in sums else sums
                product = f"a[{depth} * m + j] * b[{depth} * n + j]"
                line(
                    f"for (int n = 0; n < {columns}; ++n) {start}[n + {columns} * m] += {product};"
                )


def _side(ctx: Context, op: ir.Gemm, which: Operand, instruction: Fma) -> _Side:
    value = op.a if which == "a" else op.b
    m, n, _ = op.mnk
    first = thread_coordinates(accumulator_layout(op, ctx.threads))
    rows, columns = matrix_dims(value)
    # The dimension of the result, of which `c` has two.
    place = first[matrix_dims(op.c)[0 if which == "a" else 1]]
    turned = op.transpose_a if which == "a" else not op.transpose_b
    across, along = (columns, rows) if turned else (rows, columns)
    if which == "a":
        extent, width = m, 1
        step = instruction.lane_rows * instruction.rows
    else:
        extent, width = n, instruction.vector
        step = instruction.lane_columns * instruction.columns * width
    count = -(-extent // step)
    tile = shared_tile(ctx, value)
    assert isinstance(tile.buffer, SharedBuffer)
    padded = count * step > extent
    return _Side(value, tile, which, across, along, place, extent, width, count, step, padded)


def _read(ctx: Context, side: _Side, depth: int) -> None:
    """`name[depth * m + j]` is the element of row or column m at `k + j`."""
    vector, along_k = side.vector(depth)
    line = ctx.writer.line
    line("TP_UNROLL_ALL")
    with ctx.writer.braces(f"for (int i = 0; i < {side.count}; ++i)"):
        start = plus(side.first, times(side.step, "i"))
        if side.padded:
            start = f"tp_min({start}, {side.extent - side.width})"
        for at in range(0, side.width, 1 if along_k else vector):
            for j in range(0, depth, vector if along_k else 1):
                _read_vector(ctx, side, depth, vector, (at, j), plus(start, at), along_k=along_k)


def _read_vector(
    ctx: Context,
    side: _Side,
    depth: int,
    vector: int,
    place: tuple[int, int],
    start: Extent,
    *,
    along_k: bool,
) -> None:
    at, j = place
    line = ctx.writer.line
    coordinates: list[Extent] = [0] * len(side.tile.offsets)
    coordinates[side.across], coordinates[side.along] = start, plus("k", j)
    address = side.tile.address(coordinates)
    index = plus(times(depth * side.width, "i"), depth * at + j)
    if vector == 1:
        line(f"{side.name}[{index}] = tp_value(*{address});")
    elif along_k:
        line(f"tp_load_values_shared<{vector}>({side.name} + {index}, {address});")
    else:
        held = ctx.names.fresh("v")
        kind = "float" if side.value.dtype.bits < 32 else side.tile.buffer.type
        line(f"{kind} {held}[{vector}];")
        line(f"tp_load_values_shared<{vector}>({held}, {address});")
        moved = [f"{side.name}[{plus(index, depth * e)}] = {held}[{e}];" for e in range(vector)]
        line(" ".join(moved))
