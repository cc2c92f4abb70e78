"""Numbers by which passes decide, and that were taken from a paper, measured, or chosen by hand.

What an architecture has stands in `target.py` and `binary/occupancy.py`.  Here stand what its units
do in a cycle, and the thresholds at which one form of a kernel becomes faster than another.  Each
number says its unit, its source and the date from which it stands.  A wrong one makes kernels
slower, never wrong.  "By hand" means that no measurement which decides between it and its
neighbours is kept.
"""

from __future__ import annotations

from fractions import Fraction

# -- what units do

TENSOR_FLOPS_PER_CYCLE = 4096
"""Flops of dense products of 16-bit operands, per cycle of an H100's multiprocessor: 989 TFLOP/s of
132 of them at 1.83 GHz (NVIDIA, "H100 Tensor Core GPU Architecture", 2022).  Since 2026-11-22."""

SPECIAL_PER_CYCLE = 16
"""Exponentials and the like, per cycle of a multiprocessor (CUDA C++ Programming Guide, throughput
of native arithmetic instructions, compute capability 9.0).  Since 2026-11-22."""

ORDINARY_PER_CYCLE = 128
"""Ordinary 32-bit instructions of threads, per cycle of a multiprocessor; source and date as for
`SPECIAL_PER_CYCLE`."""

SECTOR_CYCLES = 1.5
"""Cycles for 32 bytes at a multiprocessor's share of the memory bandwidth: 3.35 TB/s of an H100
among 132 at 1.83 GHz give 2.3, an H200's 4.8 TB/s give 1.6.  By hand, 2026-11-21."""

BARRIER_CYCLES = 30.0
"""Cycles of a barrier of all threads of a block.  By hand, 2026-11-21."""

SHUFFLE_BARRIERS = 16.0
"""Cost of two barriers, in words that a warp stores or loads.  By hand, 2026-11-21."""

SPILL_CYCLES = 100.0
"""Cycles for each register of a thread beyond `CROWDED_REGISTERS`: more than any layout saves.  By
hand, 2026-11-21."""

INSTRUCTION_CYCLES = 1 / 4
"""Cycles for one instruction of a warp: a multiprocessor has 4 schedulers (NVIDIA, "H100 Tensor
Core GPU Architecture", 2022).  Since 2026-11-21."""

REQUEST_CYCLES = 1 / 2
"""Cycles for an access of a warp to shared memory, beside those of its wavefronts.  By hand,
2026-11-21."""

REDUCE_CYCLES = 1.5
"""Cycles for one exchange of a value between lanes, and for adding it up.  By hand, 2026-11-21."""

MOVE_CYCLES = 2.0
"""Cycles for each register of a warp that a conversion moves: one to send it, one to receive it.
By hand, 2026-11-21."""

UNKNOWN_LAYOUT_CYCLES = 1e6
"""Cycles for each loop or fragment that a solution leaves without a layout: more than any layout
costs.  By hand, 2026-11-21."""

# -- registers

CROWDED_REGISTERS = 160
"""Registers of a thread beyond which fragments leave too little for everything else.  By hand,
2026-11-21."""

FRAGMENT_REGISTERS = 200
"""Registers of a thread, of its 240, that the fragments of an overlapped loop may take: addresses,
counters and descriptors need the rest.  By hand, 2026-11-22."""

BOUND_STEPS = 32
"""Ops of the bound of a condition that are followed; a longer one is as good as unknown.  By hand,
2026-11-28."""

EARLY_BYTES = 96
"""Bytes of a thread that hold what is loaded before a product and used behind it.  By hand,
2026-11-28."""

OWN_TILE_BYTES, OWN_TILE_ONCE = 32, 64
"""Bytes of a thread up to which a tile of shared memory that each thread has for itself is kept in
registers, and the same outside of loops, which hold other tiles from one iteration to the next.  By
hand, 2026-11-28."""

ADDRESS_REGISTERS = 16
"""Registers of a thread for addresses and scalars of a launch that only moves tiles.  By hand,
2026-11-28."""

WIDE_FRAGMENT = 32
"""Registers of a thread beyond which a fragment that is indexed by numbers is better in shared
memory.  By hand, 2026-11-21."""

BYTES_IN_FLIGHT = 256
"""Bytes of a thread that loads in front of the points may take: 64 registers.  By hand,
2026-11-21."""

ORDERED_REGISTERS = 8
"""Registers of an accumulator up to which a wait names them, so that the assembler keeps the order
of what depends on them.  By hand, 2026-11-22."""

ROLE_REGISTERS = {2: (24, 240), 3: (32, 160)}
"""Registers that `setmaxnreg` leaves to a thread of the producer and of a consumer, by the number
of consumer warp groups; with one, all threads have enough without.  They are multiples of 8, and
are no more than the block starts with: 24 + 2 · 240 of 3 · 168, 32 + 3 · 160 of 4 · 128.
FlashAttention-3 has the same (Shah et al., 2024).  Since 2026-11-22."""

