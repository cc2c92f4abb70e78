"""Launches that start while the one before them in the kernel ends.

    launch [splits, batch]        launch [splits, batch] … releases
      … → Parts              ⇒      … → Parts
    launch [heads, batch]         launch [heads, batch] … waits
      Parts → Out                   Parts → Out

As soon as all blocks of the first run, those of the second take the room that is left and wait at
their beginning until all that the first wrote is there.  What a launch costs before its blocks run,
is then spent while the first still works (PTX ISA, "griddepcontrol"; CUDA driver API,
"programmatic stream serialization").  Only launches of one kernel do so: whoever launches
something else on the stream knows nothing of it.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.remarks.launches import EarlyStart, StartsEarly, StartsLate, TargetCannot


def start_early(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Let the launches of a kernel that has several overlap, where the author asks for it."""
    launches = kernel.launches()
    if not lowering.controls.early_launch or len(launches) < 2:
        return kernel
    if not lowering.target.has_tma:
        for launch in launches[1:]:
            rejected = (EarlyStart(), TargetCannot(lowering.target.name))
            lowering.remarks.add("launch", "", launch.span, StartsLate(), rejected)
        return kernel
    ops = [_overlapping(op, launches, lowering) if op in launches else op for op in kernel.body.ops]
    return kernel.with_body(ir.Block(kernel.body.args, ops))


def _overlapping(op: ir.OpBase, launches: list[ir.Launch], lowering: Lowering) -> ir.OpBase:
    assert isinstance(op, ir.Launch)
    releases, waits = op is not launches[-1], op is not launches[0]
    if waits:
        lowering.remarks.add("launch", "", op.span, StartsEarly())
    return op.scheduled(replace(op.schedule, releases=releases, waits=waits))
