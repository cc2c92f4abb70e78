"""A last wave of blocks that fills only a part of the device.

Static: blocks of the grid, beside those that run at once. Dynamic: the time of a launch, and the
median of its blocks, where some were recorded; in how many cycles schedulers issued (samples), and
multiprocessors had work (counters).

With blocks of one length, w waves take the time of ceil(w): 1 - w / ceil(w) of it is lost. That is
so where each block takes as long alone as beside others, as latency does. Where blocks share what
is scarce, those of a part of a wave run the faster, and only multiprocessors with a block less than
others wait: with n blocks for each, 1 - n / ceil(n). The first is the most, the second the least,
and samples say where between: as far from the second as schedulers are idle. (ncu's rule takes the
last wave for lost whole, so it tells of 50 % for two full waves and one block, and of 33 % for 2.99
waves.) Where blocks were recorded, it is the idle integral of the places for blocks: w times the
median block is the time that they are taken, in the limits above. A profile keeps four blocks of a
launch, so the integral is of the median, not of each block. Where a multiprocessor holds one block,
there is no more than the cycles that were counted without work.

One wave, or less, is a grid that was made to fit (a persistent kernel), or too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.launches import Launch, busy_share, launch_of

__all__ = ["RULE"]

_LEAST = 0.02
"""Of the time, below which nothing is said."""
_COLD = 0.01
_HALF = 0.5
_SURE = 0.5
"""Of the least: blocks are not of one length, so later waves do not end at once."""
_AUTHOR = (
    "Let the grid fit the device: a persistent kernel (one block for each place, which takes tile"
    " after tile), tiles of another size, or the last tiles cut along the sum (stream-K)."
)
_COMPILER = "The choice of tiles and of a persistent grid did not look at what the last wave fills."


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel of a few waves, the last of them not full."""
    launch = launch_of(case)
    if launch is None or launch.waves <= 1 or _lost(launch.waves) < _LEAST:
        return
    evidence, saving = [_static(launch)], _saving(case, launch)
    evidence += _measured(case, launch)
    if saving.high < _COLD:
        yield Draft(
            "ignore", "a last wave that costs nothing", case.place(), tuple(evidence),
            "Leave it: blocks of different lengths fill the gap.", confidence="high",
        )  # fmt: skip
        return
    waves = math.ceil(launch.waves)
    how = "nearly empty" if launch.waves % 1 < _HALF else "not full"
    yield Draft(
        "suggestion", f"the last of {waves} waves of blocks is {how}", case.place(),
        tuple(evidence), _AUTHOR, _COMPILER, saving,
        confidence="medium" if launch.held == 1 or _block_time(case) else "low",
    )  # fmt: skip


def _lost(full: float) -> float:
    """Of the time, what is lost where work for `full` rounds takes whole ones."""
    return 1 - full / math.ceil(full)


def _saving(case: KernelCase, launch: Launch) -> Saving:
    least, most = _lost(launch.each), _lost(launch.waves)
    block, each = _block_time(case), case.time / case.launches if case.launches else 0.0
    if block and each:
        mid = min(max(1 - launch.waves * block / each, least), most)
    elif case.sampled is not None:
        mid = least + (most - least) * (1 - busy_share(case.sampled))
    else:
        mid = (least + most) / 2
    if launch.held == 1 and (use := case.rate("sm_use")) is not None:
        most = min(most, 1 - use)
    return Saving(min(_SURE * least, most), min(mid, most), most)


def _block_time(case: KernelCase) -> float:
    """The median block, ns; 0 where none was recorded."""
    tables = case.program.profile.tables
    held = tables.ctas
    own = [tables.kernels[each.kernel] is case.info for each in held.launches]
    times = [
        each.end - each.begin for each in held.ctas if "median" in each.chosen and own[each.launch]
    ]
    return float(median(times)) if times else 0.0


def _static(launch: Launch) -> Evidence:
    at_once = launch.multiprocessors * launch.held
    text = f"{launch.blocks} blocks, of which {at_once} run at once: {launch.waves:.2f} waves"
    return Evidence("static", text)


def _measured(case: KernelCase, launch: Launch) -> Iterator[Evidence]:
    if case.launches and case.time:
        each = case.time / case.launches
        text = f"a launch takes {each / 1000:,.1f} µs"
        yield Evidence("activities", text)
        if block := _block_time(case):
            yield Evidence("scopes", f"the median of its blocks {block / 1000:,.1f} µs")
    if case.sampled is not None:
        text = (
            f"schedulers issue in {percent(busy_share(case.sampled), 0)} of the cycles with warps"
        )
        yield Evidence("samples", text, case.sampled.whole)
    if launch.held == 1 and (use := case.rate("sm_use")) is not None:
        yield Evidence("counters", f"multiprocessors had work in {percent(use)} of all cycles")


RULE = KernelRule("tail-wave", find, ("activities", "scopes", "samples", "counters"))
