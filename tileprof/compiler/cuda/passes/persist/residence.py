"""Number of blocks of a launch with warp roles that a multiprocessor may hold.

In: a launch with its instructions.  Out: a number of blocks, at most: what a thread needs beside
the sums of products is known only to the assembler, and the launch takes no more than really fit.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.binary.occupancy import WARP
from tileprof.compiler.cuda.passes.multicast import cluster_of
from tileprof.compiler.cuda.resources import fragment_registers, occupancy
from tileprof.compiler.cuda.target import WARP_GROUP, Target
from tileprof.compiler.cuda.tuning import BESIDE_SUMS
from tileprof.ir.memory import base


def blocks_by_registers(launch: ir.Launch, target: Target) -> int:
    """Return the blocks whose registers fit, 1 where several consumer warp groups share a block:
    they already work while one of them waits."""
    threads = launch.block_threads
    if threads != WARP_GROUP or cluster_of(launch).size > 1:
        return 1
    sums = {base(o.c) for o in ir.walk(launch.body) if isinstance(o, ir.Gemm)}
    registers = int(fragment_registers(sums, threads)) + BESIDE_SUMS
    return max(occupancy(registers, 0, threads + WARP, target).blocks, 1)
