"""Numbers of single rules: thresholds, and what a change was measured to bring.

Each says its unit, its meaning and its source, as those in `analyzer/numbers.py` do, which has what
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

# -- cut_launches

CUT_LAUNCHES_EACH = (1000.0, 2500.0, 4200.0)
"""What the end of a launch and the begin of the next one take, ns: least, likely, most. On an H200
five kernels in 16 launches took 2.1 to 4.1 µs more for each than in one."""

# -- round_trips

ROUND_TRIPS = (0.4, 0.9, 1.6)
"""Of the share of samples of copies to shared memory and back, what leaving them out saves: least,
likely, most. By hand."""

# -- needless_tensors

NEEDLESS_COPIED = (0.85, 1.0, 1.1)
"""Of the share of samples of a launch that only copies, what leaving it out saves: least, likely,
most. What it left in the L2 the next launch then reads from memory."""

NEEDLESS_KEPT = (0.5, 1.15, 1.6)
"""Of what memory takes to write a tile that its block reads back, what keeping it saves: five such
kernels gained 0.9 to 1.3 on an H200."""

NEEDLESS_OVERWRITTEN = (0.0, 0.6, 1.8)
"""Of what memory takes to write elements that are written again by the same block, what leaving
out the first write saves: 0.5 and 0.7 of it, nothing, or twice as much on an H200."""

NEEDLESS_ADDED = (0.2, 0.7, 1.8)
"""The same of zeros that are added to."""

NEEDLESS_ADDS = 0.95
"""Part of the samples of zeros and additions that a store in their place saves, likely."""

NEEDLESS_ADDS_SURE = 0.4
"""The same at least."""

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

# -- program/backward_ratio

BACKWARD_RATIO_SLOW = 3.0
"""Time of a backward pass by its forward pass, from which it is slow where nothing else is known:
two products stand for one. By hand."""

BACKWARD_RATIO_ABOVE = 1.5
"""Ratio of an operation by that of the program's others, from which it stands out. By hand."""

BACKWARD_RATIO_BY_BYTES = 1.5
"""Ratio by that of the bytes that both passes move, from which bytes are no reason. By hand."""

# -- program/compiling

COMPILING_HOST_SHARE = 0.05
"""Of the host's time, below which compiling is not told of a program without a device."""

# -- program/alignment

ALIGNMENT_PARTS = (0.0, 0.15, 0.4)
"""Of the time of products of unaligned operands whose work is not known, what padding saves: at
least, likely, at most.
Likely is what was measured for GPT-2 with a vocabulary of 50,257 (H200, batch 8×512, bfloat16,
2026-11): 1.037× with a quarter of the time in such products."""
ALIGNMENT_REACHED = 0.7
"""Part of the roof that a product of aligned operands reaches, by hand: cuBLAS reached 0.9 of it
for 8192³ in bfloat16 (H200, 2026-11), and products with a short dimension reach less."""

# -- program/eager_attention

EAGER_ATTENTION_BETWEEN = (0.5, 0.9, 1.0)
"""Of the time between the products of attention, what a fused kernel saves: at least, likely, at
most. By hand."""

EAGER_ATTENTION_LAUNCHES = (1.0, 2.0)
"""Kernels of a fused attention, in the forward and in the backward pass: of PyTorch's, one, and one
or two more than that."""

EAGER_ATTENTION_PRODUCTS = (0.0, 0.25, 0.67)
"""The same of the time of the products. By hand."""

# -- program/embedding

EMBEDDING_ROWS = 0.5
"""Part of a table that is looked up in a step, from which a sparse gradient is no gain: it is
written with its indices, and added by index. By hand."""

EMBEDDING_MOSTLY = 0.5
"""Part of the bytes of all parameters from which tables are worth another optimizer. By hand."""

EMBEDDING_SHARED = 0.3
"""Part of the tables' bytes that products take as their matrices, from which tables are shared: an
encoder and a decoder look up in the table that one product has. By hand."""

EMBEDDING_ROWS_COST = 8.0
"""Time of rows of a sparse gradient, and of adding them, by that of the dense gradient, for each
byte of them and of the table. By hand."""

EMBEDDING_SPARSE_NS = 300e3
"""Time on a host of a sparse gradient and its update, however few rows it has, ns. Tables of 20,000
to 200,000 rows of 16 and 32 floats with SGD, PyTorch 2.13 on one thread, 2026-11: 0.2 to 0.4 ms."""

EMBEDDING_LAUNCHES = 4.0
"""Kernels that a sparse gradient takes, and its update. By hand."""

EMBEDDING_SURE = 0.5
"""Part of the time of dense gradients that goes at least. By hand."""

