"""Numbers of the facts of a kernel that rules share (`analyzer/kernel`)."""

from __future__ import annotations

from tileprof.binary.occupancy import WARP

from .shared import LINE, WIDEST

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

LAUNCHES_STARTED = 0.82
"""Blocks that a device starts at most in a cycle of its highest clock. Launches that only fill a
tensor took 0.61 to 0.63 ns for each of their blocks on an H200, five kernels of 32,768 to 524,288
blocks. With a larger number, launches of blocks that end at once are said to take too little."""

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

NARROW_ALIKE = 1.15
"""Passes of a request, as a multiple of those of lanes side by side, up to which it counts as one
of those: where a row does not begin at a sector, 4-byte lanes touch a fifth one, which is an eighth
of a request more. Too low a number takes a shift of a row for a defect of its accesses."""

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

# -- kernel/per_thread

PER_THREAD_TURNS = 4
"""Loads of a thread that are waited for one after the other, from which on that is the cause. By
hand."""

PER_THREAD_WORD = 4
"""Bytes of an access, up to which what makes its address counts: with 8 there are half as many, and
a block that has fewer threads for it leaves room for others."""

PER_THREAD_OF_WORD = 0.6
"""Part of what makes addresses of 4-byte accesses that goes: of a histogram and of running sums of
an H200 whose rows lost their alignment 0.44 and 0.73 of it came back
(`benchmarks/results/plant-dev-1.json`)."""

# -- kernel/load_latency

LOAD_LATENCY_LEAST = 0.02
"""Share of a kernel's samples that wait for memory at an instruction, from which on its mean wait
counts: others have too few samples that issue. By hand."""

# -- kernel/unused_rows

UNREAD_NOTABLE = 0.1
"""Share of a copy that nothing reads, from which on it is told: less is how a tile is rounded up to
whole accesses. By hand."""

UNREAD_PADDING = 32
"""Bytes at the end of a tile's rows that are taken for padding, though nothing reads them: rows
that are 4 to 16 bytes longer begin in other banks of shared memory. By hand."""
