"""Two launches of a tile kernel of which the second finishes what the first one computed.

Static: the first writes tensors that the second alone reads, each block, or each thread, only its
own part (`tiles/launch_pairs`). Dynamic: the time of each launch (`launch_shares`), and what memory
takes for their tensors.

One launch keeps these elements in registers. So the second one's time goes, but for what its other
tensors take, and of the first what writing the elements takes, by the part of its time that memory
takes: beside products a write costs nothing. Half of the second one's part is sure, as its
arithmetic stays; at most all of it and the write go, with what starting a launch takes.
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

_AUTHOR = (
    "Do in the first launch what the second one does, with the values that its threads have in"
    " registers: each {who} of the second reads only what {whose} of the first wrote. Store {names}"
    " only if something else needs it."
)
_COMPILER = "No pass makes one launch of two."


def split_launches(case: KernelCase) -> Iterator[Draft]:
    """Pairs of launches that one could replace."""
    return (_draft(case, each) for each in splits(case.tiles))


def _draft(case: KernelCase, split: Split) -> Draft:
    names = " and ".join(f"`{each[1:]}`" for each in split.tensors)
    who, whose = ("block", "the block with its number") if split.by_blocks else (
        "thread", "one thread"
    )  # fmt: skip
    title = f"a launch of its own finishes what is in {names}"
    text = f"{split.moved / 1e6:,.3g} MB are written by one launch and read by the next one alone"
    cause = Cause(
        title, case.place(case.line(split.launch.line), "launch"), (Evidence("static", text),),
        _AUTHOR.format(who=who, whose=whose, names=names), _COMPILER,
    )  # fmt: skip
    peak = case.roofs.mixed_rate(MEMORY_USE_COPY)
    if not peak or not case.time or not case.launches:
        return cause.warning()
    call, moved, before, after = (
        case.time / case.launches,
        *(1e9 * size / peak for size in (split.moved, split.before, split.after)),
    )
    shares = launch_shares(case)
    first, second = (
        (call * shares[split.first], call * shares[split.first + 1]) if shares
        else (before + moved, after + moved)
    )  # fmt: skip
    written = moved * min(1.0, (before + moved) / first) if first else 0.0
    left = max(0.0, second - after)
    least, likely, most = CUT_LAUNCHES_EACH
    saved = (HALFWAY * left + least, written + left + likely, moved + second + most)
    low, mid, high = (min(each / call, LONGEST_SAVING) for each in saved)
    told = (
        f"the second launch takes {duration(second)} of {duration(call)}, and its other tensors"
        f" {duration(after)} of that; to write these takes memory {percent(moved / call)} of the"
        " time"
    )
    seen = Evidence("samples" if shares else "activities", told)
    return cause.costs(Saving(low, mid, max(mid, high)), seen, known=True)
