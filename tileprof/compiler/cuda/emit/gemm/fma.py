"""Products without tensor cores: each thread adds up a block of the result.

    for (int k = 0; k < 64; k += 4) {
      float a[32], b[32];                      8 rows and 8 columns, 4 elements of each along K
      …                                        vectors from shared memory
      for (m …) for (n …) c[n + 8 * m] += a[…] * b[…];
    }

Rows and columns beyond the result repeat the last ones, and nobody reads their sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.codegen.types import value_type
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.emit.loops.points import thread_coordinates
from tileprof.compiler.cuda.layouts.matrix import Operand, accumulator_layout, matrix_dims
from tileprof.compiler.cuda.passes.choice.copies import multiple
from tileprof.compiler.cuda.tuning import UNROLLED_STEPS
from tileprof.ir.instructions import Fma

from .matrices import SharedTile, shared_tile


@dataclass(frozen=True, slots=True)
class _Side:
    """A thread's reads of one operand: `count` groups of `width` neighbours along M or N, `step`
    apart, for `depth` elements along K."""

    name: str
    tile: SharedTile
    across: int
    """The dimension of the operand along M or N; K is `along`."""
    along: int
    first: Extent
    """The thread's first row or column of the result."""
    extent: int
    width: int
    count: int
    step: int
    depth: int
    vector: int
    """Elements of one access."""

    @property
    def total(self) -> int:
        """Rows or columns of the result."""
        return self.count * self.width

    @property
    def along_k(self) -> bool:
        """Whether neighbours in memory, and in the array, are neighbours along K."""
        return self.along > self.across

    def index(self, place: str, j: str) -> str:
        """The index in the array of element `j` along K of row or column `place`."""
        return f"{self.depth} * {place} + {j}" if self.along_k else f"{self.total} * {j} + {place}"

    def address(self, place: Extent, along: Extent) -> str:
        """Return where the element of a row or column of the tile is, `along` K."""
        coordinates: list[Extent] = [0] * len(self.tile.offsets)
        coordinates[self.across], coordinates[self.along] = place, along
        return self.tile.address(coordinates)


def emit_fma(ctx: Context, op: ir.Gemm, instruction: Fma, sums: str) -> None:
    """`sums += a b` element by element."""
    ctx.headers.add("memory.cuh")
    k = op.mnk[2]
    depth = next(d for d in (4, 2, 1) if k % d == 0)
    type_ = value_type(op.c.dtype)
    names = {name: ctx.names.fresh(name) for name in ("a", "b", "row", "column", "k", "j")}
    a, b = (_side(ctx, op, which, instruction, depth, names) for which in _OPERANDS)
    line, at = ctx.writer.line, names["k"]
    line(f"const int {names['row']} = {a.first}, {names['column']} = {b.first};")
    line(f"TP_UNROLL({UNROLLED_STEPS})")
    with ctx.writer.braces(f"for (int {at} = 0; {at} < {k}; {at} += {depth})"):
        line(f"{type_} {a.name}[{a.total * depth}], {b.name}[{b.total * depth}];")
        _read(ctx, replace(a, first=names["row"]), at)
        _read(ctx, replace(b, first=names["column"]), at)
        _multiply(ctx, a, b, sums)


def _multiply(ctx: Context, a: _Side, b: _Side, sums: str) -> None:
    j, m, n = (ctx.names.fresh(name) for name in "jmn")
    with ExitStack() as stack:
        for name, count in ((j, a.depth), (m, a.total), (n, b.total)):
            ctx.writer.line("TP_UNROLL_ALL")
            head = f"for (int {name} = 0; {name} < {count}; ++{name})"
            stack.enter_context(ctx.writer.braces(head))
        start = f"({sums})" if "+" in sums else sums
        product = f"{a.name}[{a.index(m, j)}] * {b.name}[{b.index(n, j)}]"
        ctx.writer.line(f"{start}[{n} + {b.total} * {m}] += {product};")


_OPERANDS: tuple[Operand, Operand] = ("a", "b")


def _side(
    ctx: Context,
    op: ir.Gemm,
    which: Operand,
    instruction: Fma,
    depth: int,
    names: Mapping[str, str],
) -> _Side:
    value = op.a if which == "a" else op.b
    m, n, _ = op.mnk
    rows, columns = matrix_dims(value)
    turned = op.transpose_a if which == "a" else not op.transpose_b
    across, along = (columns, rows) if turned else (rows, columns)
    extent, width, step = m, 1, instruction.lane_rows * instruction.rows
    if which == "b":
        extent, width = n, instruction.vector
        step = instruction.lane_columns * instruction.columns * width
    place = matrix_dims(op.c)[0 if which == "a" else 1]
    first = thread_coordinates(accumulator_layout(op, ctx.threads))[place]
    tile = shared_tile(ctx, value)
    vector = _vector(value, tile, depth if along > across else width)
    count = -(-extent // step)
    return _Side(
        names[which], tile, across, along, first, extent, width, count, step, depth, vector
    )


def _vector(value: ir.Value, tile: SharedTile, wanted: int) -> int:
    """Neighbours that are read at once: `wanted` at most, aligned to their size."""
    layout, size = tile.buffer.layout, tile.buffer.dtype.bytes
    view = value.owner
    start = multiple(view.offsets[-1]) * size if isinstance(view, ir.View) else 0
    places = (start, layout.panel * size, *layout.lead_strides())
    for count in (16, 8, 4, 2):
        if (
            wanted % count == 0
            and count * size <= 16
            and not any(p % (count * size) for p in places)
        ):
            return count
    return 1


def _read(ctx: Context, side: _Side, k: str) -> None:
    """Fill the array of one operand for `depth` elements from `k` on."""
    line, count = ctx.writer.line, side.total if side.along_k else side.count
    step = side.vector if side.along_k else 1
    with ctx.scope():
        i, j, at = (ctx.names.fresh(name) for name in ("i", "j", "at"))
        line("TP_UNROLL_ALL")
        with ctx.writer.braces(f"for (int {i} = 0; {i} < {count}; ++{i})"):
            line(f"const int {at} = {_place(side, i)};")
            line("TP_UNROLL_ALL")
            with ctx.writer.braces(f"for (int {j} = 0; {j} < {side.depth}; {j} += {step})"):
                for e in range(0, 1 if side.along_k else side.width, side.vector):
                    to = side.index(i if side.along_k else str(plus(times(side.width, i), e)), j)
                    address = side.address(plus(at, e), plus(k, j))
                    line(f"tp_load_values_shared<{side.vector}>({side.name} + {to}, {address});")


def _place(side: _Side, i: str) -> Extent:
    """The row or column that round `i` reads, the last one for those beyond the tile."""
    place: Extent = plus(side.first, times(side.step, i))
    if side.along_k and side.width > 1:
        place = plus(side.first, times(side.step, f"({i} / {side.width})"), f"{i} % {side.width}")
    if side.count * side.step <= side.extent:
        return place
    return f"tp_min({place}, {side.extent - (1 if side.along_k else side.width)})"
