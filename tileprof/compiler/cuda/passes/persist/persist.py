"""The order in which blocks walk the grid, and blocks that stay for many tiles.

Products of matrices walk groups of rows, so that the blocks that run together share operands in L2.
Where warp roles load ahead and the grid has more tiles than the GPU has multiprocessors, one block
stays on each and loops over tiles: the producer loads the next tile while the consumers still store
this one, and barriers and tensor maps are set up once.  Blocks of one consumer warp group stay in
such a number as fits: nothing else runs while a block's only group waits for its products.

    launch [N/256, M/128] (bx, by)        launch … {persistent = 1}
      C_local = …                  ⇒        for persistent tile = block, block + blocks, …
      copy C_local → C                        bx, by = …
                                              C_local = …
                                              copy C_local → C, 64 columns at a time

Where the iterations of a loop depend on the tile, a block that has loaded its tile takes the next
one that no other has taken (`dynamic` in the loop's schedule): tiles then start in the order of the
grid, and all blocks end at about the same time.

What a tile loads once and is small has two slots where they fit: the producer then need not wait
until consumers have read the last before it goes on to the loop inside (`slots` in the
loop's schedule).  So has what a loop of one stage loads, where not all of it has.

What a loop fills twice an iteration is filled once where it is the same, and has a second tile
where TMA may still store what it had (`second_tiles`).

The tile that is stored waits in shared memory beside the rings, so it goes through two buffers of
128 or 64 bytes a row alternately where the whole does not fit.  Tiles of one shape share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from tileprof import ir
from tileprof.compiler.cuda.layouts.shared import slot_bytes, tile_bytes
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.multicast import cluster_of, reports, share_loads
from tileprof.compiler.cuda.passes.pipeline.late_slots import stages_to_hide_loads
from tileprof.compiler.cuda.passes.pipeline.roles import is_ring_load, loads_of_iteration
from tileprof.compiler.cuda.resources import shared_for
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import RASTER_ROWS, RING_BARRIER_BYTES, SMALL_TILE, STORED_CHUNKS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.ir.schedule import LoopSchedule
from tileprof.remarks import Candidate, Decision, Reason
from tileprof.remarks.common import AsAsked, AuthorLoops, BlocksNamed, TurnedOff
from tileprof.remarks.copies import HasIt
from tileprof.remarks.launches import (
    AllAlike,
    BlockPerTile,
    ClusterTakes,
    DeepRing,
    DynamicTiles,
    FewTiles,
    GridOrder,
    GroupedRows,
    MemoryForStaged,
    NoLoadsAhead,
    Persistent,
    PersistentCandidate,
    RowGroups,
    SecondSlots,
    SecondStage,
    SharedInL2,
    TilesDealt,
    TilesInTurn,
    TwoSlots,
)
from tileprof.remarks.layouts import SecondTile

from .residence import blocks_by_registers
from .second_tiles import refilled_tiles, repeated_fills, with_second_tiles, without
from .stored_chunks import bytes_in_chunks, in_chunks, may_be_chunked, stores_of
from .tile_order import indices_of
from .tile_work import uneven_work

_Change: TypeAlias = Callable[[ir.For], ir.For]


def persist(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Put blocks in an order that shares L2, and let them loop over tiles where that pays."""

    def change(launch: ir.Launch) -> ir.Launch:
        launch = _with_second_stage(_ordered(launch, lowering), lowering)
        launch = _filled_once(launch, lowering)
        launch = _with_deep_rings(launch, lowering)
        return _clustered(_Persistent(launch, lowering).done(), lowering)

    return per_launch(kernel, change)


