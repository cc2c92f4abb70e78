"""Hand-overs between the consumers' warp groups, by named barriers: two groups meet at each.

Barrier 0 is that of the whole block and 1 that of the role.  Barrier 2 + g is where group g waits
until the group before it has passed: 128 threads wait there, 128 arrive and go on.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.target import WARP_GROUP

from .context import Context

FIRST = 2
"""The first barrier of hand-overs, as `prelude/barriers.cuh` has it."""


def emit(ctx: Context, op: ir.TurnStart | ir.TurnWait | ir.TurnPass) -> None:
    """Emit one op of a hand-over."""
    ctx.headers.add("barriers.cuh")
    group = "tp_warp >> 2"
    match op:
        case ir.TurnStart():
            ctx.writer.line(f"tp_turn_start({group});")
        case ir.TurnWait():
            ctx.writer.line(f"tp_turn_wait({group});")
        case ir.TurnPass(ahead=ahead):
            name = "tp_turn_pass_ahead" if ahead else "tp_turn_pass"
            ctx.writer.line(f"{name}<{ctx.threads // WARP_GROUP}>({group});")


def named_barriers(launch: ir.Launch) -> int:
    """Return the number of named barriers that a launch needs for hand-overs, the two before them
    included; 0 without hand-overs."""
    hands_over = any(isinstance(o, ir.TurnStart) for o in ir.walk(launch.body))
    return FIRST + launch.block_threads // WARP_GROUP if hands_over else 0
