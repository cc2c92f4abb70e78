"""The analyzer's numbers: facts of devices, what kernels were measured to reach, thresholds.

Each says its unit, its meaning and its source.  "An H200" is the one on which PLANT's kernels ran
(`benchmarks/results`, recorded in October and November 2026); a judgement without a measurement
says "by hand", and so is every threshold that names no source.  A wrong number makes a report say
too much or too little, or estimate a gain badly; none makes it fail.  What a device has stands in
`binary/occupancy.py`, and is taken from there.

Numbers that several rules share come first; those of one module follow under its name, which
begins theirs.  `tests/analyzer/test_numbers.py` keeps them here.
"""

from __future__ import annotations

from tileprof.binary.occupancy import MULTIPROCESSORS, PARTITIONS, WARP

# -- shared by several modules

SCHEDULERS = PARTITIONS
"""Schedulers of a multiprocessor; each issues at most one instruction a cycle
(`binary.occupancy`)."""

SPECIAL_CYCLES = WARP * PARTITIONS // 16
"""Cycles for which a warp's instruction keeps a scheduler's unit for special functions: 16 results
a cycle and multiprocessor (CUDA programming guide, arithmetic throughput, compute capability
9.0)."""

L2_KEEPS = 40e6
"""Bytes that stay in an L2 of 50 MB (H100, H200) while others are read: a launch's own may be there
from the launch before it, and a tensor of no more need not come again."""

REGISTERS = MULTIPROCESSORS[9, 0].registers
"""Registers of a multiprocessor (`binary.occupancy`)."""

FEW_THREADS = MULTIPROCESSORS[9, 0].threads // 2
"""Threads of a multiprocessor from which on they are not few: half of the most."""

SHARED_BYTES = {f"sm_{a}{b}": MULTIPROCESSORS[a, b].shared for a, b in ((8, 0), (9, 0), (10, 0))}
"""Bytes of shared memory of a multiprocessor, keyed by target (`binary.occupancy`)."""

RESERVED_BYTES = MULTIPROCESSORS[9, 0].reserved_shared
"""Bytes of shared memory that the system takes for each block (`binary.occupancy`)."""

SECTOR = 32
"""Bytes of a sector, the least that memory moves."""

LINE = 128
"""Bytes that a multiprocessor's cache looks up, and moves, in one pass."""

WIDEST = 16
"""Bytes that a thread moves by one instruction at most."""

BANKS = 32
"""Banks of shared memory (CUDA programming guide, shared memory)."""

BANK_BYTES = 4
"""Bytes of a word of a bank of shared memory; source as for `BANKS`."""

GROUP_THREADS = 128
"""Threads of a warp group."""

COLD = 0.01
"""Share of the time, or of the samples, below which a defect costs nothing. By hand."""

COOL = 0.02
"""Share of the time, or of the samples, below which a gain is that of another measurement: the
threshold of rules whose evidence is less direct than that of `COLD`. By hand."""

LONGEST_SAVING = 0.98
"""Largest share of a kernel's time that a single change can save."""

MOST_OF_A_KIND = 3
"""Findings of one kind about a program that are reported, the costliest first. By hand."""

ISSUE_REACHED = (1.0, 0.92, 0.75)
"""Share of the cycles in which schedulers issue at best, likely, at least, where nothing else is in
the way: integer arithmetic issued in 0.92 of them on an H200
(`benchmarks/results/plant-dev.json`)."""

PRODUCTS_REACHED = (1.0, 0.9, 0.75)
"""Share of the roof of products that is reached at best, likely, at least: 0.85 to 0.95 by kernels
of whole waves on an H200, in turns with others (PLANT)."""

MEMORY_REACHED = (1.05, 0.97, 0.85)
"""Share of a roof of memory that is reached at best, likely, at least by what reads side by side:
0.93 to 1.0 on an H200 (`benchmarks/results/plant-dev.json`)."""

MOST_OF_ROOF = 1.1
"""Largest share of a roof that work is taken to need: beyond, not all of it was done, or caches
gave it."""