LOOP_REGISTERS = 16
"""Registers of a thread that have to be left beside fragments where a loop becomes several: each
keeps addresses of its own, which would be spilled.  By hand, 2026-11-28."""

OTHER_REGISTERS = 40
"""Registers of a thread that are not a fragment's: what `FRAGMENT_REGISTERS` leaves of 240."""

PAIRED_BLOCKS = 2
"""Blocks that share a multiprocessor where each has one consumer warp group and a producer: while
one waits for a product, the other computes.  Since 2026-11-28."""

PAIRED_REGISTERS = (24, 232)
"""Registers that `setmaxnreg` leaves to a thread of the producer and of the consumer of such a
block: both multiples of 8, and together the 2 · 128 that two blocks of 256 threads start with.
With more, a block would wait for registers for ever.  Since 2026-11-28."""

# -- thresholds

MOST_CHOICES = 6
"""Truths that the conditions of branches may be made of to be joined into one formula, which is
looked at for all that they can be: 64 ways.  By hand, 2026-11-28."""

MOST_CHOSEN = 32
"""Ops inside of a branch up to which both of its ways are computed: about what the branch itself,
the way back and the second of two ways that lanes take cost.  By hand, 2026-11-28."""

OPERAND_SLICES = 4
"""Slices along K of a product whose A is computed in registers.  More would add waits; with fewer,
more registers wait for one product.  By hand, 2026-11-21."""

ALTERNATING = 4
"""Iterations that become one where products go into two accumulators in turn: a multiple of 2.  At
the end of each no product is under way; with more, the text is longer.  By hand, 2026-11-29."""

FEW_CHUNKS = 2
"""Chunks of a tile that each thread copies by cp.async up to which each is asked whether it is
inside; with more, a branch asks for the tile.  On an H200 an example with two took 6 % longer with
the branch (445.8 and 472.8 µs, runs of 2026-11-28 and 29)."""

ROW_SLICES = (2, 4)
"""Slices along M of a product that is used at once, tried in this order where fragments do not fit.
Each waits for its own product.  By hand, 2026-11-28."""

RASTER_ROWS = 8
"""Rows of blocks that run together by default, to share operands in L2.  By hand, 2026-11-21."""

SMALL_TILE = 8 << 10
"""Bytes of a tile, loaded once for each tile of the grid or in a loop of one stage, up to which it
gets a second slot: little beside the rings of the loops inside, or the large tiles of that loop.
By hand, 2026-11-23."""

TILES_AHEAD = 2
"""Numbers of tiles that may wait for the consumers: the producer is at most so many tiles ahead.
By hand, 2026-11-22."""

PING_PONG_SHARE = 3 / 8
"""Time of exponentials, as a share of the time of products, from which warp groups hand the tensor
cores over to each other.  FlashAttention-3 (Shah et al., 2024) does so for heads of 128 columns,
where the share is 1/2, and not for 256, where it is 1/4.  Since 2026-11-22."""

PING_PONG_ALONE = 3 / 4
"""The same share of 8-bit products from which groups keep the order of an iteration and hand the
tensor cores over, rather than run products beside their own exponentials.  Attention in float8 with
heads of 128 columns, where the share is 1, is 1.5 to 14 % faster so on an H200 (2026-11-29, tiles
of 128 and of 192 keys, full and causal).  Other products were not compared."""

PING_PONG_STRAY = 1 / 4
"""Share of a loop's arithmetic that may stand elsewhere than with its exponentials.  By hand,
2026-11-22."""

STORED_CHUNKS = (128, 64)
"""Bytes of a row of a part in which a tile is stored: one panel of a swizzle, the widest that fits
first.  By hand, 2026-11-22."""

LOAD_CYCLES = 1000
"""Cycles from the request of a tile until it is in shared memory, most of them those of global
memory.  Products that run for less do not hide a load that waits for them.  By hand,
2026-11-28."""

READ_STEPS = 3
"""Products that were waited for, and barriers, after which TMA has surely read a tile that it was
asked to store, behind the loads that it was asked for before.  With fewer, threads would wait for
it; with more, for a barrier of its own.  By hand, 2026-11-28."""

CLUSTER_BYTES = 1 / 12
"""Bytes that TMA moves in a loop for each multiply-add of its products, from which on blocks form
clusters without a wish.  An H200's multiprocessor multiplies and adds 2,048 pairs of 16 bits a
cycle, and L2 gives it about 24 bytes: its tensor cores wait six times as long as they work."""

CLUSTER_SHARE = 1 / 2
"""Share of these bytes that the blocks of such a cluster load together, at least.  By hand,
2026-11-28."""

