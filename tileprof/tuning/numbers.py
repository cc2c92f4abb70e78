"""Numbers of the tuner: of the machines that its model knows, and the thresholds of its search.

Each says its unit, its source and the date from which it stands.  A wrong number of a machine ranks
configurations worse, so more of them are timed, or a slower one wins; what is timed is never
wrong.  "By hand" means that no measurement which decides between it and its neighbours is kept.
"""

from __future__ import annotations

# -- GPUs: latencies, in cycles of a multiprocessor

LOAD_LATENCY = 900.0
"""From a load of a tile to its data in shared memory or registers, while others load as well.  By
hand, 2026-11-28: pointer chases of an H100 give 480 to 700 without load."""

REDUCE_LATENCY = 60.0
"""A reduction across the threads of a row: shuffles, and for several warps a way through shared
memory.  By hand, 2026-11-28."""

BLOCK_LATENCY = 800.0
"""Start and end of a block: launch by the hardware, descriptors, barriers.  By hand, 2026-11-28."""

PERSISTENT_LATENCY = 300.0
"""Start of a tile in a block that loops over tiles, whose loads run ahead.  By hand,
2026-11-28."""

ITERATION_LATENCY = 45.0
"""Barriers, addresses and branches of one iteration of a pipelined loop, beside its work.  By hand,
2026-11-28."""

SM_CLOCK = 1.755e9
"""Clock in Hz of an H200's multiprocessors under load; its boost clock is 1.98 GHz.  By hand: only
the ratio of latencies to rates hangs on it.  Since 2026-11-28."""

LAUNCH_NS = 2200.0
"""Time in ns of a launch that does nothing, with others queued before it: `tileprof doctor --roofs`
of an H200, 2026-11-27."""

# -- GPUs: rates

MMA_EFFICIENCY = 0.62
"""Share of the rate of wgmma that mma.sync reaches on sm_90 (Luo et al., "Benchmarking and
Dissecting the Nvidia Hopper GPU Architecture", 2024).  Since 2026-11-28."""

FMA_EFFICIENCY = 0.5
"""Share of the rate of fma instructions that a product by them reaches, with its loads.  By hand,
2026-11-28."""

ISSUING_WARPS = 12
"""Warps of a multiprocessor from which its schedulers find an instruction each cycle in ordinary
arithmetic.  By hand, 2026-11-28."""

ROW_BYTES = 128
"""Bytes of neighbouring elements from which a tile's rows are read from memory at its full rate: a
line of L2.  Half of the difference counts for shorter ones (by hand, 2026-11-28), as neighbouring
blocks ask for the rest of a line at nearly the same time."""

OVERLAP_BY_GROUPS = 0.6
"""Share of the work of other units that runs under the busiest one where two warp groups run the
same loop.  This and the next two are by 36 times of attention on an H200, of which the model then
meets 32 within 16 % (benchmarks/results/attention.json), 2026-11-28."""

OVERLAP_PLANNED = 0.87
"""The same where the compiler issues products behind the next iteration."""

OVERLAP_ALTERNATING = 0.95
"""The same where warp groups alternate as well."""

SHARPNESS = 9.0
"""Exponent of the norm that joins limits of one kernel: with a large one the slowest decides alone.
By seven products of 4096³ on an H200 (benchmarks/results/gemm_ladder.json), 2026-11-28."""

UNSPECIALISED_LATENCY = 200.0
"""Cycles of one iteration of a pipelined loop whose warps load for themselves, beside its work:
waits for loads, and barriers of all threads.  Measured as `SHARPNESS`."""

SPILL_TRIPS = 0.5
"""Share of a loop's iterations in which a spilled register is stored or loaded.  By hand,
2026-11-28."""

SERIALISED = 1.4
"""Factor of the time of products that wait for each other (ptxas' note C7510 and its kin).  By
hand, 2026-11-28."""

OTHER_REGISTERS = 16
"""Registers of a thread beside its fragments, before a binary tells: kernels without products of
`benchmarks.gpu_kernels` have 4 to 30, as fragments also share some.  Since 2026-11-28."""

# -- processors

CPU_FLOPS = 120e9
"""Flops of a matrix product in a second of one core, by the C++ of the `cpu` device: about what two
cores of an AMD EPYC with AVX-512 reach in `case_studies/matmul.py`, 2026-11-28."""

CPU_SCALAR_NS = 0.6
"""Time in ns of one scalar operation of a point.  By hand, 2026-11-28."""

CPU_BLOCK_NS = 900.0
"""Time in ns to start a block.  By hand, 2026-11-28."""

CPU_ROW_NS = 9.0
"""Time in ns to start a row of a tile's copy, product or loop.  By hand, 2026-11-28."""

CPU_CACHES = ((32 << 10, 80e9), (1 << 20, 32e9), (16 << 20, 14e9))
"""Bytes of caches of one core, the nearest first, and bytes that each gives in a second.  By hand,
2026-11-28; a device without its own numbers has these."""

CPU_MEMORY = 9e9
"""Bytes that memory gives one core in a second.  By hand, 2026-11-28."""

# -- the search

MOST_TRIALS = 256
"""Configurations that are lowered for the model in one search.  By hand."""

ALIKE_COMPILED = 2
"""Configurations with the same tiles, stages and threads whose machine code is made: others differ
from them by the order of blocks and by controls.  By hand."""

MOST_COMPILED = 24
"""Configurations, the best of the model, whose machine code is made for its registers and spills.
By hand."""

BEAM = 6
"""Configurations whose neighbours are lowered in one step of the search.  By hand."""

MOST_TIMED = 10
"""Configurations that are timed, unless a caller asks for more: the number that the accuracy of the
tuner is stated for."""

WORTH = 0.005
"""Expected gain, as a share of the best time, below which no further configuration is timed.  By
hand."""

MODEL_SPREAD = 0.2
"""Standard deviation of the part of the logarithm of measured over predicted time that is alike
for near configurations.  By hand, 2026-11-28."""

OWN_SPREAD = 0.15
"""Standard deviation of the part that each configuration has for itself.  With less, a search ends
too early where the model errs by 20 % at random; with more, it times more for nothing: simulated
on the space of tests/tuning/test_search.py, 2026-11-28."""

LENGTH_SCALE = 2.0
"""Distance of two configurations, in doublings of a tile's side or stage, over which the model's
error is alike.  By hand, 2026-11-28."""

LEAST_SPILL = 64
"""Bytes a thread spills from which configurations that need at least as many registers are left
out.  By hand."""

# -- timing

SURE = 0.005
"""Difference of two times, as a share, below which either may win."""

PAIR_ROUNDS = (5, 40)
"""Fewest and most rounds of one comparison."""

PAIR_SECONDS = 0.5
"""Time limit of one comparison, in s."""

FINAL_SECONDS = 1.5
"""Time limit of the comparison of the best two, in s."""

# -- results

NEAR = 2.0
"""Factor by which extents that are known at launch may differ for a result to be used for other
shapes without tuning.  By hand."""

MOST_SHAPES = 512
"""Results that are read for one kernel: of more, the newest."""
