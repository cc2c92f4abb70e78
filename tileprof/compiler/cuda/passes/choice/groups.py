"""Second warp group for products whose sums do not fit into the registers of one.

    launch {threads = 128}                      launch {threads = 256}
      gemm q, k, scores  128×128    ⇒             gemm q, k, scores  64 rows a warp group
      gemm p, v, out     128×128                  gemm p, v, out     64 rows a warp group

How many threads run a tile changes no result: programs name tiles and points, not threads.  A sum
that does not fit is spilled in every iteration, and the assembler runs its products one by one.
In: a launch as its author wrote it.  Out: the launch, with more threads where sums need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import fragment_registers
from tileprof.compiler.cuda.target import WARP_GROUP, WGMMA_ROWS
from tileprof.compiler.cuda.tuning import FRAGMENT_REGISTERS
from tileprof.ir.memory import base
from tileprof.remarks.launches import AuthorsThreads, SumsNeed, WarpGroups

from .gemms import is_for_warp_groups


def with_groups(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with twice the threads where its one warp group cannot hold the sums."""
    threads = launch.block_threads
    if threads != WARP_GROUP or lowering.controls.registers is not None:
        return launch
    products = [o for o in ir.walk(launch.body) if isinstance(o, ir.Gemm)]
    needed = max(_needs(launch.body, threads), default=0.0)
    if not FRAGMENT_REGISTERS < needed <= 2 * FRAGMENT_REGISTERS:
        return launch
    if not all(_divides(o, lowering) for o in products):
        return launch
    if any(isinstance(o, ir.Alloc | ir.Parallel) and o.layout for o in ir.walk(launch.body)):
        # A layout that is given names threads.
        return launch
    lowering.remarks.add(
        "launch", "", launch.span, WarpGroups(2), (AuthorsThreads(threads), SumsNeed(int(needed)))
    )
    return replace(launch, threads=(2 * launch.threads[0], *launch.threads[1:]))


def _needs(block: ir.Block, threads: int) -> Iterator[float]:
    """Yield the registers of a thread that the sums of each loop's products take together."""
    for op in block.ops:
        for inner in op.blocks():
            yield from _needs(inner, threads)
        if isinstance(op, ir.For):
            products = (o for o in ir.walk(op.body) if isinstance(o, ir.Gemm))
            sums = {base(o.c) for o in products}
            yield fragment_registers(sums, threads)


def _divides(op: ir.Gemm, lowering: Lowering) -> bool:
    """Whether two warp groups share a product by its rows."""
    rows = op.mnk[0] % (2 * WGMMA_ROWS) == 0 and op.policy != "full_col"
    return rows and is_for_warp_groups(op, 2 * WARP_GROUP, lowering)
