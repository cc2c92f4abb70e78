"""Numbers that several parts of the analyzer share: facts of devices, and bounds of evidence."""

from __future__ import annotations

from tileprof.binary.occupancy import MULTIPROCESSORS, PARTITIONS, WARP

SCHEDULERS = PARTITIONS
"""Schedulers of a multiprocessor; each issues at most one instruction a cycle
(`binary.occupancy`)."""

SPECIAL = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC")
"""Opcodes of the unit for special functions, which converts numbers and counts bits as well."""

SPECIAL_CYCLES = WARP * PARTITIONS // 16
"""Cycles for which a warp's instruction keeps a scheduler's unit for special functions: 16 results
a cycle and multiprocessor (CUDA programming guide, arithmetic throughput, compute capability
9.0)."""

L2_KEEPS = 40e6
"""Bytes that stay in an L2 of 50 MB (H100, H200) while others are read: a launch's own may be there
from the launch before it, and a tensor of no more need not come again."""

REGISTERS = MULTIPROCESSORS[9, 0].registers
"""Registers of a multiprocessor (`binary.occupancy`)."""

REGISTERS_STEP = 8
"""Registers of a thread by which the next higher bound differs: a warp is given multiples of 8."""

MOST_REGISTERS = 255
"""Registers that a thread can name (CUDA programming guide, compute capability 9.0)."""

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

HARDLY_MULTIPLIES = 0.1
"""Share of the measured rate of multiply-adds below which they do not set a product's time: tensor
cores likely bring nothing, and a compiler writes it as multiplications and a sum. By hand: a batch
of 3 × 3 products had 0.01 of it on an H200, thin products for which tensor cores helped 0.2 and
more."""

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
