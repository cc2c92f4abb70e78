"""Grids whose neighbouring blocks are rows apart, though they could go on along the rows.

Static: which axis of the grid is counted fastest, and what each tensor's last index goes with
(`tiles/across_rows`). Dynamic: how far the kernel is from what its bytes take.

Memory answers fastest where what is asked for at one time lies side by side: pieces of rows far
apart open as many pages of DRAM, and what blocks share at the ends of their rows comes again. How
much that costs no sample says, so likely half of what the work leaves (`reach`), at most all.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import has_products, launch_of, launch_place
from tileprof.analyzer.numbers.shared import COLD, HALFWAY
from tileprof.analyzer.tiles.across_rows import across_rows

_AUTHOR = (
    "Exchange these axes of the grid: the first of `T.Kernel` varies fastest, and should go along"
    " the last dimension of the tensors."
)


def walked_across(case: KernelCase) -> Iterator[Draft]:
    """A kernel without products whose blocks at a time are in different rows."""
    across, launch, left = across_rows(case.tiles), launch_of(case), reach.left(case)
    if across is None or left is None or launch is None or has_products(case) or launch.waves < 1:
        return
    mid = HALFWAY * left.mid
    if case.sampled is None or mid < COLD:
        return
    names = " and ".join(f"`{each}`" for each in across.tensors)
    static = (
        f"`{across.first}` varies fastest and goes across the rows of {names};"
        f" `{across.along}` goes along them"
    )
    bytes_of = f"its bytes take {percent(case.roofs.copy_floor / case.time, 0)} of the time"
    yield Draft(
        "suggestion", "neighbouring blocks are in different rows of their tensors",
        launch_place(case), (Evidence("static", static), Evidence("activities", bytes_of)), _AUTHOR,
        "", Saving(HALFWAY * mid, mid, left.high), confidence="low",
    )  # fmt: skip
