"""Numbers by which machine code is read (`analyzer/machine`)."""

from __future__ import annotations

# -- machine/code

BARRIER_NEAR = 16
"""Instructions behind a barrier up to which a wait at a barrier is one at it: 1 to 16 in 60 kernels
of an H200 (`plant-test-7`), where something first needs what other warps have stored."""

# -- machine/issued_products

ISSUED_PRODUCTS_SEEN = 1.3
"""Samples of issued products as a multiple of their number: 1.1 to 1.9 for kernels whose products
are known, on an H200 (`benchmarks/results/plant-dev-1.json`); warps that issue them are sampled
more often than their turns."""

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

# -- program_ids

PROGRAM_IDS_MOST = 1 << 22
"""Programs of the largest grid whose values are worked out, which takes about half a second."""

# -- added_sums

ADDED_SUMS_MOST = 0.9
"""Part of the registers of products' results that are added in place, from which on all are: of a
few the compiler may keep copies. By hand."""

# -- turned_results

TURNED_RESULTS_FEWEST = 32
"""Exchanges between lanes in an iteration, from which on results of products are reduced across
lanes: 8 of them in each of Triton's and our attentions on an H200, 104 and 200 in loops that reduce
the other way (`benchmarks/results/plant-*.json`). Too low a number takes several reductions along
rows for that."""

# -- arithmetic

ARITHMETIC_DIVISION = 24
"""Most instructions from the check of a division's operands to its end, beyond which an end is that
of another division; twelve in Triton's code for sm_90."""
