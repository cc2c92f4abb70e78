"""Random legal kernels on a real GPU against the interpreter."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings

from tests import test_differential as differential
from tests.strategies import Case, cases
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.program import compile_kernel
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.device import find_device
from tileprof.runtime.cuda.executable import Need
from tileprof.runtime.launch import load

pytestmark = pytest.mark.gpu

slow_draw = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@given(case=cases())
@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          phases=[Phase.generate], suppress_health_check=slow_draw)  # fmt: skip
def test_cuda_agrees_with_the_interpreter(case: Case) -> None:
    """Compiled for this GPU, with float32 products as exact as the interpreter's.

    The first kernel that differs is told as it is: to make it smaller would compile hundreds.
    """
    program, device = compile_kernel(case.kernel), find_device(0)
    note(ir.print_kernel(case.kernel))

    def build(need: Need) -> CudaBinary:
        unaligned, aliased = need
        made = compile_cuda(
            program.kernel, device.target, Controls(tf32=False), unaligned, aliased=aliased
        )
        return CudaBinary.of(program.kernel, made, ptx=device.from_ptx)

    found = case.arguments()
    load(program, "cuda:0", build).executable.run(found, case.extents)
    differential._same(case, found, differential._run(case, case.kernel))
