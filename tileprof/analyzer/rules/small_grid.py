"""Launches of fewer blocks than there are multiprocessors: some of the device has nothing to do.

Static: blocks of the grid, multiprocessors of the device. Dynamic: the time of a launch; cycles in
which multiprocessors had work, where they were counted; how much of it is loops.

The reference asks for fewer blocks than all multiprocessors can hold. Blocks are dealt out one to
each multiprocessor first, so from one each on all of them work; whether more warps would help is
what `occupancy-limited` looks at. So here it is fewer blocks than multiprocessors.

At most the time goes down with blocks / multiprocessors. Likely less does: only what is done in
loops can be dealt out (all that comes before and after is done by each block), and parts of a sum
have to be brought together. No launch is shorter than an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.launches import Launch, launch_of

__all__ = ["RULE"]

_FEW = 0.9
"""Blocks for each multiprocessor, below which it is told."""
_EMPTY = 2_000.0
"""Nanoseconds from one launch that does nothing to the next, where that was not measured."""
_SHORT = 2
"""Times as long, below which a launch is mostly its own beginning and end."""
_IN_LOOPS = 0.5
"""Of a kernel's time, what can be dealt out, where nothing was sampled."""
_KEPT = 0.8
"""Of what is dealt out, what is left of it after parts have been brought together."""
_SURE = 0.25
_AUTHOR = (
    "Cut the work into more blocks: a smaller tile, or several blocks along the dimension that is"
    " summed over (split-K) whose parts are then added."
)
_COMPILER = "The choice of tiles did not look at the number of multiprocessors for this shape."


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel whose grid leaves multiprocessors without a block."""
    launch = launch_of(case)
    if launch is None or launch.each >= _FEW:
        return
    evidence = [_static(launch)]
    each = case.time / case.launches if case.launches else 0.0
    if each:
        evidence.append(Evidence("activities", f"a launch takes {each / 1000:,.1f} µs"))
    empty = case.peaks["launch_gap"].value if "launch_gap" in case.peaks else _EMPTY
    if each and each < _SHORT * empty:
        yield Draft(
            "ignore", "few blocks, in launches that are short anyway", case.place(),
            tuple(evidence), "Leave it: a launch takes about as long with nothing to do.",
            confidence="high",
        )  # fmt: skip
        return
    use = case.rate("sm_use")
    if use is not None:
        text = f"a multiprocessor had work in {percent(use, 0)} of all cycles"
        evidence.append(Evidence("counters", text))
    yield Draft(
        "suggestion", f"{launch.blocks} blocks for {launch.multiprocessors} multiprocessors",
        case.place(), tuple(evidence), _AUTHOR, _COMPILER, _saving(case, launch, use),
        most=max(each / empty, 1.0), confidence="medium" if use is not None else "low",
    )  # fmt: skip


def _static(launch: Launch) -> Evidence:
    idle = launch.multiprocessors - launch.blocks
    text = (
        f"a grid of {launch.blocks} blocks leaves {idle} of {launch.multiprocessors}"
        " multiprocessors without one"
    )
    return Evidence("static", text)


def _saving(case: KernelCase, launch: Launch, use: float | None) -> Saving:
    """By cycles without work where they were counted, else by multiprocessors without a block."""
    without = 1 - launch.each
    if use is not None:
        without = min(without, 1 - use)
    mid = _KEPT * _dealt_out(case) * without
    return Saving(_SURE * mid, mid, without)


def _dealt_out(case: KernelCase) -> float:
    """Of the time, what is spent in loops."""
    code = case.sampled
    if code is None or not code.instructions:
        return _IN_LOOPS
    return code.n(code.where(lambda each: each.depth > 0)) / code.whole


RULE = KernelRule("small-grid", find, ("activities", "samples", "counters"))
