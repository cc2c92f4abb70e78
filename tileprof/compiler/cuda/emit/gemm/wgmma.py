"""Products by `wgmma`: a warp group starts instructions that read shared memory by themselves.

    const uint64_t a = tp_descriptor(A_s + …, 16, 1024, 128);       once for each operand
    tp_wgmma_fence();
    for (int k = 0; k < 4; ++k)
      tp_wgmma_m64n256k16_bf16_bf16_ss(c, tp_descriptor_advance(a, 32 * k), …, 1);
    tp_wgmma_commit();

Descriptors (PTX ISA, "Matrix descriptor format"; layouts of `layouts/shared.py`): groups of eight
rows are `8 * swizzle` bytes apart.  An operand with K side by side steps by 32 bytes within a
panel; one with M or N side by side steps by whole rows, and its panels are the leading dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.cuda.emit.buffers import SharedBuffer
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    is_k_major,
    matrix_dims,
    operand_layout,
    panel_limits,
)
from tileprof.compiler.cuda.passes.choice.copies import multiple
from tileprof.ir.instructions import Wgmma, pieces

from .matrices import registers_of
from .mma import TYPES
from .wgmma_header import WgmmaShape

STEP = 32
"""Bytes of a row that one instruction reads along K."""


def can_wgmma(ctx: Context, op: ir.Gemm, instruction: Wgmma) -> bool:
    """Whether the shared operands lie as descriptors can say."""
    operands: tuple[Operand, ...] = ("b",) if instruction.a_in_registers else ("a", "b")
    return all(_readable(ctx, op, which, instruction) for which in operands)


def _readable(ctx: Context, op: ir.Gemm, which: Operand, instruction: Wgmma) -> bool:
    value = op.a if which == "a" else op.b
    buffer = ctx.tile(value).buffer
    assert isinstance(buffer, SharedBuffer), buffer
    layout, rank = buffer.layout, len(buffer.shape)
    if not layout.swizzle or matrix_dims(value) != (rank - 2, rank - 1):
        return False
    # Panels follow each other in whole periods of the swizzle.
    if layout.rows % 8:
        return False
    limits = panel_limits(op, which, instruction.columns)
    if any(extent % layout.panel for extent in limits):
        return False
    view = value.owner
    if not isinstance(view, ir.View):
        return True
    row, column = view.offsets[-2:]
    fixed = is_k_major(op, which) and isinstance(column.owner, ir.Constant)
    unit = STEP // buffer.dtype.bytes if fixed else layout.panel
    return multiple(row) % 8 == 0 and multiple(column) % unit == 0


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand in shared memory, as a descriptor sees it."""

    name: str
    """Name of the descriptor in the text."""
    buffer: SharedBuffer
    k_major: bool
    start: Extent
    """Bytes from the start of the buffer; the swizzle begins anew there."""
    inside: int
    """Bytes of K into a panel, where the operand is a part that starts there."""

    @property
    def swizzle(self) -> int:
        return self.buffer.layout.swizzle

    @property
    def panel_bytes(self) -> int:
        return self.buffer.layout.panel_bytes

    def along(self, extent: int) -> int:
        """Bytes from element 0 to element `extent` of M or N."""
        if self.k_major:
            return extent * self.swizzle
        return extent // self.buffer.layout.panel * self.panel_bytes

    def step(self, k: str, steps: int) -> Extent:
        """Bytes from the start to step `k` of so many."""
        if not self.k_major:
            return times(16 * self.swizzle, k)
        if self.inside + steps * STEP <= self.swizzle:
            return plus(times(STEP, k), self.inside)
        at = f"({k} + {self.inside // STEP})" if self.inside else k
        per_panel = self.swizzle // STEP
        inner = [f"{at} % {per_panel} * {STEP}"] if per_panel > 1 else []
        return plus(f"{at} / {per_panel} * {self.panel_bytes}", *inner)

    def descriptor(self, group: Extent) -> str:
        """The descriptor of the part of a warp group, `group` bytes from the start."""
        offset = plus(self.start, group)
        at = self.buffer.pointer if offset == 0 else f"{self.buffer.pointer} + {offset}"
        leading = STEP // 2 if self.k_major else self.panel_bytes
        return f"tp_descriptor({at}, {leading}, {8 * self.swizzle}, {self.swizzle})"


def _operand(ctx: Context, op: ir.Gemm, which: Operand) -> _Operand:
    value = op.a if which == "a" else op.b
    tile = ctx.tile(value)
    assert isinstance(tile.buffer, SharedBuffer), tile.buffer
    layout = tile.buffer.layout
    *lead, row, column = tile.offsets
    terms = [times(o, s) for o, s in zip(lead, layout.lead_strides())]
    inside = 0
    if isinstance(column, int):
        panel, rest = divmod(column, layout.panel)
        inside = rest * tile.buffer.dtype.bytes
        terms.append(panel * layout.panel_bytes)
    else:
        terms.append(times(f"({paren(column)} / {layout.panel})", layout.panel_bytes))
    start = plus(*terms, times(row, layout.swizzle))
    return _Operand(ctx.names.fresh(which), tile.buffer, is_k_major(op, which), start, inside)


