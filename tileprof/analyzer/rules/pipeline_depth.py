"""Loops that wait for tiles although their loads run ahead: not far enough.

Static: `num_stages` and the bytes of a stage in the IR; what the compiler says of copies that it
waits for at once. Dynamic: samples of warps that wait for an asynchronous copy (of the branch that
reads the answer of an mbarrier, or after `DEPBAR` for cp.async) while nobody issued. A producer
that waits for a free slot is no sign of anything: it does so whenever loads are fast enough.

Of a turn of time 1, E waits. Without, it takes C = max(1 - E, u), where tensor cores multiply for u
of it. Loads of n' instead of n stages are under way at once, so that by Little's law a turn takes n
/ n' if their latency does not change: the time becomes max(C, n / n'). n' is the least that reaches
C, as far as shared memory has room. At least each further stage hides C of the latency.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving, Weights, hidden
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.loops import COPIES, loop_around, slow_paths, tensor_use, turns
from tileprof.analyzer.pipelines import Ring, rings_of, spare_bytes
from tileprof.profile import RemarkInfo

__all__ = ["RULE"]

_READY = 50
"""Cycles that a wait takes whose tile is there: 45 in an H200's product that lacks no data."""
_COLD = 0.01
_TOLD = 0.02
"""Of the time, a saving that is more than noise."""
_MUCH = 0.1
"""Of the time, what is worth a word where no gain can be told."""
_REASONS = ("long_scoreboard", "branch_resolving")
_TITLE, _EACH = "loads do not run far enough ahead", "tiles are waited for at once"
_AT_ONCE = "cp.async, waited for at once"
_MOST_STAGES = 8
_LEAST_REST = 0.02
"""Of a turn, what is never hidden: more would be a guess."""
_COMPILER = (
    "The ring has as many slots as `num_stages` says, and one product in flight holds one of them:"
    " see whether slots are freed as early as they can be."
)


@dataclass(frozen=True, eq=False)
class _Wait:
    """A loop that waits for its tiles."""

    loop: range
    where: tuple[int, ...]
    exposed: Weights
    """By row, samples that wait while nobody issues, beyond what a wait takes that need not."""
    share: float
    """Of the time of the warps that use the tiles."""
    rest: float
    """Of it, what the loop takes without these waits."""
    cycles: float
    """By turn."""
    whole: float
    """Samples of these warps."""


@dataclass(frozen=True, slots=True)
class _Loads:
    """What is known of how loads run ahead."""

    ring: Ring | None
    said: RemarkInfo | None
    """Of copies that are waited for at once, whatever the ring has."""

    @property
    def stages(self) -> int:
        """That are under way at once."""
        return 1 if self.said or self.ring is None else self.ring.stages


def find(case: KernelCase) -> Iterator[Draft]:
    """The loop that waits the most."""
    code = case.sampled
    said = next((each for each in case.remarks if each.chosen == _AT_ONCE), None)
    rings = rings_of(case.info.ir if case.info else "")
    if code is None or not code.named(*COPIES):
        if said:
            place = case.place(said.location, said.op)
            static = Evidence("static", f"{said.op}: {said.chosen}, not {_against(said)}")
            yield Draft("warning", _EACH, place, (static,), _run_ahead(said), _COMPILER)
        return
    found = max(_waits(case, code), key=lambda each: each.share, default=None)
    if found is not None and found.share >= _COLD:
        yield from _draft(case, code, found, _Loads(rings[0] if rings else None, said))
    elif said:
        place = case.place(said.location, said.op)
        text = "less than 1% of the time goes by waiting for copies"
        yield Draft("ignore", _EACH, place, (Evidence("samples", text),), "Leave it: it is free.")


def _waits(case: KernelCase, code: KernelCode) -> Iterator[_Wait]:
    """The loops with waits for copies."""
    copies = set(code.named(*COPIES))
    offsets = {code.instructions[index].offset for index in copies}
    waiting = {b.offset for b in code.function.blames if b.producer in offsets}
    at = code.where(lambda each: each.offset in waiting)
    loops = {loop for index in at if (loop := loop_around(code, index))}
    # Where some loops only use tiles, those that load them wait for free slots.
    users = {loop for loop in loops if not copies & set(loop)}
    for loop in users or loops:
        where = tuple(index for index in at if index in loop)
        apart = _apart(code, copies, loop)
        yield _wait(case, code, loop, where, code.whole - apart)


def _apart(code: KernelCode, copies: set[int], loop: range) -> int:
    """Samples of warps that do nothing but load for others: their loop has no such wait."""
    loops = {loop_around(code, index) for index in copies}
    return sum(code.n(each) for each in loops if each and not set(each) & set(loop))


