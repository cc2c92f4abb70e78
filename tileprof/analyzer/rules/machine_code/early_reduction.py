"""Reductions across threads in every iteration of a loop that could run once, after it.

Static: registers that a loop adds to in each turn, whose addends are sums over threads
(`machine/early_sums`). Dynamic: samples of exchanges between threads and of barriers among them,
what waits for them, and waits in the queue that they fill.

A sum over threads of sums over turns is a sum over turns of sums over threads, so threads need to
meet once and not in each of n turns: (1 - 1 / n) of it goes. Waits for global memory at these
instructions stay. No more goes than the kernel's work leaves (`reach`): where memory is at its
roof, exchanges run beside it. Where results of products lie the other way round, that is the cause
(`turned_results`). Each thread then keeps as many partial sums as it adds up elements in
a turn, which takes registers: where fewer blocks fit on a multiprocessor with these, what comes
back is not known, and no gain is stated.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.kernel.next_step import blocks_with
from tileprof.analyzer.kernel.queues import behind, passes_of
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.early_sums import EarlySums, early_sums
from tileprof.analyzer.machine.loops import turns
from tileprof.analyzer.machine.turned_results import turned_results
from tileprof.analyzer.numbers.shared import COOL, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code.checked_places import checked_places
from tileprof.analyzer.rules.tile_program.small_chunks import in_small_chunks
from tileprof.analyzer.rules.triton.met_each_time import met_in_each_iteration

_AUTHOR = (
    "Add up elements of a tile over the iterations, each thread its own, and reduce the tile once"
    " behind the loop: the result is only added up, so the order does not matter (Triton: a tile of"
    " partial sums in the loop, `tl.sum` after it)."
)
_COMPILER = (
    "The reduction's result is only added to what the loop carries: it could be moved out of the"
    " loop, for partial sums in registers."
)
_MEMORY = "long_scoreboard"


def find(case: KernelCase) -> Iterator[Draft]:
    """A loop in which threads meet in each turn for a sum, or for few elements."""
    yield from in_small_chunks(case)
    yield from checked_places(case)
    yield from met_in_each_iteration(case)
    code = case.sampled
    found = early_sums(code) if code else None
    if code is None or found is None or turned_results(code) is not None:
        return
    taken = _taken(code, found)
    share, left = code.share(taken), reach.left(case, taken)
    if share < COOL:
        return
    text = (
        f"{len(found.sums)} sums that the loop carries take what {len(found.exchanges)} exchanges"
        " and barriers reduce across threads in each iteration, and nothing else uses them"
    )
    hot = code.hottest(found.exchanges)
    assert hot is not None
    title = (
        "a loop reduces a sum across threads in each iteration, which could be done once after it"
    )
    cause = Cause(title, case.at(hot), (Evidence("static", text),), _AUTHOR, _COMPILER)
    seen = sampled(code, taken, "are at these exchanges and barriers, or wait for them")
    launch = launch_of(case)
    if launch is not None and blocks_with(case, launch, found.apart) < launch.held:
        kept = f"{found.apart} partial sums more in each thread leave room for fewer blocks"
        yield cause.symptom(Evidence("static", kept), seen)
        return
    goes = (1 - 1 / _turns(code, found.loop)) * share
    likely, most = (left.mid, left.high) if left is not None else (1.0, 1.0)
    mid = min(goes, likely, LONGEST_SAVING)
    if mid < COOL:
        leave = "Leave it: memory or other work takes as long."
        yield cause.ignored(", where it costs nothing", leave, seen)
        return
    saving = Saving(HALFWAY * mid, mid, max(mid, min(share, most)), samples=int(taken.sum()))
    yield cause.costs(saving, seen, known=True)


def _turns(code: KernelCode, loop: range) -> float:
    """How often the loop turns, at least twice, by samples of warps that issue."""
    outside = code.where(lambda each: each.depth == 0 and each.index < loop.start)
    before = turns(code, outside)
    return max(2.0, turns(code, loop) / before) if before else 2.0


def _taken(code: KernelCode, found: EarlySums) -> Weights:
    """Samples that go with the exchanges."""
    reasons = [each for each in code.by_reason() if each != _MEMORY]
    own = code.taken(code.rows((*found.exchanges, *found.adds), reasons))
    queued = {
        index: passes_of(code.instructions[index]) for index in found.exchanges
        if code.instructions[index].name != "BAR"
    }  # fmt: skip
    taken = np.maximum(own, code.waiting_for(found.exchanges))
    return np.maximum(taken, behind(code, queued))


RULE = KernelRule("early-reduction", find)