EMBEDDING_OTHER_OPTIMIZER = 0.5
"""Part of an optimizer's time for tables that likely goes where another one takes its place. By
hand."""

# -- program/padding

PADDING_SHARE = 0.2
"""Part of the elements of batches that fills rows up, from which it is told. By hand."""

PADDING_GOES = (0.3, 0.85, 1.0)
"""Of the time on padding, what goes at least, likely, at most. Two layers of width 64 on a host, 16
texts a batch, PyTorch 2.13, 2026-11: 0.25 where batches stay as they are drawn and each is as long
as its longest text, 1.0 where they are sorted by length (lengths u³ and u of 128, u in 0 to 1)."""

PADDING_OPERATION_NS = 10e3
"""Time of an operation of PyTorch, or of its gradient, on a host where it does next to nothing, ns.
By hand: 2 to 10 µs of additions of a few elements, and several of them in a gradient."""

# -- program/doubles

DOUBLES_SHARE = 0.05
"""Share of the devices' time from which kernels of doubles are told. By hand."""

DOUBLES_PARTS = (0.25, 0.5, 0.5)
"""Of the time of kernels of doubles, what goes with 32-bit floats: half of the bytes and,
on devices with the most units for doubles, half of the time of arithmetic; at least half of that.
By hand."""

# -- program/jit_update

JIT_UPDATE_FEWEST = 4
"""Operations outside of `jit` from which a call that runs them is told. By hand."""

JIT_UPDATE_SHARE = 0.1
"""Share of the host's time without compiling from which they are told. By hand."""

# -- program/recomputation

RECOMPUTATION_SURE = 0.5
"""Part of what runs again that goes at least, where nothing is known of memory. By hand."""

RECOMPUTATION_SURE_WITH_ROOM = 0.9
"""The same where memory has room for all of it. By hand."""

RECOMPUTATION_KEPT = (1.0, 0.4)
"""Of the bytes that operations move which run again, what is kept without a checkpoint, at most and
likely: of a product and an operation on each element the result, once, of three that are moved. By
hand."""

RECOMPUTATION_FULL = 0.05
"""Part of all memory that was never taken, below which memory is full. By hand."""

RECOMPUTATION_ON_HOST = (1.0, 1.4, 1.8)
"""Time that a checkpoint costs on a host by that of the operations which run again: at least,
likely, at most. Four blocks of two linear layers (128, 512) of 256 rows, PyTorch 2.13 on one
thread, 2026-11: 1.7 with use_reentrant=False, 1.3 with True."""

RECOMPUTATION_LEAST_ROOM = 0.1
"""Part of what would likely be kept that memory has room for, below which a checkpoint is needed.
By hand."""

# -- program/recurrence

RECURRENCE_TURNS = 8
"""Turns of a loop from which it is told as a recurrence: fewer may be unrolled. By hand."""

RECURRENCE_SHARE = 0.05
"""Share of the time from which a recurrence is told. By hand."""

RECURRENCE_MOST = 0.94
"""Of the host's time of a recurrence, what goes at most: nn.LSTM in the place of a cell of 64 turns
with gradients, 5.16 ms and 0.32 ms at a width of 16 and 4 rows; at 256 and 32 rows 74 and 33 ms.
PyTorch 2.13 on one thread, 2026-11."""

# -- program/same_product

SAME_PRODUCT_SHARE = 0.05
"""Share of the time from which a repeated call is told. By hand."""

# -- program/small_block

SMALL_BLOCK_BYTES = 4096
"""Bytes that a block moves, below which it ends before its loads pay: 32 bytes for each of 128
threads. By hand."""

SMALL_BLOCK_WAVES = 4
"""Waves of blocks from which there are enough of them to make larger ones. By hand."""

SMALL_BLOCK_FAR = 1.5
"""Time by the floor from which a kernel is far from the memory's roof. By hand."""

SMALL_BLOCK_LIFE = 1280.0
"""Time, ns, from the begin of a block to its end where it loads once, stores and ends: on an H200
128 threads of `vector_add`, of 4 bytes each, in 248 full waves (PLANT, `case-vector_add`)."""

SMALL_BLOCK_REACHED = 0.8
"""Part of the memory's roof that such a kernel likely reaches with larger blocks. Of two kernels of
a Triton program on an H200, at 0.36 and 0.55 with blocks of 128 elements, blocks of 1,024 made the
program 1.62 times as fast (benchmarks/results/programs-held-out.json, triton_block)."""

SHORT_LIVES_REACHED = 0.9
"""Part of the memory's roof that a kernel likely reaches whose threads move 16 bytes each instead
of one narrow access: 0.89 and 0.93 on an H200 (`triton-add`, `triton-smooth_loss_grad`, both as
they are, `plant-test-1` and `plant-test-2`)."""

