"""Tiles that the blocks of a cluster load for each other.

The blocks of a cluster differ in one index of the grid.  A tile whose address does not follow from
it is the same in all of them: each block loads a slice of its rows, and the copy engine writes the
slice to all blocks at once.  L2 is read once where it was read by every block.

    launch [N/256, M/128] (bx, by)           launch … {cluster = 2, cluster_axis = 1}
      copy A[by·128, k·64] → A_s (tma)   ⇒     copy A[by·128, k·64] → A_s (tma)
      copy B[bx·256, k·64] → B_s (tma)         copy B[bx·256, k·64] → B_s (tma multicast=2)

Clusters are formed where they are asked for, and where blocks that all run at once would otherwise
read the same from L2 in place of multiplying (`share_loads`, called when it is known how many run).

A slot of such a ring is filled by the producers of all blocks, so the loops and branches around the
load have to go the same way in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from tileprof import ir
from tileprof.compiler.cuda.layouts.shared import LINES
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import CLUSTER_BYTES, CLUSTER_SHARE, CLUSTER_SIZES
from tileprof.compiler.passes.identities import folded
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks import Reason
from tileprof.remarks.common import AuthorLoops, BlocksNamed, TargetHasNone
from tileprof.remarks.launches import (
    AddressDepends,
    BlocksAlone,
    BlocksMultiple,
    Clustered,
    Clusters,
    ControlDepends,
    ExtentAtLaunch,
    LoadsOwn,
    Multicast,
    MulticastLoad,
    NoTileShared,
    NoTmaProducer,
    RowsDealt,
    RowsMultiple,
    TileNotShared,
)

from .pipeline.roles import is_ring_load


@dataclass(frozen=True, slots=True)
class Cluster:
    """Number of blocks of a cluster, and the axis of the grid along which they lie."""

    size: int = 1
    axis: int = 0


def cluster_of(launch: ir.Launch) -> Cluster:
    """The clusters of a launch; of one block where it has none."""
    return Cluster(launch.schedule.cluster, launch.schedule.cluster_axis)


def reports(launch: ir.Launch) -> bool:
    """Whether blocks print or assert something."""
    return any(o.SPEC.resource == "host" for o in ir.walk(launch.body))


def in_clusters(launch: ir.Launch) -> tuple[int, int]:
    """Return how many clusters lie along their axis, and the rows of clusters that run together (0
    where blocks are not grouped)."""
    cluster = cluster_of(launch)
    extent = launch.grid[cluster.axis].owner
    assert isinstance(extent, ir.Constant)
    group = launch.schedule.raster
    if group and cluster.axis == 1:
        group = max(group // cluster.size, 1)
    return int(extent.value) // cluster.size, group


def sharers(copy: ir.Copy) -> int:
    """The blocks that load a tile together."""
    return copy.lowering.multicast if isinstance(copy.lowering, Tma) else 1


def shared_slice(
    source: ir.Value, target: ir.Value, count: int, rank: ir.Value, builder: ir.Builder
) -> tuple[ir.Value, ir.Value]:
    """The rows of a tile that the block of this rank loads, in global memory and in its slot."""
    made = []
    for tile in (source, target):
        shape = tile.buffer.static_shape
        axis = _row_axis(shape)
        held = tile.owner if isinstance(tile.owner, ir.View) else None
        offsets = list(held.offsets) if held else [builder.constant(0)] * len(shape)
        rows = builder.constant(shape[axis] // count)
        start = builder.emit(ir.Binary("mul", rank, rows)).result
        offsets[axis] = folded(ir.Binary("add", offsets[axis], start), builder)
        sizes = (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])
        whole, inside = (held.base, held.in_bounds) if held else (tile, True)
        made.append(builder.emit(ir.View(whole, offsets, sizes, inside)).result)
    return made[0], made[1]


def _row_axis(shape: tuple[int, ...]) -> int:
    """The dimension of a tile's rows: the one before the last that is not 1."""
    return next(d for d in range(len(shape)) if shape[d] != 1)


