"""A block alone whose warp groups multiply, and compute on results, all at the same time.

Static: one block on a multiprocessor, and what a second one needs; a loop of products of warp
groups with arithmetic between them, as the exponentials of attention; no program that deals
out warp groups to roles. Dynamic: samples at barriers of that loop while nobody issues.

Barriers that a turn needs for its tiles keep the warp groups in step: tensor cores wait while all
compute, and schedulers while all multiply. Of two blocks one computes while the other multiplies,
as in a closed network of queues (`side_by_side`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import Launch, launch_place
from tileprof.analyzer.kernel.next_step import next_step
from tileprof.analyzer.kernel.side_by_side import demands, faster
from tileprof.analyzer.machine.arithmetic import is_of_results
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS
from tileprof.analyzer.machine.loops import is_innermost, loops_with
from tileprof.analyzer.numbers.shared import FEWEST_SAMPLES, HALFWAY
from tileprof.analyzer.rules.machine_code.numbers import IN_STEP_WAITING
from tileprof.analyzer.rules.numbers.blocks import OCCUPANCY_SURE

_AUTHOR = (
    "Make room for a second block, which needs {}: a smaller tile, fewer threads, or fewer stages."
)


def alone_in_step(case: KernelCase, launch: Launch) -> Iterator[Draft]:
    """A kernel of products, with arithmetic between them, in which nobody covers barriers."""
    code, step, left = case.sampled, next_step(case, launch), reach.left(case)
    if code is None or case.ir or launch.held != 1 or launch.each <= 1 or step is None:
        return
    loops = [loop for loop in loops_with(code, PRODUCTS) if is_innermost(code, loop)]
    loop = max(loops, key=code.n, default=None)
    if loop is None:
        return
    computes = [index for index in loop if is_of_results(code.instructions[index].name)]
    issued = code.n(computes, (ISSUED,)) / max(code.n(loop, (ISSUED,)), 1)
    waiting = code.n(loop, ("barrier",), idle=True)
    if issued < HALFWAY or waiting < max(IN_STEP_WAITING * code.whole, FEWEST_SAMPLES):
        return
    mid = 1 - 1 / faster(demands(case, code), launch.held, min(2.0, launch.each))
    high = max(mid, left.high if left else mid)
    static = (
        f"1 block of {launch.threads} threads per multiprocessor; a second one needs {step.needs};"
        f" {percent(issued, 0)} of what its loop of products issues computes on their results"
    )
    seen = (
        f"{percent(waiting / code.whole)} of the samples wait at its barriers while nobody issues"
    )
    yield Draft(
        "suggestion", "warp groups of one block multiply and compute in step", launch_place(case),
        (Evidence("static", static), Evidence("samples", seen, waiting)),
        _AUTHOR.format(step.needs), saving=Saving(OCCUPANCY_SURE * mid, mid, high),
    )  # fmt: skip