# -- program/handed_over

HANDED_OVER_PARTS = (0.5, 0.9)
"""Of the time of the shorter kernel, what goes at least, and likely. A Triton program on an H200
with two kernels of a third of its time each was 1.49 times as fast with one: all of it
(benchmarks/results/programs-held-out.json, triton_block)."""

# -- program/gathered_rows

GATHERED_ROWS_NEAR = 0.2
"""Time of a launch by that of the gather, from which an operation beside it works on as many rows.
By hand."""

GATHERED_ROWS_LEFT = (1.75, 0.85, 0.4)
"""Time that is left by that of gathering the rows in both passes: at least saved, likely, at most.
A graph convolution of 60,000 nodes, 900,000 edges and 128 columns on an H200 (2026-11-27): 1.0 with
torch.sparse.mm, 0.6 with torch.compile."""

# -- program/convolution

CONVOLUTION_WELL = 0.7
"""Part of its roof from which a library's convolution is left alone. By hand: libraries' products
reach 0.6 to 0.9 of it."""

CONVOLUTION_SHARE = 0.03
"""Share of the devices' time that convolutions take beyond their floors, from which that is told.
By hand."""

CONVOLUTION_FEW = (0.0, 0.5, 1.0)
"""Of the time in which multiprocessors have no block, what goes: at least, likely, at most. By
hand: smaller tiles, or parts of a sum, load more for each product."""

# -- program/loader

LOADER_SHARE = 0.1
"""Share of the host's time from which a loader without workers is told. By hand."""

LOADER_WORKERS = (2, 4, float("inf"))
"""Workers by which the gain of loading beside computing is told: at least, likely, at most."""

# -- program/fusion

FUSION_PARTS = (0.5, 0.75, 1.0)
"""Of the time above the longest kernel of a run, what goes: at least, likely, at most."""

FUSION_NAMED = 4
"""Kernels of a chain that a sentence names."""

# -- program/hotspots

HOTSPOTS_HOT = 0.1
"""Share of the host's time below which a place is no hotspot: without it, the program is 1.11 times
as fast. By hand."""

HOTSPOTS_THE_SAME = 0.8
"""Share of a place's time from which places of other kinds within it, reported already, stand for
it. By hand."""

HOTSPOTS_TIMES = (1.2, 2.0)
"""Factors by which a hotspot is imagined to become faster, in the table of Amdahl's law."""

HOTSPOTS_ALL = 0.99
"""Share of the host's time from which nothing is left without a place, so that no gain is stated
for its disappearance."""

HOTSPOTS_EVERYTHING = 0.95
"""Share of the host's time from which a scope says no more than what was found within it."""

HOTSPOTS_WAITS = 0.8
"""Share of a line's time in files of libraries that wait from which the line is a wait. By hand."""

HOTSPOTS_LEAST_OF_HOST = 0.03
"""Share of the host's time from which its most expensive operation is named. A program on the host
spreads over many operations, and one of them is where to begin."""

# -- program/launch_bound

LAUNCH_BOUND_SURE = 0.5
"""Of what goes likely, the part that goes at least: other work of the host may come to the fore."""

LAUNCH_BOUND_POWERS = (1.25, 1.5)
"""Powers of the gain without late launches that the best change likely brings, and at most: larger
batches, graphs and fused kernels shorten the devices' work as well. Of six programs on an H200
(benchmarks/results/programs-1of3.json and -2of3.json) the best change brought the powers 0.75, 1.0,
1.25, 1.34, 1.34 and 1.42. Where data are loaded in the same thread, the power is 1: a larger batch
takes as much longer to load."""

LAUNCH_BOUND_WORKERS = (0.4, 2)
"""Of the time that devices wait for a data loader, the part that goes at least; and workers whose
batches it likely gets. A worker computes with one thread, and hands each batch over by a copy: 8
made a ResNet 1.50 times as fast of whose time 0.8 was waiting, 4 a perceptron 1.44 times, with 0.33
(H200, 16 cores, 2026-11-27, the same files)."""
LAUNCH_BOUND_MOST = 2 / 3
"""Share of the late launches' gaps around which a place is named: most of them, by hand; above a
half, so that only places around each other have as much."""

# -- program/memory_growth

MEMORY_GROWTH_LEAST = 0.001
"""Share of the peak of device memory from which its growth is reported: a list of numbers grows by
less. By hand."""

MEMORY_GROWTH_PLACES = 3
"""Largest number of places that are named, those that grew most."""

# -- program/optimizer_passes

OPTIMIZER_PASSES_COLD = 0.005
"""Share of the devices' time in steps below which an optimizer is not worth a line."""

OPTIMIZER_PASSES_SLOWER = 4 / 3
"""Time of a fused kernel by that of its passes, at most."""

