"""Several launches of one tile kernel that a single launch could replace.

Static: launches in a row that are alike, on parts of the same tensors (`tiles/cut_launches`).
Dynamic: the time of a call.

A launch that follows another one begins when all blocks of that one have ended: multiprocessors
have nothing to do while the last blocks end, and while the first ones of the next launch begin.
That takes the same time each, whatever the blocks do, and all but one of them go.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration
from tileprof.analyzer.numbers.shared import LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import CUT_LAUNCHES_EACH
from tileprof.analyzer.tiles.cut_launches import cut_launches

_AUTHOR = (
    "Make one launch of them, with all their blocks: let the index of the part be one more"
    " index of the grid, or a part of one."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Rows of launches that are alike."""
    for each in cut_launches(case.tiles):
        static = Evidence(
            "static", f"{each.count} consecutive launches do the same on parts of the same tensors"
        )
        title = f"{each.count} launches that one launch could replace"
        cause = Cause(title, case.place(case.line(each.first.line), "launch"), (static,), _AUTHOR)
        if not case.time or not case.launches:
            yield cause.warning()
            continue
        call = case.time / case.launches
        low, mid, high = (
            min((each.count - 1) * one / call, LONGEST_SAVING) for one in CUT_LAUNCHES_EACH
        )
        text = (
            f"a call takes {duration(call)}, a part of which is spent on starting and ending "
            f"launches"
        )
        yield cause.costs(Saving(low, mid, high), Evidence("activities", text))


RULE = KernelRule("small-kernels", find, ("activities",))
