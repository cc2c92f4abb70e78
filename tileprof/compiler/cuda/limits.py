"""Demands of a lowered kernel on its target, refused before NVRTC sees it.

In: a kernel after all passes and its `CudaSource`.  Out: nothing, or a KernelError at the launch or
the product with the numbers and a way out.  Shared memory is checked where it is planned.
"""

from __future__ import annotations

import re

from tileprof import ir
from tileprof.ir.instructions import Wgmma
from tileprof.ir.memory import base

from .emit.handovers import named_barriers
from .layouts import parse_layout
from .lowering import Lowering
from .resources import check, check_accumulators, registers_available
from .source import CudaSource

_NAMED = re.compile(r"\btp_barrier\((\d+),")


def check_launches(kernel: ir.Kernel, source: CudaSource, lowering: Lowering) -> None:
    """KernelError for a launch that cannot run, or whose products do not fit into registers."""
    named = 1 + max((int(n) for n in _NAMED.findall(source.text)), default=0)
    launches = kernel.launches()
    for launch, spec in zip(launches, source.launches, strict=True):
        barriers = max(named, named_barriers(launch))
        check(spec, lowering.target, location=launch.span, barriers=barriers)
        limit = _registers(launch, spec.threads, lowering)
        for op in ir.walk(launch.body):
            if isinstance(op, ir.Gemm | ir.AsyncGemm) and isinstance(op.lowering, Wgmma):
                _check_product(op, launch.block_threads, limit)


def _registers(launch: ir.Launch, threads: int, lowering: Lowering) -> int:
    """Registers of a thread that multiplies."""
    limit = registers_available(threads, lowering.target)
    for op in ir.walk(launch.body):
        if isinstance(op, ir.Roles) and op.consumer_registers:
            limit = op.consumer_registers
    return min(limit, lowering.controls.registers or limit)


def _check_product(op: ir.Gemm | ir.AsyncGemm, threads: int, limit: int) -> None:
    sums = base(op.c).owner
    if not isinstance(sums, ir.Alloc) or not sums.layout:
        return
    layout = parse_layout(sums.layout, sums.shape)
    rows, columns = sums.shape[-2:]
    check_accumulators((rows, columns), layout.registers_per_thread, threads, limit, op.span)
