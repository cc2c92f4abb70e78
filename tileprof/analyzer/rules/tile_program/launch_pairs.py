"""Two launches of a tile kernel that hand a tensor to each other: one launch could do both.

The first may do nothing but prepare the tensor, an element at a time; then its time goes.

Static: the first writes tensors that the second alone reads, each block, or each thread, only its
own part (`launch_pairs`). Dynamic: the time of each launch (`launch_shares`), and what memory
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
from tileprof.analyzer.rules.tile_program.numbers import CUT_LAUNCHES_EACH, NEEDLESS_PASSED_ON
from tileprof.analyzer.tiles.launches.launch_pairs import Prepared, Split, prepared, splits
from tileprof.analyzer.tiles.launches.needless_writes import needless_writes

_AUTHOR = (
    "Do in one launch what both do, with the values that its threads have in registers: {own}."
    " Store {names} only if something else needs it."
)
_BLOCKS = "a block of the second reads only what the block of its number in the first wrote"
_THREADS = "each thread of the second reads one element, which no other one reads"
_IN_PLACE = (
    "Read {sources} where {tensor} is read now, and compute its elements there, in registers"
    "{turned}: the launch that does nothing else goes."
)
_TURNED = ", with the axes exchanged, so that neighbouring threads read neighbouring elements"
_COMPILER = "No pass makes one launch of two."


def split_launches(case: KernelCase) -> Iterator[Draft]:
    """Pairs of launches that one could replace; none where one of them can go by itself."""
    told = {each.launch for each in needless_writes(case.tiles) if each.alone}
    for split in splits(case.tiles):
        pair = {split.first, split.first + 1}
        if not told & pair:
            yield _draft(case, split)
        told |= pair
    yield from (_prepared(case, each) for each in prepared(case.tiles) if each.number not in told)


def _draft(case: KernelCase, split: Split) -> Draft:
    names = " and ".join(f"`{each[1:]}`" for each in split.tensors)
    title = f"{names} {'go' if len(split.tensors) > 1 else 'goes'} through memory to another launch"
    text = f"{split.moved / 1e6:,.3g} MB are written by one launch and read by the next one alone"
    if split.again:
        text += f"; {split.again / 1e6:,.3g} MB of what a block reads, it reads in both launches"
    way = _AUTHOR.format(own=_BLOCKS if split.by_blocks else _THREADS, names=names)
    place = case.place(case.line(split.launch.line), "launch")
    cause = Cause(title, place, (Evidence("static", text),), way, _COMPILER)
    peak = case.roofs.mixed_rate(MEMORY_USE_COPY)
    if not peak or not case.time or not case.launches:
        return cause.warning()
    call = case.time / case.launches
    moved, again, *whole = (
        size / peak * 1e9
        for size in (
            split.moved,
            split.again,
            split.before + split.moved,
            split.after + split.moved,
        )
    )
    shares = launch_shares(case)
    times = [call * each for each in shares[split.first : split.first + 2]] or whole
    least, likely, most = CUT_LAUNCHES_EACH
    parts = [min(1.0, one / time) if time else 0.0 for one, time in zip(whole, times)]
    saved = moved * sum(parts) + again * parts[1]
    low, mid, high = (
        min(each / call, LONGEST_SAVING)
        for each in (
            HALFWAY * saved + least, saved + likely,
            moved + again + max(moved, min(times)) + most,
        )
    )  # fmt: skip
    told = (
        f"the launches take {duration(times[0])} and {duration(times[1])} of {duration(call)}; to"
        f" write as much takes memory {percent(min(moved / call, 1.0))} of the time, and to read it"
    )
    seen = Evidence("samples" if shares else "activities", told)
    return cause.costs(Saving(low, mid, max(mid, high)), seen, known=True)


def _prepared(case: KernelCase, each: Prepared) -> Draft:
    tensor, sources = f"`{each.tensor[1:]}`", " and ".join(f"`{name[1:]}`" for name in each.sources)
    title = f"{tensor} is made from {sources} by a launch of its own, an element at a time"
    place = case.place(case.line(each.launch.line), "launch")
    static = Evidence("static", "later launches read each of its elements about once")
    way = _IN_PLACE.format(tensor=tensor, sources=sources, turned=_TURNED if each.turned else "")
    cause = Cause(title, place, (static,), way, _COMPILER)
    shares, peak = launch_shares(case), case.roofs.mixed_rate(MEMORY_USE_COPY)
    if not shares or not peak or not case.time:
        return cause.warning()
    share = shares[each.number]
    more = max(0.0, each.more) / peak * 1e9 * case.launches / case.time
    low, mid, high = (max(0.0, part * share - more) for part in NEEDLESS_PASSED_ON)
    if each.turned:
        high += HALFWAY * (1 - share)  # the others then read along rows
    seen = Evidence("samples", f"{percent(share)} of the time is of that launch")
    return cause.costs(Saving(low, mid, min(high, LONGEST_SAVING)), seen, known=True)
