"""Launches with fewer blocks than multiprocessors: part of the device is idle.

Static: blocks of the grid, multiprocessors of the device. Dynamic: the time of a launch; cycles in
which multiprocessors had work (counters), or warps (samples).

The reference asks for fewer blocks than all multiprocessors can hold. Blocks are dealt out one to
each multiprocessor first, so from one each on all of them work; whether more warps would help is
what `occupancy-limited` looks at. So here it is fewer blocks than multiprocessors.

At most the time goes down with blocks / multiprocessors, but for that of a launch with nothing to
do, which no launch is shorter than, and likely as far as memory lets it. Of products of matrices a
part stays: they are split into s whole parts, as many as there are multiprocessors for each block,
and a part's turn takes 1/s of the time, but no less than its tiles are under way, which are as far
ahead as before, in turns. Then all multiprocessors multiply, and share the power that a few had
(`at_roof`). What a tile loads goes with its edges and not its area, so a tile of 1/s of the area
takes between 1/s of the time and all of it: 1/√s where no loop says how long tiles are under way,
and the root of that where flops do not say that steps are more than waiting. With more than
half of the multiprocessors at work, blocks in two parts need two rounds of half the time. What is
left then is a tile of fewer warp groups, two of three for example: the part of the time that
arithmetic bounds (`reach`) goes down with them. Where such tiles are more than multiprocessors, no
number is told.

Blocks that take pieces of work in turn need no smaller ones: more blocks take fewer each, whatever
else holds each of them up (`machine_code/dealt_out`). They do where their loop begins at the number
of the block, or steps by the number of blocks (`machine/grid_steps`).

Without products memory says how far the kernel is from what its device gives, and what holds up
each block is a reason of that as well: where another cause is found, what that one leaves counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import (
    Launch,
    has_products,
    launch_of,
    launch_place,
    working_share,
)
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.kernel.tensor_use import groups_of
from tileprof.analyzer.kernel.tile_choice import under_way
from tileprof.analyzer.machine.code import PRODUCTS
from tileprof.analyzer.machine.loops import loops_with
from tileprof.analyzer.program.masks import own
from tileprof.analyzer.rules.machine_code.dealt_out import is_dealt_out, left_with_more
from tileprof.analyzer.rules.numbers.blocks import (
    SMALL_GRID_BY_EDGES,
    SMALL_GRID_BY_STEPS,
    SMALL_GRID_EMPTY,
    SMALL_GRID_FEW,
    SMALL_GRID_OF_TURNS,
    SMALL_GRID_SHORT,
    SMALL_GRID_SURE,
)

_AUTHOR = (
    "Split the work into more blocks: a smaller tile, or several blocks along the dimension that is"
    " summed over (split-K) whose parts are then added."
)
_MORE = (
    "Launch more blocks: as many as the multiprocessors hold at once, or one for each piece of"
    " work. The loop over pieces steps by the number of blocks, so that its result is the same."
)
_IN_TURN = "each block processes several tiles: with more blocks, each processes fewer"
_COMPILER = "The choice of tiles did not consider the number of multiprocessors for this shape."


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel whose grid leaves multiprocessors without a block."""
    launch = launch_of(case)
    if launch is None or launch.each >= SMALL_GRID_FEW or not _is_usual(case, launch):
        return
    place, evidence = launch_place(case), (_static(launch), *_measured(case, launch))
    each = case.time / case.launches if case.launches else 0.0
    empty = (
        case.roofs.peaks["launch_gap"].value
        if "launch_gap" in case.roofs.peaks
        else SMALL_GRID_EMPTY
    )
    if each and each < SMALL_GRID_SHORT * empty:
        yield Draft(
            "ignore", "few blocks, in launches that are short anyway", place, evidence,
            "Leave it: an empty launch takes about as long.", confidence="high",
        )  # fmt: skip
        return
    title = f"{launch.blocks} blocks for {launch.multiprocessors} multiprocessors"
    in_turn = is_dealt_out(case, launch)
    author = _AUTHOR
    if in_turn:
        author, evidence = _MORE, (*evidence, Evidence("static", _IN_TURN))
    if not each or (has_products(case) and not in_turn and _parts(case, launch) == 1):
        yield Draft("warning", title, place, evidence, author, _COMPILER, confidence="low")
        return
    idle = 1 - empty / each
    yield Draft(
        "suggestion", title, place, evidence, author, _COMPILER,
        _of_turns(case, launch, idle) if in_turn else _saving(case, launch, idle),
        most=each / empty,
        confidence="medium" if in_turn or case.rate("sm_use") is not None else "low",
        after_others=not (has_products(case) or in_turn), known=in_turn,
    )  # fmt: skip


