"""Instruction for a matrix product, and why no faster one does it.

The candidates, fastest first, with what each asks of a product (PTX ISA, "wgmma.mma_async", "mma"):

    wgmma  threads in groups of 128, M in units of 64, B and as a rule A in swizzled shared memory;
           bfloat16, float16, tf32 and float8 into float32, 8-bit integers into int32; only 16-bit
           types may lie with M or N side by side
    mma    M in units of 16, N of 8; the same types and float64; operands from anywhere in the
           block
    fma    any shape and type, one multiplication at a time

K comes in steps of 32 bytes for the first two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    is_k_major,
    matrix_dims,
    panel_limits,
    widest_swizzle,
)
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.instructions import Fma, Mma, ProductInstruction, Wgmma, pieces
from tileprof.ir.memory import base
from tileprof.remarks import Candidate, Reason
from tileprof.remarks.common import TargetHasNone, TurnedOff
from tileprof.remarks.products import (
    ExtentMultiple,
    Float32Operands,
    FragmentOperand,
    GemmInstruction,
    InstructionCandidate,
    LiesAcross,
    MatrixOperand,
    MoreThreads,
    NoFloat64,
    NotLastDimensions,
    NoWidths,
    OperandShape,
    RepeatedWork,
    RowsNotPanels,
    Several,
    StartsUnaligned,
    SwizzleOff,
    Tf32Off,
    Tf32Rounds,
    ThreadsMultiple,
    TypeOnTarget,
    TypesUnsupported,
)

from .copies import multiple

FLOAT8 = ("float8_e4m3", "float8_e5m2")
INT8 = ("int8", "uint8")
Rejected = list[tuple[Candidate, Reason]]


def choose_gemm(op: ir.Gemm, threads: int, lowering: Lowering) -> ir.Gemm:
    """The product with its `lowering`; a remark says why no faster instruction does it.

    `c` has the type that products are added up in (`adds_up_in`) and lies in a fragment.
    """
    rejected: Rejected = []
    missed = False
    chosen: ProductInstruction | None = None
    for name, check, make in _FASTEST_FIRST:
        reasons = list(check(op, threads, lowering))
        if not reasons:
            chosen = make(op, threads)
            break
        against = tuple(reason for reason, _ in reasons)
        why = against[0] if len(against) == 1 else Several(against)
        rejected.append((InstructionCandidate(name), why))
        missed |= not any(fixed for _, fixed in reasons)
    instruction = chosen or _fma(op, threads)
    repeated = _repeated(instruction, threads)
    rejected += _rounding(op, instruction) + repeated
    lowering.remarks.add(
        "gemm",
        "",
        op.span,
        _described(op, instruction),
        *rejected,
        severity="missed" if missed or repeated else "info",
    )
    return replace(op, lowering=instruction)


def is_for_warp_groups(op: ir.Gemm, threads: int, lowering: Lowering) -> bool:
    """Whether warp groups multiply a product, wherever its sum lies."""
    sums = ir.Alloc("fragment", op.c.buffer.static_shape, adds_up_in(op.c.dtype))
    return not list(_no_wgmma(replace(op, c=sums.result), threads, lowering))


def adds_up_in(dtype: ir.DType) -> ir.DType:
    """The type in which a product into `dtype` is added up: float32 for narrower floats, int32 for
    narrower integers, as which 32-bit ones also count."""
    if dtype.is_float:
        return ir.dtype("float32") if dtype.bits < 32 else dtype
    return ir.dtype("int32") if dtype.bits <= 32 else dtype


def _described(op: ir.Gemm, instruction: ProductInstruction) -> GemmInstruction:
    tf32 = op.a.dtype.name == "float32" and not isinstance(instruction, Fma)
    _, _, form = str(instruction).partition(" ")
    match instruction:
        case Fma():
            return GemmInstruction("fma", form)
        case Mma():
            return GemmInstruction("mma", form, tf32)
        case Wgmma():
            columns = op.mnk[1] // instruction.columns
            widths = pieces(columns, integers=op.a.dtype.is_integer) or ()
            parts = (columns, tuple(widths)) if len(widths) > 1 else (0, ())
            return GemmInstruction("wgmma", form, tf32, *parts)


def _rounding(op: ir.Gemm, instruction: ProductInstruction) -> Rejected:
    if op.a.dtype.name != "float32" or isinstance(instruction, Fma):
        return []
    return [(Float32Operands(), Tf32Rounds())]


def _repeated(instruction: ProductInstruction, threads: int) -> Rejected:
    """Units of threads that do what others do too."""
    if isinstance(instruction, Fma):
        return []
    unit = 128 if isinstance(instruction, Wgmma) else 32
    copies = threads // unit // (instruction.rows * instruction.columns)
    if copies == 1:
        return []
    kind: Literal["warps", "warp groups"] = "warp groups" if unit == 128 else "warps"
    return [(MoreThreads(), RepeatedWork(threads // unit, kind, copies))]


# -- reasons, each with whether the author can do nothing about it

Reasons = Iterator[tuple[Reason, bool]]


def _no_wgmma(op: ir.Gemm, threads: int, lowering: Lowering) -> Reasons:
    controls, target = lowering.controls, lowering.target
    if not target.has_wgmma:
        yield TargetHasNone(target.name), True
        return
    if not (controls.wgmma and controls.tensor_cores):
        yield TurnedOff(), True
    if not controls.swizzle:
        yield SwizzleOff(), True
    if types := list(_types(op, lowering)):
        yield from types
        return
    if op.a.dtype.bits == 64:
        yield NoFloat64(), True
        return
    m, n, _ = op.mnk
    yield from _units(op, threads, 128, 64)
    if n % 8 == 0 and pieces(n, integers=op.a.dtype.is_integer) is None:
        yield NoWidths(n), False
    yield from _depth(op)
    if base(op.b).buffer.space == "fragment":
        yield FragmentOperand("B"), False
    if m % 64 == 0 and n % 8 == 0:
        groups = _groups(op, threads // 128) if threads % 128 == 0 else (1, 1)
        yield from _operand(op, "a", groups[1])
        yield from _operand(op, "b", groups[1])


def _no_mma(op: ir.Gemm, threads: int, lowering: Lowering) -> Reasons:
    if not lowering.controls.tensor_cores:
        yield TurnedOff(), True
    if types := list(_types(op, lowering)):
        yield from types
        return
    yield from _units(op, threads, 32, 16)
    yield from _depth(op)


def _units(op: ir.Gemm, threads: int, unit: int, rows: int) -> Reasons:
    """Why units of so many threads, which have so many rows and 8 columns, do not fit."""
    m, n, _ = op.mnk
    if threads % unit:
        yield ThreadsMultiple(threads, unit), False
    if m % rows:
        yield ExtentMultiple("M", m, rows), False
    if n % 8:
        yield ExtentMultiple("N", n, 8), False


def _types(op: ir.Gemm, lowering: Lowering) -> Reasons:
    """Why tensor cores do not multiply these types."""
    a, b, c = op.a.dtype, op.b.dtype, op.c.dtype
    pair = {a.name, b.name}
    if pair <= set(FLOAT8):
        if not lowering.target.has_fp8:
            yield TypeOnTarget(lowering.target.name, str(a)), True
        supported = c.name == "float32"
    elif pair <= set(INT8):
        supported = c.name == "int32"
    elif pair == {"float64"}:
        supported = c.name == "float64"
    elif pair == {"float32"}:
        supported = c.name == "float32"
        if not lowering.controls.tf32:
            yield Tf32Off(), True
    else:
        supported = a == b and a.name in ("float16", "bfloat16") and c.name == "float32"
    if not supported:
        yield TypesUnsupported(str(a), str(b), str(c)), a.bits >= 32


def _depth(op: ir.Gemm) -> Reasons:
    k = op.mnk[2]
    step = 32 // op.a.dtype.bytes
    if k % step:
        yield ExtentMultiple("K", k, step), False


def _operand(op: ir.Gemm, which: Operand, columns: int) -> Reasons:
    """Why wgmma cannot read an operand from where it lies in shared memory."""
    value = op.a if which == "a" else op.b
    buffer = base(value)
    if buffer.buffer.space == "fragment":
        return
    name: MatrixOperand = "A" if which == "a" else "B"
    k_major = is_k_major(op, which)
    if isinstance(buffer.owner, ir.Alloc) and _seen_otherwise(value):
        yield OperandShape(name), False
        return
    rank = buffer.buffer.rank
    if matrix_dims(value) != (rank - 2, rank - 1):
        yield NotLastDimensions(name), False
        return
    if not k_major and value.dtype.bits != 16:
        along: Literal["M", "N"] = "M" if which == "a" else "N"
        wanted = f"transpose_{which}={which == 'b'}"
        yield LiesAcross(str(value.dtype), name, along, wanted), False
        return
    limits = panel_limits(op, which, columns)
    swizzle = widest_swizzle(buffer.buffer.static_shape[-1], value.dtype, limits)
    if not swizzle:
        yield RowsNotPanels(name, 32), False
    elif not _starts_aligned(value, 8, _column_unit(value, swizzle, k_major)):
        yield StartsUnaligned(name), False


def _column_unit(value: ir.Value, swizzle: int, k_major: bool) -> int:
    """Elements of which a view's first column has to be a multiple: any step of K where the
    offset is a number, a whole panel elsewhere."""
    view = value.owner
    if k_major and isinstance(view, ir.View) and isinstance(view.offsets[-1].owner, ir.Constant):
        return 32 // value.dtype.bytes
    return swizzle // value.dtype.bytes


def _starts_aligned(value: ir.Value, rows: int, columns: int) -> bool:
    view = value.owner
    if not isinstance(view, ir.View):
        return True
    return _divides(rows, view.offsets[-2]) and _divides(columns, view.offsets[-1])


def _divides(number: int, index: ir.Value) -> bool:
    """Whether a power of two divides an index at every point."""
    return multiple(index) % number == 0


def _seen_otherwise(value: ir.Value) -> bool:
    while isinstance(value.owner, ir.View | ir.Reinterpret):
        if isinstance(value.owner, ir.Reinterpret):
            return True
        value = value.owner.base
    return False


# -- how threads divide a tile


def _wgmma(op: ir.Gemm, threads: int) -> Wgmma:
    _, n, _ = op.mnk
    rows, columns = _groups(op, threads // 128)
    widths = pieces(n // columns, integers=op.a.dtype.is_integer)
    assert widths is not None, n
    in_registers = base(op.a).buffer.space == "fragment"
    return Wgmma(max(widths), 32 // op.a.dtype.bytes, in_registers, rows, columns)


def _groups(op: ir.Gemm, units: int) -> tuple[int, int]:
    """Warp groups along M and N.  Along M unless the policy is `full_col`: then each instruction is
    as wide as it can be, and reads the fewest bytes of shared memory for its work."""
    m, n, _ = op.mnk
    integers = op.a.dtype.is_integer
    found = [
        (rows, columns)
        for rows, columns in _divisions(units)
        if m % (64 * rows) == 0 and n % columns == 0 and pieces(n // columns, integers=integers)
    ]
    first = 1 if op.policy == "full_col" else 0
    return max(found, key=lambda grid: (grid[0] * grid[1], grid[first]), default=(1, 1))


def _divisions(units: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of units whose product divides their number."""
    for rows in range(1, units + 1):
        for columns in range(1, units // rows + 1):
            if units % (rows * columns) == 0:
                yield rows, columns


def _mma(op: ir.Gemm, threads: int) -> Mma:
    m, n, _ = op.mnk
    policy = op.policy
    # An operand in registers would be held by several warps, most often after an exchange.
    if policy == "square" and base(op.a).buffer.space == "fragment":
        policy = "full_row"
    elif policy == "square" and base(op.b).buffer.space == "fragment":
        policy = "full_col"
    found = [
        (rows, columns)
        for rows, columns in _divisions(threads // 32)
        if m % (16 * rows) == 0 and n % (8 * columns) == 0
    ]

    def rank(grid: tuple[int, int]) -> tuple[int, float, int]:
        rows, columns = grid
        # What a warp reads for each step of K: as little as possible.
        read = -(m / rows + n / columns)
        wanted = {"full_row": rows, "full_col": columns}.get(policy, 0)
        return rows * columns, wanted or read, rows

    rows, columns = max(found, key=rank)
    return Mma(32 // op.a.dtype.bytes, rows, columns)


def _fma(op: ir.Gemm, threads: int) -> Fma:
    """Threads as square as the tile lets them be: each reads few operands for many products."""
    m, n, _ = op.mnk
    vector = next(v for v in (4, 2, 1) if n % v == 0 and v * op.c.dtype.bytes <= 16)
    warps = threads // 32
    found = [
        Fma(lane_rows, lane_columns, rows, columns, vector)
        for lane_rows in (1, 2, 4, 8, 16, 32)
        for lane_columns in (1, 2, 4, 8, 16, 32)
        if lane_rows * lane_columns <= 32
        for rows, columns in _divisions(warps)
        if (lane_rows == 1 or lane_rows * rows < 2 * m)
        and (lane_columns == 1 or lane_columns * columns * vector < 2 * n)
    ]

    def cost(each: Fma) -> tuple[int, int, int]:
        down = -(-m // (each.lane_rows * each.rows))
        across = -(-n // (each.lane_columns * each.columns * vector)) * vector
        # Products of a thread; what it reads for them; what its warp reads.
        warp = down * each.lane_rows + across * each.lane_columns
        return down * across, down + across, warp

    return min(found, key=cost)


_FASTEST_FIRST: tuple[
    tuple[
        Literal["wgmma", "mma"],
        Callable[[ir.Gemm, int, Lowering], Reasons],
        Callable[[ir.Gemm, int], ProductInstruction],
    ],
    ...,
] = (("wgmma", _no_wgmma, _wgmma), ("mma", _no_mma, _mma))
