"""Blocks of so many threads that each has one access, and then waits for all others.

Static: the bytes that a launch moves, by its threads; code without loops, with barriers. Dynamic:
samples that wait at these, and the kernel's distance from what moving its bytes takes.

What a block does for its data as a whole (sums over its warps, barriers, its begin and end) takes
as long for few bytes as for many, and most of the latency of memory: a thread with one load has
nothing else under way. With half of the threads each has two accesses under way, and a
multiprocessor twice as many blocks, which are at different phases.

The gain is likely what is left to the least that such kernels reach of the memory's rate, and at
most what is left to the rate itself (`reach`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.launches import has_products, launch_of, launch_place
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import loops_of
from tileprof.analyzer.numbers.shared import COLD, FEWEST_SAMPLES, HALFWAY
from tileprof.analyzer.rules.machine_code.numbers import (
    SHORT_PHASES_BYTES,
    SHORT_PHASES_THREADS,
    SHORT_PHASES_WAITING,
)

_AUTHOR = (
    "Give the block fewer threads, each with more elements (Triton: half of `num_warps`): each then"
    " has several accesses in flight, and fewer warps wait at barriers."
)


def short_phases(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """A kernel without loops whose blocks have next to nothing for each thread."""
    launch, left = launch_of(case), reach.left(case)
    if launch is None or left is None or case.ir or has_products(case) or loops_of(code):
        return
    bytes_each = case.total("bytes") / max(case.launches, 1) / (launch.blocks * launch.threads)
    waiting = code.n(reasons=("barrier",))
    if (
        not 0 < bytes_each <= SHORT_PHASES_BYTES
        or launch.threads < SHORT_PHASES_THREADS
        or launch.waves < 1
        or left.low < COLD
        or waiting < max(SHORT_PHASES_WAITING * code.whole, FEWEST_SAMPLES)
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
        _AUTHOR, saving=Saving(HALFWAY * left.low, left.low, left.high),
    )  # fmt: skip
