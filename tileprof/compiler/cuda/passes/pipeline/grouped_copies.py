"""Pipelined loops by groups of cp.async: every thread loads ahead, no thread only loads.

for k (pipelined S)             load of the first S − 1 iterations, a group each
  copy A[…k…] → A_s       ⇒     for k
  work on A_s                     wait until the group of k is there
                                  load of iteration k + S − 1 into slot (i + S − 1) mod S
                                  work on A_s[i mod S]

Parallel loops that gather a tile (`gathers.py`) run ahead with the copies, in as many stages as
fit.  Where the products of an iteration last less than a load, such a loop has one more load on its
way: a slot is filled again as soon as it was used.

                                      load of the first S iterations, a group each
                                      for k
                                        wait until the group of k is there
                                        work on A_s[i mod S], up to its last use
                                        load of iteration k + S into slot i mod S
                                        the rest of the work
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.shared import tile_bytes
from tileprof.compiler.cuda.lowering import Lowering, Remarks, line_of
from tileprof.compiler.cuda.passes.memory import shared_bytes
from tileprof.compiler.cuda.passes.waits.waits import wait_in_launch
from tileprof.compiler.cuda.resources import product_cycles
from tileprof.compiler.cuda.tuning import LOAD_CYCLES
from tileprof.compiler.passes.identities import folded, number_of
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, with_originals
from tileprof.remarks import Reason, copies
from tileprof.remarks.common import AddressComputed, LeftEarly, Stages
from tileprof.remarks.layouts import BeginsBefore, LoadedAhead
from tileprof.remarks.loops import RunsAhead, WaitedAtOnce

from .addresses import AddressLoad, address_loads, taken_from
from .first_loads import begun_early
from .gathers import Gather, Tensors, gather_of
from .roles import Replay, ring_reason, tile_reason, written_globals
from .slots import Mapping, Slots, consumed, slot_view
from .with_first import copies_with_first

_Load = ir.Copy | Gather
"""Copies and loads that run ahead of their use."""


def group_copies(launch: ir.Launch, tensors: Tensors, lowering: Lowering) -> ir.Launch:
    """The launch with its cp.async copies in groups that run ahead where they can."""
    most = 1 << 30
    while True:
        told = Remarks()
        grouping = _Grouping(launch, tensors, replace(lowering, remarks=told), most)
        made = with_originals(launch, grouping.rule)
        if not grouping.gathered or _bytes(made, lowering) <= lowering.target.shared_per_block:
            break
        # What threads would load themselves, too, need not have so many stages.
        most = min(most, max(grouping.stages.values())) - 1
    lowering.remarks.extend(told)
    return made


def _bytes(launch: ir.Launch, lowering: Lowering) -> int:
    """Shared memory that a block needs, in bytes."""
    return shared_bytes(wait_in_launch(launch, replace(lowering, remarks=Remarks())))


class _Grouping:
    def __init__(self, launch: ir.Launch, tensors: Tensors, lowering: Lowering, most: int) -> None:
        self.launch = launch
        self.tensors = tensors
        self.lowering = lowering
        self.most = most
        """Most stages of a loop that gathers."""
        self.written = written_globals(launch)
        self.plain = Replay(self.written, set())
        self.ahead: dict[ir.For, list[_Load]] = {}
        self.stages: dict[ir.Value, int] = {}
        self.gathered: dict[ir.OpBase, Gather] = {}
        """Loops over elements that run ahead."""
        self.refilled: set[ir.For] = set()
        """Loops whose slots are filled again as soon as they were used."""
        self.kept: dict[ir.OpBase, Gather] = {}
        """The same among the new ops."""
        for op in ir.walk(launch.body):
            if isinstance(op, ir.For) and op.kind == "pipelined":
                self._survey(op)
        found = copies_with_first(launch, lambda loop: loop in self.ahead)
        self.with_first = {c: loop for c, loop in found.items() if _is_async(c)}
        """Copies in front of loops that these wait for."""
        self.brought: dict[ir.For, set[ir.Value]] = {}
        """Their tiles, among the new ops."""

    def _useful_stages(self, loop: ir.For) -> int:
        """The stages of a loop whose loads need memory: no more than it has iterations."""
        stages, trips = self.lowering.stages(loop), loop.static_range
        return stages if trips is None else min(stages, max(len(trips), 1))

    def _survey(self, loop: ir.For) -> None:
        asked = self._useful_stages(loop)
        every = [o for o in loop.body.ops if _is_async(o) and isinstance(o, ir.Copy)]
        reasons = {c: self._reason(loop, c) for c in every}
        able: list[_Load] = [c for c in every if asked > 1 and not reasons[c]]
        stages = self._fitting(asked, [c for c in able if isinstance(c, ir.Copy)])
        able = able if stages > 1 else []
        gathers = self._gathers(loop)
        if gathers and min(self.most, asked) > 1:
            stages = min(stages if able else asked, self.most)
            self.gathered |= {g.op: g for g in gathers}
            for each in gathers:
                self._tell_gather(each)
            able = [*able, *gathers]
        for copy in every:
            if stages > 1 and (reason := reasons[copy]) is not None:
                self._tell(copy, stages, reason)
        if able:
            self.ahead[loop] = able
            self.stages |= {c.target: stages for c in able}
            name = loop.body.args[0].name
            if gathers and (stages - 1) * product_cycles(ir.walk(loop.body)) < LOAD_CYCLES:
                self.refilled.add(loop)
            decision = RunsAhead(stages, loop in self.refilled)
            self.lowering.remarks.add("loop", name, loop.span, decision)
            for group in address_loads(gathers):
                self._tell_address(group[0])

    def _gathers(self, loop: ir.For) -> list[Gather]:
        """Return the loops over elements that can be started for an iteration to come."""
        if any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(loop.body)):
            return []
        changed = {base(t.value) for o in ir.walk(loop.body) for t in o.accesses() if t.writes}
        changed |= written_globals(self.launch, aliased=self.lowering.aliased)
        found = (gather_of(o, self.tensors, self.lowering) for o in loop.body.ops)
        return [g for g in found if g is not None and self._runs_ahead(g, loop, changed)]

    def _runs_ahead(self, gather: Gather, loop: ir.For, changed: set[ir.Value]) -> bool:
        read = [base(gather.source), *gather.read()]
        if any(m in changed or m.buffer.space == "fragment" for m in read):
            return False
        if tile_reason(self.launch, loop.body, gather.op, gather.source, gather.target):
            return False
        scalars = gather.outside()
        return all(_computes_ahead(v, loop, changed) for v in scalars)

    def _tell_gather(self, gather: Gather) -> None:
        name = f"{buffer_name(gather.source)} → {buffer_name(gather.target)}"
        decision = copies.CpAsync(gather.instruction.bytes)
        self.lowering.remarks.add("copy", name, gather.op.span, decision)

    def _tell_address(self, held: AddressLoad) -> None:
        name = buffer_name(held.load.buffer)
        self.lowering.remarks.add("load", name, held.load.span, LoadedAhead())

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
            loads: list[_Load] = [o for o in op.body.ops if _is_async(o) and isinstance(o, ir.Copy)]
            loads += [self.kept[o] for o in op.body.ops if o in self.kept]
            stages = self.stages[self.ahead[before][0].target]
            brought = self.brought.get(before, set())
            loop = _Loop(op, loads, brought, stages, before in self.refilled, builder)
            self._load_addresses(loop, builder)
            loop.begin()
            loop.emit()
            return []
        if before in self.gathered and isinstance(op, ir.Parallel):
            self.kept[op] = self.gathered[before].of_copy(op)
        if isinstance(before, ir.Copy) and _is_async(before) and isinstance(op, ir.Copy):
            if before.target in self.stages:
                return None  # the loop around it takes it
            if before in self.with_first:
                self.brought.setdefault(self.with_first[before], set()).add(op.target)
                _start(op, builder)
                return []
            _in_place(op, builder)
            return []
        return None

    def _load_addresses(self, loop: _Loop, builder: ir.Builder) -> None:
        """Emit what the first loads of a loop need, before anything that threads wait for."""
        if not loop.addresses:
            return
        ops = builder.block.ops
        start = len(ops)
        loop.load_addresses()
        ops[:], passed = begun_early(ops[:start], ops[start:], self.written)
        if passed is not None:
            load, decision = loop.addresses[0][0].load, BeginsBefore(line_of(passed))
            self.lowering.remarks.add("load", buffer_name(load.buffer), load.span, decision)


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


def _start(op: ir.Copy, builder: ir.Builder) -> None:
    """Start a copy, as a part of the group that is committed next."""
    assert isinstance(op.lowering, CpAsync)
    builder.emit(ir.AsyncCopy(op.source, op.target, None, op.lowering, op.hints, span=op.span))


def _in_place(op: ir.Copy, builder: ir.Builder) -> None:
    """A copy that nothing overlaps with."""
    _start(op, builder)
    builder.emit(ir.Commit("cp.async"))
    builder.emit(ir.Wait("cp.async", [], [], 0, reason="nothing to overlap with"))


class _Loop:
    """One loop whose copies run ahead."""

    def __init__(
        self,
        loop: ir.For,
        loads: list[_Load],
        brought: set[ir.Value],
        stages: int,
        refilled: bool,
        builder: ir.Builder,
    ) -> None:
        self.loop = loop
        self.loads = loads
        self.brought = brought
        """Tiles that are in the first group."""
        self.stages = stages
        self.ahead = stages if refilled else stages - 1
        """Iterations between a load and its use."""
        self.builder = builder
        targets = {load.target for load in loads}
        self.rings = [o for o in loop.body.ops if isinstance(o, ir.Alloc) and o.result in targets]
        self.addresses = address_loads([c for c in loads if isinstance(c, Gather)])
        """Values that are loaded for the addresses of the next loads."""
        self.held: list[list[ir.Value]] = []
        """Fragments for the elements of `addresses`: of the first iterations, then of the next."""

    def load_addresses(self) -> None:
        """Emit the loads of what the first loads need, and those after them."""
        for number in range(self.ahead + 1 if self.addresses else 0):
            self.held.append([each[0].allocated(self.builder) for each in self.addresses])
            self._load_addresses(self.loop.start, number, self.held[number])

    def begin(self) -> None:
        """Emit the loads ahead of the loop."""
        builder = self.builder
        for ring in self.rings:  # the author may have allocated inside the loop
            builder.emit(ring)
        for number in range(self.ahead):
            at = self._step(self.loop.start, builder.constant(number))
            self._load(at, builder.constant(number), number)

    def emit(self) -> None:
        """Emit the loop, behind its first loads."""
        loop, builder = self.loop, self.builder
        variable = loop.body.args[0]
        block = ir.Block([ir.Value(variable.type, variable.name)])
        (here,) = block.args
        with builder.inside(block):
            done = folded(ir.Binary("sub", here, loop.start), builder)
            iteration = folded(ir.Binary("floordiv", done, loop.step), builder)
            count = builder.constant(self.stages)
            slot = builder.emit(ir.Binary("floormod", iteration, count, hint="slot")).result
            free, work = slot, self._work(here, slot)
            uses = self._uses(work) if self.ahead == self.stages else range(0)
            block.ops += work[: uses.start]
            builder.emit(
                ir.Wait("cp.async", [], [], self.ahead - 1, reason="the tile of this iteration")
            )
            block.ops += work[uses.start : uses.stop]
            distance = builder.constant(self.ahead)
            if self.ahead < self.stages:
                later = builder.emit(ir.Binary("add", iteration, distance)).result
                free = builder.emit(ir.Binary("floormod", later, count, hint="free")).result
            self._next_addresses(here)
            self._load(self._step(here, distance), free, 0)
            block.ops += work[uses.stop :]
        builder.emit(replace(loop, kind="serial", body=block, num_stages=0))
        if self.brought and not loop.static_range:
            # Nothing may arrive when other tiles are in its bytes.
            reason = "the loop may not have waited"
            builder.emit(ir.Wait("cp.async", [], [], 0, reason=reason))

    def _step(self, start: ir.Value, distance: ir.Value) -> ir.Value:
        moved = folded(ir.Binary("mul", distance, self.loop.step), self.builder)
        return folded(ir.Binary("add", start, moved), self.builder)

    def _next_addresses(self, here: ir.Value) -> None:
        """Take what was loaded in the iteration before, and load for the next one: in front of
        large loads, behind which it might come."""
        if self.addresses:
            for (first, *_), kept, loaded in zip(
                self.addresses, self.held[0], self.held[self.ahead], strict=True
            ):
                first.move(loaded, kept, self.builder)
            self._load_addresses(here, self.ahead + 1, self.held[self.ahead])

    def _load_addresses(self, start: ir.Value, distance: int, held: Sequence[ir.Value]) -> None:
        """Write what the loads of an iteration need; anything beyond the last."""
        builder, trips = self.builder, self.loop.static_range
        at = self._step(start, builder.constant(distance))
        if trips:
            # The last one once more: nothing waits for a branch.
            last = builder.constant(trips[-1])
            self._fill_addresses(folded(ir.Binary("min", at, last), builder), held)
            return
        there = folded(ir.Compare("lt", at, self.loop.stop), builder)
        then = ir.Block()
        with builder.inside(then):
            self._fill_addresses(at, held)
        builder.emit(ir.If(there, then, ir.Block()))

    def _fill_addresses(self, at: ir.Value, held: Sequence[ir.Value]) -> None:
        mapping: Mapping = {self.loop.body.args[0]: at}
        for (first, *_), fragment in zip(self.addresses, held, strict=True):
            for value in first.outside():
                self._replayed(value, mapping)
            first.fill(fragment, mapping, self.builder)

    def _load(self, at: ir.Value, slot: ir.Value, number: int) -> None:
        """The group of one iteration; an empty one beyond the last.  `number`: which of the
        fragments have its addresses."""
        builder = self.builder
        taken = taken_from(self.addresses, self.held[number] if self.addresses else ())
        there = folded(ir.Compare("lt", at, self.loop.stop), builder)
        surely = number_of(there) is True
        then = builder.block if surely else ir.Block()
        with builder.inside(then):
            mapping: Mapping = {self.loop.body.args[0]: at}
            for copy in self.loads:
                if isinstance(copy, Gather):
                    for value in copy.outside(taken):
                        self._replayed(value, mapping)
                    copy.started(mapping, copy.target, slot, builder, taken)
                    continue
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

    def _work(self, here: ir.Value, slot: ir.Value) -> list[ir.OpBase]:
        """The body without its copies, on the slot of this iteration."""
        slots: Slots = {c.target: (c.target, slot) for c in self.loads}
        loads = {c.op if isinstance(c, Gather) else c for c in self.loads}
        mapping: Mapping = {self.loop.body.args[0]: here}
        made: list[ir.OpBase] = []
        for op in self.loop.body.ops:
            if op not in loads and op not in self.rings:
                made += consumed(op, mapping, slots)
        return made

    def _uses(self, work: Sequence[ir.OpBase]) -> range:
        """The ops from the first one that touches a tile that is waited for to the last one that
        touches a tile that is loaded anew."""
        rings = {c.target for c in self.loads}
        waited = [i for i, op in enumerate(work) if _touches(op, rings | self.brought)]
        used = [i for i, op in enumerate(work) if _touches(op, rings)]
        return range(waited[0], used[-1] + 1) if used else range(0)


def _touches(op: ir.OpBase, tiles: set[ir.Value]) -> bool:
    return any(base(t.value) in tiles for t in op.all_accesses())
