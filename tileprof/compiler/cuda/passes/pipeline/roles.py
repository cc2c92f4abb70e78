"""Warp specialisation: may a warp group of its own issue the loads, and what does it have to run?

The producer runs a slice of the program: the control flow around the loads and the scalars that
their addresses need.  A value belongs to the slice (it is known to the `Replay`) where it follows
from block indices, loop variables, parameters, global memory that the kernel does not write, and
variables of a thread to which only such values are stored, of which the producer keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.layouts.shared import tile_bytes
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import fragment_registers, occupancy
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import BESIDE_SUMS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.remarks import Reason
from tileprof.remarks.common import (
    AddressComputed,
    ControlComputed,
    LeftEarly,
    PartOfTile,
    TargetHasNone,
)
from tileprof.remarks.copies import (
    GatheredOperand,
    KernelWrites,
    LoadInside,
    NoPipelinedLoop,
    NoRoomForProducer,
    NoStage,
    NoTileLoaded,
    NoWgmmaInLoop,
    OwnLoads,
    SpecialisationOff,
    TileAlsoWritten,
    TileUsedBefore,
    TileUsedElsewhere,
)

from .gathers import gathered_tile

CanBulk = Callable[[ir.Copy], Reason | None]
"""Says why TMA cannot do a copy; None where it can."""


def role_reason(launch: ir.Launch, can_bulk: CanBulk, lowering: Lowering) -> Reason | None:
    """Why the kernel's loads are not left to a producer warp group; None where they are."""
    if not lowering.target.has_tma:
        return TargetHasNone(lowering.target.name)
    if not lowering.controls.warp_specialization:
        return SpecialisationOff()
    threads, limit = launch.block_threads, lowering.target.threads_per_block
    if threads + WARP_GROUP > limit:
        return NoRoomForProducer(threads, limit)
    loops = [o for o in ir.walk(launch.body) if isinstance(o, ir.For) and o.kind == "pipelined"]
    # With one stage, the loads of one tile still run beside the work on the others; who asks for
    # one by a control wants to see a loop without loads ahead.
    asked = lowering.controls.stages is not None
    loops = [o for o in loops if lowering.stages(o) > (1 if asked else 0)]
    if not loops:
        return NoPipelinedLoop() if asked else NoStage()
    reason: Reason | None = None
    for loop in loops:
        reason = _own_loads_reason(launch, loop, lowering) or _loop_reason(
            launch, loop, can_bulk, ahead=lowering.stages(loop) > 1
        )
        if not reason:
            return None
    return reason


def _own_loads_reason(launch: ir.Launch, loop: ir.For, lowering: Lowering) -> Reason | None:
    """Why loads ahead of a loop of one stage would not pay; None where they may.

    Where its threads read elements of a tensor themselves and wait for them in every iteration,
    they wait as long for global memory as without a producer.  Several warp groups with one take
    all registers; without it other blocks work meanwhile.
    """
    if lowering.controls.stages is not None or loop.num_stages > 1:
        return None
    threads = launch.block_threads
    if threads <= WARP_GROUP or not _reads_elements(loop):
        return None
    allocs = [o for o in ir.walk(launch.body) if isinstance(o, ir.Alloc)]
    registers = int(fragment_registers((o.result for o in allocs), threads)) + BESIDE_SUMS
    shared = sum(tile_bytes(o.result) for o in allocs if o.space == "shared")
    blocks = occupancy(registers, shared, threads, lowering.target).blocks
    return OwnLoads(blocks) if blocks > 1 else None


def _reads_elements(loop: ir.For) -> bool:
    """Whether threads load elements of tensors, each its own, in the iterations of a loop."""
    inside = (o for p in ir.walk(loop.body) if isinstance(p, ir.Parallel) for o in ir.walk(p.body))
    loads = (o for o in inside if isinstance(o, ir.Load))
    return any(base(o.buffer).buffer.space == "global" for o in loads)


def _loop_reason(
    launch: ir.Launch, loop: ir.For, can_bulk: CanBulk, *, ahead: bool
) -> Reason | None:
    products = [o for o in ir.walk(loop.body) if is_of_warp_groups(o)]
    if not products:
        return NoWgmmaInLoop()
    loads = loads_of_iteration(loop)
    if not loads:
        return NoTileLoaded()
    if reason := _control_reason(launch, launch.body, loop):
        return reason
    operands = {base(v) for o in products if isinstance(o, ir.Gemm) for v in (o.a, o.b)}
    gathered = [t for o in loop.body.ops if (t := gathered_tile(o)) is not None and t in operands]
    if gathered and ahead:
        return GatheredOperand(buffer_name(gathered[0]))
    reasons = {copy: load_reason(launch, copy, can_bulk) for copy in loads}
    left = [copy for copy, reason in reasons.items() if reason]
    # With one stage, threads would load these tiles at their turn in any case: the producer is
    # worth it for the others.  With more, they could all run ahead by cp.async.
    if left and not ahead and 2 * sum(map(_loaded_bytes, left)) <= sum(map(_loaded_bytes, loads)):
        return None
    return next(filter(None, reasons.values()), None)