def form_clusters(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Form clusters in launches that want and can use them, and mark the tiles that their blocks
    share."""
    return per_launch(kernel, lambda launch: _Clusters(launch, lowering).formed())


def share_loads(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Form clusters without a wish, where tensor cores wait for what L2 gives, and most of it is
    what neighbouring blocks load, too.

    All blocks have to run at once: others would wait until a whole cluster has room.  Rings of one
    slot would wait for the slowest block each time.
    """
    loops = [o for o in ir.walk(launch.body) if isinstance(o, ir.For) and o.kind == "pipelined"]
    if any(lowering.stages(loop) < 2 for loop in loops):
        return launch
    inside = [o for loop in loops for o in ir.walk(loop.body)]
    sums = sum(math.prod(o.mnk) for o in inside if isinstance(o, ir.Gemm))
    copies = [o for o in inside if isinstance(o, ir.Copy) and isinstance(o.lowering, Tma)]
    moved = sum(map(_bytes, copies))
    if not sums or moved < CLUSTER_BYTES * sums:
        return launch
    clusters = _Clusters(launch, lowering)
    ways = [Cluster(size, axis) for axis in range(len(launch.grid)) for size in CLUSTER_SIZES]
    for way in ways:
        if not clusters.reason(way) and clusters.shared_by(way) > CLUSTER_SHARE * moved:
            return clusters.made(way)
    return launch


class _Clusters:
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        self.launch = launch
        self.lowering = lowering
        self.loads = list(_loads(launch.body, ()))

    def formed(self) -> ir.Launch:
        """The launch in clusters, or as it was."""
        launch = self.launch
        wishes = self._wishes()
        if not wishes:
            return launch
        chosen = max(wishes, key=lambda c: (self.shared_by(c), c.axis))
        reason = self.reason(chosen)
        if reason:
            rejected = (Clusters(chosen.size), reason)
            self.lowering.remarks.add(
                "launch", "", launch.span, BlocksAlone(), rejected, severity="missed"
            )
            return launch
        return self.made(chosen)

    def made(self, chosen: Cluster) -> ir.Launch:
        """The launch in these clusters."""
        launch = self.launch
        self._note(chosen)
        shared = {c for c, _ in self.loads if not self._load_reason(c, chosen)}
        made = with_originals(launch, partial(_marked, shared, chosen.size))
        clusters = replace(made.schedule, cluster=chosen.size, cluster_axis=chosen.axis)
        return made.scheduled(clusters)

    def _wishes(self) -> list[Cluster]:
        """The clusters that are asked for: of one size along any axis, or along one."""
        asked = self.lowering.controls.cluster
        if asked is not None:
            axes = [a for a in range(len(self.launch.grid)) if not self._extent_reason(a, asked)]
            found = [Cluster(asked, a) for a in axes or range(len(self.launch.grid))]
        else:
            wish = str(dict(self.launch.hints).get("cluster_dims", ""))
            found = [Cluster(int(size), axis) for axis, size in enumerate(wish.split())]
        return [c for c in found if c.size > 1]

    def shared_by(self, cluster: Cluster) -> int:
        """Bytes of the tiles that such clusters share."""
        return sum(_bytes(c) for c, _ in self.loads if not self._load_reason(c, cluster))

    # -- why not

    def reason(self, cluster: Cluster) -> Reason | None:
        """Why no clusters are formed."""
        if not self.lowering.target.has_tma:
            return TargetHasNone(self.lowering.target.name)
        if not self.launch.schedule.warp_roles:
            return NoTmaProducer()
        if any(isinstance(o, ir.GridPosition) for o in ir.walk(self.launch.body)) or any(
            isinstance(o, ir.For) and o.kind == "persistent" for o in ir.walk(self.launch.body)
        ):
            return AuthorLoops()
        if reports(self.launch):
            return BlocksNamed()
        if reason := self._extent_reason(cluster.axis, cluster.size):
            return reason
        if not self.shared_by(cluster):
            reasons = {
                buffer_name(copy.source): self._load_reason(copy, cluster) for copy, _ in self.loads
            }
            return NoTileShared(tuple(TileNotShared(b, r) for b, r in reasons.items() if r))
        return None

    def _extent_reason(self, axis: int, size: int) -> Reason | None:
        extent = self.launch.grid[axis].owner
        name = self.launch.body.args[axis].name
        if not isinstance(extent, ir.Constant):
            return ExtentAtLaunch(name)
        if int(extent.value) % size:
            return BlocksMultiple(int(extent.value), name, size)
        return None

    def _load_reason(self, copy: ir.Copy, cluster: Cluster) -> Reason | None:
        """Why the blocks of a cluster cannot load a tile together."""
        name = self._index(cluster)
        varying = _varying(self.launch, cluster.axis)
        if copy.source in varying:
            return AddressDepends(name)
        around = next(path for c, path in self.loads if c is copy)
        if any(not varying.isdisjoint(op.operand_values()) for op in around):
            return ControlDepends(name)
        if isinstance(copy.lowering, Tma) and copy.lowering.dealt:
            return RowsDealt()
        rows = _rows(copy)
        if rows % (LINES * cluster.size):
            return RowsMultiple(rows, LINES * cluster.size)
        return None

    def _index(self, cluster: Cluster) -> str:
        return self.launch.body.args[cluster.axis].name

    def _note(self, cluster: Cluster) -> None:
        add = self.lowering.remarks.add
        size = cluster.size
        add("launch", "", self.launch.span, Clustered(size, self._index(cluster)))
        for copy, _ in self.loads:
            name = f"{buffer_name(copy.source)} → {buffer_name(copy.target)}"
            reason = self._load_reason(copy, cluster)
            if reason:
                add("copy", name, copy.span, LoadsOwn(), (Multicast(), reason))
            else:
                rows = _rows(copy)
                add("copy", name, copy.span, MulticastLoad(size, rows // size, rows))


def _loads(
    block: ir.Block, around: tuple[ir.OpBase, ...]
) -> Iterator[tuple[ir.Copy, tuple[ir.OpBase, ...]]]:
    """Every load that goes through a ring, with the ops around it."""
    for op in block.ops:
        if isinstance(op, ir.Copy) and is_ring_load(op):
            yield op, around
        for inner in op.blocks():
            yield from _loads(inner, (*around, op))


def _varying(launch: ir.Launch, axis: int) -> set[ir.Value]:
    """Return what differs between blocks that differ in one index."""
    found = {launch.body.args[axis]}
    known = 0
    while known < len(found):
        # Once more: a variable may be stored to further down in a loop.
        known = len(found)
        for op in ir.walk(launch.body):
            # Where a loop ends says nothing about the values of its variable.
            decisive = (op.start, op.step) if isinstance(op, ir.For) else op.operand_values()
            if not found.isdisjoint(decisive):
                found.update(op.results, *(b.args for b in op.blocks()))
            if not found.isdisjoint(op.operand_values()):
                inside = op.with_inner_ops()
                found.update(base(o.buffer) for o in inside if isinstance(o, ir.Store))
    return found


def _rows(copy: ir.Copy) -> int:
    shape = [d for d in copy.source.buffer.static_shape if d != 1]
    return shape[0] if len(shape) > 1 else 1


def _bytes(copy: ir.Copy) -> int:
    return copy.source.dtype.bytes * math.prod(copy.source.buffer.static_shape)


def _marked(
    shared: set[ir.Copy], size: int, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder
) -> list[ir.Value] | None:
    if before not in shared or not isinstance(op, ir.Copy):
        return None
    builder.emit(replace(op, lowering=Tma(multicast=size)))
    return []