SPILLS_COME_BACK = 0.95
"""Share of the samples of spills that comes back without them: on an H200 spills of 0.91 of the
samples made a kernel 9.0 times as long."""

HALFWAY = 0.5
"""Where between the least and the most a likely saving is taken, when nothing says. By hand."""

FEWEST_SAMPLES = 100
"""Samples that a change would take away, below which no gain is stated."""

# -- account

ACCOUNT_FIRST = 3
"""Changes whose gain together opens a report. By hand."""

# -- changes

CHANGES_LEAST = 0.02
"""Of the time of a launch, what differs from one process to the next."""

CHANGES_RESOLUTION = 0.016
"""Of quantiles, as a share."""

CHANGES_SIGMAS = 2.0
"""Standard errors by which two means differ from which on the difference is reported."""

CHANGES_TOLD_OPS = 6
"""Ops that changed, of which a sentence lists no more."""

CHANGES_QUARTILES = 1.35
"""Standard deviations between the quartiles of normal times."""

# -- contexts

CONTEXTS_ALL = 0.999
"""Share of the devices' time from which steps are all of it; the rest is rounding."""

CONTEXTS_RECORDING_PART = 0.33
"""Part of the host's recorded time, where its launches are late, that recording adds. Of nine
training programs on hosts of an H200 0.14 (with a loader), 0.29, 0.32, 0.33, 0.33, 0.41, 0.42, 0.45
and 0.49: the median (2026-11-27, steps recorded and not, benchmarks/results/programs*.json). 0.22
of one with 642 launches a step on a faster host (`overhead.json`, 2026-11-22)."""

# -- estimates

ESTIMATES_INDEPENDENT = 0.1
"""Of samples, the part that counts as independent: neighbours of one multiprocessor see one phase
of one wave."""

ESTIMATES_SPREAD = 0.4
"""Power that the part of a defect in what is left to gain is raised to; set on PLANT's development
split."""

ESTIMATES_ALL_FROM = 0.1
"""Share of what is left to gain from which on a defect may be all of it. By hand, on PLANT's
development split."""

ESTIMATES_FOLD = 3.0
"""Upper bound of a defect's share of the time, as a multiple of its share of samples."""

ESTIMATES_UNSEEN = 1.5
"""Highest gains are made of what known kernels reached. Of 55 kernels of two splits that were
unknown when they were run, nine of ten gained, of S - 1, at most so many times what they said."""

# -- floors

FLOORS_LAUNCH_NS = 1000.0
"""Time of a kernel that does next to nothing, ns: 0.8 to 1.2 µs of PyTorch's smallest kernels on an
H200 (`tests/data/h200-training.tar.xz`, by 12 to 1,212 launches)."""

FLOORS_USUAL = {
    "NVIDIA H200": {
        "hbm_read": 4.63e12, "hbm_write": 4.67e12, "hbm_copy": 4.09e12, "l2_read": 10.6e12,
        "tensor_bfloat16": 897e12, "tensor_float16": 833e12, "tensor_float8_e4m3": 1.71e15,
        "tensor_tf32": 453e12, "fma_float32": 65.0e12, "fma_float64": 33.1e12,
    },
}  # fmt: skip
"""Roofs of devices by their names, in bytes or operations a second, where those of the very device
were not measured: `tileprof doctor --roofs` of an H200, 2026-11-27."""

FLOORS_IMPOSSIBLE = 1.5
"""Multiple of the L2's measured rate above which bytes that a kernel is said to move are wrong. By
hand: the rate is of reads alone, and writes go the other way meanwhile. Too low a number drops true
bytes of kernels that live in the L2; too high a one takes a wrong floor for the whole time."""

FLOORS_CACHED = 2.6
"""Rate of the L2 as a multiple of the memory's, where the L2's was not measured: 10.6 to 4.09
TB/s of an H200 (`FLOORS_USUAL`)."""

# -- kernel/block_order

