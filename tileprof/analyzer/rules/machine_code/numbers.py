"""Numbers of single rules about machine code: thresholds, and what a change was measured to bring.

They stand as those of `rules/numbers` do, which has what rules of several folders share.
"""

from __future__ import annotations

# -- small_block

SHORT_LIVES_REACHED = 0.9
"""Part of the memory's roof that a kernel likely reaches whose threads move 16 bytes each instead
of one narrow access: 0.89 and 0.93 on an H200 (`triton-add`, `triton-smooth_loss_grad`, both as
they are, `plant-test-1` and `plant-test-2`)."""

# -- few_products

FEW_PRODUCTS_EACH = 64
"""How often a tile of 128 × 128 multiplies each element that it loads."""

FEW_PRODUCTS_FEWER = 1.5
"""How many times less often a loop does so that uses too little of what it loads: as for
`SMALL_TILES_FEWER`."""

FEW_PRODUCTS_SHORT = 1.5
"""Short edge of a tile as a multiple of how often it multiplies each element: of tiles twice as
long as they are wide."""

FEW_PRODUCTS_LONG = 256
"""Longest edge of a tile that tensor cores have (PTX ISA, `wgmma`)."""

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

SHORT_PHASES_FEWEST = 128
"""Threads of a block that give each scheduler of a multiprocessor one warp."""

SHORT_PHASES_WAITING = 0.1
"""Share of the samples that wait at barriers, from which on they are of note. By hand."""

# -- redundant_traffic

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

# -- same_programs

SAME_PROGRAMS = (0.5, 0.9, 1.0)
"""Share of the work done again that goes where the programs that stay fill the device: least,
likely, most. On an H200 ten kernels with two programs for each tile took 1.48 to 1.99 times as long
as with one (`plant-test-3`)."""

SAME_PROGRAMS_AT_ONCE = (0.0, 0.4, 1.0)
"""The same where all programs that stay run at once, so that latency may set the time of each."""
