"""Pipelined loops by groups of cp.async: every thread loads ahead, no thread only loads.

for k (pipelined S)             load of the first S − 1 iterations, a group each
  copy A[…k…] → A_s       ⇒     for k
  work on A_s                     wait until the group of k is there
                                  load of iteration k + S − 1 into slot (i + S − 1) mod S
                                  work on A_s[i mod S]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.shared import tile_bytes
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.passes.identities import folded, number_of
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, with_originals
from tileprof.remarks import Reason
from tileprof.remarks.common import AddressComputed, LeftEarly, Stages
from tileprof.remarks.loops import RunsAhead, WaitedAtOnce

from .roles import Replay, ring_reason, written_globals
from .split import Mapping, Slots, consumed, slot_view


def group_copies(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """The launch with its cp.async copies in groups that run ahead where they can."""
    return with_originals(launch, _Grouping(launch, lowering).rule)


class _Grouping:
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        self.launch = launch
        self.lowering = lowering
        self.written = written_globals(launch)
        self.plain = Replay(self.written, set())
        self.ahead: dict[ir.For, list[ir.Copy]] = {}
        self.stages: dict[ir.Value, int] = {}
        for op in ir.walk(launch.body):
            if isinstance(op, ir.For) and op.kind == "pipelined":
                self._survey(op)

    def _survey(self, loop: ir.For) -> None:
        stages = self.lowering.stages(loop)
        copies = [o for o in loop.body.ops if _is_async(o) and isinstance(o, ir.Copy)]
        reasons = {c: self._reason(loop, c) for c in copies}
        able = [c for c in copies if stages > 1 and not reasons[c]]
        stages = self._fitting(stages, able)
        able = able if stages > 1 else []
        for copy in copies:
            if stages > 1 and (reason := reasons[copy]) is not None:
                self._tell(copy, stages, reason)
        if able:
            self.ahead[loop] = able
            self.stages |= {c.target: stages for c in able}
            name = loop.body.args[0].name
            self.lowering.remarks.add("loop", name, loop.span, RunsAhead(stages))

    def _fitting(self, stages: int, copies: Sequence[ir.Copy]) -> int:
        """Return how many stages fit into shared memory, where tiles are not known to overlay each
        other and variables decide what is loaded."""
        if all(map(self.plain.knows, (o for c in copies for o in _offsets(c)))):
            return stages
        tiles = {c.target for c in copies}
        allocs = [o for o in ir.walk(self.launch.body) if isinstance(o, ir.Alloc)]
        sizes = {o.result: tile_bytes(o.result) for o in allocs if o.space == "shared"}
        ring = sum(size for tile, size in sizes.items() if tile in tiles)
        free = self.lowering.target.shared_per_block - (sum(sizes.values()) - ring)
        return max(min(stages, free // max(ring, 1)), 1)

    def _tell(self, copy: ir.Copy, stages: int, reason: Reason) -> None:
        self.lowering.remarks.add(
            "copy",
            f"{buffer_name(copy.source)} → {buffer_name(copy.target)}",
            copy.span,
            WaitedAtOnce(),
            (Stages(stages), reason),
            severity="missed",
        )

    def _reason(self, loop: ir.For, copy: ir.Copy) -> Reason | None:
        if reason := ring_reason(self.launch, loop.body, copy):
            return reason
        offsets = _offsets(copy)
        changed = {base(t.value) for o in ir.walk(loop.body) for t in o.accesses() if t.writes}
        if not all(_computes_ahead(o, loop, self.written | changed) for o in offsets):
            return AddressComputed()
        # Leaving the loop would leave copies on their way.
        if any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(loop.body)):
            return LeftEarly()
        return None

    def rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(before, ir.Alloc) and before.result in self.stages:
            shape = (self.stages[before.result], *before.shape)
            return [builder.emit(replace(before, shape=shape, hint=op.result.name)).result]
        if isinstance(before, ir.For) and before in self.ahead and isinstance(op, ir.For):
            # Copies that cannot run ahead are no copies any more.
            copies = [o for o in op.body.ops if _is_async(o) and isinstance(o, ir.Copy)]
            stages = self.stages[self.ahead[before][0].target]
            _Loop(op, copies, stages, builder).emit()
            return []
        if isinstance(before, ir.Copy) and _is_async(before) and isinstance(op, ir.Copy):
            if before.target in self.stages:
                return None  # the loop around it takes it
            _in_place(op, builder)
            return []
        return None


def _offsets(copy: ir.Copy) -> list[ir.Value]:
    view = copy.source.owner
    return list(view.offsets) if isinstance(view, ir.View) else []


def _computes_ahead(value: ir.Value, loop: ir.For, changed: set[ir.Value]) -> bool:
    """Return whether a value of a loop's body can be computed for an iteration to come.

    Every thread loads for itself here, so what was computed before the loop is there, whatever it
    depends on.  So are global memory and variables of the thread that are not `changed` in it.
    """
    owner = value.owner
    if owner is None or owner not in loop.body.ops:
        return True
    if isinstance(owner, ir.Load):
        held = base(owner.buffer)
        if held.buffer.space not in ("global", "local") or held in changed:
            return False
    elif not is_pure(owner):
        return False
    operands = (v for v in owner.operand_values() if not isinstance(v.type, ir.BufferType))
    return all(_computes_ahead(v, loop, changed) for v in operands)


def _is_async(op: ir.OpBase) -> bool:
    return isinstance(op, ir.Copy) and isinstance(op.lowering, CpAsync)


def _in_place(op: ir.Copy, builder: ir.Builder) -> None:
    """A copy that nothing overlaps with."""
    assert isinstance(op.lowering, CpAsync)
    builder.emit(ir.AsyncCopy(op.source, op.target, None, op.lowering, op.hints))
    builder.emit(ir.Commit("cp.async"))
    builder.emit(ir.Wait("cp.async", [], [], 0, reason="nothing to overlap with"))


class _Loop:
    """One loop whose copies run ahead."""

    def __init__(
        self, loop: ir.For, copies: list[ir.Copy], stages: int, builder: ir.Builder
    ) -> None:
        self.loop = loop
        self.copies = copies
        self.stages = stages
        self.builder = builder
        targets = {copy.target for copy in copies}
        self.rings = [o for o in loop.body.ops if isinstance(o, ir.Alloc) and o.result in targets]

    def emit(self) -> None:
        """Emit the loads ahead of the loop, and the loop."""
        loop, builder = self.loop, self.builder
        for ring in self.rings:  # the author may have allocated inside the loop
            builder.emit(ring)
        for number in range(self.stages - 1):
            distance = builder.constant(number)
            self._load(self._step(loop.start, distance), builder.constant(number))
        variable = loop.body.args[0]
        block = ir.Block([ir.Value(variable.type, variable.name)])
        (here,) = block.args
        with builder.inside(block):
            done = folded(ir.Binary("sub", here, loop.start), builder)
            iteration = folded(ir.Binary("floordiv", done, loop.step), builder)
            count = builder.constant(self.stages)
            slot = builder.emit(ir.Binary("floormod", iteration, count, hint="slot")).result
            builder.emit(
                ir.Wait("cp.async", [], [], self.stages - 2, reason="the tile of this iteration")
            )
            distance = builder.constant(self.stages - 1)
            later = builder.emit(ir.Binary("add", iteration, distance)).result
            free = builder.emit(ir.Binary("floormod", later, count, hint="free")).result
            self._load(self._step(here, distance), free)
            self._work(block, here, slot)
        builder.emit(replace(loop, kind="serial", body=block, num_stages=0))

    def _step(self, start: ir.Value, distance: ir.Value) -> ir.Value:
        moved = folded(ir.Binary("mul", distance, self.loop.step), self.builder)
        return folded(ir.Binary("add", start, moved), self.builder)

    def _load(self, at: ir.Value, slot: ir.Value) -> None:
        """The group of one iteration; an empty one beyond the last."""
        builder = self.builder
        there = folded(ir.Compare("lt", at, self.loop.stop), builder)
        surely = number_of(there) is True
        then = builder.block if surely else ir.Block()
        with builder.inside(then):
            mapping: Mapping = {self.loop.body.args[0]: at}
            for copy in self.copies:
                source = self._replayed(copy.source, mapping)
                target = slot_view(copy.target, slot, then.ops)
                assert isinstance(copy.lowering, CpAsync)
                builder.emit(
                    ir.AsyncCopy(source, target, None, copy.lowering, copy.hints, span=copy.span)
                )
        if not surely:
            builder.emit(ir.If(there, then, ir.Block()))
        builder.emit(ir.Commit("cp.async"))

    def _replayed(self, value: ir.Value, mapping: Mapping) -> ir.Value:
        """A value of the loop's body, computed for another iteration."""
        owner = value.owner
        inside = owner is not None and owner in self.loop.body.ops
        if value in mapping or not inside or owner is None:
            return mapping.get(value, value)
        for operand in owner.operand_values():
            if not isinstance(operand.type, ir.BufferType) or isinstance(operand.owner, ir.View):
                self._replayed(operand, mapping)
        made = self.builder.emit(clone(owner, mapping, {}))
        mapping[value] = made.result
        return made.result

    def _work(self, block: ir.Block, here: ir.Value, slot: ir.Value) -> None:
        """The body without its copies, on the slot of this iteration."""
        slots: Slots = {c.target: (c.target, slot) for c in self.copies}
        mapping: Mapping = {self.loop.body.args[0]: here}
        for op in self.loop.body.ops:
            if op not in self.copies and op not in self.rings:
                block.ops += consumed(op, mapping, slots)
