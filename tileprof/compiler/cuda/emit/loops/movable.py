"""Accesses of a parallel loop that can be made in front of all its points, or behind a vector's.

A load moves to the front where nothing before it in the body writes what it reads, unless that is
another element of the point; its indices and the conditions around it have to be computed from
nothing in memory, or from loads that move too.  A store moves behind the points where nothing
behind it touches the memory.  Sums in global memory move as stores do, where nobody asks what was
there before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.codegen.types import is_narrow
from tileprof.compiler.cuda.emit.access import converts, manner
from tileprof.compiler.cuda.emit.buffers import Buffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.layouts.neighbours import Address, address_of
from tileprof.compiler.cuda.target import ADDED_TOGETHER
from tileprof.ir.memory import base

from .alignment import shared_strides
from .guards import Guard, unfolded

Access = ir.Load | ir.Store | ir.Atomic


@dataclass(kw_only=True)
class Body:
    """The ops of one parallel loop."""

    op: ir.Parallel
    buffers: Mapping[ir.Value, Buffer]
    aliased: bool = False
    """Whether different tensors may share memory."""
    adds: bool = False
    """Whether neighbours in global memory can be added at once."""
    ops: list[ir.OpBase] = field(init=False)
    """Those of the body and of branches, in order."""
    guards: dict[ir.OpBase, tuple[Guard, ...]] = field(init=False)
    """Guards of the ops in branches."""
    inner: set[ir.Value] = field(init=False)
    """Everything that is computed inside."""
    read: set[ir.Value] = field(init=False)
    """Everything that an op inside goes on with."""

    def __post_init__(self) -> None:
        self.ops, self.guards = unfolded(self.op.body)
        self.inner = set(self.op.body.args)
        self.read = set()
        for each in ir.walk(self.op.body):
            self.inner |= set(each.results)
            self.read |= set(each.operand_values())
            for block in each.blocks():
                self.inner |= set(block.args)
        self.leaves = _leaves(self.op.body)
        """Whether a point may end before its last op."""
        self.varying = set[ir.Value]().union(*map(self._dependents, self.op.body.args))
        """Everything that follows from the point."""
        self.movable = set(self._movable())
        """Loads that read in front of all points what they read in their place."""

    def _dependents(self, variable: ir.Value) -> set[ir.Value]:
        found = {variable}
        for each in ir.walk(self.op.body):
            if any(v in found for v in each.operand_values()) or any(
                v in found for o in each.inner_ops() for v in o.results
            ):
                found |= set(each.results)
        return found

    def _movable(self) -> Iterator[ir.Load]:
        if self.leaves:
            return
        written: dict[object, list[ir.OpBase]] = {}
        found: set[ir.OpBase] = set()
        for op in self.ops:
            before = written.get(self._memory(op.buffer), []) if isinstance(op, ir.Load) else []
            if isinstance(op, ir.Load) and all(self._are_apart(op, each) for each in before):
                local = op.buffer.buffer.space == "local"
                bound = self._slice(op.indices, found) is None or self._guards(op, found) is None
                if not local and not bound:
                    found.add(op)
                    yield op
            for memory in self._written(op):
                written.setdefault(memory, []).append(op)

    def _are_apart(self, load: ir.Load, other: ir.OpBase) -> bool:
        """Return whether a point writes another element of a buffer than it loads: a neighbour."""
        if not isinstance(other, ir.Store) or other.buffer is not load.buffer:
            return False
        one, two = self.address(load), self.address(other)
        if one is None or two is None or one.terms != two.terms:
            return False
        return one.fixed == two.fixed and one.constant != two.constant

    def address(self, op: ir.Load | ir.Store) -> Address | None:
        """Return where an access is; None where its elements do not follow each other."""
        buffer = self.buffers.get(op.buffer)
        guards = tuple((g.condition, g.holds) for g in self.guards.get(op, ()))
        # Narrow elements of one access are converted alike.
        narrow = is_narrow(op.buffer.dtype)
        alike = (converts(op), manner(op)) if narrow else ()
        strides: Sequence[Extent]
        if isinstance(buffer, GlobalBuffer):
            strides = buffer.strides
        elif isinstance(buffer, SharedBuffer):
            strides = shared_strides(buffer)
            if buffer.layout.swizzle:
                # Rows are exchanged in parts, and panels are apart.
                strides = [*map(str, strides[:-1]), 1]
        else:
            return None
        return address_of(op, strides, guards, alike) if strides[-1] == 1 else None

    def _may_follow(self, op: ir.OpBase) -> TypeGuard[ir.Store | ir.Atomic]:
        """Whether it is a store, or a sum that can be made together with its neighbours'."""
        if not isinstance(op, ir.Atomic):
            return isinstance(op, ir.Store)
        silent = op.kind == "add" and op.result not in self.read
        known = op.buffer.dtype.name in ADDED_TOGETHER and self._is_global(op.buffer)
        return self.adds and silent and known

    def _in_order(self, ops: Sequence[Access]) -> bool:
        """Return whether no other op between stores that are made together changes the memory."""
        at = [self.ops.index(op) for op in ops]
        memory = self._memory(ops[0].buffer)
        between = (op for op in self.ops[min(at) : max(at)] if op not in ops)
        return all(memory not in self._written(op) for op in between)

    # -- memory

    def _is_global(self, value: ir.Value) -> bool:
        return isinstance(self.buffers.get(value), GlobalBuffer)

    def _written(self, op: ir.OpBase) -> set[object]:
        return {self._memory(t.value) for t in op.all_accesses() if t.writes}

    def _memory(self, value: ir.Value) -> object:
        """Return what names the memory of a buffer; equal for buffers that may overlap."""
        value = base(value)
        return "global" if self.aliased and value.buffer.space == "global" else value

    # -- what has to be computed before

    def computing(self, indices: Sequence[ir.Value]) -> list[ir.OpBase] | None:
        """The ops that compute indices from nothing in memory, in order; None where there is more
        to it."""
        return self._slice(indices, ())

    def _guards(self, op: ir.OpBase, movable: Collection[ir.OpBase]) -> tuple[Guard, ...] | None:
        """The guards of an op with what computes them; None where that cannot be run elsewhere."""
        found: list[Guard] = []
        for guard in self.guards.get(op, ()):
            needed = self._slice([guard.condition], movable)
            if needed is None:
                return None
            found.append(replace(guard, slice=tuple(needed)))
        return tuple(found)

    def _slice(
        self, indices: Sequence[ir.Value], movable: Collection[ir.OpBase]
    ) -> list[ir.OpBase] | None:
        """The ops that compute the indices, in order; None where they cannot be run elsewhere."""
        wanted = set(indices)
        found: list[ir.OpBase] = []
        for op in reversed(self.ops):
            if not wanted & set(op.results):
                continue
            if not is_pure(op) and op not in movable:
                return None
            found.insert(0, op)
            wanted |= set(op.operand_values())
        return found


def _leaves(body: ir.Block) -> bool:
    """Whether a point may end before its last op: what follows is then under a condition."""
    for op in body.ops:
        if isinstance(op, ir.Continue | ir.Break):
            return True
        if not isinstance(op, ir.For | ir.While) and any(_leaves(b) for b in op.blocks()):
            return True
    return False
