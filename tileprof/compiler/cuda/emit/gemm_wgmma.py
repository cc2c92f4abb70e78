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
from tileprof.compiler.cuda.layouts.instruction import Wgmma, pieces
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    is_k_major,
    matrix_dims,
    operand_layout,
    panel_limits,
)
from tileprof.compiler.cuda.passes.copy_choice import multiple

from .buffers import SharedBuffer
from .context import Context
from .gemm_mma import TYPES
from .matrices import registers_of
from .wgmma import WgmmaShape

__all__ = ["can_wgmma", "emit_wgmma"]

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

    def along(self, extent: Extent) -> Extent:
        """Bytes from element 0 to element `extent` of M or N."""
        if self.k_major:
            return times(extent, self.swizzle)
        if isinstance(extent, int):
            return extent // self.buffer.layout.panel * self.panel_bytes
        return times(f"({extent} / {self.buffer.layout.panel})", self.panel_bytes)

    def step(self, steps: int) -> str:
        """Bytes from the start to step `k`."""
        if not self.k_major:
            return str(times(16 * self.swizzle, "k"))
        if self.inside + steps * STEP <= self.swizzle:
            return str(plus(times(STEP, "k"), self.inside))
        at = "k" if not self.inside else f"(k + {self.inside // STEP})"
        per_panel = self.swizzle // STEP
        inner = [f"{at} % {per_panel} * {STEP}"] if per_panel > 1 else []
        return str(plus(f"{at} / {per_panel} * {self.panel_bytes}", *inner))

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
    return _Operand(tile.buffer, is_k_major(op, which), start, inside)


def emit_wgmma(ctx: Context, op: ir.Gemm, instruction: Wgmma, sums: str, *, wait: bool) -> None:
    """`sums += a b` by warp groups as one committed group; with `wait` it is done after it."""
    m, n, k = op.mnk
    line = ctx.writer.line
    steps = k // instruction.k
    atoms = m // instruction.rows // instruction.m
    registers = m // instruction.rows * (n // instruction.columns) // 128
    b = _operand(ctx, op, "b")
    a = None if instruction.a_in_registers else _operand(ctx, op, "a")
    row, column = _group(ctx, instruction)
    if a is not None:
        line(f"const uint64_t a = {a.descriptor(a.along(times(row, m // instruction.rows)))};")
    line(f"const uint64_t b = {b.descriptor(b.along(times(column, n // instruction.columns)))};")
    if not op.clear:
        line(f"tp_wgmma_hold<{registers}>({sums});")
    if a is None:
        _take(ctx, op, atoms * steps)
    line("tp_wgmma_fence();")
    line("TP_UNROLL_ALL")
    with ctx.writer.braces(f"for (int k = 0; k < {steps}; ++k)"):
        _instructions(ctx, op, instruction, sums, a, b)
    line("tp_wgmma_commit();")
    if wait:
        line("tp_wgmma_wait<0>();")
        line(f"tp_wgmma_hold<{registers}>({sums});")


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


def _take(ctx: Context, op: ir.Gemm, count: int) -> None:
    """The words of an operand in registers: instructions read them until they are waited for."""
    ctx.headers.add("matrix.cuh")
    held = registers_of(ctx, op.a, operand_layout(op, ctx.threads, "a"))
    ctx.writer.line(f"uint32_t a[{4 * count}];")
    ctx.writer.line(f"tp_to_words<{4 * count}>(a, {held});")
    ctx.writer.line(f"tp_wgmma_hold<{4 * count}>(a);")


def _instructions(
    ctx: Context,
    op: ir.Gemm,
    instruction: Wgmma,
    sums: str,
    a: _Operand | None,
    b: _Operand,
) -> None:
    """The instructions of step `k`."""
    m, n, k = op.mnk
    steps = k // instruction.k
    atoms, width = m // instruction.rows // instruction.m, n // instruction.columns
    accumulate = "k > 0" if op.clear else "1"
    at = 0
    for piece in pieces(width, integers=op.a.dtype.is_integer) or ():
        name = _function(ctx, op, instruction, piece)
        register = plus(times("m" if atoms > 1 else 0, width // 2), at // 2)
        first = _advanced("b", plus(b.step(steps), b.along(at)))
        second = _first_operand(a, atoms, steps)
        total = sums if register == 0 else f"{sums} + {register}"
        call = f"{name}({total}, {second}, {first}, {accumulate});"
        if atoms > 1:
            ctx.writer.line("TP_UNROLL_ALL")
            call = f"for (int m = 0; m < {atoms}; ++m) {call}"
        ctx.writer.line(call)
        at += piece


def _first_operand(a: _Operand | None, atoms: int, steps: int) -> str:
    if a is None:
        return "a + 4 * k" if atoms == 1 else f"a + 4 * (k + {steps} * m)"
    # Atoms are 64 rows apart, which is a whole number of panels where M lies side by side.
    return _advanced("a", plus(a.step(steps), times("m" if atoms > 1 else 0, a.along(64))))


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
