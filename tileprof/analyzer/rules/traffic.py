"""More bytes from and to the device's memory than the work needs, because data are read again.

Static: the bytes of a kernel's tensors, by its IR, and of what its blocks read in their order
(`block_order`). Dynamic: bytes of DRAM and the hits of L2, by hardware counters, beside the time
and what the memory was measured to give.

    share that goes = use of DRAM × (1 - needed / moved)

The profile's `bytes` is what blocks ask for, once for each that asks: a product of two matrices of
8192² asks for 13 GB of 0.4 GB of tensors, and the L2 serves the rest. So needed is whichever is
less, `bytes` or the tensors, each once; and moved beyond even `bytes` has another cause than
moved beyond the tensors. A tensor larger than the L2 never comes down to moving once, so no more
than half of the gain is sure; and while DRAM is not what the kernel waits for (use below a half)
nothing is. Nor does a kernel become faster than its other work lets it (`reach`).

Without counters the order of blocks tells what moves: tiles that blocks of one wave share come
once, and again in the next wave if the L2 could not keep them. Where that takes most of the time
that was measured, while warps wait for memory, and rows of blocks in groups, or the axes of the
grid in another order, would move much less, memory is the limit, and the order is why. What is left
then takes as long as the traffic of the best groups, or the other work: products what they reach of
their roof. Traffic that would take longer than the kernel did was not there.

A product that was compiled elsewhere says nothing of its tensors, so whether bytes are read again
can not be told: traffic near the roof that the L2 serves badly is a symptom there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.block_order import Traffic, grouped, traffic_of
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.launches import has_products
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.numbers.shared import LONGEST_SAVING, MEMORY_REACHED
from tileprof.analyzer.rules.numbers.memory import (
    TRAFFIC_BESIDE,
    TRAFFIC_BOUND,
    TRAFFIC_FEWER,
    TRAFFIC_FULL,
    TRAFFIC_IDLE,
    TRAFFIC_IMPOSSIBLE,
    TRAFFIC_MORE,
    TRAFFIC_MOST_OF_IT,
    TRAFFIC_SERVED,
    TRAFFIC_SURE,
    TRAFFIC_TWICE,
    TRAFFIC_WAITING,
)
from tileprof.analyzer.rules.tile_program.across_rows import walked_across
from tileprof.analyzer.tiles.work import tensor_bytes, written_share

_LONG = "long_scoreboard"
_AGAIN = (
    "Let blocks that run at the same time share operands in L2: number them in groups of rows"
    " (`T.use_swizzle`), use larger tiles, or fuse kernels that read the same tensor."
)
_TURNED = (
    "Swap the axes of the grid: the first one varies fastest, and should be the one whose "
    "blocks read the same data."
)
_TURNED_TO = (
    "Reorder the axes of the grid, so that blocks that run together read the same data: give "
    "`T.Kernel` the extents that are now {}, in this order. The first varies fastest."
)
_AXES = ("its first", "its second", "its third")
_GROUPED = (
    "Blocks are in groups already: use larger tiles, so that each element is asked for less often,"
    " or fuse kernels that read the same tensor."
)
_BESIDE = (
    "More bytes are moved than the program asks for: look for accesses that use only part of each"
    " 32-byte sector (`uncoalesced-global`), and for registers in memory (`spill-hot`)."
)
_COMPILER = (
    "See in which order blocks run, and whether what they share is in L2 when they do:"
    " `T.use_swizzle` and the grouping of persistent blocks decide that."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Traffic of DRAM beyond the bytes that are needed."""
    if not case.total("dram_bytes"):
        modelled = list(_modelled(case))
        yield from modelled or walked_across(case)
    elif case.roofs.needed_bytes:
        yield from _counted(case)
    else:
        yield from _elsewhere(case)


def _counted(case: KernelCase) -> Iterator[Draft]:
    moved, needed, peak = case.total("dram_bytes"), case.roofs.needed_bytes, case.roofs.memory_peak
    traffic = traffic_of(case)
    if traffic:
        needed = max(needed, min(traffic.best, traffic.now))
    if moved < TRAFFIC_MORE * needed:
        return
    asked = case.total("bytes")
    evidence: tuple[Evidence, ...] = (
        Evidence("static", f"{needed / 1e9:.3g} GB are needed{_of(needed, asked)}"),
        Evidence("counters", f"{moved / 1e9:.3g} GB are moved{_hits(case)}"),
    )
    title = f"{moved / needed:.1f} times the bytes that are needed come from memory"
    beside = bool(asked) and moved > TRAFFIC_MORE * asked
    rows, place = grouped(case)
    author = _BESIDE if beside else _GROUPED if rows > 1 else _AGAIN
    compiler = "" if beside else _COMPILER
    if not case.time or peak is None:
        yield Draft("symptom", title, place, evidence, author, compiler)
        return
    use = moved / case.time * 1e9 / peak.value
    text = f"{percent(use, 0)} of {peak.value / 1e12:.3g} TB/s, as measured ({peak.name})"
    evidence = (*evidence, Evidence("activities", text))
    if use < TRAFFIC_IDLE:
        yield Draft(
            "ignore", f"{title}, but memory bandwidth is not the limit", place, evidence,
            "Leave it: the kernel does not wait for memory.", confidence="high",
        )  # fmt: skip
        return
    saving = _saving(case, use, needed / moved)
    yield Draft("suggestion", title, place, evidence, author, compiler, saving)


