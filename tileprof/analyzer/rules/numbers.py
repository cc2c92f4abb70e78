"""Numbers of single rules: thresholds, and what a change was measured to bring.

Each says its unit, its meaning and its source, as those in `analyzer/numbers` do, which has what
several modules share.  They stand under the name of their module, which begins theirs.
`tests/analyzer/test_numbers.py` keeps them here.
"""

from __future__ import annotations

from tileprof.binary.occupancy import WARP

# -- bank_conflicts

BANK_CONFLICTS_MUCH = 0.4
"""Share of a kernel's samples at shared memory accesses, or waiting for them, from which on the
waits are reported although their cause is not known, 0 to 1."""

BANK_CONFLICTS_LEAST = 2.0
"""Passes where one would do."""

BANK_CONFLICTS_OF_WORD = 2.0
"""Passes of a request of a word a thread: its addresses', and its bytes'."""

BANK_CONFLICTS_FEWEST = 20
"""Smallest number of samples that issue accesses with conflicts from which the number of requests
is estimated; fewer samples are too few for that."""

# -- barriers

BARRIERS_NOTABLE = 0.05
"""Of the samples: below, barriers whose late warps are not known are not told."""

BARRIERS_SKEWED = 0.1
"""Share of the work in code that only some warps run, from which these warps are named as late."""

BARRIERS_MOSTLY = 0.5
"""Share of the work in code that only some warps run, from which confidence is not low. By hand."""

BARRIERS_DEALT = 0.7
"""Of the likely gain: what dealing a loop's work out to all warps brings at least."""

BARRIERS_SURE = 0.25
"""Of the likely gain: whether the late work can be dealt out, samples do not say."""

# -- coalescing

COALESCING_WASTEFUL = 2.0
"""Sectors for each needed one. An unaligned row of 4-byte words has 5 for 4: not worth a word."""

COALESCING_OF_PRODUCTS = 2.0
"""The same of 16-bit results of products: four lanes hold 16 bytes of a row between them."""

COALESCING_MUCH = 0.4
"""Of the samples, from which on waiting for memory is worth telling without a cause."""

# -- code_size

CODE_SIZE_AFTER_A_JUMP = 2
"""Instructions that come late because of it."""

CODE_SIZE_INSTRUCTION = 16
"""Bytes of an instruction."""

CODE_SIZE_NEAREST = 12 * 1024
"""Bytes of a scheduler's own cache: of Volta, by Jia et al. 2018 (arXiv 1804.06826), table 3.1; it
is not known of Hopper. Only what was measured tells a cost."""

CODE_SIZE_NEXT = 128 * 1024
"""Bytes of the cache behind it, from the same table: a longer loop is fetched anew each turn."""

CODE_SIZE_NOTABLE = 0.03
"""Share of the samples that wait for instructions from which a loop longer than the nearest cache
is a cause. By hand."""

CODE_SIZE_MUCH = 0.1
"""Share of the samples that wait for instructions from which that is reported without a cause. By
hand."""

CODE_SIZE_REACHED = 0.98
"""Of what its busiest pipe takes, what a loop of ready warps reaches."""

CODE_SIZE_CYCLES = {
    **dict.fromkeys(
        (
            "LOP3",
            "SHF",
            "IADD3",
            "ISETP",
            "FSETP",
            "SEL",
            "FSEL",
            "LEA",
            "PRMT",
            "FMNMX",
            "VIMNMX",
            "IABS",
            "PLOP3",
            "I2FP",
        ),
        ("alu", 2),
    ),
    "IMAD": ("fma", 2),
    **dict.fromkeys(("FFMA", "FADD", "FMUL"), ("floats", 1)),
    **dict.fromkeys(("DFMA", "DADD", "DMUL", "DSETP"), ("doubles", 2)),
    **dict.fromkeys(("MUFU", "F2I", "I2F", "F2F", "FRND", "POPC"), ("special", 8)),
}
"""By opcode, its pipe, and for how many cycles a warp's instruction keeps that of a scheduler."""

# -- drain

DRAIN_SHORT = 0.03
"""Share of samples below which a single fence is considered necessary work, not a defect."""

