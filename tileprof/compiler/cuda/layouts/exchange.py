"""Exchange of elements between threads: the steps of a reduction and of a change of layout.

Both are worked out from layouts alone.  The pass that decides on layouts asks for the shared memory
that they need, and the emitter for the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tileprof import ir
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.compiler.cuda.tuning import SHARED_SCAN, SHARED_SCAN_WORK, SHORT_SCAN

from .registers import Digit, RegisterLayout, unit, weighted
from .shuffles import plan_shuffles


@dataclass(frozen=True, slots=True)
class Reduction:
    """The steps of a reduction of a fragment along one dimension."""

    groups: tuple[tuple[int, ...], ...]
    """Registers of the source that go into each result, in the order of the registers of the layout
    that is left."""
    masks: tuple[int, ...]
    """Distances in lanes of the butterfly."""
    warps: tuple[int, ...]
    """Distances in warps of all parts of a result, from the first warp; (0,) within a warp."""
    radices: tuple[tuple[int, int], ...]
    """Digits of the warp number along the dimension: weight and radix."""
    kept: tuple[int, ...]
    """Bits of the lane number that tell lanes with results of their own apart."""

    @property
    def slots(self) -> int:
        """Lanes of a warp with results of their own."""
        return 1 << len(self.kept)


def unreduced(op: ir.Reduce) -> tuple[int | None, ...]:
    """The dimension of the source that each dimension of a reduction's target is; None for one of
    extent 1."""
    source, target = op.source.buffer.static_shape, op.target.buffer.static_shape
    kept = iter([d for d, extent in enumerate(source) if d != op.dim and extent != 1])
    return tuple(None if extent == 1 else next(kept) for extent in target)


def plan_reduce(source: RegisterLayout, dim: int) -> Reduction:
    """Return how to reduce a fragment along `dim`."""
    groups: list[list[int]] = [[0]]
    for digit, weight in weighted(source.registers):
        numbers = [k * weight for k in range(digit.radix)]
        if digit.step[dim]:
            groups = [[r + n for n in numbers for r in g] for g in groups]
        elif not digit.is_copy:
            groups = [[r + n for r in g] for n in numbers for g in groups]
    radices = [(weight, d.radix) for d, weight in weighted(source.warps) if d.step[dim]]
    return Reduction(
        tuple(tuple(sorted(g)) for g in groups),
        tuple(1 << i for i, d in enumerate(source.lanes) if d.step[dim]),
        _distances(radices),
        tuple(radices),
        tuple(i for i, d in enumerate(source.lanes) if not d.is_copy and not d.step[dim]),
    )


def plan_all_reduce(
    layout: RegisterLayout, lanes: Sequence[int], radices: Sequence[tuple[int, int]]
) -> Reduction:
    """Return how the parts of a fragment of this layout are combined, each register with the same
    register of other threads; `lanes` and `radices` are the masks and radices of the reductions
    that left the parts."""
    return Reduction(
        tuple((register,) for register in range(layout.registers_per_thread)),
        tuple(lanes),
        _distances(radices),
        tuple(radices),
        tuple(i for i, d in enumerate(layout.lanes) if not d.is_copy),
    )


def _distances(radices: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """All numbers that these digits of a warp number can form."""
    found = [0]
    for weight, radix in radices:
        found = [d + k * weight for k in range(radix) for d in found]
    return tuple(found)


def exchange_scratch(plan: Reduction, threads: int, working: ir.DType) -> int:
    """Bytes of shared memory for partial results of type `working`; 0 where shuffles do."""
    if len(plan.warps) == 1:
        return 0
    return len(plan.groups) * (threads // 32) * plan.slots * working.bytes


def reduce_scratch(source: RegisterLayout, dim: int, working: ir.DType) -> int:
    """Bytes of shared memory that a reduction along `dim` takes; 0 where none."""
    return exchange_scratch(plan_reduce(source, dim), source.threads, working)


def working_type(source: ir.DType, target: ir.DType) -> ir.DType:
    """The type in which elements are combined: floats in the wider type of both, float32 at least;
    whole numbers in the target's."""
    floats = [d for d in (target, source) if d.is_float]
    if not floats:
        return target
    widest = max(floats, key=lambda d: d.bits)
    return widest if widest.bits >= 32 else ir.dtype("float32")


# -- scans


def has_thread_lines(lines: int, length: int, threads: int) -> bool:
    """Whether a thread works on a line alone."""
    return length <= SHORT_SCAN or lines * 2 > threads


def scan_scratch(
    shape: Sequence[int], dim: int, threads: int, source: ir.DType, target: ir.DType
) -> int:
    """Bytes of shared memory for the parts of warps that share the lines of a scan; 0 where each
    line has a warp or a thread of its own."""
    length, lines, warps = shape[dim], prod(shape) // shape[dim], threads // 32
    if warps < 2 or length < SHARED_SCAN or has_thread_lines(lines, length, threads):
        return 0
    # A warp for each line leaves some idle in the last round.
    rounds = -(-lines // warps)
    if rounds * warps < lines * SHARED_SCAN_WORK:
        return 0
    return 2 * warps * working_type(source, target).bytes


# -- changes of layout


def is_within_threads(source: RegisterLayout, target: RegisterLayout) -> bool:
    """Whether each thread has in `source` what it needs in `target`."""
    return target.register_weights(tuple(range(source.rank)), source) is not None


def staged_shape(source: RegisterLayout, target: RegisterLayout) -> tuple[int, ...]:
    """Extents that hold all elements of two layouts, padding included."""
    return tuple(max(a, b) for a, b in zip(source.covered, target.covered, strict=True))


def staged_row(shape: Sequence[int], dtype: ir.DType) -> int:
    """Elements from one row to the next in the memory of a conversion: a multiple of 16 bytes, of
    which 16 are left free, so that neighbouring rows begin in other banks."""
    chunk = max(16 // dtype.bytes, 1)
    columns = shape[-1] if shape else 1
    return -(-columns // chunk) * chunk + (chunk if len(shape) > 1 else 0)


def staged_strides(shape: Sequence[int], row: int) -> list[int]:
    """Elements between neighbours of each dimension in the memory of a conversion."""
    strides, step = [1], row
    for extent in reversed(shape[:-1]):
        strides.insert(0, step)
        step *= extent
    return strides[-len(shape) :] if shape else []


def staged_width(layout: RegisterLayout, dtype: ir.DType) -> int:
    """Elements of one access of that memory: neighbours in registers and in memory, and aligned
    there."""
    width, limit = 1, WIDEST_ACCESS // dtype.bytes
    for position, digit in enumerate(layout.registers):
        if digit != Digit(2, unit(layout.rank, layout.rank - 1, width)) or width * 2 > limit:
            break
        others = (*layout.registers[position + 1 :], *layout.lanes, *layout.warps)
        if any(d.step[-1] % (width * 2) for d in others):
            break
        width *= 2
    return width


def convert_scratch(source: RegisterLayout, target: RegisterLayout, dtype: ir.DType) -> int:
    """Bytes of shared memory that a change of layout takes; 0 where none."""
    if is_within_threads(source, target) or plan_shuffles(source, target, dtype.bytes):
        return 0
    shape = staged_shape(source, target)
    rows = math.prod(shape[:-1])
    return rows * staged_row(shape, dtype) * dtype.bytes