def _saving(case: KernelCase, use: float, kept: float) -> Saving:
    share = min(min(use, 1.0) * (1 - kept), LONGEST_SAVING)
    left = reach.left(case)
    mid, high = (share, share) if left is None else (min(share, left.mid), min(share, left.high))
    return Saving(TRAFFIC_SURE * mid if use >= TRAFFIC_BOUND else 0.0, mid, high)


def _modelled(case: KernelCase) -> Iterator[Draft]:
    """What the order of blocks tells, where nothing was counted."""
    traffic, peak, code = traffic_of(case), case.roofs.memory_peak, case.sampled
    if traffic is None or peak is None or not case.time or code is None:
        return
    now, best = (_at_memory(case, each) for each in (traffic.now, traffic.best))
    waits = code.n(reasons=(_LONG,)) / code.whole
    limits = now >= TRAFFIC_MOST_OF_IT
    beside = now - best >= TRAFFIC_BESIDE and now >= TRAFFIC_TWICE * best
    matters = waits >= TRAFFIC_WAITING if limits else beside
    if now > TRAFFIC_IMPOSSIBLE or now < TRAFFIC_FEWER * best or not matters:
        return
    rows, place = grouped(case)
    title = (
        f"because of the order of blocks, L2 reads {traffic.now / traffic.best:.1f} times as much "
        f"as necessary"
    )
    author = _order_of(traffic, rows)
    rate = traffic.now / case.time / now / 1e3
    roof = f"{percent(now, 0)} of the time at {rate:.3g} TB/s, as measured"
    waiting = f"{percent(waits)} of the samples wait for memory"
    evidence = (
        Evidence("static", _launched(case, traffic)),
        Evidence("activities", f"that takes {roof} for such a mix of reads and writes"),
        Evidence("samples", waiting, int(waits * code.whole)),
    )
    if not limits:  # warps wait longer for what comes from memory, but work goes on beside it
        yield Draft(
            "symptom", title, place, evidence, author, _COMPILER, confidence="low",
        )  # fmt: skip
        return
    saving = _down_to(case, best, MEMORY_REACHED if traffic.streamed else TRAFFIC_FULL)
    if not (traffic.streamed or has_products(case)):  # indices may have an order of their own
        saving = Saving(min(saving.low, TRAFFIC_SURE * saving.mid), saving.mid, saving.high)
    yield Draft("suggestion", title, place, evidence, author, _COMPILER, saving)


def _order_of(traffic: Traffic, rows: int) -> str:
    """What to write, in place of groups of so many rows."""
    if traffic.turned:
        given = ", ".join(_AXES[axis] for axis in traffic.axes)
        return _TURNED_TO.format(given)
    if traffic.group >= traffic.rows:
        return _TURNED
    author = f"Number blocks in groups of {traffic.group} rows, not of {rows}: those that run"
    return f"{author} together then share operands in L2 (`T.use_swizzle({traffic.group})`)."


def _at_memory(case: KernelCase, moved: float) -> float:
    """Of the time, what so many bytes take, what is written among them: memory gives less to a mix.
    Without a measured rate of mixes, at the best that memory gave."""
    peak = case.roofs.memory_peak
    written = tensor_bytes(case.tiles) * written_share(case.tiles) * case.launches
    rate = case.roofs.mixed_rate(min(1.0, written / moved)) or (peak.value if peak else math.inf)
    return moved / rate * 1e9 / case.time


def _launched(case: KernelCase, traffic: Traffic) -> str:
    now, best = (each / case.launches / 1e9 for each in (traffic.now, traffic.best))
    read = f"in the order of blocks {now:.3g} GB per launch come from memory, as what they share is"
    if traffic.turned:
        return f"{read} read again; in another order of the grid's axes {best:.3g}"
    return f"{read} read again; in groups of {traffic.group} rows {best:.3g}"


def _down_to(case: KernelCase, memory: float, reached: tuple[float, float, float]) -> Saving:
    """To that share of the time, by what of the roof is reached, or to what other work takes."""
    left = reach.left(case) or Saving(0, 1, 1)
    others = 1 - at_roof(case) if case.roofs.tensor_floor else left.mid
    shares = zip((left.high, others, left.low), reached)
    high, mid, low = (max(0.0, min(share, 1 - memory / full)) for share, full in shares)
    return Saving(min(low, mid), mid, max(mid, high))


def _elsewhere(case: KernelCase) -> Iterator[Draft]:
    """Products whose tensors nobody tells of."""
    rate, peak, code = case.rate("l2_hit_rate"), case.roofs.memory_peak, case.code
    if rate is None or peak is None or not case.time or not code or not code.named(*MATRIX):
        return
    use = case.total("dram_bytes") / case.time * 1e9 / peak.value
    if use < TRAFFIC_BOUND or rate > TRAFFIC_SERVED:
        return
    text = f"{percent(use, 0)} of {peak.value / 1e12:.3g} TB/s, as measured ({peak.name})"
    evidence = (
        Evidence("counters", f"L2 serves {percent(rate, 0)} of what is requested from it"),
        Evidence("counters", text),
    )
    yield Draft("symptom", "a product waits for memory that L2 does not serve", case.place(),
                evidence, _AGAIN)  # fmt: skip


def _of(needed: float, asked: float) -> str:
    return (
        f", each byte once: blocks ask for {asked / 1e9:.3g}"
        if asked > TRAFFIC_MORE * needed
        else ""
    )


def _hits(case: KernelCase) -> str:
    rate = case.rate("l2_hit_rate")
    return (
        "" if rate is None else f", and L2 serves {percent(rate, 0)} of what is requested from it"
    )


RULE = KernelRule("excess-traffic", find, ("counters",))
