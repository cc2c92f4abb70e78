"""Remarks about copies of tiles, and about the warp group that issues loads."""

from __future__ import annotations

from typing import Literal

from .statement import Bytes, Candidate, Decision, Reason

Instruction = Literal["TMA", "cp.async"]

# -- decisions


class TmaLoad(Decision):
    text = "tma, issued by the producer warp group[[, `{policy}`, as asked]]"
    policy: str = ""


class CpAsync(Decision, text="cp.async, {width} bytes per thread"):
    width: Bytes


class LoadsAndStores(Decision, text="loads and stores"): ...


class TmaStore(Decision, text="tma[[, `{policy}`, as asked]]"):
    policy: str = ""


class StagedTma(Decision, text="through shared memory and tma[[, `{policy}`, as asked]]"):
    policy: str = ""


class HasIt(Decision, text="left out: the tile has it already"): ...


class PassedThrough(Decision):
    text = "left out: it is only copied on, and threads load and convert what they hold of it"


class StoresFromRegisters(Decision, text="stores from registers"): ...


class ElementAtomics(Decision, text="atomics of elements"): ...


class TmaAdds(Decision, text="through shared memory and tma, which adds"): ...


class TmaAddsTile(Decision, text="tma, which adds"): ...


# -- candidates


class Tma(Candidate, text="tma"): ...


class CpAsyncCandidate(Candidate, text="cp.async"): ...


class StagedTmaCandidate(Candidate, text="tma through shared memory"): ...


class CachePolicy(Candidate, text="`{policy}`"):
    policy: str


# -- reasons that the author gave


class AskedReason(Reason):
    """A wish of the author as a reason."""


class AsyncOff(AskedReason, text="asynchronous copies are turned off, as asked"): ...


class Synchronous(AskedReason, text="it is synchronous, as asked"): ...


class TmaOff(AskedReason, text="it is turned off, as asked"): ...


class DisableTma(AskedReason, text="`disable_tma`, as asked"): ...


class PreferInstruction(AskedReason, text='`prefer_instruction="{instruction}"`, as asked'):
    instruction: str


# -- reasons of a tensor and its tile


class OtherShape(Reason, text="the tensor is seen under another shape than its own"): ...


class Converts(Reason, text="it converts {source} and {target}"):
    source: str
    target: str


class OutsideReads(Reason, text="elements outside read as {value}, the hardware gives 0"):
    value: str


class UnalignedAddress(Reason, text="the address of `{tensor}` is no multiple of 16 bytes"):
    tensor: str


class TooManyDimensions(Reason):
    text = "the tensor has {dimensions} dimensions, TMA has up to {most}"
    dimensions: int
    most: int


class InnermostStride(Reason, text="the innermost stride is {stride}, {instruction} needs 1"):
    stride: str
    instruction: Instruction


class StrideAtLaunch(Reason):
    text = "a stride follows from `{extent}`, which is known at launch only"
    extent: str


class RowStride(Reason):
    text = "row stride {stride} B is not a multiple of {multiple} B, {instruction} needs it"
    stride: Bytes
    multiple: Bytes
    instruction: Instruction


class TileStart(Reason):
    text = (
        "tiles begin at multiples of {start} B of a row, as far as is known; {instruction} needs"
        " {multiple} B"
    )
    start: Bytes
    multiple: Bytes
    instruction: Instruction


class RowsAcross(Reason, text="the rows of the tile do not run along the innermost dimension"): ...


class TileDimensions(Reason):
    text = "the tile has {dimensions} dimensions; {instruction} is used for up to two"
    dimensions: int
    instruction: Instruction


class TileRow(Reason, text="a row of the tile has {size} B, TMA needs a multiple of 16"):
    size: Bytes


class TilePanels(Reason, text="a row of the tile has {size} B, and panels have {panel}"):
    size: Bytes
    panel: int = 128


class SmallBoxes(Reason):
    text = "{boxes} boxes of {size} B each take longer than stores of all threads"
    boxes: int
    size: Bytes


class OneRow(Reason, text="one row of {size} B takes an instruction for each panel of 128"):
    size: Bytes


class BoxRows(Reason, text="the tile has {rows} rows, a box has up to {most}"):
    rows: int
    most: int


class BoxColumns(
    Reason,
    text="rows of {columns} elements that no swizzle cuts into panels, a box has up to {most}",
):
    columns: int
    most: int


class RowsUnaligned(Reason, text="rows or offsets are not multiples of 4 B, cp.async needs it"): ...


# -- reasons of the program around


class NothingOverlaps(Reason):
    text = "nothing overlaps with it outside of a pipelined loop of two stages or more"


class ProducerElsewhere(Reason):
    text = "a producer warp group loads other tiles of the launch"


class AlsoRead(Reason, text="the kernel also reads `{tensor}`"):
    tensor: str


class AlsoWritten(Reason):
    text = "`{tensor}` is also written by other ops, in an order that counts"
    tensor: str


class StoredAgain(
    Reason, text="the loop stores at the same place again, in an order that counts"
): ...


class AlsoUsed(Reason, text="`{tensor}` is also used by other ops"):
    tensor: str


class KernelWrites(Reason, text="the kernel also writes `{tensor}`"):
    tensor: str


class NoAtomic(Reason, text="it has no {kind} of {dtype}"):
    kind: str
    dtype: str


class OnlyTmaAsks(Reason, text="only copies by tma ask L2 for it"): ...


class NoProducerGroup(Reason, text="no producer warp group: {why}"):
    why: Reason


class SpecialisationOff(Reason, text="warp specialisation is turned off"): ...


class NoRoomForProducer(Reason):
    text = "it would have no room beside {threads} threads in a block of {most}"
    threads: int
    most: int


class NoPipelinedLoop(Reason, text="there is no pipelined loop of two stages or more"): ...


class NoStage(Reason, text="there is no pipelined loop of one stage or more"): ...


class NoWgmmaInLoop(Reason, text="the loop has no wgmma to overlap with"): ...


class OwnLoads(Reason):
    text = "threads wait for loads of their own in every iteration; {blocks} blocks may share an SM"
    blocks: int


class GatheredOperand(Reason):
    text = "threads gather {operand} for its product, which runs ahead by cp.async as all loads do"
    operand: str


class NoTileLoaded(Reason, text="the loop loads no tile"): ...


class LoadInside(Reason, text="a load stands in a `{op}`"):
    op: str


class TileUsedBefore(Reason, text="the tile is used before it is loaded"): ...


class TileAlsoWritten(Reason, text="the tile is also written by other ops"): ...


class TileUsedElsewhere(Reason, text="the tile is also used elsewhere"): ...
