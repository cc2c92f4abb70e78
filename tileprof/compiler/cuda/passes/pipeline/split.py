"""A launch as two roles: what fills the rings, and everything else.

Each block of ops is split on its own.  Loads by TMA that are first and last used by the same ops of
their block share a ring, and so a barrier.  A tile that several loops load has one ring.

Where blocks take tiles when they are free, the producer asks for the next one as soon as it has
started the last load of a tile, while consumers have full slots before them, and hands its number
over in a ring of its own.

    for tile (order = dynamic)      producer                   consumer
      …                       ⇒       …                          …
                                      next = next_tile           next = receive numbers
                                      send numbers, next         yield next
                                      yield next
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.shared import parse_shared, tile_bytes
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.multicast import cluster_of, shared_slice, sharers
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import (
    LOAD_CYCLES,
    SMALL_TILE,
    TILES_AHEAD,
)
from tileprof.compiler.passes.liveness import keep_live, live_ops
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, opened
from tileprof.ir.schedule import LoopSchedule

from .late_slots import from_memory, group_cycles, may_lag, span_of_use
from .roles import is_ring_load, replay_of
from .slots import Mapping, Slots, consumed, slot_view


def split_roles(launch: ir.Launch, lowering: Lowering) -> ir.Block:
    """The body of the launch: allocations and rings, then one `roles` op."""
    return _Split(launch, lowering).body()


@dataclass(eq=False)
class _Group:
    """Tiles that travel through one ring."""

    copies: list[ir.Copy]
    first: int
    """Position in the block of the op that first uses them."""
    last: int
    ring: ir.Value
    buffers: dict[ir.Value, ir.Value]
    """From each tile to the buffer that holds all slots."""
    lag: bool


@dataclass
class _Half:
    """A block of one role under construction."""

    block: ir.Block
    mapping: Mapping
    """From values of the launch to those of the role."""

    def opened(self, block: ir.Block) -> _Half:
        """An empty block with arguments of its own, for a region."""
        return _Half(opened(block, self.mapping), self.mapping)

    def close(self, op: ir.OpBase, regions: dict[str, ir.Block]) -> None:
        """Append a copy of an op with these regions; from here on a loop is an ordinary one."""
        made = clone(op, self.mapping, regions)
        self.mapping.update(zip(op.results, made.results))
        if isinstance(made, ir.For) and made.kind == "pipelined":
            kept = LoopSchedule(crowded=made.schedule.crowded)
            held = made.start, made.stop, made.step, made.body
            made = ir.For("serial", *held, schedule=kept, span=op.span)
        self.block.ops.append(made)


@dataclass
class _Split:
    launch: ir.Launch
    lowering: Lowering
    before: list[ir.OpBase] = field(default_factory=list)
    """Allocations and rings, in front of the roles."""
    lagging: list[_Group] = field(default_factory=list)
    """Groups of the loop just left whose last slot is still to be freed."""
    rings: dict[tuple[object, ...], tuple[ir.Value, dict[ir.Value, ir.Value]]] = field(
        default_factory=dict
    )
    """Rings and their buffers, by stages and by tiles: several loops may fill the same."""

    def body(self) -> ir.Block:
        """Everything."""
        launch = self.launch
        self.replay = replay_of(launch)
        self.loads = {o for o in ir.walk(launch.body) if is_ring_load(o)}
        self.tiles = Counter(o.target for o in self.loads if isinstance(o, ir.Copy))
        if cluster_of(launch).size > 1:
            position = ir.GridPosition("rank", hint="rank")
            self.before.append(position)
            self.rank = position.result
        mapping: Mapping = {}
        made = opened(launch.body, mapping)
        ahead = _Half(ir.Block(), dict(mapping))
        here = _Half(ir.Block(), mapping)
        self._block(launch.body, None, ahead, here, {})
        _prune(ahead.block, set())
        # Addresses of loads, which the consumers no longer issue.
        keep_live(here.block, live_ops(here.block))
        roles = ir.Roles(ahead.block, here.block, span=launch.span)
        made.ops += [*self.before, roles]
        return made

    # -- one block of ops

    def _block(
        self, block: ir.Block, loop: ir.For | None, ahead: _Half, here: _Half, slots: Slots
    ) -> None:
        """Append the two halves of a block, which is the body of a loop or in a branch of it, if
        there is one."""
        groups = self._groups(block, loop)
        group_of = {c: g for g in groups for c in g.copies}
        slots = dict(slots)
        for at, op in enumerate(block.ops):
            for group in groups:
                if group.first == at:
                    self._wait(group, here, slots)
            if isinstance(op, ir.Copy) and op in group_of:
                group = group_of[op]
                if op is group.copies[-1]:
                    self._fill(group, ahead)
            else:
                self._op(op, loop, ahead, here, slots)
            for group in groups:
                if group.last == at:
                    self._release(group, here, op)

    def _wait(self, group: _Group, here: _Half, slots: Slots) -> None:
        wait = ir.RingWait(group.ring, span=group.copies[0].span, hint="slot")
        here.block.ops.append(wait)
        for tile, buffer in group.buffers.items():
            slots[tile] = (buffer, wait.result)

    def _release(self, group: _Group, here: _Half, op: ir.OpBase) -> None:
        here.block.ops.append(ir.RingRelease(group.ring, int(group.lag), span=op.span))
        if group.lag:
            self.lagging.append(group)

    def _op(
        self, op: ir.OpBase, loop: ir.For | None, ahead: _Half, here: _Half, slots: Slots
    ) -> None:
        if isinstance(op, ir.Alloc) and op.space == "shared":
            if op.result not in self.tiles:
                made = clone(op, {}, {})
                self.before.append(made)
                here.mapping[op.result] = made.result
        elif any(o in self.loads for o in op.inner_ops()):
            self._control(op, loop, ahead, here, slots)
        else:
            self._replay(op, ahead)
            here.block.ops += consumed(op, here.mapping, slots)

    def _control(
        self, op: ir.OpBase, around: ir.For | None, ahead: _Half, here: _Half, slots: Slots
    ) -> None:
        """A loop or a branch around loads stands in both roles.  What a branch loads belongs to the
        loop `around` it, whose stages it has."""
        loop = op if isinstance(op, ir.For) else around
        outer, self.lagging = self.lagging, []
        theirs: dict[str, ir.Block] = {}
        ours: dict[str, ir.Block] = {}
        for name in op.SPEC.regions:
            inner: ir.Block = getattr(op, name)
            producer, consumer = ahead.opened(inner), here.opened(inner)
            theirs[name], ours[name] = producer.block, consumer.block
            self._block(inner, loop, producer, consumer, slots)
        if isinstance(op, ir.For) and op.schedule.dynamic:
            self._hand_over(op, theirs["body"], ours["body"], ahead)
        ahead.close(op, theirs)
        here.close(op, ours)
        for group in self.lagging:
            last = ir.RingRelease(group.ring, 1, last=True, span=op.span)
            here.block.ops.append(last)
        self.lagging = outer

    def _hand_over(self, op: ir.For, theirs: ir.Block, ours: ir.Block, ahead: _Half) -> None:
        """Let both roles go on with the next tile that nobody has taken."""
        warps = self.launch.block_threads // 32
        numbers = ir.Ring(TILES_AHEAD, 0, warps, span=op.span, hint="tiles")
        self.before.append(numbers)
        builder = ir.Builder(theirs, op.span)
        total = ahead.mapping.get(op.stop, op.stop)
        found = builder.emit(ir.NextTile(total, hint="next")).result
        builder.emit(ir.RingSend(numbers.result, found))
        builder.emit(ir.Yield([found]))
        builder = ir.Builder(ours, op.span)
        received = builder.emit(ir.RingReceive(numbers.result, hint="next")).result
        builder.emit(ir.Yield([received]))

    def _replay(self, op: ir.OpBase, ahead: _Half) -> None:
        """Let the producer compute an address too; what it does not need is pruned later."""
        match op:
            case ir.View() | ir.Reinterpret():
                wanted = base(op.base).buffer.space == "global"
            case ir.Load():
                held = base(op.buffer)
                unwritten = held.buffer.space == "global" and held not in self.replay.written
                wanted = unwritten or self.replay.reads(op)
            case ir.Alloc():
                wanted = op.result in self.replay.variables
            case ir.Store():
                wanted = self.replay.stores(op)
            case ir.Yield():
                wanted = all(map(self.replay.knows, op.operand_values()))
            case ir.For() | ir.If():
                wanted = all(map(self.replay.knows, op.results))
                wanted = wanted and (bool(op.results) or self.replay.stores(op))
            case _:
                wanted = is_pure(op) or isinstance(op, ir.GridPosition)
        if wanted:
            regions = {name: self._replayed(getattr(op, name), ahead) for name in op.SPEC.regions}
            ahead.close(op, regions)

    def _replayed(self, block: ir.Block, ahead: _Half) -> ir.Block:
        """Return what the producer computes of a block without loads."""
        inner = ahead.opened(block)
        for op in block.ops:
            self._replay(op, inner)
        return inner.block

    # -- rings

    def _groups(self, block: ir.Block, loop: ir.For | None) -> list[_Group]:
        found: dict[tuple[int, int, ir.Value | None], list[ir.Copy]] = {}
        begins: dict[tuple[int, int, ir.Value | None], int] = {}
        for op in block.ops:
            if isinstance(op, ir.Copy) and op in self.loads:
                # A tile of several blocks travels alone: elsewhere its use may be another.
                alone = op.target if self.tiles[op.target] > 1 else None
                first, last = span_of_use(block, op)
                # A part that has a name is used where something is done with it.
                acts = (n for n in range(first, last) if not _only_names(block.ops[n]))
                key = (next(acts, last), last, alone)
                found.setdefault(key, []).append(op)
                begins[key] = min(first, begins.get(key, first))
        return [
            self._group(block, copies, begins[key], key[1], loop) for key, copies in found.items()
        ]

    def _group(
        self, block: ir.Block, copies: list[ir.Copy], first: int, last: int, loop: ir.For | None
    ) -> _Group:
        stages, schedule = self._stages(loop), loop.schedule if loop is not None else LoopSchedule()
        if schedule.slots > 1 and sum(tile_bytes(c.target) for c in copies) <= SMALL_TILE:
            stages = schedule.slots
        key = (stages, *((c.target, sharers(c)) for c in copies))
        if key not in self.rings:
            self.rings[key] = self._ring(copies, stages)
        ring, buffers = self.rings[key]
        # Behind its only iteration a loop leaves no product running: where ways with and without
        # one meet, the assembler would run all products of the kernel one by one.  A slot that is
        # freed late is not being filled, and a group alone then waits for loads that last longer
        # than its products.
        lag = stages > 1 and self.lowering.controls.delayed_release and not schedule.once
        lag = lag and all(may_lag(block, c.target, last) for c in copies)
        # Behind a branch too, ways with and without a product meet.
        lag = lag and loop is not None and block is loop.body
        alone = self.launch.block_threads <= WARP_GROUP and from_memory(block)
        lag = lag and not (alone and (stages - 1) * group_cycles(block) < LOAD_CYCLES)
        return _Group(copies, first, last, ring, buffers, lag)

    def _stages(self, loop: ir.For | None) -> int:
        if loop is None or loop.kind != "pipelined":
            return 1
        return max(self.lowering.stages(loop), 1)

    def _ring(
        self, copies: list[ir.Copy], stages: int
    ) -> tuple[ir.Value, dict[ir.Value, ir.Value]]:
        """A ring for tiles, and by tile the buffer with all its slots."""
        buffers: dict[ir.Value, ir.Value] = {}
        total = 0
        for copy in copies:
            alloc = copy.target.owner
            assert isinstance(alloc, ir.Alloc)
            total += math.prod(alloc.shape) * alloc.dtype.bytes
            name = alloc.result.name or buffer_name(copy.source)
            made = parse_shared(alloc.layout, alloc.shape, alloc.dtype).slots(stages)
            slots = ir.Alloc(
                "shared", made.shape, alloc.dtype, str(made), span=alloc.span, hint=name
            )
            buffers[copy.target] = slots.result
            self.before.append(slots)
        warps = self.launch.block_threads // 32
        cluster = max(sharers(c) for c in copies)
        ring = ir.Ring(stages, total, warps, cluster, span=copies[0].span, hint="ring")
        self.before.append(ring)
        return ring.result, buffers

    def _fill(self, group: _Group, ahead: _Half) -> None:
        """Acquire a slot, start all loads into it, go on."""
        span = group.copies[0].span
        builder = ir.Builder(ahead.block, span)
        acquire = builder.emit(ir.RingAcquire(group.ring, hint="slot"))
        for copy in group.copies:
            source = ahead.mapping.get(copy.source, copy.source)
            target = slot_view(group.buffers[copy.target], acquire.result, ahead.block.ops)
            count = sharers(copy)
            made = Tma(dealt=isinstance(copy.lowering, Tma) and copy.lowering.dealt)
            if count > 1:
                source, target = shared_slice(source, target, count, self.rank, builder)
            builder.emit(
                ir.AsyncCopy(source, target, group.ring, made, copy.hints, count, span=copy.span)
            )
        builder.emit(ir.RingCommit(group.ring))


def _only_names(op: ir.OpBase) -> bool:
    """Whether an op only computes a value, or names a part of a tile."""
    return isinstance(op, ir.View) or is_pure(op)


def _prune(block: ir.Block, needed: set[ir.Value]) -> None:
    """Take out of the producer's blocks, which are its own, what no load needs."""
    known = -1
    while known < len(needed):
        # A variable needs what is stored to it, also further down in a loop.
        known = len(needed)
        _mark(block, needed)
    keep_live(block, {op for op in ir.walk(block) if _is_needed(op, needed)})


def _mark(block: ir.Block, needed: set[ir.Value]) -> None:
    for op in reversed(block.ops):
        if _is_needed(op, needed):
            for inner in reversed(list(op.blocks())):
                _mark(inner, needed)
            needed.update(op.operand_values())


def _is_needed(op: ir.OpBase, needed: set[ir.Value]) -> bool:
    """Return whether the producer needs an op: it loads, it ends a block, a value of it is used, or
    it stores to a variable that is."""
    inside = [*op.inner_ops()]
    acts = any(isinstance(o, ir.AsyncCopy) for o in (op, *inside))
    acts = acts or isinstance(op, ir.RingAcquire | ir.RingCommit | ir.RingSend | ir.Yield)
    stores = any(isinstance(o, ir.Store) and o.buffer in needed for o in (op, *inside))
    return acts or stores or any(r in needed for r in op.results)
