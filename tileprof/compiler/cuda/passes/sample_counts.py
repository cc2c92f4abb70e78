"""Place in shared memory at which the warps of a kernel count in which states they were.

In: a kernel with marks that are to be sampled.  Out: the same with a schedule of each launch:
`sampled_warps`, how many warps count; `sample_counts`, where in shared memory they do.  Where there
is no room the launch loses its marks, and a remark says what is missing.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewriter import per_launch, with_rule
from tileprof.remarks.launches import NotSampled, SharedMissing, StateCounts

CYCLES_BYTES = 8
"""Bytes of a state of a warp: its cycles and a clock."""
ALIGNMENT = 16


def plan_sample_counts(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with room for counts in each launch that has marks, where they are for that."""
    if lowering.instrument != "sample":
        return kernel
    return per_launch(kernel, lambda launch: _planned(launch, len(kernel.states), lowering))


def _planned(launch: ir.Launch, states: int, lowering: Lowering) -> ir.Launch:
    if not any(isinstance(op, ir.Mark) for op in ir.walk(launch.body)):
        return launch
    taken = launch.schedule.shared
    offset = -(-taken // ALIGNMENT) * ALIGNMENT
    # Warps that work, and the one that loads for them.
    loads = any(isinstance(op, ir.Roles) for op in ir.walk(launch.body))
    warps = -(-launch.block_threads // 32) + loads
    shared = offset + warps * CYCLES_BYTES * states
    left = lowering.target.shared_per_block - taken
    if shared - taken > left:
        rejected = (StateCounts(), SharedMissing(shared - taken, left))
        lowering.remarks.add("launch", "", launch.span, NotSampled(), rejected, severity="missed")
        return with_rule(launch, lambda op, _: () if isinstance(op, ir.Mark) else None)
    counted = replace(launch.schedule, shared=shared, sample_counts=offset, sampled_warps=warps)
    return launch.scheduled(counted)
