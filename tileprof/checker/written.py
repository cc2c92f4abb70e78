"""Which reads are proved to come after a write of the whole buffer.

A walk in program order knows the buffers that are written as a whole by then: by a tile op, by a
scalar assignment, by a store in loops that visit every element, or by all blocks of a launch
together (`covered.py`).  What only one branch writes, or a loop that may not run, does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.ir.memory import base

Pending = dict[ir.Value, list[frozenset[ir.Value]]]
"""Buffers of which one element is written, and the loop variables that choose it."""


def unwritten_reads(
    kernel: ir.Kernel, covered: Mapping[ir.Launch, set[ir.Value]]
) -> Iterator[tuple[ir.OpBase, ir.Value]]:
    """Yield the ops that may read an element that nobody wrote, each with the buffer.

    Args:
        kernel: any.
        covered: the buffers that each launch is known to write as a whole.
    """
    params = {v: p for v, p in zip(kernel.param_values(), kernel.params)}
    given = {v for v, p in params.items() if isinstance(p.type, ir.BufferType) and p.role == "in"}
    walk = _Walk(covered)
    walk.block(kernel.body, _State(given))
    yield from dict.fromkeys(walk.found)


@dataclass
class _State:
    done: set[ir.Value]
    """Buffers that are written as a whole."""
    pending: Pending = field(default_factory=dict)
    here: set[tuple[ir.Value, tuple[ir.Value, ...]]] = field(default_factory=set)
    """Elements that the running iteration wrote: the buffer and its indices."""

    def inner(self) -> _State:
        """Return the state at the begin of a block inside."""
        return _State(set(self.done), {}, set(self.here))


@dataclass
class _Walk:
    covered: Mapping[ir.Launch, set[ir.Value]]
    found: list[tuple[ir.OpBase, ir.Value]] = field(default_factory=list)
    extents: dict[ir.Value, int] = field(default_factory=dict)
    """Loop variables that take every number from 0 on, and how many."""

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
            held, indices = base(access.value), access.indices
            if indices is None:
                if is_whole(access.value):
                    state.done.add(held)
            elif not indices:
                state.done.add(held)
            else:
                state.here.add((access.value, indices))
                shape = access.value.buffer.shape
                if len(set(indices)) == len(indices) and all(
                    self.extents.get(i) == n for i, n in zip(indices, shape)
                ):
                    state.pending.setdefault(held, []).append(frozenset(indices))

    def _inside(self, op: ir.OpBase, state: _State) -> None:
        match op:
            case ir.If(then=then, otherwise=otherwise):
                ends = [self.block(block, state.inner()) for block in (then, otherwise)]
                state.done = ends[0].done & ends[1].done
            case ir.For(body=body):
                count = _count(op)
                if count is not None:
                    self.extents[body.args[0]] = count
                self._loop(body, state, body.args, bool(count))
            case ir.Parallel(body=body, extents=extents):
                sizes = [_number(extent) for extent in extents]
                known = {a: n for a, n in zip(body.args, sizes) if n is not None}
                self.extents |= known
                runs = all(sizes) and len(known) == len(sizes)
                self._loop(body, state, body.args, runs)
                inside = {o.result for o in ir.walk(body) if isinstance(o, ir.Alloc)}
                # A local buffer from outside is undefined after points wrote it.
                for access in op.all_accesses():
                    held = base(access.value)
                    if access.writes and held.buffer.space == "local" and held not in inside:
                        state.done.discard(held)
            case ir.While(condition=condition, body=body):
                for _ in range(2):
                    # The second time is an iteration that finds less than the first one.
                    state.done = self.block(condition, state.inner()).done
                    state.done &= self.block(body, state.inner()).done
            case _:
                for block in op.blocks():
                    end = self.block(block, _State(set(state.done), state.pending, state.here))
                    state.done = end.done
        if isinstance(op, ir.Launch):
            state.done |= self.covered.get(op, set())

    def _loop(self, body: ir.Block, state: _State, args: list[ir.Value], runs: bool) -> None:
        """Follow a loop: what its first iteration finds written, and what it leaves written."""
        end = self.block(body, state.inner())
        lost = state.done - end.done
        if lost:
            # A later iteration finds less than the first one.
            state.done -= lost
            end = self.block(body, state.inner())
        if not runs or _leaves(body):
            return
        state.done |= end.done
        for held, chosen in end.pending.items():
            for variables in chosen:
                left = variables - set(args)
                if not left:
                    state.done.add(held)
                else:
                    state.pending.setdefault(held, []).append(left)


def _leaves(block: ir.Block) -> bool:
    """Return whether some iteration may end before the block does."""
    return any(isinstance(op, ir.Break | ir.Continue) for op in ir.walk(block))


def _number(value: ir.Value) -> int | None:
    return int(value.owner.value) if isinstance(value.owner, ir.Constant) else None


def _count(loop: ir.For) -> int | None:
    """Return the iterations of a loop that counts up from 0, where they are known."""
    start, stop, step = map(_number, (loop.start, loop.stop, loop.step))
    return stop if start == 0 and step == 1 and stop is not None else None


def is_whole(value: ir.Value) -> bool:
    """Return whether an operand is all of its buffer."""
    while isinstance(value.owner, ir.View | ir.Reinterpret):
        owner = value.owner
        if isinstance(owner, ir.View) and (
            owner.sizes != owner.base.buffer.shape or any(_number(o) != 0 for o in owner.offsets)
        ):
            return False
        value = owner.base
    return True
