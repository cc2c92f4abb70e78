"""Launches that start while the one before them on their stream ends.

    launch [blocks] …        ⇒        launch [blocks] … releases, waits

Blocks of such a launch may be there before the launch in front of it has ended, whoever made that:
they wait, before they access memory, until all that the other one wrote is there.  What a launch
costs before its blocks run is then spent while the other one still works, and the driver needs less
to enqueue it (PTX ISA, "griddepcontrol"; CUDA driver API, "programmatic stream serialization").
A kernel that says nothing of it releases the next one as its blocks end; ours does so as soon as
all of its blocks run.  Every thread waits, so that the end of this launch is also the end of those
before it.
"""

from __future__ import annotations

from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.remarks.launches import EarlyStart, StartsEarly, StartsLate, TargetCannot

BY_DEFAULT = False
"""Whether launches start early where no control says so, on targets that can."""


def start_early(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Let launches of a kernel overlap with those before them."""
    wanted, can = lowering.controls.early_launch, lowering.target.has_tma
    if not (BY_DEFAULT if wanted is None else wanted):
        return kernel
    launches = kernel.launches()
    if can:
        for launch in launches:
            lowering.remarks.add("launch", "", launch.span, StartsEarly())
        ops = [_overlapping(op) if op in launches else op for op in kernel.body.ops]
        return kernel.with_body(ir.Block(kernel.body.args, ops))
    for launch in launches if wanted else ():
        rejected = (EarlyStart(), TargetCannot(lowering.target.name))
        lowering.remarks.add("launch", "", launch.span, StartsLate(), rejected)
    return kernel


def _overlapping(op: ir.OpBase) -> ir.OpBase:
    assert isinstance(op, ir.Launch)
    return op.scheduled(replace(op.schedule, releases=True, waits=True))
