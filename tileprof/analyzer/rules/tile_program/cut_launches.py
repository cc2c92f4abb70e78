"""Several launches of one kernel that a single launch could replace.

Static: launches in a row of a tile kernel that are alike, on parts of the same tensors
(`tiles/launches/cut_launches`); a loop that launches a Triton kernel on another part each time
(`program/split_launches`). Dynamic: the time of a launch, and its waves of blocks.

A launch that follows another one begins when all blocks of that one have ended: multiprocessors
have nothing to do while the last blocks end, and while the first ones of the next launch begin. So
a part of the time of a block is lost each time, and what the launch itself takes, in all launches
but one. Launches of fewer blocks than multiprocessors leave the others idle all the time: together
they take between the time of one, where a block takes as long beside others as alone, and that of
as many as there are blocks for each multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.program.split_launches import splits
from tileprof.analyzer.rules.tile_program.numbers import (
    CUT_LAUNCHES_BLOCKS,
    CUT_LAUNCHES_EACH,
    CUT_LAUNCHES_FEWEST,
)
from tileprof.analyzer.tiles.launches.cut_launches import cut_launches
from tileprof.errors import Location

_AUTHOR = (
    "Make one launch of them, with all their blocks: let the index of the part be one more"
    " index of the grid, or a part of one."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Rows of launches that are alike."""
    launches = sum(1 for _ in case.tiles.named("launch"))
    for each in cut_launches(case.tiles):
        static = Evidence(
            "static", f"{each.count} consecutive launches do the same on parts of the same tensors"
        )
        title = f"{each.count} launches that one launch could replace"
        cause = Cause(title, case.place(case.line(each.first.line), "launch"), (static,), _AUTHOR)
        yield _draft(case, cause, launches, each.count, "a call")
    if case.ir:
        return
    tables = case.program.profile.tables
    for file, split in splits(tables.sources, tables.launches, case.name):
        if split.may_be_one and not _has_variants(case):
            continue
        static = Evidence(
            "static",
            f"a loop over `{split.index}` launches it on a part of the same tensors each time, and"
            " it loads from none that it stores to",
        )
        many = f"{split.count} launches" if split.count else "a loop of launches"
        place = case.place(Location(file, split.line))
        cause = Cause(f"{many} that one launch could replace", place, (static,), _AUTHOR)
        yield _draft(case, cause, 1, split.count or CUT_LAUNCHES_FEWEST, "a launch")


def _has_variants(case: KernelCase) -> bool:
    """Whether several functions of a kernel were sampled: Triton compiles one of its own where a
    whole number is 1, as that of a part is in one of the launches."""
    held = case.program.profile.tables.pc
    counts = zip(held.functions, held.by_function.tolist())
    return sum(1 for each, samples in counts if each.title == case.name and samples) != 1


def _draft(case: KernelCase, cause: Cause, launches: int, count: int, what: str) -> Draft:
    """`launches`: how many a call has, of which `count` are alike."""
    if not case.time or not case.launches:
        return cause.warning()
    call = case.time / case.launches
    one = call / launches
    lost = _lost(case, one, count)
    parts = count if launches > 1 else 1
    low, mid, high = (min(parts * each / call, LONGEST_SAVING) for each in lost)
    text = (
        f"{what} takes {duration(call)}, a part of which is spent on starting and ending launches"
    )
    return cause.costs(Saving(low, mid, high), Evidence("activities", text), known=True)


def _lost(case: KernelCase, one: float, count: int) -> tuple[float, float, float]:
    """Return what a launch takes more than its part of a common one, in ns: least, likely, most.

    `one`: time of a launch in ns. `count`: launches that could be one.
    """
    launch = launch_of(case)
    rounds = math.ceil(launch.waves) if launch else 1
    low, mid, high = (
        (1 - 1 / count) * min(one, own + part * one / rounds)
        for own, part in zip(CUT_LAUNCHES_EACH, CUT_LAUNCHES_BLOCKS, strict=True)
    )
    if launch and launch.each < 1:
        filled = max(1.0, count * launch.each)
        low, mid, high = (
            max(lost, one * (1 - together / count))
            for lost, together in ((low, filled), (mid, filled**0.5), (high, 1.0))
        )
    return low, mid, high


RULE = KernelRule("small-kernels", find, ("activities",))