def emit_wgmma(ctx: Context, op: ir.Gemm, instruction: Wgmma, sums: str, *, wait: bool) -> None:
    """`sums += a b` by warp groups as one committed group; with `wait` it is done after it."""
    m, n, k = op.mnk
    line = ctx.writer.line
    steps = k // instruction.k
    rows, columns = m // instruction.rows, n // instruction.columns
    hold = f"tp_wgmma_hold<{rows * columns // 128}>({sums});"
    b = _operand(ctx, op, "b")
    a = None if instruction.a_in_registers else _operand(ctx, op, "a")
    row, column = _group(ctx, instruction)
    if a is not None:
        _declare(ctx, a, times(row, a.along(rows)))
    _declare(ctx, b, times(column, b.along(columns)))
    if not op.clear:
        line(hold)
    words = _take(ctx, op, rows * k) if a is None else ""
    line("tp_wgmma_fence();")
    line("TP_UNROLL_ALL")
    at = ctx.names.fresh("k")
    with ctx.writer.braces(f"for (int {at} = 0; {at} < {steps}; ++{at})"):
        _instructions(ctx, op, instruction, sums, a or words, b, at)
    line("tp_wgmma_commit();")
    if wait:
        line("tp_wgmma_wait<0>();")
        line(hold)


def _declare(ctx: Context, operand: _Operand, group: Extent) -> None:
    """The descriptor of a warp group's part, under its name."""
    made = f"{operand.name} = {operand.descriptor(group)};"
    ctx.writer.line(f"uint64_t {made}" if ctx.crowded else f"const uint64_t {made}")
    if ctx.crowded:
        ctx.writer.line(f"tp_descriptor_anew({operand.name});")


def _group(ctx: Context, instruction: Wgmma) -> tuple[Extent, Extent]:
    """The position of the thread's warp group along M and N."""
    rows, columns = instruction.rows, instruction.columns
    groups = ctx.threads // 128
    number = "(tp_warp >> 2)"
    row: Extent = 0 if rows == 1 else number if rows == groups else f"({number} % {rows})"
    column = number if rows == 1 else f"({number} / {rows})"
    if rows * columns < groups:
        column = f"({column} % {columns})"
    return row, column if columns > 1 else 0


def _take(ctx: Context, op: ir.Gemm, elements: int) -> str:
    """The words of an operand in registers: instructions read them until they are waited for."""
    held = registers_of(ctx, op.a, operand_layout(op, ctx.threads, "a"))
    # A warp group holds them all.
    count = elements * op.a.dtype.bytes // 4 // 128
    words = ctx.names.fresh("a")
    ctx.headers.add("matrix.cuh")
    ctx.writer.line(f"uint32_t {words}[{count}];")
    ctx.writer.line(f"tp_to_words<{count}>({words}, {held});")
    ctx.writer.line(f"tp_wgmma_hold({words});")
    return words


def _instructions(
    ctx: Context,
    op: ir.Gemm,
    instruction: Wgmma,
    sums: str,
    a: _Operand | str,
    b: _Operand,
    at: str,
) -> None:
    """The instructions of step `at`; `a` in registers is the name of its words."""
    m, n, k = op.mnk
    steps = k // instruction.k
    atoms, width = m // instruction.rows // instruction.m, n // instruction.columns
    atom: Extent = ctx.names.fresh("m") if atoms > 1 else 0
    first = 0
    for piece in pieces(width, integers=op.a.dtype.is_integer) or ():
        register = plus(times(atom, width // 2), first // 2)
        operands = [
            sums if register == 0 else f"{sums} + {register}",
            _first_operand(a, at, atom, steps),
            _advanced(b.name, plus(b.step(at, steps), b.along(first))),
            f"{at} > 0" if op.clear else "1",
        ]
        call = f"{_function(ctx, op, instruction, piece)}({', '.join(operands)});"
        if atoms > 1:
            ctx.writer.line("TP_UNROLL_ALL")
            call = f"for (int {atom} = 0; {atom} < {atoms}; ++{atom}) {call}"
        ctx.writer.line(call)
        first += piece


def _first_operand(a: _Operand | str, at: str, atom: Extent, steps: int) -> str:
    if isinstance(a, str):
        return f"{a} + {times(4, plus(at, times(steps, atom)))}"
    # Atoms are 64 rows apart, which is a whole number of panels where M lies side by side.
    return _advanced(a.name, plus(a.step(at, steps), times(atom, a.along(64))))


def _advanced(descriptor: str, by: Extent) -> str:
    return descriptor if by == 0 else f"tp_descriptor_advance({descriptor}, {by})"


def _function(ctx: Context, op: ir.Gemm, instruction: Wgmma, n: int) -> str:
    """The name of an instruction, which the text then has."""
    shape = WgmmaShape(
        n,
        instruction.k,
        TYPES[op.a.dtype.name],  # type: ignore[arg-type]
        TYPES[op.b.dtype.name],  # type: ignore[arg-type]
        "s32" if op.a.dtype.is_integer else "f32",
        instruction.a_in_registers,
        not instruction.a_in_registers and op.transpose_a,
        not op.transpose_b,
    )
    ctx.wgmma[shape] = None
    return shape.name