def _loaded_bytes(copy: ir.Copy) -> int:
    return math.prod(copy.target.buffer.static_shape) * copy.target.dtype.bytes


def load_reason(launch: ir.Launch, copy: ir.Copy, can_bulk: CanBulk) -> Reason | None:
    """Why a producer warp group cannot issue a load; None where it can.

    A tile may be loaded in several loops, one after the other, if all of these loads can.
    """
    replay = replay_of(launch)
    homes = _homes(launch, copy.target)
    for block, each in homes:
        reason = can_bulk(each)
        reason = reason or ring_reason(launch, block, each, [b for b, _ in homes], owned=True)
        reason = reason or _control_reason(launch, launch.body, each)
        if reason := reason or _address_reason(each, replay):
            return reason
    return None


def _homes(launch: ir.Launch, tile: ir.Value) -> list[tuple[ir.Block, ir.Copy]]:
    """The blocks that load a tile, each with the load."""
    blocks = [launch.body, *(b for o in ir.walk(launch.body) for b in o.blocks())]
    return [(b, copy) for b in blocks for copy in loads_of(b) if copy.target is tile]


def loads_of(block: ir.Block) -> list[ir.Copy]:
    """The copies from global to shared memory that stand in a block itself."""
    return [
        o
        for o in block.ops
        if isinstance(o, ir.Copy)
        and base(o.source).buffer.space == "global"
        and base(o.target).buffer.space == "shared"
    ]


def loads_of_iteration(loop: ir.For) -> list[ir.Copy]:
    """The loads of a loop that an iteration does once at most: in its body and its branches."""
    found, blocks = [], [loop.body]
    while blocks:
        block = blocks.pop(0)
        found += loads_of(block)
        blocks += [b for o in block.ops if isinstance(o, ir.If) for b in o.blocks()]
    return found


def is_ring_load(op: ir.OpBase) -> bool:
    """Whether an op of a launch with roles is a load that the producer issues."""
    return (
        isinstance(op, ir.Copy)
        and isinstance(op.lowering, Tma)
        and base(op.target).buffer.space == "shared"
    )


def ring_reason(
    launch: ir.Launch,
    block: ir.Block,
    copy: ir.Copy,
    homes: Sequence[ir.Block] = (),
    *,
    owned: bool = False,
) -> Reason | None:
    """Why a loaded tile cannot be a slot of a ring; None where it can.

    The tile has to be filled as a whole by this copy, and used after it in the same block;
    elsewhere only blocks of `homes` may use it, which load it themselves.  Where a slot is `owned`
    by who waits for it, until it is freed, threads may also write it.
    """
    return tile_reason(launch, block, copy, copy.source, copy.target, homes, owned=owned)


def tile_reason(
    launch: ir.Launch,
    block: ir.Block,
    load: ir.OpBase,
    source: ir.Value,
    tile: ir.Value,
    homes: Sequence[ir.Block] = (),
    *,
    owned: bool = False,
) -> Reason | None:
    """Return `ring_reason` of an op of the block that loads the tile from a tensor."""
    if base(source) in written_globals(launch):
        return KernelWrites(buffer_name(source))
    if base(tile) is not tile:
        return PartOfTile()
    at = block.ops.index(load)
    for position, op in enumerate(block.ops):
        for touch in op.all_accesses():
            if base(touch.value) is not tile or op is load:
                continue
            if position < at:
                return TileUsedBefore()
            if touch.writes and not (owned and _is_of_threads(op)):
                return TileAlsoWritten()
    # One home inside another would count twice.
    if _uses(launch.body, tile) != sum(_uses(home, tile) for home in homes or [block]):
        return TileUsedElsewhere()
    return None


def _is_of_threads(op: ir.OpBase) -> bool:
    """Whether an op writes a tile by stores of threads, where it stands."""
    match op:
        case ir.Copy(source=source):
            return base(source).buffer.space == "fragment"
        case ir.Parallel() | ir.Fill():
            return not any(o.blocks() for b in op.blocks() for o in b.ops)
        case _:
            return False


def _control_reason(launch: ir.Launch, block: ir.Block, sought: ir.OpBase) -> Reason | None:
    """Why the producer could not run the loops and branches around a load, or around a loop with
    loads and that loop itself."""
    replay = _plain(launch)
    for op in block.ops:
        if not any(o is sought for o in op.with_inner_ops()):
            continue
        if isinstance(op, ir.Copy):
            return None
        match op:
            case ir.For(start=start, stop=stop, step=step):
                controls = [start, stop, step]
                if isinstance(stop.owner, ir.Select) and stop.owner.otherwise is start:
                    # Whether it runs at all may follow from variables: that is asked once.
                    controls = [start, stop.owner.then, step]
                    if not replay_of(launch).knows(stop.owner.condition):
                        return ControlComputed()
            case ir.If(condition=condition) if not op.results:
                controls = [condition]
            case _:
                return LoadInside(op.mnemonic)
        if not all(map(replay.knows, controls)):
            return ControlComputed()
        if any(isinstance(o, ir.Break | ir.Continue) for o in op.inner_ops()):
            return LeftEarly()
        if op is sought:
            return None
        for inner in op.blocks():
            if reason := _control_reason(launch, inner, sought):
                return reason
    return None


