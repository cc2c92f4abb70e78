"""Numbers of the pruning of Triton's lists: what its compiler does, and how many are kept.

A wrong number ranks configurations worse, so that a better one may be left out; results are never
wrong.  "By hand" means that no measurement which decides between it and its neighbours is kept.
"""

from __future__ import annotations

KEPT_SHARE = 1 / 6
"""Share of a list that is kept, unless a caller says how many.  By hand, 2026-11-28."""

FEWEST_KEPT = 2
"""Configurations that are kept at least.  By hand."""

COMPILED_FACTOR = 2
"""Configurations whose machine code is made at most, as a multiple of those that are kept.  By
hand."""

FOLDED = 4.0
"""Elements of tiles of whole numbers (addresses, masks) for which a thread has one instruction, as
neighbouring elements are accessed by one.  By hand, 2026-11-28."""

PRODUCT_WAITS = 3.0
"""Time that a product waits for its operands where an iteration has one before it, in reductions
(`tileprof.tuning.numbers.REDUCE_LATENCY`).  By hand, 2026-11-28."""

TIE = 0.02
"""Share within which the model does not tell configurations apart: of such ones those are kept that
differ most.  By hand."""

SLACK = 0.15
"""Share by which the sum of all limits may be larger than the least among configurations that the
model does not tell apart: the others are nearer to a second limit.  By hand."""

STAGES_KEPT = 2
"""Configurations that differ in their stages alone, of which more stand behind all others: the
model is least sure of stages, and they are alike.  By hand."""

OTHER_REGISTERS = 24
"""Registers of a thread beside those of its tiles: addresses, counters, masks.  By hand,
2026-11-28; corrected by what compiled configurations have."""

SPILL_BYTES = 64
"""Bytes a thread spills from which other configurations are expected to need more as well.  By
hand."""

SECTOR = 32
"""Bytes of a sector, the least that is read of memory."""

WIDEST_ACCESS = 16
"""Most bytes that one instruction of a thread accesses in memory."""

RUNNING_BLOCKS = (1, 2, 4, 8)
"""Blocks of a multiprocessor for which the traffic of waves is counted."""

L2_KEEPS = 25 << 20
"""Bytes of all tensors up to which the L2 keeps them from one wave to the next: half of the 50 MB
of an H100 or H200 (NVIDIA H100 Tensor Core GPU Architecture, 2022), as a line is in both halves."""

L1_KEEPS = 24 << 10
"""Bytes that one block loads again up to which the L1 has them: of 256 KB, less shared memory, an
eighth for each of about eight blocks.  By hand, 2026-11-28."""

MOST_PROGRAMS = 1 << 16
"""Most programs whose numbers are worked out one by one, which takes some ms."""
