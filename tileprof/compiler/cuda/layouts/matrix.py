"""The layouts that matrix instructions prescribe: fragments of accumulators and operands, and the
swizzle of operands in shared memory.

The tables are those of the PTX ISA ("Matrix fragments for mma.m16n8k16", "Register fragments and
shared memory matrix layouts" of wgmma).  In both families a warp holds an accumulator as

    regs (0,1) (8,0) … x(0,8) | lanes (0,2) (0,4) (1,0) (2,0) (4,0)

and an operand A whose 32-bit words hold `e` elements (1 for float64, too) as

    regs e x(0,1) (8,0) … x(0,4e) | lanes 4x(0,e) 8x(1,0)

so that for 16-bit types a product's accumulator is the next product's operand without any exchange.
For 8-bit types it is where rows of B are dealt (`passes/choice/dealt_rows.py`), with accumulators

    regs (0,1) (8,0) … x(0,16) (0,2) | lanes (0,4) (0,8) (1,0) (2,0) (4,0)

In: a `gemm` with its `lowering`.  Out: `RegisterLayout`s in the shape of its operands, swizzles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeGuard

from tileprof import ir
from tileprof.compiler.cuda.layouts.shared import SWIZZLES
from tileprof.errors import InternalError
from tileprof.ir.instructions import Fma, ProductInstruction, Wgmma, pieces

from .registers import Digit, RegisterLayout
from .shared import Swizzle

Operand = Literal["a", "b"]
Product = ir.Gemm | ir.AsyncGemm


def is_of_warp_groups(op: ir.OpBase) -> TypeGuard[ir.Gemm]:
    """Whether an op is a product that tensor cores do for whole warp groups, by themselves."""
    return isinstance(op, ir.Gemm) and isinstance(op.lowering, Wgmma)


def matrix_dims(value: ir.Value) -> tuple[int, int]:
    """Return which dimensions of an operand are the rows and columns of its matrix."""
    shape = value.buffer.static_shape
    rank = len(shape)
    if any(d != 1 for d in shape[:-2]):
        rows, columns = (d for d, extent in enumerate(shape) if extent != 1)
        return rows, columns
    return rank - 2, rank - 1


def is_k_major(op: Product, which: Operand) -> bool:
    """Whether the elements of one row or column of the product lie side by side along K."""
    return not op.transpose_a if which == "a" else op.transpose_b


def _instruction(op: Product) -> ProductInstruction:
    """The instruction that was chosen; InternalError before one was."""
    if op.lowering is None:
        raise InternalError(f"no instruction was chosen for {op!r}")
    return op.lowering


def _mnk(op: Product) -> tuple[int, int, int]:
    return op.mnk if isinstance(op, ir.Gemm) else op.gemm.mnk


# -- fragments


def accumulator_layout(op: Product, threads: int) -> RegisterLayout:
    """Return how the threads hold `c`, in the shape of the operand."""
    m, n, _ = _mnk(op)
    instruction = _instruction(op)
    warps = _warps(instruction, m, n, threads)
    if isinstance(instruction, Fma):
        return _placed(op.c, *_fma_tile(instruction, m, n), warps)
    columns, apart = [_count(n // instruction.columns, (0, 8))], 2
    if isinstance(instruction, Wgmma) and instruction.dealt:
        columns, apart = [_count(n, (0, 16)), Digit(2, (0, 2))], 4
    registers = [Digit(2, (0, 1)), Digit(2, (8, 0)), *columns]
    registers.append(_count(m // instruction.rows, (instruction.m, 0)))
    lanes = [Digit(4, (0, apart)), Digit(8, (1, 0))]
    return _placed(op.c, registers, lanes, warps)


def operand_layout(op: Product, threads: int, which: Operand) -> RegisterLayout:
    """Return how the threads hold an operand that lies in a fragment, in the operand's shape."""
    instruction = _instruction(op)
    if isinstance(instruction, Fma) or (which == "b" and isinstance(instruction, Wgmma)):
        raise InternalError(f"operand {which} of `{op.lowering}` lies in a fragment")
    return _operand(op, threads, which, _mnk(op)[2])


