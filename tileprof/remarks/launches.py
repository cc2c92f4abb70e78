"""Remarks about launches: order and number of blocks, clusters, persistence, occupancy."""

from __future__ import annotations

from typing import Literal

from .statement import Bytes, Candidate, Decision, Reason, Registers, Statement

# -- the order of blocks, and blocks that stay


class GridOrder(Decision, text="blocks in the order of the grid"): ...


class GroupedRows(Decision, text="blocks in groups of {rows} rows: {why}"):
    rows: int
    why: Reason


class BlockPerTile(Decision, text="a block for each tile"): ...


class Persistent(Decision):
    text = (
        "persistent[[, {blocks} blocks a processor]]: "
        "loads of the next tile overlap the end of this one"
    )
    blocks: int = 0
    """Blocks that stay on a multiprocessor, at most; 0: one."""


class TwoSlots(Decision, text="two slots for loads of {most:KB} at most that no loop repeats"):
    most: Bytes


class SecondStage(Decision, text="two stages: shared memory has room for them"): ...


class DeepRing(
    Decision, text="{stages} stages: loads last longer than the products of those asked for"
):
    stages: int


class SecondSlots(Decision):
    text = "two slots for tiles of {most:KB} at most: shared memory has room for them"
    most: Bytes


class TilesInTurn(Decision, text="each block takes the next tile when it is free: {why}"):
    why: Reason


class TilesDealt(Decision, text="tiles assigned to blocks in advance"): ...


class EarlierWait(Decision):
    text = (
        "{after:KB} of shared memory in place of {before:KB}, {blocks} blocks a multiprocessor: "
        "the tile that TMA stores is waited for before the next loop"
    )
    before: Bytes
    after: Bytes
    blocks: int


class WiderBlock(Decision):
    text = "{threads} threads in a block, {asked} are asked for: they hold sums of {tile}"
    threads: int
    asked: int
    tile: str


class EvenWarps(Decision):
    text = (
        "{threads} threads in a block, {asked} are asked for: tiles do not divide among {odd} "
        "warps, which would hold copies"
    )
    threads: int
    asked: int
    odd: int


class RowGroups(Candidate, text="groups of rows"): ...


class PersistentCandidate(Candidate, text="persistent"): ...


class DynamicTiles(Candidate, text="dynamic"): ...


class SharedInL2(Reason, text="operands are shared in L2"): ...


class NoLoadsAhead(Reason, text="no producer warp group could load ahead"): ...


class FewTiles(Reason):
    text = "{tiles} tiles are not more than [[{blocks} blocks on each of ]]{processors} processors"
    tiles: int
    processors: int
    blocks: int = 0
    """Blocks that a multiprocessor holds; 0: one."""


class MemoryForStaged(Reason):
    text = "rings and stored {stored} need {needed:,} bytes, {there:,} are there"
    stored: str
    """`tile`, or `chunks` of one."""
    needed: Bytes
    there: Bytes


class ClusterTakes(Reason, text="the blocks of a cluster take their tiles together"): ...


class AllAlike(Reason, text="all tiles run the same"): ...


class UnevenWork(Reason, text="[[{what} ]][[`{loop}` ]]depends on {names:,}"):
    what: str
    loop: str
    names: tuple[str, ...]


# -- clusters


class BlocksAlone(Decision, text="blocks on their own"): ...


class Clustered(Decision, text="clusters of {size} blocks along `{axis}`"):
    size: int
    axis: str


class LoadsOwn(Decision, text="each block loads its own"): ...


class MulticastLoad(Decision):
    text = "multicast: each of {blocks} blocks loads {each} of {rows} rows"
    blocks: int
    each: int
    rows: int


class Clusters(Candidate, text="clusters of {size}"):
    size: int


class Multicast(Candidate, text="multicast"): ...


class NoTmaProducer(Reason, text="no producer warp group loads tiles by tma"): ...


class ExtentAtLaunch(Reason, text="the extent of `{axis}` is known at launch only"):
    axis: str


class BlocksMultiple(Reason, text="the {blocks} blocks of `{axis}` are no multiple of {size}"):
    blocks: int
    axis: str
    size: int


class TileNotShared(Reason, text="`{tensor}`: {why}"):
    tensor: str
    why: Reason


class NoTileShared(Reason, text="no tile is shared. {tiles:;}"):
    tiles: tuple[TileNotShared, ...]


class AddressDepends(Reason, text="its address depends on `{axis}`"):
    axis: str


class ControlDepends(Reason, text="a loop or branch around it depends on `{axis}`"):
    axis: str


class RowsDealt(
    Reason, text="its rows are dealt into two halves, of which slices would be parts"
): ...


class RowsMultiple(Reason, text="it has {rows} rows, slices need a multiple of {multiple}"):
    rows: int
    multiple: int


# -- roles, launches one after the other, counts of states


class ProducerLoads(Decision):
    text = "a producer {producer} loads for {groups:consumer warp group}"
    groups: int
    producer: Literal["warp", "warp group"] = "warp group"


class WarpGroups(Decision, text="{groups:warp group} share each product"):
    groups: int


class AuthorsThreads(Candidate, text="{threads} threads"):
    threads: int


class SumsNeed(Reason, text="sums of products alone need {registers} registers a thread"):
    registers: Registers


class PairedBlocks(Decision):
    text = "{blocks} blocks on a multiprocessor: a thread that computes has {registers} registers"
    blocks: int
    registers: Registers


class StartsEarly(
    Decision, text="starts while the previous launch runs, and waits for its end"
): ...


class StartsLate(Decision, text="starts when it may read"): ...


class EarlyStart(Candidate, text="before the previous launch ends"): ...


class TargetCannot(Reason, text="{target} cannot"):
    target: str


class NotSampled(Decision, text="not sampled"): ...


class StateCounts(Candidate, text="counts of states"): ...


class SharedMissing(Reason):
    text = "they take {needed:,} bytes of shared memory, and {left:,} are left"
    needed: Bytes
    left: Bytes


# -- occupancy


class Limit(Statement):
    """A resource that leaves no room for another block."""


class RegisterLimit(Limit, text="registers ({registers} a thread)"):
    registers: Registers


class SharedLimit(Limit, text="shared memory ({size:kB} each)"):
    size: Bytes


class BarrierLimit(Limit, text="named barriers ({barriers} each)"):
    barriers: int


class OtherLimit(Limit, text="{name}"):
    name: str


class Occupancy(Decision):
    text = (
        "{blocks:block} of {threads} threads per SM, limited by {limits:&}"
        "[[; a persistent launch of {persistent} per SM]]"
    )
    blocks: int
    threads: int
    limits: tuple[Limit, ...]
    persistent: int = 0


class BlocksCandidate(Candidate, text="{blocks} blocks"):
    blocks: int


class Need(Statement):
    """The most that a block may take so that one more fits."""


class RegistersAtMost(Need, text="at most {registers} registers a thread"):
    registers: Registers


class SharedAtMost(Need, text="at most {size:KB} of shared memory each"):
    size: Bytes


class FewerBarriers(Need, text="fewer named barriers"): ...


class BlocksNeed(Reason, text="they need {needs:&}"):
    needs: tuple[Need, ...]
