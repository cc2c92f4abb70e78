"""Which warp looks where the others are, and where it keeps what it saw.

In: a kernel with marks that are to be sampled.  Out: the same with hints on each launch: `sampler`,
the number of the warp that looks, at all those before it; `sampled`, where in shared memory these
say their state and the counts lie.  A producer warp group has three warps with nothing to do;
elsewhere the block gets one more.  Where there is no room the launch loses its marks, and a remark
says what is missing.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.rewrite import clone

from .walking import per_launch, threads_of, with_rule

__all__ = ["STATE_BYTES", "has_roles", "plan_samplers"]

STATE_BYTES = 16
"""What a warp says: its state and a clock."""
COUNT_BYTES = 4
ALIGNMENT = 16
MOST_WARPS = 32
"""That can be watched: a lane looks at each."""


def plan_samplers(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with a sampler in each launch that has marks, where they are for that."""
    if lowering.instrument != "sample":
        return kernel
    return per_launch(kernel, lambda launch: _planned(launch, len(kernel.states), lowering))


def _workers(launch: ir.Launch) -> int:
    return -(-threads_of(launch) // 32)


def has_roles(launch: ir.Launch) -> bool:
    """Whether a warp group of its own loads."""
    return any(isinstance(op, ir.Roles) for op in ir.walk(launch.body))


def _planned(launch: ir.Launch, states: int, lowering: Lowering) -> ir.Launch:
    if not any(isinstance(op, ir.Mark) for op in ir.walk(launch.body)):
        return launch
    hints = dict(launch.hints)
    taken = int(hints.get("shared", 0))
    offset = -(-taken // ALIGNMENT) * ALIGNMENT
    # Warps that work, and the one that loads for them: the next one is the sampler.
    watched = _workers(launch) + has_roles(launch)
    needed = watched * (STATE_BYTES + COUNT_BYTES * states)
    missing = _missing(launch, watched, offset + needed - taken, taken, lowering)
    if missing:
        lowering.remarks.add(
            "launch", launch.span, "not sampled", ("a sampler warp", missing), severity="missed"
        )
        return with_rule(launch, lambda op, _: () if isinstance(op, ir.Mark) else None)
    made = {"shared": offset + needed, "sampled": offset, "sampler": watched}
    planned = clone(launch, {}, {"body": ir.Block(launch.body.args, launch.body.ops)})
    assert isinstance(planned, ir.Launch)
    planned.hints = tuple((hints | made).items())
    return planned


def _missing(launch: ir.Launch, watched: int, needed: int, taken: int, lowering: Lowering) -> str:
    """Why there is no room; '' where there is."""
    target = lowering.target
    if watched > MOST_WARPS:
        return f"{watched} warps, and {MOST_WARPS} can be watched"
    threads = 32 * _workers(launch)
    if not has_roles(launch) and threads + 32 > target.threads_per_block:
        return f"no spare warp: {threads} of {target.threads_per_block} threads are the kernel's"
    left = target.shared_per_block - taken
    if needed > left:
        return f"it takes {needed:,} bytes of shared memory, and {left:,} are left"
    return ""