DRAIN_END = 0.1
"""Of the samples, below which an end is as long as ends are: an H200 had 0.07 of them at the end of
tiles of 128 x 240 products, while the next tiles were on their way."""

DRAIN_ONCE = 0.5
"""The part that comes back of what has to be done once anyway; of fences in loops all does."""

DRAIN_MEANWHILE = 0.85
"""The part that comes back of the end of a tile that another follows: a copy by TMA goes on
meanwhile. (An H200 that had 0.62 of its samples there took 0.47 of the time.)"""

DRAIN_SURE = 0.5
"""Of the time of atomics, and of such ends, what comes back at least."""

DRAIN_NEAR = 5
"""Instructions between an atomic and the fences that belong to it: `MEMBAR`, `ERRBAR`, `CGAERRBAR`
in front of it, `CCTL.IVALL` behind it."""

# -- layout_converts

LAYOUT_CONVERTS_COMES_BACK = 0.85
"""Of that time: other instructions take some of the freed turns."""

LAYOUT_CONVERTS_OFTEN = 0.05
"""Of the samples, at an exchange that keeps warp groups in step all along a turn."""

LAYOUT_CONVERTS_LEAST_KEPT = 0.02
"""Of the time, what is left in any case."""

# -- layout_copies

LAYOUT_COPIES_HOT = 0.03
"""Of the devices' time, above which copies are worth a change."""

# -- narrow_access

NARROW_ACCESS_IN_ORDER = (0.9, 1.25)
"""Sectors for each needed one of lanes side by side: unaligned rows of 4-byte words have 5 for 4;
fewer are lanes that share addresses."""

NARROW_ACCESS_GAPS = 1.9
"""Sectors for each needed one of lanes that leave gaps, from which on there are gaps."""

NARROW_ACCESS_FULL = 0.2
"""Of the samples, from which on a full queue is worth telling without a cause."""

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

# -- pipeline_depth

PIPELINE_DEPTH_MUCH = 0.1
"""Of the time, what is worth a word where no gain can be told."""

PIPELINE_DEPTH_MOST_STAGES = 8
"""Stages, more than which are not advised. By hand."""

PIPELINE_DEPTH_LEAST_REST = 0.02
"""Of a turn, what is never hidden: more would be a guess."""

PIPELINE_DEPTH_BY_SAMPLES = 0.95
"""Of what a turn takes, how much less it may be: turns are counted by some hundred samples."""

# -- precision

PRECISION_PACES = (0.3, 0.75, 1.0)
"""Of the part of its roof that a kernel reaches, the part of the tensor cores' that its successor
does: at least, likely, at most. Tiles of 32-bit operands are half as deep as those of 16 bits, of
which cuBLAS has 0.8 of the roof at best (docs/benchmarks.md); a BERT encoder on an H200 reached
0.36 (benchmarks/results/programs-1of3.json, embed_texts)."""

# -- small_block

SMALL_BLOCK_WAVES = 4
"""Waves of blocks from which there are enough of them to make larger ones. By hand."""

SMALL_BLOCK_LIFE = 1280.0
"""Time, ns, from the begin of a block to its end where it loads once, stores and ends: on an H200
128 threads of `vector_add`, of 4 bytes each, in 248 full waves (PLANT, `case-vector_add`)."""

# -- roofline

ROOFLINE_NEAR = 0.9
"""Share of a roof from which on a kernel is at it. By hand."""

# -- slow_math

SLOW_MATH_PART = 0.04
"""Of a line's arithmetic, how much tells a slow form at least, where it owns the line."""

SLOW_MATH_SETUP = 0.05
"""Of the samples: below, nothing is said of what a block does once to find its tile, nor of what
most kernels have some of."""

SLOW_MATH_NOTABLE = 0.1
"""Of the samples: below, slow arithmetic costs nothing where memory gives nearly all it can."""

SLOW_MATH_BUSY = 0.3
"""Of the samples: from where special functions are what a kernel waits for."""

SLOW_MATH_SURE = 0.7
"""Share of the likely gain that is sure. By hand."""

