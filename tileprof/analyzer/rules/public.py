"""Names of `tileprof.analyzer.rules`, loaded when one is first used."""

from tileprof.analyzer.drafts import KernelRule, ProgramRule
from tileprof.analyzer.rules import (
    async_copies,
    bank_conflicts,
    barriers,
    coalescing,
    code_size,
    drain,
    layout_converts,
    layout_copies,
    narrow_access,
    occupancy,
    pipeline_depth,
    precision,
    roofline,
    slow_math,
    small_grid,
    spills,
    tail_wave,
    tensor_cores,
    traffic,
    wasted_lanes,
    wgmma_serialised,
)
from tileprof.analyzer.rules.program import (
    backward_ratio,
    compiling,
    fusion,
    hotspots,
    launch_bound,
    optimizer_passes,
    small_kernels,
    transfers,
)

__all__ = ["KERNEL_RULES", "PROGRAM_RULES"]

KERNEL_RULES: tuple[KernelRule, ...] = (
    spills.RULE,
    bank_conflicts.RULE,
    roofline.RULE,
    small_grid.RULE,
    tail_wave.RULE,
    occupancy.RULE,
    barriers.RULE,
    slow_math.RULE,
    code_size.RULE,
    wasted_lanes.RULE,
    coalescing.RULE,
    narrow_access.RULE,
    traffic.RULE,
    drain.RULE,
    async_copies.RULE,
    layout_converts.RULE,
    pipeline_depth.RULE,
    tensor_cores.RULE,
    wgmma_serialised.RULE,
)
PROGRAM_RULES: tuple[ProgramRule, ...] = (
    launch_bound.RULE,
    transfers.RULE,
    small_kernels.RULE,
    fusion.RULE,
    optimizer_passes.RULE,
    compiling.RULE,
    precision.RULE,
    backward_ratio.RULE,
    layout_copies.RULE,
    hotspots.RULE,
)
