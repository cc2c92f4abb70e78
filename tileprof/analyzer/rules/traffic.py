"""More bytes from and to the device's memory than the work has: what was read is read again.

Static: the bytes of a kernel's tensors, by its IR. Dynamic: bytes of DRAM and the hits of L2, by
hardware counters, beside the time and what the memory was measured to give.

    share that goes = use of DRAM × (1 - needed / moved)

The profile's `bytes` is what blocks ask for, once for each that asks: a product of two matrices of
8192² asks for 13 GB of 0.4 GB of tensors, and the L2 serves the rest. So needed is whichever is
less, `bytes` or the tensors, each once; and moved beyond even `bytes` has another cause than
moved beyond the tensors. A tensor larger than the L2 never comes down to moving once, so no more
than half of the gain is sure; and while DRAM is not what the kernel waits for (use below a half)
nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, Place, percent

__all__ = ["RULE"]

_MORE = 1.2
"""Moved by needed, below which it is what lines and refills cost."""
_IDLE = 0.3
"""Of DRAM's bandwidth, below which more traffic than needed does no harm."""
_BOUND = 0.5
"""From which on DRAM is what some of the time goes to, not only what it is used for meanwhile."""
_LONGEST = 0.98
_GROUPS = re.compile(r"blocks in groups of (\d+) rows")
_AGAIN = (
    "Let blocks that run at the same time share operands in L2: number them in groups of rows"
    " (`T.use_swizzle`), use larger tiles, or fuse kernels that read the same tensor."
)
_GROUPED = (
    "Blocks are in groups already: use larger tiles, so that each element is asked for less often,"
    " or fuse kernels that read the same tensor."
)
_BESIDE = (
    "More moves than the program asks for: look for accesses that use a part of each sector of 32"
    " bytes (`uncoalesced-global`), and for registers in memory (`spill-hot`)."
)
_COMPILER = (
    "See in which order blocks run, and whether what they share is in L2 when they do:"
    " `T.use_swizzle` and the grouping of persistent blocks decide that."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Traffic of DRAM beyond the bytes that are needed."""
    moved, needed, peak = case.total("dram_bytes"), case.needed_bytes, case.memory_peak
    if not moved or not needed or moved < _MORE * needed:
        return
    asked = case.total("bytes")
    evidence: tuple[Evidence, ...] = (
        Evidence("static", f"{needed / 1e9:.3g} GB are to be moved{_of(needed, asked)}"),
        Evidence("counters", f"{moved / 1e9:.3g} GB are{_hits(case)}"),
    )
    title = f"{moved / needed:.1f} times the bytes that are needed come from memory"
    beside = bool(asked) and moved > _MORE * asked
    rows, place = _grouped(case)
    author = _BESIDE if beside else _GROUPED if rows > 1 else _AGAIN
    compiler = "" if beside else _COMPILER
    if not case.time or peak is None:
        yield Draft("symptom", title, place, evidence, author, compiler)
        return
    use = moved / case.time * 1e9 / peak.value
    text = f"{percent(use, 0)} of {peak.value / 1e12:.3g} TB/s, as measured ({peak.name})"
    evidence = (*evidence, Evidence("activities", text))
    if use < _IDLE:
        yield Draft(
            "ignore", f"{title}, and memory has room", place, evidence,
            "Leave it: memory is not what it waits for.", confidence="high",
        )  # fmt: skip
        return
    yield Draft(
        "suggestion", title, place, evidence, author, compiler, _saving(use, needed / moved)
    )


def _saving(use: float, kept: float) -> Saving:
    share = min(min(use, 1.0) * (1 - kept), _LONGEST)
    return Saving(0.5 * share if use >= _BOUND else 0.0, share, share)


def _of(needed: float, asked: float) -> str:
    return f", each byte once: blocks ask for {asked / 1e9:.3g}" if asked > _MORE * needed else ""


def _hits(case: KernelCase) -> str:
    rate = case.rate("l2_hit_rate")
    return "" if rate is None else f", and L2 has {percent(rate, 0)} of what it is asked for"


def _grouped(case: KernelCase) -> tuple[int, Place]:
    """How many rows of blocks are in a group, and where that is said; 1 where they are in none."""
    for remark in case.remarks:
        if found := _GROUPS.match(remark.chosen):
            return int(found[1]), case.place(remark.location, remark.op)
    return 1, case.place()


RULE = KernelRule("excess-traffic", find, ("counters",))
