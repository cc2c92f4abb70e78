"""A last wave of blocks, or of a persistent kernel's tiles, that fills only part of the device.

Static: blocks of the grid, beside those that run at once; tiles, beside the blocks that take them
in turn. Dynamic: the time of a launch, and the median of its blocks, where some were recorded; in
how many cycles schedulers issued (samples), and multiprocessors had work (counters, samples).

With pieces of one length, w rounds take the time of ceil(w): 1 - w / ceil(w) of it is lost. That is
so where each piece takes as long alone as beside others, as latency does. Where blocks share what
is scarce, those of a part of a wave run the faster, and only multiprocessors with a block less than
others wait: with n blocks for each, 1 - n / ceil(n). The first is the most, the second the least.
(ncu's rule takes the last wave for lost whole, so it tells of 50 % for two full waves and one
block, and of 33 % for 2.99 waves.) Where blocks were recorded, it is the idle integral of the
places for blocks: w times the median block is the time that they are taken, in the limits above. A
profile keeps four blocks of a launch, so the integral is of the median, not of each block. Else,
idle schedulers tell of latency where memory, by its roof, is not what is scarce; where neither is
known, or engines work while schedulers are idle, it is the least. Nor is it more than the cycles in
which multiprocessors had no warps. Where all of it hangs on how much faster blocks run when few are
left, and none was recorded, it is a symptom.

Work without products is cut as finely as one likes, so all that is lost comes back, as far as
memory lets it. Products of matrices want tiles of some sizes, so what is lost with the best of them
stays (`tile_choice`), and no product is faster than what tensor cores reach once all are busy
(`at_roof`). Nothing is said of less than a sixth: blocks are not of one length, so later waves fill
the gaps of earlier ones. One wave, or less, is a grid that was made to fit, or is too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.launches import (
    Launch,
    busy_share,
    has_products,
    is_pipelined,
    launch_of,
    launch_place,
    working_share,
)
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.kernel.tile_choice import best_of_others
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.numbers.blocks import (
    TAIL_WAVE_HALF,
    TAIL_WAVE_LEAST,
    TAIL_WAVE_REACHED,
    TAIL_WAVE_SURE,
    TAIL_WAVE_TOLD,
)
from tileprof.analyzer.rules.tile_program.long_blocks import long_blocks
from tileprof.analyzer.tiles.walks import walk_of

_ASK = "See how long blocks take in either wave (`--instrument sample`)."
_AUTHOR = (
    "Fit the tiles to the device: another tile size, a persistent kernel (as many blocks "
    "as run at once, each taking tile after tile), or the last tiles split along the "
    "summed dimension (stream-K)."
)
_COMPILER = (
    "The choice of tiles and of a persistent grid did not consider how much of the device the last"
    " wave fills."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel of a few waves, the last of them not full."""
    launch = launch_of(case)
    if launch is None:
        return
    walk = walk_of(case.tiles)
    lost = _lost(launch.rounds) if launch.rounds > 1 else 0.0
    if lost < TAIL_WAVE_LEAST or (walk and walk.outside):
        yield from long_blocks(case, launch, walk) if walk else ()
        return
    idle = _idle_share(case, launch)
    evidence, saving = (_static(launch), *_measured(case, launch)), _saving(case, launch, idle)
    if saving.high < COLD:
        yield Draft(
            "ignore", "a partial last wave, off the critical path", launch_place(case), evidence,
            "Leave it: blocks of different lengths fill the gap.", confidence="high",
        )  # fmt: skip
    elif _likely(case, launch, idle) >= TAIL_WAVE_LEAST:
        sure = launch.held == 1 or launch.tiles or _block_time(case)
        if not sure and saving.low < TAIL_WAVE_TOLD and case.time:
            yield Draft(
                "symptom", _title(launch), launch_place(case), evidence, f"{_ASK} {_AUTHOR}",
                _COMPILER, confidence="low",
            )  # fmt: skip
            return
        yield Draft(
            "suggestion", _title(launch), launch_place(case), evidence, _AUTHOR, _COMPILER, saving,
            confidence="medium" if sure else "low",
        )  # fmt: skip


def _title(launch: Launch) -> str:
    how = "nearly empty" if launch.rounds % 1 < TAIL_WAVE_HALF else "not full"
    what = "rounds of tiles" if launch.tiles else "waves of blocks"
    return f"the last of {math.ceil(launch.rounds)} {what} is {how}"


def _lost(full: float) -> float:
    """Of the time, what is lost where work for `full` rounds takes whole ones."""
    return 1 - full / math.ceil(full)


def _saving(case: KernelCase, launch: Launch, idle: float) -> Saving:
    least, most = _limits(launch, idle)
    mid = _likely(case, launch, idle)
    if has_products(case):
        rest = max(best_of_others(case, launch), at_roof(case, launch.each))
        mid = min(mid, 1 - rest)
    elif use := memory_use(case):
        mid = min(mid, use.room)
    low = TAIL_WAVE_SURE * min(least, mid)
    return Saving(low, mid, max(most, mid))


def _limits(launch: Launch, idle: float) -> tuple[float, float]:
    """What is lost at least and at most."""
    least, most = _lost(launch.pieces / launch.multiprocessors), _lost(launch.rounds)
    # A multiprocessor with a block less than others is idle at the end; one with some is not.
    return min(least, idle), min(most, idle) if launch.held == 1 else most


def _likely(case: KernelCase, launch: Launch, idle: float) -> float:
    """What is lost."""
    least, most = _limits(launch, idle)
    block, each = _block_time(case), case.time / case.launches if case.launches else 0.0
    if block and each:
        lost = 1 - launch.rounds * block / each
    elif case.sampled is None or case.roofs.most_gain == math.inf:
        lost = least
    else:
        latency = 0.0 if is_pipelined(case) else 1 - busy_share(case.sampled)
        beyond = 1 - 1 / case.roofs.most_gain / TAIL_WAVE_REACHED
        lost = min(least + (most - least) * latency, beyond)
    return max(least, min(most, lost))


def _idle_share(case: KernelCase, launch: Launch) -> float:
    """Of the time, the most in which a multiprocessor had no warps; 1 where it is not known."""
    working = case.rate("sm_use")
    if working is None:
        working = working_share(case, launch)
    return 1.0 if working is None else max(0.0, 1 - working)


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
    what, told = ("tiles", "rounds") if launch.tiles else ("blocks", "waves")
    text = (
        f"{launch.pieces} {what}, of which {launch.at_once} run at once: {launch.rounds:.2f} {told}"
    )
    return Evidence("static", text)


def _measured(case: KernelCase, launch: Launch) -> Iterator[Evidence]:
    if case.launches and case.time:
        each = case.time / case.launches
        yield Evidence("activities", f"a launch takes {each / 1000:,.1f} µs")
        if block := _block_time(case):
            yield Evidence("scopes", f"the median of its blocks {block / 1000:,.1f} µs")
    if case.sampled is not None:
        text = (
            f"schedulers issue in {percent(busy_share(case.sampled), 0)} of the cycles with warps"
        )
        if (working := working_share(case, launch)) is not None:
            text += f"; multiprocessors had warps in {percent(working, 0)} of all cycles at least"
        yield Evidence("samples", text, case.sampled.whole)
    if (use := case.rate("sm_use")) is not None:
        yield Evidence("counters", f"multiprocessors had work in {percent(use)} of all cycles")


RULE = KernelRule("tail-wave", find, ("activities", "scopes", "samples", "counters"))
