"""Number of threads of a block: those asked for, but for two reasons.

More of them for products whose sums do not fit into the registers of those asked for:

    launch {threads = 128}                      launch {threads = 256}
      gemm q, k, scores  128×128    ⇒             gemm q, k, scores  64 rows a warp group
      gemm p, v, out     128×128                  gemm p, v, out     64 rows a warp group

How many threads run a tile changes no result: programs name tiles and points, not threads.  A sum
that does not fit is spilled in every iteration, and the assembler runs its products one by one; one
that would leave no register for anything else cannot be compiled at all.
Fewer for tiles that an odd number of warps does not divide: of 96 threads, all three warps would
hold and load every element of a row of 512.  A power of two of warps divides them.  So it is with
products of 160 threads, of which the author has a warp of their own for loads.

In: a launch as its author wrote it.  Out: the launch, with another number of threads where that
helps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import fragment_registers, registers_available
from tileprof.compiler.cuda.target import WARP, WARP_GROUP, WGMMA_ROWS
from tileprof.compiler.cuda.tuning import FRAGMENT_REGISTERS, MOST_SUMS
from tileprof.ir.memory import base
from tileprof.remarks.launches import AuthorsThreads, EvenWarps, SumsNeed, WarpGroups, WiderBlock

from .gemms import is_for_warp_groups


def with_threads(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with as many threads as the sums of its products need, and as its tiles
    divide among."""
    return _even(_widened(_with_groups(launch, lowering), lowering), lowering)


def _even(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with a power of two of warps where those asked for would hold copies."""
    asked = launch.block_threads
    warps = asked // WARP
    odd = warps // (warps & -warps) if warps else 1
    ops = list(ir.walk(launch.body))
    if asked % WARP or odd == 1:
        return launch
    if any(isinstance(o, ir.Alloc | ir.Parallel) and o.layout for o in ops):
        # A layout that is given names threads.
        return launch
    shapes = [shape for shape in map(_extents, ops) if math.prod(shape) > asked]
    if not shapes or any(extent % odd == 0 for shape in shapes for extent in shape):
        return launch
    threads = WARP << (warps.bit_length() - 1)
    lowering.remarks.add("launch", "", launch.span, EvenWarps(threads, asked, odd))
    return replace(launch, threads=(threads,))


def _extents(op: ir.OpBase) -> tuple[int, ...]:
    """Return the extents of the points or elements that an op divides among threads, where they
    are known; none for other ops."""
    match op:
        case ir.Parallel():
            known = [e.owner.value for e in op.extents if isinstance(e.owner, ir.Constant)]
            return tuple(int(n) for n in known) if len(known) == len(op.extents) else ()
        case ir.Copy():
            found = op.target.buffer if op.target.buffer.space != "global" else op.source.buffer
            return tuple(n for n in found.shape if isinstance(n, int))
        case ir.Fill():
            return tuple(n for n in op.target.buffer.shape if isinstance(n, int))
        case ir.Gemm():
            return op.mnk[:2]
    return ()


def _with_groups(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with twice the threads where its one warp group cannot hold the sums of a
    loop's products together."""
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


def _widened(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with as many threads as can hold the sums of each of its products."""
    target, asked = lowering.target, launch.block_threads
    # A limit of registers is the author's as well: what it leaves no room for is refused.
    if not target.has_tma or asked % WARP_GROUP or lowering.controls.registers:
        return launch
    held = [base(o.c).buffer for o in ir.walk(launch.body) if isinstance(o, ir.Gemm)]
    shapes = [b.static_shape[-2:] for b in held if b.space == "fragment"]
    rows, columns = max(shapes, key=math.prod, default=(0, 0))
    if rows * columns <= target.registers_per_thread * asked:
        return launch
    # A producer may want a warp group besides.
    wider = (n * asked for n in (2, 4, 8) if n * asked + WARP_GROUP <= target.threads_per_block)
    threads = next((n for n in wider if _hold(n, rows * columns, lowering)), 0)
    if not threads:
        return launch
    lowering.remarks.add(
        "launch", "", launch.span, WiderBlock(threads, asked, f"{rows} x {columns}")
    )
    return replace(launch, threads=(threads,))


def _hold(threads: int, sums: int, lowering: Lowering) -> bool:
    """Return whether the threads of a block hold so many sums, and have registers left."""
    each = registers_available(threads, lowering.target)
    return sums <= threads * MOST_SUMS * each
