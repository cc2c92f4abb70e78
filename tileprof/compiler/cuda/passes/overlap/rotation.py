"""A pipelined loop as three, in which the end of an iteration stands behind the begin of the next.

    for k in a..z               for k in a..min(a + 1, z)    head, middle of k
      head, middle, tail   ⇒    for k in a+1..z              head of k, tail of k - 1, middle of k
                                for k in max(a, z-1)..z      tail of k

In: a loop whose step is 1, and which ops of its body are head, middle and tail; whoever says so has
to know that a head may move before the tail of the iteration before.  Out: the loops; what the ops
are computed from stands before them in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.passes.identities import folded
from tileprof.ir.rewriter import clone, clone_block
from tileprof.ir.scalar import BinaryKind
from tileprof.ir.schedule import LoopSchedule


@dataclass(frozen=True)
class Parts:
    """The ops of a loop's body that do something, by their positions in it, in three parts; every
    other one computes an index or takes a part of a tensor, and stands where it is needed."""

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]


def rotate(loop: ir.For, parts: Parts, builder: ir.Builder) -> None:
    """Append the three loops."""
    _Rotation(loop, parts, builder).emit()


@dataclass
class _Rotation:
    """Three loops in the place of one."""

    loop: ir.For
    parts: Parts
    builder: ir.Builder
    shared: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Tiles of shared memory that the body allocates, and the one that all loops have instead."""

    def emit(self) -> None:
        """Append them."""
        for op in self.loop.body.ops:
            if isinstance(op, ir.Alloc) and op.space == "shared":
                held = self.builder.emit(clone(op, {}, {}))
                self.shared[op.result] = held.results[0]
        start, stop, parts = self.loop.start, self.loop.stop, self.parts
        one = self.builder.constant(1)
        second = self._computed("add", start, one)
        last = self._computed("max", start, self._computed("sub", stop, one))
        once = replace(self.loop.schedule, once=True)
        first = (*parts.head, *parts.middle)
        # With its mask, wherever it is.
        whole = replace(once, whole=True)
        self._over(whole, start, self._computed("min", second, stop), first)
        self._over(self.loop.schedule, second, stop, parts.head, parts.tail, parts.middle)
        self._over(once, last, stop, parts.tail)

    def _computed(self, kind: BinaryKind, a: ir.Value, b: ir.Value) -> ir.Value:
        return folded(ir.Binary(kind, a, b), self.builder)

    def _over(
        self,
        schedule: LoopSchedule,
        start: ir.Value,
        stop: ir.Value,
        now: Sequence[int],
        before: Sequence[int] = (),
        then: Sequence[int] = (),
    ) -> None:
        """One loop: ops of this iteration, of the iteration before, and of this iteration again."""
        loop = self.loop
        (counter,) = loop.body.args
        k = ir.Value(counter.type, counter.name)
        body = ir.Block([k])
        builder = ir.Builder(body, loop.span)
        this = Part(loop, {counter: k, **self.shared}, body)
        this.place(now)
        if before:
            one = builder.constant(1)
            earlier = builder.emit(ir.Binary("sub", k, one, hint=f"{counter.name}_before")).result
            Part(loop, {counter: earlier, **self.shared}, body).place(before)
        this.place(then)
        held = loop.num_stages, loop.hints, schedule
        made = ir.For(loop.kind, start, stop, loop.step, body, *held)
        self.builder.emit(made).span = loop.span


@dataclass
class Part:
    """Ops of one iteration of the loop, copied to the end of a block."""

    loop: ir.For
    mapping: dict[ir.Value, ir.Value]
    """From values of the loop's body to those of the copy."""
    body: ir.Block

    def place(self, positions: Sequence[int]) -> None:
        """Append the ops at these positions, and before each what it is computed from."""
        for op in (self.loop.body.ops[at] for at in positions):
            if not (isinstance(op, ir.Alloc) and op.result in self.mapping):
                self._place(op)

    def _place(self, op: ir.OpBase) -> None:
        for value in op.all_operand_values():
            owner = value.owner
            if value not in self.mapping and owner is not None and owner in self.loop.body.ops:
                self._place(owner)
        regions = {n: clone_block(getattr(op, n), self.mapping) for n in op.SPEC.regions}
        made = clone(op, self.mapping, regions)
        self.mapping.update(zip(op.results, made.results))
        self.body.ops.append(made)
