"""The analyzer's numbers: facts of devices, what kernels were measured to reach, thresholds.

Each says its unit, its meaning and its source.  "An H200" is the one on which PLANT's kernels ran
(`benchmarks/results`, recorded in October and November 2026); a judgement without a measurement
says "by hand", and so is every threshold that names no source.  A wrong number makes a report say
too much or too little, or estimate a gain badly; none makes it fail.  What a device has stands in
`binary/occupancy.py`, and is taken from there.

Numbers that several modules share come first; those of one module follow under its name, which
begins theirs.  Those of single rules are in `numbers.py` of their folders.
`tests/analyzer/test_numbers.py` keeps them there.
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

HOPPER = 9
"""Major compute capability of the devices that have `wgmma`."""

MMA_OF_WGMMA = 0.62
"""Of the peak of wgmma, what mma reaches on Hopper (Luo et al., "Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture via Microbenchmarking", IPDPS 2024)."""

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

# -- tiles/contractions

CONTRACTIONS_SIDE = 8
"""Extent of the smallest tile of tensor cores in its smallest dimension, from which on loops that
multiply and add are a product of matrices (PTX ISA, `mma` of m16n8k8)."""

# -- machine/issued_products

ISSUED_PRODUCTS_SEEN = 1.3
"""Samples of issued products as a multiple of their number: 1.1 to 1.9 for kernels whose products
are known, on an H200 (`benchmarks/results/plant-dev-1.json`); warps that issue them are sampled
more often than their turns."""

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

NARROW_BESIDE = 0.02
"""Of the samples, what is done for each access and not for each byte, from which on narrow accesses
cost something though their queue is not full. By hand."""

NARROW_BUSY = 0.7
"""Share of cycles in which schedulers issue, from which on a kernel takes as long as it has
instructions. (On an H200 three such kernels gained 1.42, 1.72 and 2.29 where instructions foretold
1.41, 2.0 and 2.27; from 0.6 down kernels without a defect had narrow accesses.)"""

NARROW_MOST = 1.5
"""Of what a warp does itself for narrow accesses, how many times as much may go: others wait for
its turns to issue. By hand."""

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

NEXT_STEP_MANY = 4
"""Blocks of a multiprocessor, from which on one more is a small step. By hand."""

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

PACE_TOGETHER = 1.18
"""Of L2's measured rate, the most at which loops of products took tiles on an H200 (PLANT), as
requests for one tile meet."""

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

PRODUCTS_UNTUNED = (0.9, 0.6, 0.25)
"""Share of the roof of tensor cores that a product reaches, at best, likely, at least, that was
slower before. Of kernels without a defect that were not tuned for their shape, 0.3 to 0.7 on an
H200 (`benchmarks/results/plant-dev-1.json`)."""

PRODUCT_SAMPLES_REACHED = (0.9, 0.75, 0.25)
"""Share of the roof of tensor cores that a product reaches at best, likely, at least, which
ordinary instructions did before. Likely, with `PRODUCT_SAMPLES_KEPT`: by hand between what products
without a defect reach (0.6 to 0.83) and the best fit of 17 kernels of 14 families of PLANT's
generated splits on an H200 (0.9 with 0.3; the fit is flat)."""

PRODUCT_SAMPLES_KEPT = 0.25
"""Part of what stood beside a slow product that likely stays beside a fast one; of the same."""

PRODUCT_SAMPLES_COUNTED = 1.0
"""Operations by issued instructions, as a multiple: they came to 1.1 times those of a program that
does all of them, at the highest clock, which a device that draws much power is below."""

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

# -- program/training_steps

TRAINING_STEPS_NEARLY_ALL = 0.9
"""Least share of backward passes that the function has which makes steps; others may be of an
evaluation, or of a second model. By hand."""

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

UNEXPLAINED_FAR_OF_MEMORY = 1.25
"""The same of a sampled kernel whose floor is that of its bytes: kernels without a defect reached
0.83 of that roof or more on an H200 (`benchmarks/results/plant-dev.json`). By hand."""

# -- leads

LEADS_PART = 3
"""Stall reasons, and kinds of instructions, that a lead names, the most frequent first. By hand."""

# -- machine/repeats

REPEATS_ROUNDS = 12
"""Passes over a loop, after which it is not known what its turns change. By hand: one for each loop
in it, and one more."""

REPEATS_CARRIED = 3
"""Registers that a loop may keep from a turn to the next as its count. By hand."""

REPEATS_EVERY = 0.75
"""Part of what a loop's loads issue that its turns load again, from which on the rest (behind a
guard, say) is taken for the same. By hand."""

REPEATS_COUNTED = 100
"""Samples that issue, from which on they tell how often a loop turns. By hand."""

# -- kernel/per_thread

PER_THREAD_WORD = 4
"""Bytes of an access, up to which what makes its address counts: with 8 there are half as many, and
a block that has fewer threads for it leaves room for others."""

PER_THREAD_OF_WORD = 0.6
"""Part of what makes addresses of 4-byte accesses that goes: of a histogram and of running sums of
an H200 whose rows lost their alignment 0.44 and 0.73 of it came back
(`benchmarks/results/plant-dev-1.json`)."""

# -- calibrated

CALIBRATED_NOMINAL = 0.8
"""Probability with which the true gain of a new family's defect is inside its interval."""

CALIBRATED_NARROWEST = 0.02
"""Least distance of an end of an interval to its middle, of the logarithm of a gain."""

LOAD_LATENCY_LEAST = 0.02
"""Share of a kernel's samples that wait for memory at an instruction, from which on its mean wait
counts: others have too few samples that issue. By hand."""

# -- threads of the host

THREADS_SEVERAL = 0.05
"""Share of the longest thread's time from which another thread counts as running beside it. By
hand."""
