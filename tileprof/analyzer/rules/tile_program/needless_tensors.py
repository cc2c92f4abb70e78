"""Elements that are written to global memory although nothing needs them there.

Static: writes that a kernel's program shows to be needless (`needless_writes`): an input
copied, or turned, before it is read, a result copied after it was made, a tile that its block reads
back, elements that are written twice, zeros that are added to. Dynamic: bytes beside what memory
gives, samples by launch and by line.

    a launch that only copies     its share of the samples; where it exchanged the axes, also waits
                                  for the reads across rows in the launch with the most of them
    a tile that is read back      its bytes at the rate of writes, and the way there and back
    written twice, added to       part of that: while it is in the L2, a line is written there
                                  again; and samples of the additions

A program's launches are sampled as long as they run, so the first is exact up to what the copy left
in the L2. Zeros cost from nothing to more than their bytes, as they stand in the queue before what
is stored there next: that interval is wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Confidence, Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS, STORES
from tileprof.analyzer.kernel.launches import launch_shares
from tileprof.analyzer.kernel.queues import FULL
from tileprof.analyzer.numbers.kernels import MEMORY_USE_COPY
from tileprof.analyzer.numbers.shared import HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.tile_program.numbers import (
    NEEDLESS_ADDED,
    NEEDLESS_ADDS,
    NEEDLESS_ADDS_SURE,
    NEEDLESS_COPIED,
    NEEDLESS_KEPT,
    NEEDLESS_OVERWRITTEN,
    NEEDLESS_PASSED_ON,
)
from tileprof.analyzer.tiles.launches.needless_writes import How, Needless, needless_writes

_TITLES: dict[How, str] = {
    "copied": "`{tensor}` is a copy of an input",
    "turned": "`{tensor}` is `{instead}` with its axes exchanged, and read across its rows",
    "passed on": "`{tensor}` is written only to be copied to `{instead}`",
    "kept": "a tile goes through `{tensor}` in global memory and back",
    "overwritten": "`{tensor}` is written twice",
    "added to": "`{tensor}` is given zeros and then added to, once an element",
}
_WAYS: dict[How, str] = {
    "copied": "Read `{instead}` in its place: nothing changes either of them, and the launch that"
    " copies goes.",
    "turned": "Read `{instead}` in its place, with its indices in their order: lanes that are in"
    " different rows of `{tensor}` go along a row of `{instead}`, and the launch that copies goes.",
    "passed on": "Write `{instead}` where `{tensor}` is written now: nothing else reads `{tensor}`,"
    " and the launch that copies goes. If `{tensor}` is a result too, write both there.",
    "kept": "Keep the tile in registers or shared memory: the block reads what it wrote itself."
    " If something else reads `{tensor}` later, write it and go on with what is in registers.",
    "overwritten": "Leave out the first of the two: the second writes the same elements, and"
    " nothing reads them between.",
    "added to": "Store the sum in place of zeros and an atomic addition: each element is added to"
    " once, by the block that zeroed it.",
}
_AS_MANY = (
    "Leave out the first of the two if the second leaves no element out: it writes as many elements"
    " as `{tensor}` has, at places that data choose."
)
_COMPILER = "No pass removes tensors, or writes of tensors, that nothing needs."
_PARTS: dict[How, tuple[float, float, float]] = {
    "kept": NEEDLESS_KEPT, "overwritten": NEEDLESS_OVERWRITTEN, "added to": NEEDLESS_ADDED,
}  # fmt: skip


def needless_tensors(case: KernelCase) -> Iterator[Draft]:
    """Writes that could go: one finding a tensor."""
    held = dict[tuple[int, How, str], list[Needless]]()
    for each in needless_writes(case.tiles):
        held.setdefault((each.launch, each.how, each.tensor), []).append(each)
    return (_draft(case, writes) for writes in held.values())


def _draft(case: KernelCase, writes: Sequence[Needless]) -> Draft:
    first, size = writes[0], sum(each.written for each in writes)
    names = {"tensor": first.tensor[1:], "instead": first.instead[1:]}
    place = case.place(case.line(first.op.line))
    static = Evidence("static", f"{size / 1e6:,.3g} MB per launch are written there needlessly")
    surely = all(each.surely for each in writes)
    way = (_WAYS[first.how] if surely else _AS_MANY).format(**names)
    cause = Cause(_TITLES[first.how].format(**names), place, (static,), way, _COMPILER)
    shares = launch_shares(case)
    if first.alone and shares:
        share = min(sum(shares[n] for n in {e.launch for e in writes}), 1.0)
        lines = frozenset().union(*(each.others for each in writes))
        return _launch(cause, first.how, share, case, lines, surely)
    peak = case.roofs.mixed_rate(MEMORY_USE_COPY)
    if not peak or not case.time or not case.launches:
        return cause.warning()
    share = size / peak * 1e9 * case.launches / case.time
    text = f"{percent(min(share, 1.0))} of the time is what memory takes to write as much"
    written = Evidence("activities", text)
    parts = _PARTS.get(first.how, NEEDLESS_KEPT)
    low, mid, high = (min(part * share, LONGEST_SAVING) for part in parts)
    saving = Saving(low, mid, high)
    code = case.sampled
    if first.how not in ("added to", "overwritten") or code is None:
        return cause.costs(saving, written)
    lines = frozenset().union(*(each.lines for each in writes))
    others = frozenset().union(*(each.others for each in writes))
    if first.how == "added to":
        taken = code.taken(code.rows(case.at_lines(code, lines | others)))
        part, sure = NEEDLESS_ADDS, NEEDLESS_ADDS_SURE
    else:
        # Stores stand behind those that go, as long as behind one another.
        queued = code.taken(code.rows(case.at_lines(code, others, code.named(*STORES)), FULL))
        taken = code.taken(code.rows(case.at_lines(code, lines - others))) + HALFWAY * queued
        part, sure = 1.0, 0.0
    seen = sampled(code, taken, "are at the two, or in a queue behind them")
    told = eliminated(taken, code.whole, part, sure)
    return cause.costs(told if told.mid > saving.mid else saving, written, seen)


def _launch(
    cause: Cause, how: How, share: float, case: KernelCase, lines: frozenset[int], surely: bool
) -> Draft:  # fmt: skip
    parts = NEEDLESS_PASSED_ON if how == "passed on" else NEEDLESS_COPIED
    low, mid, high = (min(part * share, LONGEST_SAVING) for part in parts)
    code = case.sampled
    assert code is not None
    text = f"{percent(share)} of the time is of the launch that does that alone"
    seen = Evidence("samples", text, int(share * code.whole))
    if how != "turned":
        confidence: Confidence = "high" if surely else "medium"
        return cause.costs(Saving(low, mid, high), seen, confidence=confidence, known=True)
    loads = case.at_lines(code, lines, code.named(*LOADS))
    taken = np.maximum(code.waiting_for(loads), code.taken(code.rows(loads, FULL)))
    across, beyond = (1 - share) * code.share(taken), reach.left(case)
    high = max(high, beyond.high if beyond else min(high + across, LONGEST_SAVING))
    mid = min(mid + across, high if beyond is None else max(mid, beyond.mid))
    waits = sampled(code, taken, "wait for the reads across rows")
    return cause.costs(Saving(low, mid, high), seen, waits)