def _clustered(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Let neighbours load for each other, without a wish, where all blocks run at once and several
    of one warp group on a multiprocessor: these then do not wait for each other's products."""
    asked = lowering.controls.cluster is not None or dict(launch.hints).get("cluster_dims")
    if asked or launch.schedule.persistent or launch.block_threads != WARP_GROUP:
        return launch
    blocks, tiles = _Persistent(launch, lowering).resident()
    sms = lowering.target.sms
    if not launch.schedule.warp_roles or tiles is None or not sms < tiles <= blocks * sms:
        return launch
    return share_loads(launch, lowering)


def _ordered(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Decide its `raster`: the author's wish, or groups of rows for products of matrices, whose
    operands are shared by the blocks of a row and of a column."""
    asked = int(dict(launch.hints).get("swizzle", 0)) or None
    products = any(isinstance(o, ir.Gemm) for o in ir.walk(launch.body))
    if not lowering.controls.rasterize or len(launch.grid) < 2 or (asked is None and not products):
        return launch
    if reports(launch):
        lowering.remarks.add("launch", "", launch.span, GridOrder(), (RowGroups(), BlocksNamed()))
        return launch
    group = asked or RASTER_ROWS
    why = AsAsked() if asked else SharedInL2()
    lowering.remarks.add("launch", "", launch.span, GroupedRows(group, why))
    return launch.scheduled(replace(launch.schedule, raster=group))


def _filled_once(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Leave out copies of what a tile has, and give what a loop fills while TMA may still store it
    a second tile where as many blocks stay on a multiprocessor."""
    tell = lowering.remarks.add
    if repeated := repeated_fills(launch):
        for op in repeated:
            name = f"{buffer_name(op.source)} → {buffer_name(op.target)}"
            tell("copy", name, op.span, HasIt())
        launch = without(launch, repeated)
    found = refilled_tiles(launch)
    if not found or not launch.schedule.warp_roles:
        return launch
    made = with_second_tiles(launch, found)
    if not _fits_as_well(made, launch, lowering):
        return launch
    for each in found:
        tell("buffer", buffer_name(each.tile.result), each.tile.span, SecondTile())
    return made


def _with_second_stage(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Give loops of one stage another one where as many blocks stay on a multiprocessor: loads then
    need not wait until consumers have read the tile before.  Where there is room for small tiles
    only, these have a second slot."""
    every = (o for o in ir.walk(launch.body) if isinstance(o, ir.For))
    loops = [o for o in every if _has_one_stage(o)]
    if not loops or not launch.schedule.warp_roles or lowering.controls.stages is not None:
        return launch
    found = [x for o in loops for x in loads_of_iteration(o) if _is_small(x)]
    ways: list[tuple[_Change, Decision]] = [(partial(replace, num_stages=2), SecondStage())]
    if found:
        ways.append((_with_two_slots, SecondSlots(SMALL_TILE)))
    for change, decision in ways:
        if made := _with_changed(launch, dict.fromkeys(loops, change), lowering):
            for loop in loops:
                lowering.remarks.add("loop", loop.body.args[0].name, loop.span, decision)
            return made
    return launch


def _with_two_slots(loop: ir.For) -> ir.For:
    return replace(loop, schedule=replace(loop.schedule, slots=2))


def _is_small(load: ir.Copy) -> bool:
    """Whether a load is of a tile that a second slot costs little for."""
    return is_ring_load(load) and tile_bytes(load.target) <= SMALL_TILE


def _with_deep_rings(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Give loops whose products are over before a load is as many stages as hide it, or fewer where
    more do not fit.

    The slot of the product that still runs is freed late and is not being filled, so of two slots
    one load at a time is under way.  Several consumer warp groups take all registers, and what they
    leave of shared memory no other block could have.
    """
    several = launch.block_threads > WARP_GROUP
    if not several or not launch.schedule.warp_roles or lowering.controls.stages is not None:
        return launch
    if not lowering.controls.delayed_release:
        return launch
    for (asked, _), loops in _by_tiles(launch).items():
        if asked < 2:
            continue
        for stages in range(max(map(stages_to_hide_loads, loops)), asked, -1):
            changes = dict.fromkeys(loops, partial(replace, num_stages=stages))
            if made := _with_changed(launch, changes, lowering):
                for loop in loops:
                    name = loop.body.args[0].name
                    lowering.remarks.add("loop", name, loop.span, DeepRing(stages))
                # Loops of the new launch are other ones: the next call finds what is left.
                return _with_deep_rings(made, lowering)
    return launch


def _by_tiles(launch: ir.Launch) -> dict[tuple[int, frozenset[ir.Value]], list[ir.For]]:
    """Return the pipelined loops of a launch by their stages and the tiles that they load: those of
    the same ones share rings."""
    found: dict[tuple[int, frozenset[ir.Value]], list[ir.For]] = {}
    for op in ir.walk(launch.body):
        if isinstance(op, ir.For) and op.kind == "pipelined":
            loads = filter(is_ring_load, loads_of_iteration(op))
            tiles = frozenset(base(load.target) for load in loads)
            found.setdefault((op.num_stages, tiles), []).append(op)
    return found


def _with_changed(
    launch: ir.Launch, changes: Mapping[ir.For, _Change], lowering: Lowering
) -> ir.Launch | None:
    """Return the launch with some loops changed; None where fewer blocks would stay on a
    multiprocessor, or less of a stored tile would fit."""

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.For) or not isinstance(new, ir.For) or op not in changes:
            return None
        builder.emit(changes[op](new))
        return []

    made = with_originals(launch, rule)
    return made if _fits_as_well(made, launch, lowering) else None


def _fits_as_well(made: ir.Launch, launch: ir.Launch, lowering: Lowering) -> bool:
    """Whether as many blocks of the changed launch fit on a multiprocessor, with as much of a
    stored tile."""
    (blocks, memory), (most, wide) = (_Persistent(x, lowering).fitting() for x in (made, launch))
    if not (isinstance(memory, _Memory) and isinstance(wide, _Memory)):
        return False
    return (blocks, memory.chunk) == (most, wide.chunk)


def _has_one_stage(loop: ir.For) -> bool:
    """Whether a loop asks for one stage and has loads that a producer issues."""
    if loop.kind != "pipelined" or loop.num_stages != 1:
        return False
    return any(map(is_ring_load, loads_of_iteration(loop)))


@dataclass(frozen=True, slots=True)
class _Memory:
    """Division of a persistent block's memory among its tiles."""

    chunk: int
    """Bytes of a row of what is stored at once; 0: all of it."""
    two_slots: bool
    """Whether small tiles have two slots."""


class _Persistent:
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        self.launch = launch
        self.lowering = lowering
        self.stores = stores_of(launch)

    def done(self) -> ir.Launch:
        """The launch, persistent where that pays."""
        blocks, memory = self.fitting()
        plan = self._reason(blocks) or memory
        if not isinstance(plan, _Memory):
            if self.launch.schedule.warp_roles:
                self._tell(BlockPerTile(), (PersistentCandidate(), plan))
            return self.launch
        self._tell(Persistent(blocks if blocks > 1 else 0))
        if plan.two_slots:
            self._tell(TwoSlots(SMALL_TILE))
        return self._looped(plan, blocks, dynamic=self._is_dynamic())

    def _tell(self, decision: Decision, *rejected: tuple[Candidate, Reason]) -> None:
        self.lowering.remarks.add("launch", "", self.launch.span, decision, *rejected)

    # -- does it pay, does it fit

    def fitting(self) -> tuple[int, _Memory | Reason]:
        """Return how many blocks fit on a multiprocessor, and how the tiles of one share its
        memory."""
        most = blocks_by_registers(self.launch, self.lowering.target)
        total = self._tiles()
        if total is not None:
            most = min(most, -(-total // self.lowering.target.sms))
        for blocks in range(most, 1, -1):
            if isinstance(memory := self._memory(blocks), _Memory):
                return blocks, memory
        return 1, self._memory(1)

    def resident(self) -> tuple[int, int | None]:
        """Return how many blocks fit on a multiprocessor, and how many there are, where this is
        known before the launch."""
        return self.fitting()[0], self._tiles()

    def _reason(self, blocks: int) -> Reason | None:
        asked = self.lowering.controls.persistent
        if asked is False:
            return TurnedOff()
        if reports(self.launch):
            return BlocksNamed()
        if not self.launch.schedule.warp_roles:
            return NoLoadsAhead()
        total = self._tiles()
        if total is not None and total <= blocks * self.lowering.target.sms and not asked:
            return FewTiles(total, self.lowering.target.sms, blocks if blocks > 1 else 0)
        if any(isinstance(o, ir.For) and o.kind == "persistent" for o in self.launch.body.ops):
            return AuthorLoops()
        return None

    def _tiles(self) -> int | None:
        """The tiles of the grid; None where they are known at launch only."""
        numbers = [value.owner for value in self.launch.grid]
        found = [int(each.value) for each in numbers if isinstance(each, ir.Constant)]
        return math.prod(found) if len(found) == len(numbers) else None

    def _memory(self, blocks: int) -> _Memory | Reason:
        """The largest parts of stored tiles that fit beside the rings in each of so many blocks of
        a multiprocessor, or why none does."""
        limit = shared_for(blocks, self.lowering.target) - RING_BARRIER_BYTES
        held, once = self._held(), self._small()
        reason: Reason | None = None
        for chunk, staged in self._staged():
            free = limit - held - staged
            if free >= 0:
                return _Memory(chunk, two_slots=0 < once <= free)
            reason = MemoryForStaged("chunks" if chunk else "tile", held + staged, limit)
        assert reason is not None
        return reason

    def _staged(self) -> Iterator[tuple[int, int]]:
        """Yield the parts in which all stores can be staged, as for `_Memory`, and their bytes."""
        yield 0, sum(s.bytes for s in self.stores)
        for chunk in STORED_CHUNKS if self.stores else ():
            if not all(may_be_chunked(s, chunk) for s in self.stores):
                return
            yield chunk, bytes_in_chunks(self.stores, chunk)

    def _held(self) -> int:
        """Bytes of all other shared buffers, rings with all their slots."""
        staged = {s.staged for s in self.stores}
        stages: dict[ir.Value, int] = {}
        for op in ir.walk(self.launch.body):
            if isinstance(op, ir.For) and op.kind == "pipelined":
                count = self.lowering.stages(op)
                for load in filter(is_ring_load, loads_of_iteration(op)):
                    slots = op.schedule.slots if _is_small(load) else 1
                    stages[base(load.target)] = max(count, slots, 1)
        return sum(
            slot_bytes(o.result) * stages[o.result] if o.result in stages else tile_bytes(o.result)
            for o in ir.walk(self.launch.body)
            if isinstance(o, ir.Alloc) and o.space == "shared" and o not in staged
        )

    def _small(self) -> int:
        """Bytes that second slots of the small tiles take that are loaded outside of all loops."""
        loads = [o for o in self.launch.body.ops if is_ring_load(o) and isinstance(o, ir.Copy)]
        tiles = (o.target for o in loads if tile_bytes(o.target) <= SMALL_TILE)
        return sum(2 * slot_bytes(tile) - tile_bytes(tile) for tile in tiles)

    # -- the order

    def _is_dynamic(self) -> bool:
        """Whether blocks take the next tile when they are free; a remark says why."""
        asked, uneven = self.lowering.controls.tile_order, uneven_work(self.launch)
        reason: Reason | None = None
        if asked == "static":
            reason = TurnedOff()
        elif cluster_of(self.launch).size > 1:
            reason = ClusterTakes()
        elif not asked and uneven is None:
            reason = AllAlike()
        if reason is None:
            self._tell(TilesInTurn(uneven or AsAsked()))
        elif asked or uneven:
            self._tell(TilesDealt(), (DynamicTiles(), reason))
        return reason is None

    # -- the loop

    def _looped(self, plan: _Memory, blocks_each: int, *, dynamic: bool) -> ir.Launch:
        launch = self.launch
        if plan.chunk:
            launch = in_chunks(launch, self.stores, plan.chunk)
        args = [ir.Value(a.type, a.name) for a in launch.body.args]
        body = ir.Block(args)
        builder = ir.Builder(body, launch.span)
        block = builder.emit(ir.GridPosition("block")).result
        blocks = builder.emit(ir.GridPosition("blocks")).result
        rank = builder.emit(ir.GridPosition("rank")).result if cluster_of(launch).size > 1 else None
        total = launch.grid[0]
        for extent in launch.grid[1:]:
            total = builder.emit(ir.Binary("mul", total, extent)).result
        tile = ir.Value(ir.index, "tile")
        inner = ir.Block([tile])
        with builder.inside(inner):
            indices = indices_of(self.launch, tile, rank, builder)
            mapping = dict(zip(launch.body.args, indices))
            inner.ops += ir.clone_block(ir.Block([], list(launch.body.ops)), mapping).ops
        tiles = LoopSchedule(dynamic=dynamic, slots=2 if plan.two_slots else 1)
        loop = ir.For("persistent", block, total, blocks, inner, schedule=tiles, span=launch.span)
        builder.emit(loop)
        return launch.scheduled(replace(launch.schedule, raster=0, persistent=blocks_each), body)