BLOCK_ORDER_CANDIDATES = (1, 2, 4, 8, 16, 32)
"""Rows of blocks in a group, of the orders that are tried. By hand."""

BLOCK_ORDER_AGAIN = 1.1
"""Of what is read once, from which on other orders of the axes are worth a look."""

# -- kernel/by_turns

BY_TURNS_BOTH = (1.3, 1.17, 1.0)
"""Of products at their roof and special functions, one after the other, the most, the likeliest,
the least that is done in the same time."""

BY_TURNS_LEAST = 3 / 8
"""Of the time of products, what special functions take where the compiler takes turns."""

# -- kernel/in_step

IN_STEP_FEWEST_GROUPS = 2
"""Warp groups that it takes for one to work while another waits."""

# -- kernel/late_warps

LATE_WARPS_ALL = 0.99
"""Of the warps at a branch, from where all go the same way."""

LATE_WARPS_BEFORE = 8
"""Instructions before a branch whose samples say how often warps come by."""

LATE_WARPS_FEWEST = 50
"""Samples there, fewer than which say nothing of how often warps come by. By hand."""

LATE_WARPS_AS_OFTEN = 0.75
"""Samples that issue behind a branch, by those before it, from which on as many warps come by. By
hand."""

# -- kernel/launches

LAUNCHES_SCHEDULED = 128
"""Threads of a block from which each scheduler has a warp of it."""

# -- kernel/memory_use

MEMORY_USE_REACHED = 0.93
"""Share of the best that memory gives that kernels reach which only move: 0.83 to 0.94 on an
H200."""

MEMORY_USE_REACHED_OF_MIX = 1.0
"""Share of what memory gives to a mix of reads and writes that kernels reach which only move: 0.93
to 1.04 on an H200."""

MEMORY_USE_NEAR = 0.92
"""Share of what such kernels reach from which on memory gives no more to speak of: transposes
through shared memory have no more."""

MEMORY_USE_BEST_OF_MIX = 1.05
"""Share of what memory gives to a mix of reads and writes, the most that was seen: 1.04 on an
H200."""

MEMORY_USE_REACHED_OF_READS = 0.96
"""Share of the same where next to nothing is written, as in sums of rows: 0.92 to 0.97 on an
H200."""

MEMORY_USE_ONLY_READS = 0.05
"""Share of writes up to which next to nothing is written. By hand."""

MEMORY_USE_COPY = 0.5
"""Share of writes from which on memory gives no more than to a copy, as long as it is read as well.
On an H200 kernels with 0.67 and 0.8 of writes had less than that; only writes alone had more."""

# -- kernel/narrow

NARROW_LEAST_FULL = {4: 0.15, 8: 0.2}
"""By width in order, of the samples at them, below which the queue is not what they wait for: such
requests move as many bytes in a pass as wider ones. (An H200 had 0.1 of them at 4-byte loads of
rows that it left in shared memory, padded by a word, where as many more passes are those of shared
memory; and 0.37 where rows were only copied, and 16 bytes took 0.86 of the time.)"""

NARROW_NEAR_BY = 64
"""Instructions from an access to the next one of the same tile, at most."""

NARROW_WIDE_PASSES = 1 + WARP * WIDEST / LINE
"""Of a request of 16 bytes a thread."""

NARROW_SURE = 0.25
"""Of what waits in the queue, what comes back at least: the rest waits for memory then. (An H200
got back 0.3 to 0.5 of it in three kernels.)"""

# -- kernel/next_step

MOST_WARPS = 0.5
"""Of all warps, from which more of them bring little."""

NEXT_STEP_FEWEST_REGISTERS = 24
"""Registers of a thread, fewer than which no change is asked for. By hand."""

# -- kernel/pace

PACE_LATENCY = 800
"""Cycles until a tile is there whose transfer takes none, on a device at work: in products of two
stages on an H200 turns were 530 and 720 cycles longer than their transfer (PLANT)."""

