"""Results that a kernel stores, and then loads or stores again.

Static: accesses of addresses that the same thread stored to before (`machine/reloads`). Dynamic:
samples of these accesses and of the rest of their lines, what waits for them, and barriers that
keep them behind the first stores.

Stores stay in the order of loads that may be of the same tensor, for all that a compiler knows. So
stores that are overwritten, among loads, cut these into groups that are waited for one after the
other; without them all are under way together.

All of that goes: what is loaded stands in a register, or in a register of another thread of the
block, which shared memory gives. What is left takes no less than the kernel's work does (`reach`),
whose bytes are without the loads. Other waits are longer as well for what is moved beside them, so
more goes than these samples. Waits after the exit stay, as those are for stores. Caches have
most of what comes again, so its traffic is not counted beside the waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import worked_out
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.reloads import Reloads, reloads_of
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code.numbers import (
    MOVED_AGAIN_LIKELY,
    MOVED_AGAIN_MOST,
    MOVED_AGAIN_SURE,
)

_LOADED = (
    "Use the value that was stored: the thread that loads it has it in a register. Where another"
    " thread of the block needs it, exchange it through shared memory (Triton: `tl.trans`,"
    " `tl.reshape`, `tl.sum` and the like do that), before it is stored."
)
_STORED = "Store a result once, when it is complete: what was stored before is overwritten."
_COMPILER = (
    "The address is that of a store before: see what keeps the value from being used (a barrier,"
    " an alias, another layout)."
)
_END = "drain"


def moved_again(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """A result that goes to memory and back."""
    found = reloads_of(code)
    if found is None:
        return
    again = found.loads or found.stores
    hot = code.hottest(again)
    assert hot is not None
    taken = _taken(case, code, found)
    share = code.share(taken)
    if share < COLD:
        return
    if found.loads:
        title = "a result is stored and then loaded again"
        text = f"{len(found.loads)} loads of addresses that their thread stored to before"
        if found.stores:
            text += f", and {len(found.stores)} stores of them again"
    else:
        title = "a result is stored twice at the same address"
        text = f"{len(found.stores)} stores to addresses that their thread stored to before"
    if found.barriers:
        text += f"; barriers between: {len(found.barriers)}"
    cause = Cause(
        title, case.at(hot), (Evidence("static", text),),
        _LOADED if found.loads else _STORED, _COMPILER,
    )  # fmt: skip
    left = reach.left(case, taken)
    likely, most = (left.mid, left.high) if left is not None else (1.0, 1.0)
    mid = min(MOVED_AGAIN_LIKELY * share, likely, LONGEST_SAVING)
    high = min(max(mid, MOVED_AGAIN_MOST * share), max(mid, most), LONGEST_SAVING)
    saving = Saving(MOVED_AGAIN_SURE * mid, mid, high, samples=int(taken.sum()))
    yield cause.costs(saving, sampled(code, taken, "are at them, or wait for them"), known=True)


def _taken(case: KernelCase, code: KernelCode, found: Reloads) -> Weights:
    """Samples that go: of lines that do nothing else, and of what waits for their accesses."""
    again = (*found.loads, *found.stores)
    lines = {_line(case, code, index) for index in again} - {0}
    before = [index for index in found.first if _line(case, code, index) in lines]
    part = len(again) / (len(again) + len(before))
    reasons = [each for each in code.by_reason() if each != _END]
    where = {*case.at_lines(code, lines), *again}
    taken = part * code.taken(code.rows(where, reasons))
    bars, loads = code.waiting_for(found.barriers, ("barrier",)), code.waiting_for(found.loads)
    apart = _apart(case, code, found)
    return np.asarray(np.maximum(np.maximum(taken, bars), np.maximum(loads, apart)))


def _apart(case: KernelCase, code: KernelCode, found: Reloads) -> Weights:
    """Waits for loads that stores keep from being under way together: with n such groups of loads
    a warp waits n times, and without the stores once. Gathers, whose lanes nobody knows, wait for
    their sectors as well, together or not: of those, half."""
    loads = [index for index in code.named("LDG") if found.first[0] < index]
    cuts = sorted({*found.first, *found.stores})
    groups = {sum(cut < load for cut in cuts) for load in loads if load < cuts[-1]}
    if found.loads or found.barriers or len(groups) < 2:
        return np.zeros(len(code.counts))
    every = [index for index in code.named("LDG") if index < cuts[-1]]
    known = worked_out(case)
    gathers = [index for index in every if known and index not in known]
    waits = code.waiting_for(every) - (1 - HALFWAY) * code.waiting_for(gathers)
    return (1 - 1 / (len(groups) + 1)) * waits


def _line(case: KernelCase, code: KernelCode, index: int) -> int:
    here = case.user_line(code.instructions[index].place)
    return here.line if here is not None else 0
