"""Blocks of so many threads that each has one access, and then waits for all others.

Static: the bytes that a launch moves, by its threads; code with barriers, without loops or in one
that loads nothing. Dynamic: samples that wait at these, or for exchanges between threads; without
loops, the kernel's distance from what moving its bytes takes.

What a block does for its data as a whole (sums over its warps, barriers, its begin and end) takes
as long for few bytes as for many, and most of the latency of memory: a thread with one load has
nothing else under way. With half of the threads each has two accesses under way, and a
multiprocessor twice as many blocks, which are at different phases.

A loop over what threads hold, which meets in each iteration, exchanges numbers once for each warp
and iteration, however few elements a warp has. With 128 threads, which are a warp for each
scheduler, that many times fewer exchanges are left; what threads do with elements stays.

Without a loop, the gain is likely what is left to the least that such kernels reach of the memory's
rate, and at most what is left to the rate itself (`reach`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.kernel.launches import has_products, launch_of, launch_place
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers.shared import COLD, FEWEST_SAMPLES, HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code.numbers import (
    SHORT_PHASES_BYTES,
    SHORT_PHASES_FEWEST,
    SHORT_PHASES_THREADS,
    SHORT_PHASES_WAITING,
)

_EXCHANGES = ("BAR", "SHFL", "REDUX", "VOTE", "STS", "LDS", "ATOMS")
_FROM_MEMORY = (*LOADS, "LDGSTS", "UBLKCP", "UTMALDG")
_AUTHOR = (
    "Give the block fewer threads, each with more elements (Triton: half of `num_warps`): each then"
    " has several accesses in flight, and fewer warps wait at barriers."
)


def short_phases(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """A kernel whose blocks have next to nothing for each thread between barriers."""
    launch = launch_of(case)
    if launch is None or case.ir or has_products(case):
        return
    bytes_each = case.total("bytes") / max(case.launches, 1) / (launch.blocks * launch.threads)
    waiting = code.n(reasons=("barrier",))
    if (
        not 0 < bytes_each <= SHORT_PHASES_BYTES
        or launch.threads < SHORT_PHASES_THREADS
        or launch.waves < 1
        or waiting < max(SHORT_PHASES_WAITING * code.whole, FEWEST_SAMPLES)
        or (saving := _saving(case, code, launch.threads)) is None
        or saving.mid < COLD
    ):
        return
    text = (
        f"{launch.threads} threads of a block move {bytes_each:.0f} bytes each, and wait for each"
        f" other at {len(code.named('BAR'))} barriers"
    )
    yield Draft(
        "suggestion", f"barriers of {launch.threads} threads, with {bytes_each:.0f} bytes for each",
        launch_place(case),
        (
            Evidence("static", text),
            Evidence(
                "samples", f"{percent(waiting / code.whole)} of the samples wait at a barrier",
                waiting,
            ),
        ),
        _AUTHOR, saving=saving,
    )  # fmt: skip


def _saving(case: KernelCase, code: KernelCode, threads: int) -> Saving | None:
    """Return what goes with fewer threads; None where it is not known."""
    loops = loops_of(code)
    if not loops:
        left = reach.left(case)
        return Saving(HALFWAY * left.low, left.low, left.high) if left else None
    loop = max((each for each in loops if is_innermost(code, each)), key=code.n)
    exchanges = [index for index in loop if code.instructions[index].name in _EXCHANGES]
    loads = any(code.instructions[index].name in _FROM_MEMORY for index in loop)
    if loads or code.n(loop) < HALFWAY * code.whole:
        return None
    met = np.maximum(code.taken(code.rows(exchanges)), code.waiting_for(exchanges))
    share = min(code.share(met), LONGEST_SAVING)
    mid = (1 - SHORT_PHASES_FEWEST / threads) * share
    return Saving(HALFWAY * mid, mid, share, samples=int(met.sum()))