SLOW_MATH_FULL = 1.05
"""Of a kernel's time, what tensor cores and special functions take in turn where nothing else
counts; above 1, as some of it overlaps."""

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

# -- spills

SPILLS_MAIN = 0.2
"""Of the samples, from which on spills are the main of what is waited for. Of a kernel of an H200
with 0.07 of them a seventh of the time came back, of one with 0.01 nothing
(`benchmarks/results/plant-dev-1.json`)."""

SPILLS_COVERING = 0.2
"""Of the likely part, what comes back at least where the loop waits for loads besides: 0.2 and 0.33
of it in two kernels of an H200 (`benchmarks/results/plant-dev-1.json`)."""

SPILLS_SURE = 0.7
"""Of the likely part, what comes back at least."""

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

# -- tensor_cores

TENSOR_CORES_SHEET = {
    "fma": 67e12,
    "tensor_tf32": 494e12,
    "tensor_bfloat16": 989e12,
    "tensor_int8": 1979e12,
}
"""Operations a second of an H100 or H200 (NVIDIA's data sheets, SXM, dense)."""

TENSOR_CORES_ROWS = 64
"""Of a tile, from which on there is a `wgmma`."""

TENSOR_CORES_MANY = 64
"""Multiply-adds in a loop from which it may be a product of matrices: 8 × 8 sums. By hand."""

TENSOR_CORES_MOSTLY = 0.5
"""Share of a loop's instructions that are multiply-adds, from which it may be a product. By
hand."""

TENSOR_CORES_AGAIN = 2.0
"""Multiply-adds for each operand, from which operands are used again: 8 × 8 sums have 16
operands."""

TENSOR_CORES_SURE = 0.8
"""Of the likely gain, what comes at least where the work is known."""

# -- traffic

TRAFFIC_MORE = 1.2
"""Moved by needed, below which it is what lines and refills cost."""

TRAFFIC_IDLE = 0.3
"""Of DRAM's bandwidth, below which more traffic than needed does no harm."""

TRAFFIC_BOUND = 0.5
"""From which on DRAM is what some of the time goes to, not only what it is used for meanwhile."""

TRAFFIC_SERVED = 0.7
"""Hits of L2, below which it serves a product badly: of tiles that two blocks share it has half."""

TRAFFIC_MOST_OF_IT = 0.7
"""Of the time, what modelled traffic takes where it is the limit."""

TRAFFIC_FEWER = 1.3
"""Modelled traffic by that of the best groups, from which on the order matters."""

TRAFFIC_WAITING = 0.2
"""Of samples, that wait for memory where it is the limit."""

TRAFFIC_FULL = (0.95, 0.88, 0.8)
"""Of a roof of memory, what products of a good order, or reads at random, reach at best, likely, at
least."""

TRAFFIC_SURE = 0.5
"""Of a gain, where what the L2 keeps is not known."""

TRAFFIC_IMPOSSIBLE = 1.2
"""Of the time, what modelled traffic can not have taken: then less of it was read again."""

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
(`benchmarks/results/plant-dev-1.json`)."""

WASTED_LANES_MORE = 0.1
"""Of the rest, what goes away at most as well: smaller tiles leave room for more stages."""

# -- redundant_traffic

REDUNDANT_TRAFFIC_WHOLE = 0.85
"""Part of what repeated turns of a loop take that goes at least. By hand."""

REDUNDANT_TRAFFIC_OTHERS = 0.15
"""Part of what is left that goes at most besides. By hand."""

REDUNDANT_TRAFFIC_SURE = 0.3
"""Part of what waits for repeated accesses that goes at least: others of the loop may be waited for
instead. By hand."""

PIPELINE_DEPTH_BY_HAND = 0.8
"""Of the waits for loads that do not run ahead, as far as the loop's pace lets them go, what goes
likely: 0.5 to 1.1, and 0.75 in the middle, in 12 kernels of an H200 (`plant-dev-1`, `plant-test-1`,
`plant-test-2`)."""

WGMMA_SERIALISED_FILLING = 2
"""Warp groups beside one that fill its waits for products: of an H200's kernels with four on a
multiprocessor that waited after each product, none gained (`plant-test-2`). By hand."""
