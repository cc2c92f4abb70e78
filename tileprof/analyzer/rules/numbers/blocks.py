"""Numbers of rules about blocks and lanes, how many there are and how many work."""

from __future__ import annotations

from tileprof.binary.occupancy import WARP

# -- occupancy

OCCUPANCY_WAITING = 0.3
"""Of the samples, that wait for latency while nobody issues: below, more warps find little room."""

OCCUPANCY_OF_IDLE = 1 / 3
"""Of the cycles in which nobody issues, that warps wait for latency: more of it, and other warps
have room though it is little."""

OCCUPANCY_FEWEST = 0.05
"""Of the samples, that wait for latency while nobody issues, at least."""

OCCUPANCY_OTHER = 0.1
"""Of the samples, that are at spills, or in full queues: above, that is what to look at."""

OCCUPANCY_LEFT = 0.1
"""Of the time, left beyond what its work takes: below, blocks side by side are near their roof."""

OCCUPANCY_NOTABLE = 0.05
"""Of the time, below which the next step is not worth its price in registers."""

OCCUPANCY_SURE = 0.5
"""Share of the likely gain that is sure. By hand."""

OCCUPANCY_ALIKE = 0.75
"""Of registers or memory, what the next step has to leave so that it is likely within reach."""

OCCUPANCY_QUEUED = 1100.0
"""Mean wait for a load, in cycles, from which on memory has as many requests under way as it takes:
twice that of a load alone. On an H200 eight defects of blocks side by side that waited for less,
330 to 980 cycles, gained 1.10 to 1.72 from more warps; of six that waited longer five gained at
most 1.16, and 17 kernels without such a defect waited longer too (`plant-dev-1`, `plant-test-1`,
`plant-test-2`)."""

OCCUPANCY_SMALL_STEP = 0.85
"""Share of registers or memory that the next step has to leave so that it is reported where nothing
was measured."""

# -- small_block

SMALL_BLOCK_WAVES = 4
"""Waves of blocks from which there are enough of them to make larger ones. By hand."""

SMALL_BLOCK_LIFE = 1280.0
"""Time, ns, from the begin of a block to its end where it loads once, stores and ends: on an H200
128 threads of `vector_add`, of 4 bytes each, in 248 full waves (PLANT, `case-vector_add`)."""

# -- small_grid

SMALL_GRID_FEW = 0.9
"""Blocks for each multiprocessor, below which it is told."""

SMALL_GRID_EMPTY = 2_000.0
"""Nanoseconds from one launch that does nothing to the next, where that was not measured."""

SMALL_GRID_SHORT = 2
"""Times as long, below which a launch is mostly its own beginning and end."""

SMALL_GRID_BY_EDGES = 0.5
"""Power of the number of parts that a product's time goes down with, where what a tile loads goes
with its edges."""

SMALL_GRID_BY_STEPS = 0.25
"""Powers of the number of parts that a product's time goes down with."""

SMALL_GRID_OF_TURNS = 0.75
"""Share of the multiprocessors without a block that comes back at least where blocks take tiles in
turn: a last turn is not full. By hand."""

SMALL_GRID_SURE = 0.25
"""Share of the likely gain that is sure. By hand."""

# -- tail_wave

TAIL_WAVE_LEAST = 1 / 6
"""Of the time, below which nothing is said: less than that is lost from the sixth round on, and
other tiles, which do less well by themselves, would cost as much."""

TAIL_WAVE_TOLD = 0.02
"""Of the time, the least that is lost for sure, where nothing says how long a block takes alone."""

TAIL_WAVE_HALF = 0.5
"""Part of a round that is filled, below which the round is called nearly empty."""

TAIL_WAVE_REACHED = 0.95
"""Of a roof, what a kernel of whole waves reaches."""

TAIL_WAVE_SURE = 0.5
"""Of the least: blocks are not of one length, so later waves do not end at once."""

# -- wasted_lanes

WASTED_LANES_FEW = 0.9
"""Of the lanes, below which some are wasted."""

WASTED_LANES_ONE = 1.5 / WARP
"""Below, one lane works."""

WASTED_LANES_NOTABLE = 0.1
"""Of the executions of a kernel, from where lanes are told without samples."""

WASTED_LANES_OUTSIDE = 0.1
"""Of a tile's work, below which its rim is no fault."""

WASTED_LANES_SURE = 0.5
"""Share of the likely gain that is sure. By hand."""

WASTED_LANES_GUARDED = 0.95
"""Of the lanes that a guard leaves out, the part of the time that goes likely. A kernel of an H200
with 0.8 of them left out took 4.1 times as long as with none
(`benchmarks/results/plant-dev-1.json`). Of tiles outside of their tensors 0.83, 0.84 and 1.01 of
their part went in three others (`plant-test-3`, `plant-test-4`)."""

WASTED_LANES_MORE = 0.1
"""Of the rest, what goes away at most as well: smaller tiles leave room for more stages."""