def _uses(block: ir.Block, tile: ir.Value) -> int:
    touched = (o for o in ir.walk(block) if o.SPEC.touches)
    return sum(base(t.value) is tile for o in touched for t in o.accesses())


def written_globals(launch: ir.Launch, *, aliased: bool = False) -> set[ir.Value]:
    """Global buffers that the launch writes; where they may be `aliased`, every one of them if it
    writes any."""
    held, written = _globals(launch)
    return {*held} if aliased and written else {*written}


# A pass asks for each load of a launch.
@lru_cache(maxsize=1)
def _globals(launch: ir.Launch) -> tuple[set[ir.Value], set[ir.Value]]:
    """Global buffers that the launch reads or writes, and those that it writes."""
    held, written = set[ir.Value](), set[ir.Value]()
    for touch in launch.all_accesses():
        buffer = base(touch.value)
        if buffer.buffer.space == "global":
            held.add(buffer)
            if touch.writes:
                written.add(buffer)
    return held, written


def is_replayed(op: ir.OpBase, written: set[ir.Value]) -> bool:
    """Whether an op gives the same value wherever it runs, from the same operands: arithmetic,
    the block's place in the grid, and a load from global memory that nobody writes."""
    if isinstance(op, ir.Load):
        held = base(op.buffer)
        return held.buffer.space == "global" and held not in written
    return is_pure(op) or isinstance(op, ir.GridPosition)


@dataclass(frozen=True, slots=True)
class Replay:
    """Values that a producer can compute by itself."""

    written: set[ir.Value]
    """Global buffers that the launch writes."""
    variables: set[ir.Value]
    """Variables of a thread of which the producer can keep its own."""

    def knows(self, value: ir.Value, depth: int = 64) -> bool:
        """Return whether another warp group can compute a scalar by itself."""
        owner = value.owner
        if owner is None or depth == 0:
            return depth > 0  # a block index, a loop variable, a parameter
        if isinstance(owner, ir.If):
            needed = [owner.condition, *_yielded(owner)]
        elif self.reads(owner) or is_replayed(owner, self.written):
            needed = list(owner.operand_values())
        else:
            return False
        plain = (v for v in needed if not isinstance(v.type, ir.BufferType))
        return all(self.knows(v, depth - 1) for v in plain)

    def reads(self, op: ir.OpBase) -> bool:
        """Return whether an op loads one of the variables."""
        return isinstance(op, ir.Load) and op.buffer in self.variables

    def stores(self, op: ir.OpBase) -> bool:
        """Return whether an op, or one inside of it, stores to one of the variables."""
        every = op.with_inner_ops()
        return any(isinstance(o, ir.Store) and o.buffer in self.variables for o in every)


def _plain(launch: ir.Launch) -> Replay:
    """Return what a producer computes without variables, from which loops have to follow."""
    return Replay(written_globals(launch), set())


def replay_of(launch: ir.Launch) -> Replay:
    """Return what a producer of this launch can compute."""
    allocs = [o for o in ir.walk(launch.body) if isinstance(o, ir.Alloc) and o.space == "local"]
    replay = Replay(written_globals(launch), {o.result for o in allocs})
    for op in ir.walk(launch.body):
        if not isinstance(op, ir.Load | ir.Store):
            # Of a view or a tile operation, nothing is known of the elements.
            used = (v for v in op.operand_values() if isinstance(v.type, ir.BufferType))
            replay.variables.difference_update(base(v) for v in used)
    while replay.variables:
        lost = {
            store.buffer
            for store, around in _stores(launch.body, ())
            if store.buffer in replay.variables and not _can_store(store, around, replay)
        }
        if not lost:
            break
        replay.variables.difference_update(lost)
    return replay


def _stores(
    block: ir.Block, around: tuple[ir.OpBase, ...]
) -> Iterator[tuple[ir.Store, tuple[ir.OpBase, ...]]]:
    """Every store to an element, with the ops around it."""
    for op in block.ops:
        if isinstance(op, ir.Store):
            yield op, around
        for inner in op.blocks():
            yield from _stores(inner, (*around, op))


def _can_store(store: ir.Store, around: Sequence[ir.OpBase], replay: Replay) -> bool:
    """Return whether the producer can run a store to a variable, and what stands around it."""
    needed = [store.value, *store.indices]
    for op in around:
        match op:
            case ir.For(start=start, stop=stop, step=step):
                needed += [start, stop, step]
                if any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(op.body)):
                    return False
            case ir.If(condition=condition):
                needed.append(condition)
            case _:
                return False
    return all(map(replay.knows, needed))


def _yielded(op: ir.If) -> list[ir.Value]:
    """The values of both branches."""
    ends = (o for b in op.blocks() for o in b.ops if isinstance(o, ir.Yield))
    return [v for end in ends for v in end.operand_values()]


def _address_reason(copy: ir.Copy, replay: Replay) -> Reason | None:
    owner = copy.source.owner
    if isinstance(owner, ir.View) and not all(map(replay.knows, owner.offsets)):
        return AddressComputed()
    return None