def step_layout(op: Product, threads: int, which: Operand) -> RegisterLayout:
    """Return what each thread needs of an operand for one step of K: 32 bytes of each row."""
    value = op.a if which == "a" else op.b
    return _operand(op, threads, which, 32 // value.dtype.bytes)


def _operand(op: Product, threads: int, which: Operand, k: int) -> RegisterLayout:
    """The layout of the first `k` elements along K."""
    m, n, _ = _mnk(op)
    instruction = _instruction(op)
    assert not isinstance(instruction, Fma)
    value = op.a if which == "a" else op.b
    e = max(4 // value.dtype.bytes, 1)
    registers = [Digit(e, (0, 1))]
    if which == "a":
        registers += [Digit(2, (8, 0)), _count(k, (0, 4 * e))]
        registers.append(_count(m // instruction.rows, (instruction.m, 0)))
    else:
        registers += [_count(k, (0, 4 * e)), _count(n // instruction.columns, (8, 0))]
    # A warp needs the rows of the product that it adds up, or its columns; others hold copies.
    warps = [
        Digit(digit.radix, (digit.step[0] if which == "a" else digit.step[1], 0))
        for digit in _warps(instruction, m, n, threads)
    ]
    turned = not is_k_major(op, which)
    shape = list(value.buffer.static_shape)
    shape[matrix_dims(value)[0 if turned else 1]] = k
    lanes = [Digit(4, (0, e)), Digit(8, (1, 0))]
    return _placed(value, registers, lanes, warps, turned=turned, shape=shape)


def _count(extent: int, step: tuple[int, int]) -> Digit:
    """A digit that covers `extent` in steps."""
    return Digit(extent // max(step), step)


def _warps(instruction: ProductInstruction, m: int, n: int, threads: int) -> list[Digit]:
    """Return what the number of a warp adds to rows and columns."""
    inner = [Digit(4, (16, 0))] if isinstance(instruction, Wgmma) else []
    units = threads // (128 if isinstance(instruction, Wgmma) else 32)
    rows, columns = instruction.rows, instruction.columns
    steps = m // rows, n // columns
    if isinstance(instruction, Fma):
        steps = instruction.lane_rows, instruction.lane_columns * instruction.vector
    outer = [Digit(rows, (steps[0], 0)), Digit(columns, (0, steps[1]))]
    return [*inner, *outer, Digit(units // (rows * columns), (0, 0))]


def _fma_tile(instruction: Fma, m: int, n: int) -> tuple[list[Digit], list[Digit]]:
    """Registers and lanes; what one step of all threads leaves over repeats in registers."""
    vector, rows, columns = instruction.vector, instruction.lane_rows, instruction.lane_columns
    across, down = vector * columns * instruction.columns, rows * instruction.rows
    registers = [
        Digit(vector, (0, 1)),
        Digit(-(-n // across), (0, across)),
        Digit(-(-m // down), (down, 0)),
    ]
    lanes = [Digit(columns, (0, vector)), Digit(rows, (1, 0))]
    return registers, [*lanes, Digit(32 // (rows * columns), (0, 0))]


def _placed(
    value: ir.Value,
    registers: Iterable[Digit],
    lanes: Iterable[Digit],
    warps: Iterable[Digit],
    *,
    turned: bool = False,
    shape: Sequence[int] | None = None,
) -> RegisterLayout:
    """A layout of rows and columns (exchanged where `turned`) in the dimensions of an operand."""
    rows, columns = matrix_dims(value)
    shape = value.buffer.static_shape if shape is None else shape

    def moved(digit: Digit) -> Digit:
        row, column = reversed(digit.step) if turned else digit.step
        step = tuple(row if d == rows else column if d == columns else 0 for d in range(len(shape)))
        return Digit(digit.radix, step)

    return RegisterLayout.make(shape, map(moved, registers), map(moved, lanes), map(moved, warps))


# -- shared memory


def shared_layout(op: Product, which: Operand) -> str:
    """The layout that an operand in shared memory should have, as text for its allocation."""
    value = op.a if which == "a" else op.b
    held = _buffer(value).buffer
    instruction = _instruction(op)
    limits: tuple[int, ...] = ()
    if isinstance(instruction, Wgmma):
        limits = panel_limits(op, which, instruction.columns)
    swizzle = widest_swizzle(held.static_shape[-1], held.dtype, limits)
    if swizzle:
        return f"swizzle={swizzle}"
    row = held.static_shape[-1] * held.dtype.bytes
    # Rows that are an odd number of 16 bytes apart lie in different banks.
    return f"pad={16 // held.dtype.bytes}" if row % 32 == 0 else "rows"


def widest_swizzle(columns: int, dtype: ir.DType, limits: Iterable[int] = ()) -> Swizzle:
    """The widest swizzle whose panels divide rows of `columns` elements, and `limits`; 0 for none.

    Panels of 32 bytes at least: rows of fewer have nothing to exchange.
    """
    for swizzle in SWIZZLES:
        panel = swizzle // dtype.bytes
        if all(extent % panel == 0 for extent in (columns, *limits)):
            return swizzle
    return 0


def panel_limits(op: Product, which: Operand, columns: int) -> tuple[int, ...]:
    """Return what the panels of a wgmma operand have to divide, in elements: an operand with M or N
    side by side is read in whole panels, from where each instruction starts."""
    if is_k_major(op, which):
        return ()
    m, n, _ = _mnk(op)
    widths = (64,) if which == "a" else pieces(n // columns) or ()
    return (*widths, m if which == "a" else n // columns, *_static_offsets(op, which))


def _static_offsets(op: Product, which: Operand) -> tuple[int, ...]:
    """Return where a view starts along its rows, where that is a number."""
    view = (op.a if which == "a" else op.b).owner
    if not isinstance(view, ir.View) or not isinstance(view.offsets[-1].owner, ir.Constant):
        return ()
    return (int(view.offsets[-1].owner.value),)


def _buffer(value: ir.Value) -> ir.Value:
    while isinstance(value.owner, ir.View):
        value = value.owner.base
    return value