def _is_usual(case: KernelCase, launch: Launch) -> bool:
    """Return whether the kernel spends most of its time in launches with so few blocks.

    A kernel's grid is that of its first launch, and a library's kernel is launched with many.
    """
    nodes = list(case.nodes)
    times, blocks = (
        np.nan_to_num(case.program.whole_kernels(each)[nodes]) for each in ("time", "blocks")
    )
    counts = own(case.program.profile, "count")[nodes]
    if not times.any() or not blocks.any():
        return True
    few = blocks < SMALL_GRID_FEW * launch.multiprocessors * counts
    return bool(times[few].sum() >= times.sum() / 2)


def _parts(case: KernelCase, launch: Launch) -> float:
    """Into which each block can be split while each has a multiprocessor: whole ones, or tiles of
    fewer warp groups."""
    whole = launch.multiprocessors // launch.blocks
    return float(whole) if whole > 1 else _of_groups(case, launch)


def _of_groups(case: KernelCase, launch: Launch) -> float:
    """The most parts, of those that have some of a block's warp groups; 1 where none fit."""
    code = case.sampled
    loops = loops_with(code, PRODUCTS) if code else ()
    if code is None or not loops:
        return 1.0
    groups = int(min(groups_of(case, code, loop) for loop in loops))
    parts = (groups / fewer for fewer in range(1, groups))
    return max((s for s in parts if ceil(launch.blocks * s) <= launch.multiprocessors), default=1.0)


def _static(launch: Launch) -> Evidence:
    idle = launch.multiprocessors - launch.blocks
    text = (
        f"a grid of {launch.blocks} blocks leaves {idle} of {launch.multiprocessors}"
        " multiprocessors without one"
    )
    return Evidence("static", text)


def _measured(case: KernelCase, launch: Launch) -> Iterator[Evidence]:
    if case.launches and case.time:
        text = f"a launch takes {case.time / case.launches / 1000:,.1f} µs"
        yield Evidence("activities", text)
    if case.sampled is not None and (working := working_share(case, launch)) is not None:
        text = f"multiprocessors had warps in {percent(working, 0)} of all cycles at least"
        yield Evidence("samples", text, case.sampled.whole)
    if (use := case.rate("sm_use")) is not None:
        text = f"a multiprocessor had work in {percent(use, 0)} of all cycles"
        yield Evidence("counters", text)


def _of_turns(case: KernelCase, launch: Launch, idle: float) -> Saving:
    """Of blocks that take tiles in turn: of that, multiprocessors without one are sure."""
    mid = idle * (1 - left_with_more(case, launch))
    high = max(mid, 1 - launch.each / launch.held)
    return Saving(min(SMALL_GRID_OF_TURNS * (1 - launch.each), mid), mid, high)


def _saving(case: KernelCase, launch: Launch, dealt_out: float) -> Saving:
    """By multiprocessors without a block, and by cycles without work where they were counted."""
    without = 1 - launch.each
    if (use := case.rate("sm_use")) is not None:
        without = min(without, 1 - use)
    high = without
    if has_products(case):
        likely = 1 - _product(case, launch, _parts(case, launch))
    else:  # of smaller blocks a multiprocessor can have several
        memory = memory_use(case)
        likely, high = (memory.room, max(high, 1 - 1 / memory.most)) if memory else (without, high)
    mid = dealt_out * min(likely, without)
    return Saving(SMALL_GRID_SURE * mid, mid, high)


def _product(case: KernelCase, launch: Launch, parts: float) -> float:
    """Of the time, what blocks of so many parts take each."""
    if not case.roofs.tensor_floor:
        return float(parts**-SMALL_GRID_BY_STEPS)
    if not parts.is_integer():
        # Fewer groups have less arithmetic each; what is beyond it are loads, and waits.
        left = reach.left(case)
        bound = 1 - left.mid if left else 0.0
        return float(bound / parts + (1 - bound) * parts**-SMALL_GRID_BY_EDGES)
    roof, by_edges = at_roof(case, launch.each * parts), float(parts**-SMALL_GRID_BY_EDGES)
    # Where a turn is all waiting, parts of the sum have fewer of them.
    return max(1 / parts, roof, min(under_way(case) or by_edges, by_edges))


RULE = KernelRule("small-grid", find, ("activities", "samples", "counters"))