OPTIMIZER_PASSES_UNSURE = 1.1
"""Passes of a fused kernel, at least likely, by those that it needs."""

# -- program/small_kernels

SMALL_KERNELS_SHORT = 10_000.0
"""Mean time of a launch in ns, below which launching takes as long as working. `fusion` tells
runs of longer ones."""

SMALL_KERNELS_LOOP = 8.0
"""Launches of one kernel by those of another, up to which both are of one straight piece of code: a
line may launch a kernel several times. What a loop repeats less often, a compiler unrolls."""

SMALL_KERNELS_FEWEST = 4
"""Kernels of a chain: of fewer little is left to fuse."""

# -- program/transfers

TRANSFERS_SLOW_LINK = 12.0
"""GB/s of copies from pinned memory by PCIe 3.0 with 16 lanes, as devices have had since 2012."""

TRANSFERS_LARGE = 1e6
"""Bytes of a copy, below which it is its beginning that takes time, not the link."""

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

# -- redundant_work

REDUNDANT_SURE = 0.5
"""Of the samples of work that is done again, the least that goes: what comes from caches the second
time, or beside other work, costs less. By hand."""

# -- small_tiles

SMALL_TILES_LARGE = (128, 256)
"""Rows and columns of a tile of products of 16-bit elements, or smaller ones, that two warp groups
keep in registers beside three stages of operands in shared memory."""

SMALL_TILES_WIDE = (128, 128)
"""The same of 32-bit elements."""

SMALL_TILES_FEWER = 1.5
"""Of what L2 is asked for, how many times less has to be asked for in larger tiles. By hand: tiles
of 128 × 128 ask for 1.33 times as much as the largest, and are often as fast."""

SMALL_TILES_BOUND = 0.75
"""Share of the time that L2 takes for what it is asked for, from which on it is the limit. Of 19
tiles of a product of 8192³ on an H200 the best schedules took 0.70 to 1.18, all but three 0.87 or
more (`benchmarks/results/tuning.json`); their times followed from it within a tenth."""

# -- few_products

FEW_PRODUCTS_EACH = 64
"""How often a tile of 128 × 128 multiplies each element that it loads."""

FEW_PRODUCTS_FEWER = 1.5
"""How many times less often a loop does so that uses too little of what it loads: as for
`SMALL_TILES_FEWER`."""

FEW_PRODUCTS_SHARE = 0.5
"""Share of the samples that such a loop has, so that it sets the kernel's time. By hand."""

# -- alone_in_step

IN_STEP_WAITING = 0.15
"""Share of the samples that wait at barriers of a block alone while nobody issues, from which on
they are of note. By hand."""

# -- short_phases

SHORT_PHASES_BYTES = 40
"""That a thread moves in all: a load and a store of 16 bytes each are the least for which all of an
access is used; and a few of what all blocks share, as weights."""

SHORT_PHASES_THREADS = 256
"""Of a block, the fewest of which half are enough to work on its data. By hand."""

SHORT_PHASES_WAITING = 0.1
"""Share of the samples that wait at barriers, from which on they are of note. By hand."""

# -- group_alone

GROUP_ALONE_LATE = 0.1
"""Share of the time that tiles are late, from which on stages are of use. By hand."""

GROUP_ALONE_SURE = 0.3
"""Of the likely gain, what comes at least. By hand."""

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

IN_GAPS_OF_L2 = (0.7, 0.42)
"""Of L2's measured rate of reads, what it gives to the sectors of stores that leave gaps; and where
a lane stores less than a word: 7.0 to 8.4 and 3.9 to 4.8 of 10.5 TB/s in kernels that had nothing
else to do, on an H200 (`benchmarks/results/plant-test-2-*.json`)."""

IN_GAPS_WORD = 4
"""Bytes of a word."""

IN_GAPS_POWER = 3
"""How sharply L2 and other work change places as what holds a kernel up: of two parts of the time
the powers are added. By hand."""

MOVED_AGAIN_SURE = 0.5
"""Part of the samples of what is moved again that goes at least: others may be waited for
instead. By hand."""

MOVED_AGAIN_LIKELY = 1.25
"""Of these samples, how many times as much goes likely; source as for `MOVED_AGAIN_MOST`."""

MOVED_AGAIN_MOST = 2.2
"""Of these samples, how many times as much goes at most: 0.6 to 2.3 in 15 kernels on an H200
(`benchmarks/results/plant-test-2-*.json`)."""

THIN_WORK_IDLE = 0.5
"""Of a block's threads, the part without an element from which on it is told: half of the warps."""
THIN_WORK_NOTABLE = 0.1
"""Share of the samples in a loop from which on its threads, or turns, are told."""
