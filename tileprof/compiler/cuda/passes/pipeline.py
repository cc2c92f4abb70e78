"""Loads that run ahead of their use.

Warp roles (the launch has the hint `warp_roles`): every load by TMA goes to a producer warp group,
which fills the slots of a ring; the consumers wait for a slot before its first use and free it
after its last.  Ring positions live outside of all loops, so the scheme needs no prologue and no
drain, and a persistent block goes from tile to tile without a pause.

    for k (pipelined 4)                   producer                consumer
      copy A[…] → A_s (tma)               for k                   for k
      gemm A_s …              ⇒             s = acquire ring        s = wait ring
                                            A[…] → A_s[s] (async)   gemm A_s[s] …
                                            commit ring             release ring

cp.async: all threads start the load of iteration k + stages − 1 before they work on iteration k.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering

from .choose import ROLES
from .grouped_copies import group_copies
from .split import split_roles
from .walking import per_launch, threads_of

__all__ = ["pipeline"]

PRODUCER_REGISTERS = {1: 0, 2: 24, 3: 32}
CONSUMER_REGISTERS = {1: 0, 2: 240, 3: 160}
"""By consumer warp groups: what `setmaxnreg` asks for, out of 65,536 registers; with one consumer
warp group all threads have enough without."""
RASTER = 8
"""Rows of blocks that run together by default."""


def pipeline(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Roles and rings, or groups of cp.async, for every launch that has asynchronous loads."""
    return per_launch(kernel, lambda launch: _ordered(_pipelined(launch, lowering), lowering))


def _pipelined(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    hints = dict(launch.hints)
    if not hints.pop(ROLES, False):
        return group_copies(launch, lowering)
    body = split_roles(launch, lowering)
    groups = threads_of(launch) // 128
    roles = next(o for o in body.ops if isinstance(o, ir.Roles))
    body.ops[body.ops.index(roles)] = ir.Roles(
        roles.producer,
        roles.consumer,
        PRODUCER_REGISTERS.get(groups, 0),
        CONSUMER_REGISTERS.get(groups, 0),
        span=roles.span,
    )
    lowering.remarks.add(
        "launch",
        launch.span,
        f"a producer warp group loads for {groups} consumer warp group{'s' * (groups > 1)}",
    )
    return ir.Launch(launch.grid, launch.threads, body, tuple(hints.items()), span=launch.span)


def _ordered(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """The order in which blocks walk the grid: the author's wish, or groups of rows for products
    of matrices, whose operands are shared by the blocks of a row and of a column."""
    asked = None
    for op in launch.body.ops:
        if isinstance(op, ir.Annotate) and op.name == "use_swizzle":
            asked = int(dict(op.hints).get("swizzle", RASTER))
    products = any(isinstance(o, ir.Gemm) for o in ir.walk(launch.body))
    if not lowering.controls.rasterize or len(launch.grid) < 2 or (asked is None and not products):
        return launch
    group = asked or RASTER
    why = "as asked" if asked else "operands are shared in L2"
    lowering.remarks.add("launch", launch.span, f"blocks in groups of {group} rows: {why}")
    hints = (*launch.hints, ("raster", group))
    return ir.Launch(launch.grid, launch.threads, launch.body, hints, span=launch.span)
