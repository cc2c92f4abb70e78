"""Remarks about layouts, accesses in them, sums across threads, and bounds."""

from __future__ import annotations

from typing import Literal

from .statement import Bytes, Candidate, Decision, Line, Reason

Through = Literal["registers of each thread", "shuffles", "shared memory"]

# -- fragments


class InSharedMemory(Decision, text="in shared memory"): ...


class LoadedEarly(Decision, text="moved before the product that precedes it"): ...


class LoadedAhead(Decision, text="an iteration ahead of its use"): ...


class LoadedAsTile(
    Decision, text="as a tile of {elements}, by the producer, up to {ahead} iterations ahead"
):
    elements: int
    ahead: int
    """Iterations."""


class BeginsBefore(Decision, text="for the first iterations before the load[[ of line {line}]]"):
    line: Line
    """Line of a load that these overtake."""


class SecondTile(Decision, text="two tiles: one is filled while TMA stores the other"): ...


class EachItsOwn(Decision, text="in registers, since each thread reads only what it wrote"): ...


class ByCompiler(Decision, text="by the compiler"): ...


class FilledOnce(Decision, text="filled through shared memory"): ...


class Converted(Decision, text="converted to `{layout}` through {through}"):
    layout: str
    through: Through


class OtherLayout(Candidate, text="the layout[[ of line {line}]], `{layout}`"):
    line: Line
    layout: str


class WorkedOut(Reason, text="layouts of registers are worked out from all uses of the kernel"): ...


class SeveralThreads(Reason):
    text = "several threads hold an element, and one runs the point that changes it"


class NeedsAnother(Reason, text="{op} needs another"):
    op: str


class TooManyElements(Reason):
    text = "an index is a number, and {elements} elements a thread are too many"
    elements: int


class UnderOtherShape(Reason, text="a part of it is used under another shape"): ...


class ScanInShared(Reason, text="a scan goes through shared memory"): ...


class ElementOutside(Reason, text="an element is accessed outside of `parallel`"): ...


class ExtentsAtLaunch(Reason, text="the extents of the loop are known at launch only"): ...


class RegisterAtomics(Reason, text="registers have no atomics"): ...


class IndexNotVariable(Reason, text="index {index} is not a variable of the loop as it is"):
    index: int


class IndexTwice(Reason, text="index {index} is the same as another"):
    index: int


# -- shared memory, and accesses; `ways`: wavefronts for each that the bytes need


class OtherSharedLayout(Candidate, text="{layout}"):
    layout: str


class SharedLayoutOf(Decision):
    text = "{layout}[[, {ways:.3g} wavefronts for each that its bytes need]]"
    layout: str
    ways: float = 0.0


class AnySwizzle(Candidate, text="a swizzle"): ...


class BetterLayout(Reason):
    text = "another layout takes fewer wavefronts, or is what the instructions ask for"


class UsedOtherShape(Reason, text="it is also used under another shape"): ...


class SwizzledRead(Reason, text="the matrix instruction reads swizzled memory"): ...


class CostsWavefronts(Reason, text="{ways:.3g} wavefronts for each that its bytes need"):
    ways: float


class GlobalAccess(Decision):
    text = "{width}-byte accesses, {sectors:sector} a request, {needed} needed"
    width: Bytes
    sectors: int
    needed: int


class SharedAccess(Decision):
    text = "{width}-byte accesses, {wavefronts:wavefront} a request, {needed} needed"
    width: Bytes
    wavefronts: int
    needed: int


class WithNeighbours(Decision, text="one access with its neighbours[[ of line {line}]]"):
    line: Line
    """Line of the access that stands for all of them."""


class LoadedBefore(Decision, text="loaded once, with the same element[[ of line {line}]]"):
    line: Line


class OneAccess(Candidate, text="one access of {elements} neighbouring elements"):
    elements: int


class OtherBranch(Reason, text="line {line} accesses its neighbour under another condition"):
    line: Line


class TouchedBetween(Reason):
    text = "`{buffer}` is accessed between it and its neighbour of line {line}"
    buffer: str
    line: Line


class NotAligned(Reason):
    text = "nothing says that the first of them is at a multiple of {elements} elements"
    elements: int


class FewerSectors(Candidate, text="{sectors:sector} a request"):
    sectors: int


class NoConflicts(Candidate, text="an access without conflicts"): ...


class ScatteredLanes(Reason):
    text = (
        "neighbouring threads are not at neighbouring addresses of `{tensor}`: each sector of"
        " {sector} bytes is read for a part of it; let the last index follow the last loop"
        " variable, or go through shared memory"
    )
    tensor: str
    sector: Bytes


class Conflicts(Reason):
    """Accesses of one request that meet in a bank."""

    ways: int


class KeptConflicts(Conflicts):
    text = "{ways}-way bank conflict that no swizzle or padding removes"


class LosingConflicts(Conflicts):
    text = (
        "{ways}-way bank conflict in layout {layout}, where that one has {wavefronts:wavefront};"
        " other uses of the buffer decided"
    )
    layout: str
    wavefronts: int


# -- sums across threads


class SumsOnce(Decision):
    text = (
        "the parts of {threads} threads are added up once[[, before {before:line |}]]"
        "[[, after {after:line |}]][[unused?, never: nothing uses it]]"
    )
    threads: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    unused: bool


class SumsEachTime(Decision):
    text = "the parts of {threads} threads are added up in each iteration"
    threads: int


class OnceAtEnd(Candidate, text="once, at the end"): ...


class NotFromZero(Reason, text="`{buffer}` does not begin as 0"):
    buffer: str


class LeavesBefore(Reason, text="the {op} of line {line} leaves before the end"):
    op: str
    line: Line


class WouldRound(Reason, text="the parts of `{buffer}` would be rounded to {dtype}"):
    buffer: str
    dtype: str


class AddsAcross(Reason, text="line {line} adds up what lies in other threads"):
    line: Line


class NeedsLayout(Reason, text="line {line} needs `{buffer}` in another layout"):
    line: Line
    buffer: str


class SetsOtherwise(Reason, text="line {line} sets `{buffer}`, and not to 0 or a multiple"):
    line: Line
    buffer: str


class UsesOtherwise(Reason, text="line {line} uses `{buffer}`, and not to scale it"):
    line: Line
    buffer: str