PACE_FASTEST = 530
"""Least latency of a tile, in cycles, of those that `PACE_LATENCY` stands for."""

PACE_PORT = 64
"""Bytes a cycle that one multiprocessor takes from L2 at most; no loop on an H200 came above 42."""

PACE_BUSY = 0.87
"""Of the cycles of a loop, in which tensor cores multiply where nothing is in their way: Triton's
products on an H200 (`benchmarks/results/plant-triton.json`)."""

PACE_FULL = 0.95
"""Of a roof of L2 or of memory, what loops reach that wait for nothing else
(`benchmarks/results/plant-dev.json`)."""

PACE_UNDER_LOAD = 1450
"""Cycles until a tile is there where all multiprocessors load: 1,260 to 1,580 by turns of products
of two and of four stages on an H200 that waited for tiles (PLANT)."""


PACE_BY_POWER = 2 / 3
"""Power of the multiprocessors at work that the rate of products goes with: power goes with them
and with the cube of the clock, as voltage goes with it, and is what limits them."""

PACE_FILLED = 0.9
"""Of the time of a launch, its begin and end included, that tiles take at L2's roof where it is
full."""

PACE_QUEUE = 1.25
"""Times of latency and transfer, from which on tiles stand in a queue."""

# -- kernel/product_samples

PRODUCT_SAMPLES_OWN = 0.5
"""Of the samples of a loop that is a product's, at its line."""

# -- kernel/reach

REACH_IN_TURN = (1.1, 1.0, 0.85)
"""Of tensor cores and special functions in turn; more than all, as some of it overlaps."""

REACH_ASKED = (1.5, 1.1, 0.8)
"""Of the roof of copies, by bytes that samples tell."""

REACH_FEWEST = 50
"""Samples of accesses that issue, below which they do not say how many bytes are asked for. By
hand."""

# -- kernel/scattered

SCATTERED_SURE = 0.5
"""Of what they took, what goes at least, where the use of memory was counted; else of the queue."""

SCATTERED_SURE_OF_WORK = 0.7
"""The same where what the kernel has to move is known: the rest is what it takes to move it."""

# -- kernel/side_by_side

SIDE_BY_SIDE_HALVINGS = 40
"""Halvings of an interval in which a rate is sought: more than a float has digits for."""

SIDE_BY_SIDE_LEAST = 1e-9
"""Least time of a round of a network of queues, as a share: no division by zero."""

# -- kernel/spilled

SPILLED_REACH = 512
"""Instructions, farther before which no access is looked for."""

# -- kernel/tile_choice

TILE_CHOICE_MOST = 128 * 256
"""Sums of a block: half of the registers of a multiprocessor."""

TILE_CHOICE_STEPS = (64, 16)
"""Rows of a warp group; columns that a tile has some times."""

# -- kernel/tile_waits

TILE_WAITS_READY = 50
"""Cycles that a wait takes whose tile is there: 45 in an H200's product that lacks no data."""

# -- machine/lanes

LANES_SHARED = 4096
"""Stands for each value that all lanes have and that is not known."""

LANES_GIVEN = 1 << 16
"""Stands, times an odd number, for what a kernel is given: tensors lie apart, and rows do."""

LANES_ROUNDS = 6
"""Over the code, until what loops change is known; beyond them nothing is."""

# -- machine/loops

LOOPS_ENOUGH = 10
"""Samples of an instruction, from which on the median of a loop's is a good one."""

# -- program/steady

STEADY_FEWEST = 3
"""Visits, or launches: of two, one may be a first use."""

STEADY_NEARLY_ALL = 0.8
"""Of the devices' work; what is left may be an evaluation now and then."""

STEADY_MANY = 20
"""Launches from which a kernel runs many times, beside one that runs once. By hand."""

STEADY_ONCE = 2
"""Mean launches of kernels below a line that runs once: some operations launch twice. By hand."""

# -- report

NOISE = 1.02
"""Gains below are not told: what a measurement of a kernel differs by from the next one."""

