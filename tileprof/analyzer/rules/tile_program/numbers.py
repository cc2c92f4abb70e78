"""Numbers of single rules about a tile kernel's program: thresholds, and what changes brought.

They stand as those of `rules/numbers` do, which has what rules of several folders share.
"""

from __future__ import annotations

# -- atomic_sums

ATOMIC_SUMS_BOUND = 0.75
"""Share of the time that L2 needs for atomics on one element, from which on they are what the
kernel waits for. On an H200 kernels with 0.85 and 0.97 were 1.6 and 2.3 times as fast without them;
at 0.4 and less eight of nine lost nothing, one 4 % (`plant-test-6`)."""

ATOMIC_SUMS_EACH = 0.75
"""Time that L2 needs for one of many atomics on one element, whose results nobody uses, in ns: a
kernel of an H200 that made 1,048,576 of them took 808 µs (`plant-test-6`)."""

ATOMIC_SUMS_FEWEST = 4
"""Elements that atomics combine into one from which on a reduction is advised. By hand."""

ATOMIC_SUMS_GO = 0.95
"""Of the samples of such atomics, the part that goes where a reduction takes their place, likely.
By hand."""

ATOMIC_SUMS_HELD = 48 << 10
"""Bytes of shared memory that every block has without asking for more (CUDA C++ Programming Guide
13.0): the largest array that a block is advised to combine numbers in."""

ATOMIC_SUMS_LATE = 0.75
"""Part of the waits at barriers of a loop that goes likely where one warp does an atomic in each
iteration: 0.84 and 0.85 in two kernels of an H200, and all of 0.9 in two others where the atomics
themselves had many samples (`plant-test-7`)."""

ATOMIC_SUMS_SURE = 0.6
"""Of that part, what goes at least: exchanges between warps, and barriers, may take the rest. By
hand."""

# -- cut_launches

CUT_LAUNCHES_EACH = (500.0, 1000.0, 2500.0)
"""What the end of a launch and the begin of the next one take, ns: least, likely, most. By hand."""

CUT_LAUNCHES_BLOCKS = (0.15, 0.35, 1.0)
"""Part of the time of a wave of blocks that is lost at the end of a launch as well. On an H200
three tile kernels in 16 launches took 2.1 to 4.6 µs more for each than in one, which is 0.2 to 0.4
of a wave beyond 1 µs; nine kernels of Triton in eight launches, 0.2 to 0.9 (`plant-test-3`)."""

CUT_LAUNCHES_FEWEST = 4
"""Launches that a loop is taken to make where its text does not say how many. By hand."""

# -- left_out

LEFT_OUT_SURE = 0.25
"""Share of the likely gain that is sure where blocks wait for one another's turn. By hand: of eight
kernels of an H200 with half of a loop left out three gained nothing (`plant-test-3`)."""

# -- masked_tails

MASKED_TAILS = (0.02, 0.33, 0.8)
"""Share of a loop's time that goes where it ends at each block's own length: least, likely, most.
By hand, as no recording has the lengths: of lengths that are spread evenly half of the iterations
are masked, and the longest block is waited for. A decoding kernel of an H200 gained 0.34
(`plant-test-4`)."""

# -- long_blocks

LONG_BLOCKS_END = (0.1, 0.27, 1.0)
"""Part of a block's time that is lost while the last blocks end: least, likely, most. On an H200
three kernels of 4 to 8 waves of blocks with 16 tiles each took 1.04 to 1.08 times as long as with
a block for each tile, one of 2 waves 1.4 (`plant-test-3`)."""

# -- round_trips

ROUND_TRIPS = (0.4, 0.9, 1.6)
"""Of the share of samples of copies to shared memory and back, what leaving them out saves: least,
likely, most. By hand."""

# -- needless_tensors

NEEDLESS_COPIED = (0.85, 1.0, 1.1)
"""Of the share of samples of a launch that only copies, what leaving it out saves: least, likely,
most. What it left in the L2 the next launch then reads from memory."""

NEEDLESS_PASSED_ON = (0.75, 0.93, 1.1)
"""The same of a launch that only copies what the one before it wrote: 0.83 to 1.0 in seven such
kernels on an H200. The copy reads a part of it from the L2."""

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

# -- points

POINTS_NOTABLE = 0.08
"""Share of the samples in work that is the same for all points of an axis, from which on it is
told: a thread computes it once for its points, and keeps it if that is cheap. By hand."""

# -- redundant_work

REDUNDANT_SURE = 0.5
"""Of the samples of work that is done again, the least that goes: what comes from caches the second
time, or beside other work, costs less. By hand."""

# -- small_chunks

SMALL_CHUNKS_LARGER = 4
"""How many times as many elements a larger chunk has, as a thread that loads 16 bytes at once has
four or eight. By hand."""

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

# -- group_alone

GROUP_ALONE_LATE = 0.1
"""Share of the time that tiles are late, from which on stages are of use. By hand."""

GROUP_ALONE_SURE = 0.3
"""Of the likely gain, what comes at least. By hand."""

# -- redundant_traffic

THIN_WORK_IDLE = 0.5
"""Of a block's threads, the part without an element from which on it is told: half of the warps."""

THIN_WORK_NOTABLE = 0.1
"""Share of the samples in a loop from which on its threads, or turns, are told."""

# -- asserted

ASSERTED_BESIDE = 0.3
"""Of what a kernel does besides its assertions, the most that goes with them, as nothing moves over
their branches: 0 to 0.2 in eight kernels of an H200 (`plant-test-5`)."""
