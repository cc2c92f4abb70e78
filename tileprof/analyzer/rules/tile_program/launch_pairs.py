"""Two launches of a tile kernel that hand a tensor to each other: one launch could do both.

Static: the first writes tensors that the second alone reads, each block, or each thread, only its
own part (`tiles/launch_pairs`). Dynamic: the time of each launch (`launch_shares`), and what memory
takes for their tensors.

One launch keeps these elements in registers, so memory neither writes nor reads them. That shortens
each launch by the part of its time that memory takes: beside products a write costs nothing. Half
of it is sure, as the arithmetic of both stays; at most the shorter launch goes with the write, and
what starting it takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.kernel.launches import launch_shares
from tileprof.analyzer.numbers.kernels import MEMORY_USE_COPY
from tileprof.analyzer.numbers.shared import HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import CUT_LAUNCHES_EACH
from tileprof.analyzer.tiles.launch_pairs import Split, splits
from tileprof.analyzer.tiles.needless_writes import needless_writes

_AUTHOR = (
    "Do in one launch what both do, with the values that its threads have in registers: {own}."
    " Store {names} only if something else needs it."
)
_BLOCKS = "a block of the second reads only what the block of its number in the first wrote"
_THREADS = "each thread of the second reads one element, which no other one reads"
_COMPILER = "No pass makes one launch of two."


def split_launches(case: KernelCase) -> Iterator[Draft]:
    """Pairs of launches that one could replace; none where one of them can go by itself."""
    alone = {each.launch for each in needless_writes(case.tiles) if each.alone}
    for each in splits(case.tiles):
        if not alone & {each.first, each.first + 1}:
            yield _draft(case, each)


def _draft(case: KernelCase, split: Split) -> Draft:
    names = " and ".join(f"`{each[1:]}`" for each in split.tensors)
    title = f"{names} {'go' if len(split.tensors) > 1 else 'goes'} through memory to another launch"
    text = f"{split.moved / 1e6:,.3g} MB are written by one launch and read by the next one alone"
    way = _AUTHOR.format(own=_BLOCKS if split.by_blocks else _THREADS, names=names)
    place = case.place(case.line(split.launch.line), "launch")
    cause = Cause(title, place, (Evidence("static", text),), way, _COMPILER)
    peak = case.roofs.mixed_rate(MEMORY_USE_COPY)
    if not peak or not case.time or not case.launches:
        return cause.warning()
    call = case.time / case.launches
    moved, *whole = (
        size / peak * 1e9
        for size in (split.moved, split.before + split.moved, split.after + split.moved)
    )
    shares = launch_shares(case)
    times = [call * each for each in shares[split.first : split.first + 2]] or whole
    least, likely, most = CUT_LAUNCHES_EACH
    saved = moved * sum(min(1.0, one / time) for one, time in zip(whole, times) if time)
    low, mid, high = (
        min(each / call, LONGEST_SAVING)
        for each in (
            HALFWAY * saved + least, saved + likely, moved + max(moved, min(times)) + most
        )
    )  # fmt: skip
    told = (
        f"the launches take {duration(times[0])} and {duration(times[1])} of {duration(call)}; to"
        f" write as much takes memory {percent(min(moved / call, 1.0))} of the time, and to read it"
    )
    seen = Evidence("samples" if shares else "activities", told)
    return cause.costs(Saving(low, mid, max(mid, high)), seen, known=True)
