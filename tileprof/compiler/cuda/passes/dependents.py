"""Launches that start while the one before them in the kernel ends.

    launch [splits, batch]        launch [splits, batch] … {releases = 1}
      … → Parts              ⇒      … → Parts
    launch [heads, batch]         launch [heads, batch] … {waits = 1}
      Parts → Out                   Parts → Out

As soon as all blocks of the first run, those of the second take the room that is left and wait at
their beginning until all that the first wrote is there.  What a launch costs before its blocks run,
is then spent while the first still works (PTX ISA, "griddepcontrol"; CUDA driver API,
"programmatic stream serialization").  Only launches of one kernel do so: whoever launches
something else on the stream knows nothing of it.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.remarks.launches import EarlyStart, StartsEarly, StartsLate, TargetCannot

__all__ = ["RELEASES", "WAITS", "start_early"]

RELEASES = "releases"
"""The hint of a launch whose successor may start while it runs."""
WAITS = "waits"
"""The hint of a launch that may start while the one before it runs, and waits for its end."""


def start_early(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Hints on the launches of a kernel that has several, where the author asks for it."""
    launches = [o for o in kernel.body.ops if isinstance(o, ir.Launch)]
    if not lowering.controls.early_launch or len(launches) < 2:
        return kernel
    if not lowering.target.has_tma:
        for launch in launches[1:]:
            rejected = (EarlyStart(), TargetCannot(lowering.target.name))
            lowering.remarks.add("launch", "", launch.span, StartsLate(), rejected)
        return kernel
    ops = [_hinted(op, launches, lowering) if op in launches else op for op in kernel.body.ops]
    return kernel.with_body(ir.Block(kernel.body.args, ops))


def _hinted(op: ir.OpBase, launches: list[ir.Launch], lowering: Lowering) -> ir.OpBase:
    assert isinstance(op, ir.Launch)
    hints = dict(op.hints)
    if op is not launches[-1]:
        hints[RELEASES] = 1
    if op is not launches[0]:
        hints[WAITS] = 1
        lowering.remarks.add("launch", "", op.span, StartsEarly())
    return ir.Launch(op.grid, op.threads, op.body, tuple(hints.items()), span=op.span)
