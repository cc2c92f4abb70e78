"""Barriers over the grid of a launch: it becomes one launch for each part between them.

    with T.Kernel(n) as b:          with T.Kernel(n) as b:
        first(b)                        first(b)
        T.sync_grid()          ⇒    with T.Kernel(n) as b:
        second(b)                       second(b)

A launch begins when all blocks of the one before it have ended, which is what the barrier says, for
grids of any size.  Scalars are computed again.  A buffer of the block that is used on both sides is
written to a tensor at the end of a part, and read from it where a later part begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.builder import Builder
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone_block

from .threads.elements import by_elements

BARRIER = "sync_grid"
Refuse = Callable[[str, str, Location | None], NoReturn]
"""Raises an error from its sentence, its hint and its place."""


Workspace = Callable[[Sequence[int], ir.DType, str], ir.Value]
"""Makes a tensor with room for a buffer of a shape and type for each block of the grid."""


def is_barrier(op: ir.OpBase) -> bool:
    """Return whether an op marks a barrier over the grid."""
    return isinstance(op, ir.Annotate) and op.name == BARRIER


def parts(body: ir.Block, refuse: Refuse, workspace: Workspace) -> list[ir.Block]:
    """Return the body of a launch for each part between barriers; the whole body without one."""
    at = [number for number, op in enumerate(body.ops) if is_barrier(op)]
    if not at:
        return [body]
    starts, ends = [0, *(n + 1 for n in at)], [*at, len(body.ops)]
    owned = [body.ops[start:end] for start, end in zip(starts, ends)]
    needed = []
    for number, start in enumerate(starts):
        earlier = [op for op in body.ops[:start] if not is_barrier(op)]
        barrier = body.ops[at[number - 1]].span if number else None
        needed.append(_Needed(earlier, body.ops, refuse, barrier))
    before = [each.by(own) for each, own in zip(needed, owned)]
    kept = dict.fromkeys(buffer for each in needed for buffer in each.kept)
    tensors = {
        value: workspace(() if is_number(value) else value.buffer.static_shape, value.dtype,
                         f"{value.name}_kept")
        for value in kept
    }  # fmt: skip
    found = []
    for number, (own, held, each) in enumerate(zip(owned, before, needed)):
        touched = {base(a.value) for op in _all(own) for a in op.accesses()}
        touched |= {v for op in own for v in op.results}
        later = {v for other in needed[number + 1 :] for v in other.kept}
        numbers = {v: tensors[v] for v in each.kept if is_number(v)}
        buffers = {v: tensors[v] for v in each.kept if not is_number(v)}
        left = {v: t for v, t in tensors.items() if v in touched & later}
        ops = [
            *_moved(numbers, body.args, restores=True),
            *held,
            *_moved(buffers, body.args, restores=True),
            *own,
            *_moved(left, body.args, restores=False),
        ]
        found.append(clone_block(ir.Block(body.args, ops), {}))
    return found


def is_number(value: ir.Value) -> bool:
    """Return whether a value is a scalar, not a buffer."""
    return not isinstance(value.type, ir.BufferType)


def _moved(
    buffers: Mapping[ir.Value, ir.Value], blocks: Sequence[ir.Value], restores: bool
) -> list[ir.OpBase]:
    """Return the ops that move buffers from or to the part of their tensors that is a block's."""
    made = ir.Block()
    builder = Builder(made)
    for buffer, tensor in buffers.items():
        if is_number(buffer):
            if restores:
                (load := ir.Load(tensor, list(blocks))).results = (buffer,)
                builder.emit(load)
            else:
                builder.emit(ir.Store(buffer, tensor, list(blocks)))
            continue
        shape = buffer.buffer.static_shape
        offsets = [*blocks, *(builder.constant(0) for _ in shape)]
        sizes = (*(1 for _ in blocks), *shape)
        place = builder.emit(ir.View(tensor, offsets, sizes)).result
        copy = ir.Copy(place, buffer) if restores else ir.Copy(buffer, place)
        if buffer.buffer.space == "local":
            elements = by_elements(copy)
            made.ops += [*elements.before, elements.loop]
        else:
            builder.emit(copy)
    return made.ops


class _Needed:
    """Ops before a barrier whose values are used behind it."""

    def __init__(
        self,
        earlier: Sequence[ir.OpBase],
        body: Sequence[ir.OpBase],
        refuse: Refuse,
        barrier: Location | None,
    ) -> None:
        self._owners = {v: op for op in earlier for v in op.results}
        self._order = {op: n for n, op in enumerate(earlier)}
        self._refuse = refuse
        self._barrier = barrier
        touched = (t for op in _all(earlier) for t in op.accesses())
        self._touched = {base(t.value) for t in touched}
        written = (t for op in _all(body) for t in op.accesses() if t.writes)
        self._written = {base(t.value) for t in written}
        self.kept: list[ir.Value] = []
        """Buffers of the block that were used before and are needed now, and elements that were
        read before."""

    def by(self, ops: Sequence[ir.OpBase]) -> list[ir.OpBase]:
        """Return those that ops need, in order."""
        found: dict[ir.OpBase, None] = {}
        wanted = [v for op in _all(ops) for v in op.operand_values()]
        while wanted:
            op = self._owners.get(wanted.pop())
            if op is None or op in found:
                continue
            found[op] = None
            for each in _all([op]):
                self._check(each, is_inside=each is not op)
                wanted += [] if set(each.results) & {*self.kept} else each.operand_values()
        return sorted(found.keys() - {v.owner for v in self.kept if is_number(v)},
                      key=self._order.__getitem__)  # fmt: skip

    def _check(self, op: ir.OpBase, is_inside: bool) -> None:
        match op:
            case ir.Alloc():
                if op.result in self._touched:
                    self.kept.append(op.result)
            case ir.Load(buffer=buffer):
                held = base(buffer)
                if held.buffer.space != "global" or held in self._written:
                    if is_inside:
                        self._refuse_value(op, "read from memory that the kernel writes")
                    self.kept.append(op.result)
            case ir.If() if op.results:
                pass
            case ir.View() | ir.Reinterpret() | ir.Yield():
                pass
            case _ if not isinstance(op, ir.ScalarOp):
                self._refuse_value(op, f"computed by `{op.mnemonic}`")

    def _refuse_value(self, op: ir.OpBase, why: str) -> None:
        name = next((f"`{v.name}`" for v in op.results if v.name), "a value")
        self._refuse(
            f"{name} is {why} before `T.sync_grid`, and used after it",
            "Compute it again after the barrier, or hand it over in a tensor.",
            self._barrier,
        )


def _all(ops: Sequence[ir.OpBase]) -> Iterator[ir.OpBase]:
    """Yield ops and those inside of them."""
    for op in ops:
        yield op
        for block in op.blocks():
            yield from ir.walk(block)