def _wait(
    case: KernelCase, code: KernelCode, loop: range, where: tuple[int, ...], whole: float
) -> _Wait:
    slow, turned = slow_paths(code, loop), turns(code, loop)
    idle = code.n(where, _REASONS, idle=True) + code.n(slow, idle=True)
    # What asks an mbarrier, and the branch on its answer, are one wait.
    waits = sum(code.instructions[index].name != "SYNCS" for index in where)
    late = max(0.0, idle - _READY * turned * max(waits, 1))
    all_waits = code.taken(code.rows(where, _REASONS) | code.rows(slow))
    # What goes is a share of these warps' time, and told as that share of all samples.
    scale = late / max(float(all_waits.sum()), 1.0) * code.whole / max(whole, 1.0)
    share = late / max(whole, 1.0)
    inside = code.n([*loop, *slow])
    most = max(0.0, (1 - tensor_use(case, code, loop)) * inside / max(whole, 1.0))
    return _Wait(
        loop, where, all_waits * scale, share, max(1 - min(share, most), _LEAST_REST),
        late / turned if turned else 0.0, whole,
    )  # fmt: skip


def _draft(case: KernelCase, code: KernelCode, wait: _Wait, loads: _Loads) -> Iterator[Draft]:
    hot = code.hottest(wait.where)
    assert hot is not None
    line = case.user_line(hot.place)
    place = case.place(line, case.op_at(line), (hot.offset, hot.offset))
    text = f"{percent(wait.share)} of the time, {wait.cycles:,.0f} cycles a turn, goes by waiting"
    measured = Evidence("samples", f"{text} for copies", int(wait.exposed.sum()))
    evidence = (Evidence("static", _seen(code, wait, loads)), measured)
    stages = _stages(case, wait, loads)
    title, advice = _EACH if loads.said else _TITLE, _advice(loads, stages)
    saving = _saving(wait, loads, stages) if loads.ring else _unknown(code, wait)
    if saving.mid >= _TOLD:
        yield Draft("suggestion", title, place, evidence, advice, _COMPILER, saving)
    elif wait.share >= _MUCH and 1 - wait.rest >= _COLD:
        yield Draft("symptom", f"{title}, and too little hides them", place, evidence, advice,
                    _COMPILER)  # fmt: skip


def _stages(case: KernelCase, wait: _Wait, loads: _Loads) -> int:
    """The fewest stages that leave no wait, as far as they fit; one more where that is unknown."""
    ring = loads.ring
    if ring is None or loads.said:
        return ring.stages if ring else 0
    wanted = min(max(ceil(ring.stages / wait.rest), ring.stages + 1), _MOST_STAGES)
    spare = spare_bytes(case)
    if spare is None:
        return ring.stages + 1
    return min(wanted, ring.stages + max(spare, 0) // ring.stage_bytes)


def _saving(wait: _Wait, loads: _Loads, stages: int) -> Saving:
    """From the stages that there are to `stages`."""
    most, more = 1 - wait.rest, stages - loads.stages
    mid = min(most, 1 - loads.stages / max(stages, loads.stages))
    low = min(mid, more * wait.rest) / 2
    rows = mid / wait.share * wait.exposed
    return Saving(low, mid, most if more else mid, rows, int(wait.exposed.sum()))


def _unknown(code: KernelCode, wait: _Wait) -> Saving:
    """Where stages are not known, no more than the loop's own issued work is hidden behind."""
    waiting = np.minimum(wait.exposed, code.counts)
    return hidden(waiting, code.n(wait.loop, ("selected",)), code.whole)


def _seen(code: KernelCode, wait: _Wait, loads: _Loads) -> str:
    if loads.said:
        return f"{loads.said.op}: {loads.said.chosen}, not {_against(loads.said)}"
    if loads.ring:
        kilobytes = loads.ring.stage_bytes / 1024
        held = f"{loads.ring.stages} stages of {kilobytes:.0f} KB"
        return f"loop {loads.ring.variable} has {held}"
    copies = [index for index in wait.loop if code.instructions[index].name in COPIES]
    what = code.instructions[copies[0]].name if copies else "a copy"
    return f"{what} is waited for in a loop of {len(wait.loop)} instructions"


def _against(said: RemarkInfo) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in said.rejected)


def _run_ahead(said: RemarkInfo) -> str:
    return f"Let the loads run ahead: {'; '.join(reason for _, reason in said.rejected)}."


def _advice(loads: _Loads, stages: int) -> str:
    ring = loads.ring
    if loads.said:
        return _run_ahead(loads.said)
    if ring is None:
        return "Begin copies more turns ahead of their use: a ring of two to four slots."
    kilobytes = (stages - ring.stages) * ring.stage_bytes / 1024
    if stages > ring.stages:
        return f"Write `num_stages={stages}`: it takes {kilobytes:.0f} KB more of shared memory."
    return (
        f"One more stage of {ring.stage_bytes / 1024:.0f} KB does not fit: take a smaller tile, or"
        " smaller elements, and more stages."
    )


RULE = KernelRule("pipeline-too-shallow", find)