REPORT_LEAST_OF_KERNEL = 1.03
"""Kernels without a defect are as near to a roof as that or farther, by what they do."""

REPORT_LEAST_SEEN = 0.02
"""Of a kernel's samples, below which nothing is made of them."""

REPORT_LEAST_SLACK = 0.05
"""Part of a saving, 0 to 1, that does not shorten the program, from which that is told."""

REPORT_LEAST_OF_PROGRAM = 1.005
"""Suggestions that bring a program less, even at best, are not made."""

REPORT_LEAST_SHARE = 0.01
"""Share of kernel time, 0 to 1, below which a kernel is not judged."""

# -- rules/bank_conflicts

BANK_CONFLICTS_MUCH = 0.4
"""Of a kernel's samples, from which on waits for shared memory are told without a cause."""

BANK_CONFLICTS_LEAST = 2.0
"""Passes where one would do."""

BANK_CONFLICTS_OF_WORD = 2.0
"""Passes of a request of a word a thread: its addresses', and its bytes'."""

BANK_CONFLICTS_FEWEST = 20
"""Of samples that issue such accesses, below which they do not tell how many requests there are."""

# -- rules/barriers

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

# -- rules/coalescing

COALESCING_WASTEFUL = 2.0
"""Sectors for each needed one. An unaligned row of 4-byte words has 5 for 4: not worth a word."""

COALESCING_OF_PRODUCTS = 2.0
"""The same of 16-bit results of products: four lanes hold 16 bytes of a row between them."""

COALESCING_MUCH = 0.4
"""Of the samples, from which on waiting for memory is worth telling without a cause."""

# -- rules/code_size

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

# -- rules/drain

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

# -- rules/layout_converts

LAYOUT_CONVERTS_COMES_BACK = 0.85
"""Of that time: other instructions take some of the freed turns."""

LAYOUT_CONVERTS_OFTEN = 0.05
"""Of the samples, at an exchange that keeps warp groups in step all along a turn."""

LAYOUT_CONVERTS_LEAST_KEPT = 0.02
"""Of the time, what is left in any case."""

# -- rules/layout_copies

LAYOUT_COPIES_HOT = 0.03
"""Of the devices' time, above which copies are worth a change."""

# -- rules/narrow_access

NARROW_ACCESS_IN_ORDER = (0.9, 1.25)
"""Sectors for each needed one of lanes side by side: unaligned rows of 4-byte words have 5 for 4;
fewer are lanes that share addresses."""

NARROW_ACCESS_GAPS = 1.9
"""Sectors for each needed one of lanes that leave gaps, from which on there are gaps."""

NARROW_ACCESS_FULL = 0.2
"""Of the samples, from which on a full queue is worth telling without a cause."""

# -- rules/occupancy

OCCUPANCY_WAITING = 0.3
"""Of the samples, that wait for latency while nobody issues: below, more warps find little room."""

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

# -- rules/pipeline_depth

PIPELINE_DEPTH_MUCH = 0.1
"""Of the time, what is worth a word where no gain can be told."""

PIPELINE_DEPTH_MOST_STAGES = 8
"""Stages, more than which are not advised. By hand."""

PIPELINE_DEPTH_LEAST_REST = 0.02
"""Of a turn, what is never hidden: more would be a guess."""

PIPELINE_DEPTH_BY_SAMPLES = 0.95
"""Of what a turn takes, how much less it may be: turns are counted by some hundred samples."""

# -- rules/precision

PRECISION_PACES = (0.3, 0.75, 1.0)
"""Of the part of its roof that a kernel reaches, the part of the tensor cores' that its successor
does: at least, likely, at most. Tiles of 32-bit operands are half as deep as those of 16 bits, of
which cuBLAS has 0.8 of the roof at best (docs/benchmarks.md); a BERT encoder on an H200 reached
0.36 (benchmarks/results/programs-1of3.json, embed_texts)."""

# -- rules/program/backward_ratio