CLUSTER_SIZES = (4, 2)
"""Blocks of such a cluster, tried in this order.  By hand, 2026-11-28."""

BESIDE_SUMS = 32
"""Registers of a thread that multiplies, beside those of its sums: addresses, counters and what
is computed with a part of them at a time.  By hand, 2026-11-28."""

STORED_BOXES = 4
"""Boxes up to which TMA stores any tile: one thread gives an instruction for each.  By hand,
2026-11-28, as 512 bytes of a tile of one row."""

BOX_CYCLES = 20.0
"""Cycles that one thread and the copy engine take at least for a box, however few bytes it has.
Where a tile's boxes take longer than its bytes do at `SECTOR_CYCLES`, threads store it.  By hand,
2026-11-29: no measurement decides yet between 10 and 40."""

RING_BARRIER_BYTES = 1024
"""Bytes of shared memory that are left to the barriers of rings.  By hand, 2026-11-21."""

# -- loops

UNROLLED_POINTS = 512
"""Points of a thread up to which all loops are unrolled; those of fragments always are.  By hand,
2026-11-21."""

UNROLLED_INSTRUCTIONS = 4096
"""Instructions of a thread's points up to which all loops are unrolled: 64 KiB, half of what an
H200 multiprocessor keeps of a kernel's code.  By hand, 2026-11-29."""

FUNCTION_INSTRUCTIONS = 8
"""Instructions of an exponential or a like function, as ptxas writes `expf`.  Counted in machine
code, 2026-11-29."""

UNROLLED_PRODUCTS = 512
"""Instructions of a product up to which all steps of K are written out.  By hand, 2026-11-21."""

UNROLLED_STEPS = 2
"""Steps of K that are written out at once where not all are.  By hand, 2026-11-21."""

UNROLLED_TRIPS, UNROLLED_AT_ONCE = 64, 8
"""Iterations up to which a loop of the author's that is to be unrolled is unrolled whole, and
iterations that are written out at once of a longer one.  By hand, 2026-11-21."""

NUMBERED_TRIPS = 64
"""Iterations up to which the variable of a serial loop may number registers.  By hand,
2026-11-21."""

SHORT_SCAN, SHARED_SCAN = 16, 512
"""Elements of a line up to which a warp does not make a scan faster, and from which on several
warps share a line.  By hand, 2026-11-21."""

SHARED_SCAN_WORK = Fraction(4, 3)
"""Work of a scan whose lines several warps share, for each unit of work of one warp for a line: the
parts of the warps are scanned too.  By hand, 2026-11-21."""

# -- search for layouts

ROOT_SHAPES = 2
"""Shapes of a component that are tried as its root.  By hand, 2026-11-21."""

SMALL_NODE = 4
"""Elements of the largest node over those of a node that is too small for a root.  By hand,
2026-11-21."""

WAVEFRONTS_LEFT = 1.5
"""Wavefronts for each that is needed, up to which a layout is left as it is.  By hand,
2026-11-21."""

JOINT_LAYOUTS = 8
"""Layouts of a loop that are tried together with those of a buffer.  By hand, 2026-11-21."""

WASTEFUL_ACCESS = 2.0
"""Transactions for each one needed, from which on a remark says what would be better.  By hand,
2026-11-21."""

MISSED_ACCESS = {"global": 2.0, "shared": 4.0}
"""Transactions for each one needed, by memory, from which on the author should change something:
layouts of shared memory are the compiler's choice, and a loss in one use is often the price of
another.  By hand, 2026-11-21."""

# -- masks of loops

MASKED_VALUE = -1e4
"""Largest number that replaces elements where a mask chooses between two numbers.  By hand,
2026-11-21."""

PEELED_TRIPS = 3
"""Fewest iterations of a loop of which those without a mask are taken apart, where the number is
known: of two, one at most is without, and the loop would be there three times.  By hand,
2026-11-28."""

CONDITION_STEPS = 64
"""Replacements of parts of a mask's condition after which it is given up.  By hand, 2026-11-21."""

# -- what is not known before the launch

UNKNOWN_TRIPS = 8
"""Iterations of a loop whose number is not known.  By hand, 2026-11-21."""

UNKNOWN_EXTENT = 1 << 14
"""Elements of an extent that is known at launch only: aligned, as the fast path asks for.  By hand,
2026-11-21."""

UNKNOWN_STRIDE = 1 << 16
"""Elements of a stride that is known at launch only: far, so that lanes share no sector.  By hand,
2026-11-21."""
MOST_SUMS = 0.75
"""Share of a thread's registers that the sums of one product take in a block that is made wider for
them.  With 1, nothing would be left for addresses; with 0.5, a tile of 64 x 512 would take 512
threads.  By hand, 2026-11-28."""
