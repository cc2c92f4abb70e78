"""A kernel that somebody else wrote, made safe to compile: claims are dropped, bounds proved anew.

In: a kernel read from a file.  Out: the same kernel in which `in_bounds` stands where this
compiler proves it, and nowhere else; KernelError for what could touch memory that is not the
kernel's.  Only what the common passes leave is taken: ops of a GPU's lowering, records of a
measurement and decisions of a backend are none of it.

Attributes that claim a fact, and what becomes of each:

    in_bounds of load, store, atomic, view     proved anew; a guard where it is not
    offset of alloc                            refused: where shared memory lies is planned anew
    lowering of copy and gemm                  refused: instructions are chosen anew
    schedule of launch and for                 refused: it is decided anew
    partial, scratch of reduce and scan        refused: these are chosen anew
    fast of exp2, policy, hints, layout        kept: they change speed and rounding, not addresses
    shape of reinterpret                       compared with the size of the base
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import get_args

from tileprof import ir
from tileprof.errors import KernelError, Location
from tileprof.ir.schedule import decisions

from .passes import prove_bounds

MOST_OPS = 10_000
"""Ops of a kernel; the largest of the case studies have about 2,000."""
DEEPEST_VALUE = 300
"""Ops in a chain of scalars that follow from each other; passes recurse into them."""
MOST_BLOCK_BYTES = 64 << 20
"""Bytes of the buffers of one block.  A GPU has less than 1 MB of registers and shared memory."""
MOST_LOCAL_BYTES = 1 << 20
"""Bytes of the `local` buffers of one thread, which lie on the stack of a thread of the `cpu`."""
MOST_AXES = 3
MOST_EXTENT = 1 << 48
"""Extents that the proofs of bounds assume: no larger tensor exists."""
_OP_CLASSES = frozenset(get_args(ir.Op)) - {ir.Record}
"""Classes of ops that an author writes; measurement and the lowering for a GPU add others."""


def prove_anew(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel with bounds proved anew; KernelError at the first thing that is refused."""
    for sentence, location in _refused(kernel):
        raise KernelError(f"the kernel `{kernel.name}` is not valid: {sentence}", location=location)
    return prove_bounds(kernel)


def _refused(kernel: ir.Kernel) -> Iterator[tuple[str, Location | None]]:
    ops = kernel.ops()
    if len(ops) > MOST_OPS:
        yield f"it has {len(ops):,} ops; {MOST_OPS:,} can be read", kernel.location
    for op in ops:
        if type(op) not in _OP_CLASSES:
            yield f"a saved kernel has no `{op.mnemonic}`", op.span
    if kernel.sites or kernel.states:
        yield "it is measured", kernel.location
    for problem in ir.problems(kernel):
        yield problem, kernel.location
    yield from _symbols(kernel)
    yield from _depths(kernel.body)
    sizes = {"local": 0, "block": 0}
    for op in ops:
        if problem := _own(op):
            yield problem, op.span
        if isinstance(op, ir.Alloc):
            kind = "local" if op.space == "local" else "block"
            sizes[kind] += math.prod(op.shape) * op.dtype.bytes
    for kind, most in (("local", MOST_LOCAL_BYTES), ("block", MOST_BLOCK_BYTES)):
        if sizes[kind] > most:
            yield f"its {kind} buffers have {sizes[kind]:,} bytes; {most:,} fit", kernel.location


def _symbols(kernel: ir.Kernel) -> Iterator[tuple[str, Location | None]]:
    """Extents and strides are plain numbers or symbols."""
    for param in kernel.params:
        if not isinstance(param.type, ir.BufferType):
            continue
        numbers = [d for d in (*param.type.shape, *(param.type.strides or ())) if type(d) is int]
        if any(not 0 <= n <= MOST_EXTENT for n in numbers):
            yield f"parameter {param.name} is {param.type}", kernel.location
        if param.role == "out" and param.type.strides is not None:
            yield f"output {param.name} has strides, but it is allocated row-major", kernel.location
        if not isinstance(param.safe_value, int | float):
            yield f"the safe value of {param.name} is not a number", kernel.location


def _own(op: ir.OpBase) -> str:
    """Why one op is refused; '' where it is not."""
    match op:
        case ir.Alloc(space="global"):
            return f"{op!r} is memory of the caller"
        case ir.Alloc(shape=shape, offset=offset):
            if offset != -1 or any(extent < 0 for extent in shape):
                return f"{op!r} has offset {offset} and shape {list(shape)}"
        case ir.View(base=base, sizes=sizes):
            if isinstance(base.owner, ir.View) or any(size < 0 for size in sizes):
                return f"{op!r} is a part of a part, or of negative size"
        case ir.Reinterpret(base=base, shape=shape, dtype=dtype):
            return _seen_otherwise(base, shape, dtype)
        case ir.Copy(lowering=lowering) | ir.Gemm(lowering=lowering) if lowering is not None:
            return f"{op!r} says how it is lowered"
        case ir.Launch(schedule=schedule) | ir.For(schedule=schedule) if decisions(schedule):
            return f"{op!r} says how it is scheduled"
        case ir.Reduce(scratch=scratch, partial=partial) if partial or scratch is not None:
            return f"{op!r} says how it is lowered"
        case ir.Scan(scratch=scratch) if scratch is not None:
            return f"{op!r} says how it is lowered"
        case ir.Launch(grid=grid, threads=threads):
            if not 1 <= len(grid) <= MOST_AXES or not 1 <= len(threads) <= MOST_AXES:
                return f"a launch has {len(grid)} extents and {len(threads)} of its blocks"
            if not all(1 <= n <= 1024 for n in threads):
                return f"a block has {list(threads)} threads"
        case ir.Constant(value=value, dtype=dtype):
            return _number(value, dtype)
    return ""


def _seen_otherwise(base: ir.Value, shape: tuple[ir.Dim, ...], dtype: ir.DType) -> str:
    """Why memory may not be seen under another shape."""
    held = base.buffer
    if isinstance(base.owner, ir.View) or held.strides is not None:
        return f"{held} is not a whole row-major buffer, and is seen under another shape"
    if _amount(shape, dtype) != _amount(held.shape, held.dtype):
        return f"{held} is seen as {list(shape)} of {dtype}, which need not have the same size"
    return ""


def _amount(shape: tuple[ir.Dim, ...], dtype: ir.DType) -> tuple[int, list[str]]:
    """Bytes of a shape: a number times symbols."""
    numbers = math.prod(d for d in shape if isinstance(d, int))
    return numbers * dtype.bytes, sorted(d for d in shape if isinstance(d, str))


def _number(value: bool | int | float, dtype: ir.DType) -> str:
    """Why a constant is none of its type."""
    if dtype.is_float:
        return ""
    low, high = dtype.limits
    if not isinstance(value, int) or not low <= value <= high:
        return f"the constant {value!r:.40} is no {dtype}"
    return ""


def _depths(body: ir.Block) -> Iterator[tuple[str, Location | None]]:
    """Chains of scalars that follow from each other are short enough to recurse into."""
    depths: dict[ir.Value, int] = {}
    for op in ir.walk(body):
        depth = 1 + max((depths.get(value, 0) for value in op.operand_values()), default=0)
        if depth > DEEPEST_VALUE:
            yield f"more than {DEEPEST_VALUE} ops follow from each other", op.span
            return
        for value in op.results:
            depths[value] = depth