BACKWARD_RATIO_SLOW = 3.0
"""Time of a backward pass by its forward pass, from which it is slow where nothing else is known:
two products stand for one. By hand."""

BACKWARD_RATIO_ABOVE = 1.5
"""Ratio of an operation by that of the program's others, from which it stands out. By hand."""

BACKWARD_RATIO_BY_BYTES = 1.5
"""Ratio by that of the bytes that both passes move, from which bytes are no reason. By hand."""

# -- rules/program/compiling

COMPILING_HOST_SHARE = 0.05
"""Of the host's time, below which compiling is not told of a program without a device."""

# -- rules/program/alignment

ALIGNMENT_PARTS = (0.0, 0.15, 0.4)
"""Of the time of products of unaligned operands whose work is not known, what padding saves: at
least, likely, at most.
Likely is what was measured for GPT-2 with a vocabulary of 50,257 (H200, batch 8×512, bfloat16,
2026-11): 1.037× with a quarter of the time in such products."""
ALIGNMENT_REACHED = 0.7
"""Part of the roof that a product of aligned operands reaches, by hand: cuBLAS reached 0.9 of it
for 8192³ in bfloat16 (H200, 2026-11), and products with a short dimension reach less."""

# -- rules/program/eager_attention

EAGER_ATTENTION_BETWEEN = (0.5, 0.9, 1.0)
"""Of the time between the products of attention, what a fused kernel saves: at least, likely, at
most. By hand."""

EAGER_ATTENTION_PRODUCTS = (0.0, 0.25, 0.67)
"""The same of the time of the products. By hand."""

# -- rules/program/doubles

DOUBLES_SHARE = 0.05
"""Share of the devices' time from which kernels of doubles are told. By hand."""

DOUBLES_PARTS = (0.25, 0.5, 0.5)
"""Of the time of kernels of doubles, what goes with 32-bit floats: half of the bytes and,
on devices with the most units for doubles, half of the time of arithmetic; at least half of that.
By hand."""

# -- rules/program/jit_update

JIT_UPDATE_FEWEST = 4
"""Operations outside of `jit` from which a call that runs them is told. By hand."""

JIT_UPDATE_SHARE = 0.1
"""Share of the host's time without compiling from which they are told. By hand."""

# -- rules/program/recurrence

RECURRENCE_TURNS = 8
"""Turns of a loop from which it is told as a recurrence: fewer may be unrolled. By hand."""

RECURRENCE_SHARE = 0.05
"""Share of the time from which a recurrence is told. By hand."""

RECURRENCE_MOST = 0.94
"""Of the host's time of a recurrence, what goes at most: nn.LSTM in the place of a cell of 64 turns
with gradients, 5.16 ms and 0.32 ms at a width of 16 and 4 rows; at 256 and 32 rows 74 and 33 ms.
PyTorch 2.13 on one thread, 2026-11."""

# -- rules/program/same_product

SAME_PRODUCT_SHARE = 0.05
"""Share of the time from which a repeated call is told. By hand."""

# -- rules/program/small_block

SMALL_BLOCK_BYTES = 4096
"""Bytes that a block moves, below which it ends before its loads pay: 32 bytes for each of 128
threads. By hand."""

SMALL_BLOCK_WAVES = 4
"""Waves of blocks from which there are enough of them to make larger ones. By hand."""

SMALL_BLOCK_FAR = 1.5
"""Time by the floor from which a kernel is far from the memory's roof. By hand."""

SMALL_BLOCK_REACHED = 0.8
"""Part of the memory's roof that such a kernel likely reaches with larger blocks. Of two kernels of
a Triton program on an H200, at 0.36 and 0.55 with blocks of 128 elements, blocks of 1,024 made the
program 1.62 times as fast (benchmarks/results/programs-held-out.json, triton_block)."""

# -- rules/program/handed_over

HANDED_OVER_PARTS = (0.5, 0.9)
"""Of the time of the shorter kernel, what goes at least, and likely. A Triton program on an H200
with two kernels of a third of its time each was 1.49 times as fast with one: all of it
(benchmarks/results/programs-held-out.json, triton_block)."""

