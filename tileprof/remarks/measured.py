"""Remarks about measurement inside kernels, and results measured there."""

from __future__ import annotations

from typing import Literal

from .statement import Candidate, Decision, Nanoseconds, Reason, Registers, Share

# -- what measurement does to a kernel


class NotMeasured(Decision, text="not measured"): ...


class OwnSite(Candidate, text="a site of its own"): ...


class PointsUnordered(Reason):
    text = "the points of a parallel loop run in any order, none has a time of its own"


class Unmeasured(Decision, text="none"): ...


class DoesNotCompile(Candidate, text="with marks it cannot be compiled"): ...


class Samples(Candidate, text="samples"): ...


class BatchedBlocks(Reason, text="the interpreter runs all blocks of a batch at each step"): ...


class IncludesMarks(Decision, text="times hold what marks took"): ...


class RecordCostCandidate(Candidate, text="what a record costs could not be measured"): ...


class PartlySeen(Decision):
    text = (
        "sites are those of {share:.0%} of what its warps did: the room of a warp's records was"
        " full (--inside records=N, warps=roles)"
    )
    share: Share


class NotWhatRuns(Decision):
    # Blocks are 0 where as many run at once, bytes where no more are spilled.
    text = (
        "`{function}` is not what runs unmeasured[[: {blocks} blocks per SM run at once,"
        " {clean_blocks} without measurement ({registers} and {clean_registers} registers a"
        " thread)]][[; {spilled} bytes of registers are spilled, {clean_spilled} without"
        " measurement]]"
    )
    function: str
    blocks: int = 0
    clean_blocks: int = 0
    registers: Registers = 0
    clean_registers: Registers = 0
    spilled: int = 0
    clean_spilled: int = 0


# -- what was measured inside


class ProducersIdle(Decision, text="Producers wait {share:.1%} of their time for a free slot."):
    share: Share


class ConsumersIdle(Decision):
    text = "Consumers wait {share:.1%} of their time for tiles that are not there yet."
    share: Share


class AroundLoop(Decision, text="The {part} takes {share:.1%} of the consumers' time."):
    part: Literal["prologue", "epilogue"]
    share: Share


class ExposedWait(Decision):
    # `late`: what 5 % of the visits exceed, 0 where visits were not told apart.
    text = (
        "“{site}” waits {mean:,.0f} ns a visit[[, 5 % of them for more than {late:,.0f}]]"
        " ({share:.1%})."
    )
    site: str
    mean: Nanoseconds
    share: Share
    late: Nanoseconds = 0.0


class Uneven(Decision, text="At “{site}” the slowest {of} takes {factor:.2f} times the mean."):
    site: str
    of: Literal["warp of a block", "block of a launch"]
    factor: float


class Hidden(Decision):
    text = (
        "Of the time from the start of {work} to the end of the wait for it, {share:.1%} passes"
        " while the warp does something else."
    )
    work: str
    share: Share


class Overlapped(Decision):
    text = "While {first} are under way, {others} are too for {share:.1%} of the time."
    first: Literal["loads", "matrix products"]
    others: Literal["loads", "matrix products"]
    share: Share
