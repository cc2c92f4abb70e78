"""Fragments whose elements no thread can number at compile time move to shared memory.

    %v = load %x, [%i, %j_of_i]         a register has no address: which one is read must follow
                                        from the place in the loop alone

Ops that need the fragment in registers (matrix products, reductions) get a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from tileprof import ir
from tileprof.compiler.cuda.passes.expand import as_parallel
from tileprof.compiler.cuda.tuning import NUMBERED_TRIPS
from tileprof.errors import Location
from tileprof.ir.instructions import Matrices, Wgmma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import with_rule
from tileprof.remarks import Reason
from tileprof.remarks.layouts import (
    ElementOutside,
    ExtentsAtLaunch,
    IndexNotVariable,
    IndexTwice,
    RegisterAtomics,
    ScanInShared,
    UnderOtherShape,
)


class Demotion(NamedTuple):
    """Why a fragment has no registers, and the line."""

    why: Reason
    place: Location | None


def unnumbered(launch: ir.Launch) -> dict[ir.Value, Demotion]:
    """The fragments of a launch that cannot be in registers, each with the first reason."""
    found: dict[ir.Value, Demotion] = {}
    for value, why, op in _Search().block(launch.body):
        found.setdefault(base(value), Demotion(why, op.span))
    return found


class _Search:
    """Follows the program; knows which serial variables may number registers."""

    def __init__(self) -> None:
        self.serial: set[ir.Value] = set()
        self.numbered: dict[ir.Value, bool] = {}
        """Whether an index of the loop at hand is a known number in each iteration."""

    def block(self, block: ir.Block) -> Iterator[tuple[ir.Value, Reason, ir.OpBase]]:
        """Fragments with the reasons against registers."""
        for op in block.ops:
            match op:
                case ir.Parallel():
                    yield from self._parallel(op)
                    continue
                case ir.View(base=held) if _is_fragment(held):
                    yield held, UnderOtherShape(), op
                case ir.Reinterpret(base=held) if _is_fragment(held) and not _is_reshaped(op):
                    yield held, UnderOtherShape(), op
                case ir.Scan(source=source, target=target):
                    for value in (source, target):
                        if _is_fragment(value):
                            yield value, ScanInShared(), op
                case ir.Load(buffer=buffer) | ir.Store(buffer=buffer) | ir.Atomic(buffer=buffer):
                    if _is_fragment(buffer) and not is_single(op):
                        yield buffer, ElementOutside(), op
                case ir.For():
                    self._enter(op)
            for inner in op.blocks():
                yield from self.block(inner)

    def _enter(self, op: ir.For) -> None:
        trips = op.static_range
        counted = op.kind in ("serial", "unroll", "vectorized")
        if counted and trips is not None and len(trips) <= NUMBERED_TRIPS:
            self.serial.add(op.body.args[0])

    def _parallel(self, op: ir.Parallel) -> Iterator[tuple[ir.Value, Reason, ir.OpBase]]:
        fixed = op.static_extents is not None
        variables = {v: d for d, v in enumerate(op.body.args)}
        for each in ir.walk(op.body):
            if isinstance(each, ir.For):
                self._enter(each)
        self.numbered.clear()
        for each in ir.walk(op.body):
            if isinstance(each, ir.Load | ir.Store | ir.Atomic) and _is_fragment(each.buffer):
                if not fixed:
                    yield each.buffer, ExtentsAtLaunch(), each
                elif why := self._index_reason(each, variables):
                    yield each.buffer, why, each

    def _index_reason(
        self, op: ir.Load | ir.Store | ir.Atomic, variables: Mapping[ir.Value, int]
    ) -> Reason | None:
        if isinstance(op, ir.Atomic):
            return RegisterAtomics()
        taken: set[ir.Value] = set()
        for dim, (index, extent) in enumerate(zip(op.indices, op.buffer.buffer.shape)):
            if extent == 1 or self._numbers(index):
                continue
            if index not in variables:
                return IndexNotVariable(dim)
            if index in taken:
                return IndexTwice(dim)
            taken.add(index)
        return None

    def _numbers(self, index: ir.Value) -> bool:
        """Return whether an index is a known number in each iteration of the serial loops around,
        such as `k // 2`."""
        if index not in self.numbered:
            owner = index.owner
            self.numbered[index] = (
                index in self.serial
                if owner is None
                else isinstance(owner, ir.ScalarOp)
                and all(map(self._numbers, owner.operand_values()))
            )
        return self.numbered[index]


def is_single(op: ir.OpBase) -> bool:
    """Whether an op reads or writes a fragment of one element, of which every thread may have a
    copy: outside of `parallel` all threads have the same value to write."""
    if not isinstance(op, ir.Load | ir.Store) or not isinstance(op.buffer.owner, ir.Alloc):
        return False
    return _is_fragment(op.buffer) and prod(op.buffer.buffer.static_shape) == 1


def _is_reshaped(op: ir.Reinterpret) -> bool:
    """Whether a buffer is seen as the same elements, in other known extents."""
    before, after = op.base.buffer, op.result.buffer
    if before.dtype != after.dtype or not all(isinstance(e, int) for e in after.shape):
        return False
    return prod(before.static_shape) == prod(after.static_shape)


def _is_fragment(value: ir.Value) -> bool:
    return value.buffer.space == "fragment"


def demote(launch: ir.Launch, chosen: Mapping[ir.Value, Demotion]) -> ir.Launch:
    """The launch with the chosen fragments in shared memory."""
    moved: dict[ir.Value, ir.Value] = {}
    allocs = {v.owner for v in chosen}
    order = iter(ir.walk_inner_first(launch.body))

    def rule(op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        original = next(order)
        if original in allocs and isinstance(op, ir.Alloc):
            made = builder.emit(ir.Alloc("shared", op.shape, op.dtype, hint=op.result.name)).result
            moved[made] = made
            return [made]
        match op:
            case ir.Reinterpret(base=held) if held in moved:
                # The same elements under another shape: they moved too.
                moved[op.result] = op.result
            case ir.Gemm() | ir.Reduce():
                return _staged(op, builder, moved)
            case ir.Copy(source=source, target=target, lowering=Matrices()):
                if source in moved or target in moved:
                    as_parallel(op, builder)
                    return []
        return None

    return with_rule(launch, rule)


def _staged(
    op: ir.Gemm | ir.Reduce, builder: ir.Builder, moved: Mapping[ir.Value, ir.Value]
) -> list[ir.Value] | None:
    """The op on fragments that are filled before and written back after it."""
    names = ("a", "b", "c") if isinstance(op, ir.Gemm) else ("source", "target")
    used = [n for n in names if base(getattr(op, n)) in moved]
    # A matrix product takes its factors from shared memory as they are.
    if isinstance(op, ir.Gemm):
        instruction = op.lowering
        in_registers = isinstance(instruction, Wgmma) and instruction.a_in_registers
        used = [n for n in used if n == "c" or (n == "a" and in_registers)]
    if not used:
        return None
    written = names[-1]
    for name in used:
        held = getattr(op, name)
        alloc = ir.Alloc("fragment", held.buffer.static_shape, held.dtype, hint=base(held).name)
        setattr(op, name, builder.emit(alloc).result)
        if name != written or not op.clear:
            as_parallel(ir.Copy(held, alloc.result, span=op.span), builder)
        if name == written:
            builder.emit(op)
            as_parallel(ir.Copy(alloc.result, held, span=op.span), builder)
            return []
    builder.emit(op)
    return []
