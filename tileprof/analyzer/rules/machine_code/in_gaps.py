"""Stores that leave gaps for other stores of their thread: L2 takes each sector several times.

Static: stores of one thread at neighbouring addresses (`gapped_stores`). Dynamic: the bytes of the
sectors that they ask for, beside the kernel's time and what L2 gives.

Nobody waits at such a store: the queue takes it. What it costs are turns of L2, so that everything
takes longer that goes there. On an H200 kernels whose stores left gaps were not faster than L2 took
for their sectors, at 0.7 of its rate of reads; and at 0.42 of it where a lane stored less than a
word. Other work goes on meanwhile: of a part b of the time that L2 is busy, and b' where each
sector is stored once, b^n - b'^n goes, so that next to nothing is left of a b that is small
(`IN_GAPS_POWER`). No more goes than the kernel's other work leaves (`reach`).
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.threads.gapped_stores import gapped_stores
from tileprof.analyzer.numbers.shared import COOL, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code.numbers import IN_GAPS_OF_L2, IN_GAPS_POWER, IN_GAPS_WORD

_AUTHOR = (
    "Store neighbouring elements by one instruction: let one statement store all of a thread's"
    " elements, in memory order, with one condition for all of them; a condition that"
    " differs from element to element, or an index with a step, keeps the compiler from 16 bytes a"
    " thread."
)
_COMPILER = "See what prevents a thread's stores of neighbouring bytes from being merged."


def in_gaps(case: KernelCase) -> Draft | None:
    """Stores that leave gaps, where L2 is busy with them; None where they cost nothing."""
    gapped, code = gapped_stores(case), case.sampled
    peak, moved = case.roofs.peaks.get("l2_read"), case.total("bytes")
    if gapped is None or code is None or peak is None or not moved or not case.time:
        return None
    others = max(0.0, moved - gapped.filled)
    of_roof = IN_GAPS_OF_L2[gapped.width < IN_GAPS_WORD]
    now, then = (
        min(1.0, (others + stored) / case.time * 1e9 / (of_roof * peak.value))
        for stored in (gapped.touched, gapped.filled)
    )
    rest = (1 - now**IN_GAPS_POWER + then**IN_GAPS_POWER) ** (1 / IN_GAPS_POWER)
    left = reach.left(case, code.taken(code.rows(gapped.where))) or Saving(0, 1, 1)
    mid = min(1 - rest, left.mid, LONGEST_SAVING)
    if mid < COOL:
        return None
    hot = code.hottest(gapped.where)
    assert hot is not None
    touched, filled = (each / case.launches / 1e6 for each in (gapped.touched, gapped.filled))
    evidence = (
        Evidence(
            "static",
            f"{len(gapped.where)} stores of {gapped.width} bytes per thread, of which one thread's"
            f" fill {gapped.chunk} bytes side by side: their sectors come to {touched:,.0f} MB a"
            f" launch, for {filled:,.0f} MB",
        ),
        Evidence(
            "activities",
            f"L2 is busy for {percent(now, 0)} of the time with that, and would be for"
            f" {percent(then, 0)}, at {of_roof * peak.value / 1e12:.3g} TB/s for such stores",
        ),
        Evidence("samples", f"samples: {code.n(gapped.where):,} at these stores", code.whole),
    )  # fmt: skip
    title = f"a thread stores {gapped.chunk} bytes by accesses of {gapped.width}, with gaps"
    cause = Cause(title, case.at(hot), evidence, _AUTHOR, _COMPILER)
    high = min(max(left.high, mid), LONGEST_SAVING)
    return cause.costs(Saving(HALFWAY * now * mid, mid, high), known=True)
