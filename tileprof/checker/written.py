"""Reads that are proved to come after a write of the whole buffer.

A walk in program order knows the buffers that are written as a whole by then: by a tile op, by a
scalar assignment, or by a write that reaches every element over all turns of the loops around it
and all blocks of a launch (`covered.py`).  What only one branch writes, or a loop that may not run,
does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Linear
from tileprof.compiler.passes.ranges import Ranges
from tileprof.ir.memory import base

from .covered import Repeated, counters, covers, runs
from .disjoint import Box, box_of


def unwritten_reads(kernel: ir.Kernel, ranges: Ranges) -> Iterator[tuple[ir.OpBase, ir.Value]]:
    """Yield the ops that may read an element that nobody wrote, each with the buffer.

    Args:
        kernel: any.
        ranges: of all integers of the kernel.
    """
    params = {v: p for v, p in zip(kernel.param_values(), kernel.params)}
    given = {v for v, p in params.items() if isinstance(p.type, ir.BufferType) and p.role == "in"}
    walk = _Walk(ranges)
    walk.block(kernel.body, _State(given))
    yield from dict.fromkeys(walk.found)


@dataclass(frozen=True, eq=False)
class _Write:
    """A write of a part of a buffer, which may be all of it over the counters around."""

    box: Box
    extents: tuple[Linear, ...]
    counts: Mapping[Atom, int]
    """Counters whose loops are over, and how many numbers each takes."""

    def is_whole(self) -> bool:
        return covers(self.box, self.extents, self.counts)


_Pending = dict[ir.Value, list[_Write]]


@dataclass
class _State:
    done: set[ir.Value]
    """Buffers that are written as a whole."""
    pending: _Pending = field(default_factory=dict)
    """Writes of parts, by their buffers."""
    here: set[tuple[ir.Value, tuple[ir.Value, ...]]] = field(default_factory=set)
    """Elements that the running iteration wrote: the buffer and its indices."""

    def inner(self) -> _State:
        """Return the state at the begin of a block inside."""
        return _State(set(self.done), {}, set(self.here))

    def add(self, held: ir.Value, write: _Write) -> None:
        """Note a write of a buffer."""
        if write.is_whole():
            self.done.add(held)
        else:
            self.pending.setdefault(held, []).append(write)


@dataclass
class _Walk:
    ranges: Ranges
    found: list[tuple[ir.OpBase, ir.Value]] = field(default_factory=list)

    def block(self, block: ir.Block, state: _State) -> _State:
        """Follow a block of ops; return the state at its end."""
        for op in block.ops:
            self._reads(op, state)
            self._inside(op, state)
            self._writes(op, state)
        return state

    def _reads(self, op: ir.OpBase, state: _State) -> None:
        for access in op.accesses():
            held = base(access.value)
            if not access.reads or held in state.done:
                continue
            if access.indices is None or (access.value, access.indices) not in state.here:
                self.found.append((op, held))

    def _writes(self, op: ir.OpBase, state: _State) -> None:
        if isinstance(op, ir.Alloc):
            # In a loop, each iteration has a buffer of its own.
            state.done.discard(op.result)
            state.pending.pop(op.result, None)
        for access in op.accesses():
            if not access.writes or isinstance(op, ir.Atomic | ir.TileAtomic):
                continue
            if access.indices:
                state.here.add((access.value, access.indices))
            shaped, box = box_of(self.ranges, access.value, access.indices)
            if _is_whole(shaped):
                extents = tuple(map(self.ranges.extent, shaped.buffer.shape))
                state.add(base(access.value), _Write(box, extents, {}))

    def _inside(self, op: ir.OpBase, state: _State) -> None:
        match op:
            case ir.If(then=then, otherwise=otherwise):
                ends = [self.block(block, state.inner()) for block in (then, otherwise)]
                state.done = ends[0].done & ends[1].done
            case ir.For() | ir.Parallel() | ir.Launch():
                self._repeated(op, state)
            case ir.While(condition=condition, body=body):
                for _ in range(2):
                    # The second time is an iteration that finds less than the first one.
                    state.done = self.block(condition, state.inner()).done
                    state.done &= self.block(body, state.inner()).done
            case _:
                for block in op.blocks():
                    end = self.block(block, _State(set(state.done), state.pending, state.here))
                    state.done = end.done
        if isinstance(op, ir.Parallel):
            inside = {o.result for o in ir.walk(op.body) if isinstance(o, ir.Alloc)}
            # A local buffer from outside is undefined after points wrote it.
            for access in op.all_accesses():
                held = base(access.value)
                if access.writes and held.buffer.space == "local" and held not in inside:
                    state.done.discard(held)
                    state.pending.pop(held, None)

    def _repeated(self, op: Repeated, state: _State) -> None:
        """Follow a loop: what its first iteration finds written, and what it leaves written."""
        end = self.block(op.body, state.inner())
        lost = state.done - end.done
        if lost:
            # A later iteration finds less than the first one.
            state.done -= lost
            end = self.block(op.body, state.inner())
        if not runs(op, self.ranges):
            return
        state.done |= end.done
        counts = counters(op, self.ranges)
        for held, writes in end.pending.items():
            for write in writes:
                state.add(held, replace(write, counts={**write.counts, **counts}))


def _is_whole(value: ir.Value) -> bool:
    """Return whether an operand is all of its buffer."""
    while isinstance(value.owner, ir.View | ir.Reinterpret):
        owner = value.owner
        if isinstance(owner, ir.View) and (
            owner.sizes != owner.base.buffer.shape
            or any(ir.constant_of(o) != 0 for o in owner.offsets)
        ):
            return False
        value = owner.base
    return True