# -- rules/program/gathered_rows

GATHERED_ROWS_NEAR = 0.2
"""Time of a launch by that of the gather, from which an operation beside it works on as many rows.
By hand."""

GATHERED_ROWS_LEFT = (1.75, 0.85, 0.4)
"""Time that is left by that of gathering the rows in both passes: at least saved, likely, at most.
A graph convolution of 60,000 nodes, 900,000 edges and 128 columns on an H200 (2026-11-27): 1.0 with
torch.sparse.mm, 0.6 with torch.compile."""

# -- rules/program/loader

LOADER_SHARE = 0.1
"""Share of the host's time from which a loader without workers is told. By hand."""

LOADER_WORKERS = (2, 4, float("inf"))
"""Workers by which the gain of loading beside computing is told: at least, likely, at most."""

# -- rules/program/fusion

FUSION_PARTS = (0.5, 0.75, 1.0)
"""Of the time above the longest kernel of a run, what goes: at least, likely, at most."""

FUSION_NAMED = 4
"""Kernels of a chain that a sentence names."""

# -- rules/program/hotspots

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

HOTSPOTS_LEAST_OF_HOST = 0.03
"""Share of the host's time from which its most expensive operation is named. A program on the host
spreads over many operations, and one of them is where to begin."""

# -- rules/program/launch_bound

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

# -- rules/program/optimizer_passes

OPTIMIZER_PASSES_COLD = 0.005
"""Share of the devices' time in steps below which an optimizer is not worth a line."""

OPTIMIZER_PASSES_SLOWER = 4 / 3
"""Time of a fused kernel by that of its passes, at most."""

OPTIMIZER_PASSES_UNSURE = 1.1
"""Passes of a fused kernel, at least likely, by those that it needs."""

# -- rules/program/small_kernels

SMALL_KERNELS_SHORT = 10_000.0
"""Mean time of a launch in ns, below which launching takes as long as working. `fusion` tells
runs of longer ones."""

SMALL_KERNELS_FEWEST = 4
"""Kernels of a chain: of fewer little is left to fuse."""

# -- rules/program/transfers

TRANSFERS_SLOW_LINK = 12.0
"""GB/s of copies from pinned memory by PCIe 3.0 with 16 lanes, as devices have had since 2012."""

TRANSFERS_LARGE = 1e6
"""Bytes of a copy, below which it is its beginning that takes time, not the link."""

# -- rules/roofline

ROOFLINE_NEAR = 0.9
"""Share of a roof from which on a kernel is at it. By hand."""

# -- rules/slow_math

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

# -- rules/small_grid

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

SMALL_GRID_SURE = 0.25
"""Share of the likely gain that is sure. By hand."""

# -- rules/spills

SPILLS_SURE = 0.7
"""Of the likely part, what comes back at least."""

# -- rules/tail_wave

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

# -- rules/tensor_cores

TENSOR_CORES_MMA = 0.62
"""Of the peak of wgmma, what mma reaches on Hopper (Luo et al., "Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture via Microbenchmarking", IPDPS 2024)."""

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

# -- rules/traffic

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

# -- rules/wasted_lanes

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

WASTED_LANES_MORE = 0.1
"""Of the rest, what goes away at most as well: smaller tiles leave room for more stages."""

# -- tiles/padding

PADDING_MATRIX = 2
"""Dimensions of an operand."""

# -- tiles/values

VALUES_MOST_BLOCKS = 1 << 18
"""Blocks of a grid, more than which are not followed one by one: memory goes with them."""

# -- unexplained

UNEXPLAINED_LEAST = 0.03
"""Share of the devices' time beyond a kernel's floor, without a cause, that is told. By hand."""

UNEXPLAINED_FAR = 1.5
"""Times the floor and what causes explain, from which on a kernel is far from it. By hand:
libraries' products reach 0.6 to 0.9 of their roof."""
