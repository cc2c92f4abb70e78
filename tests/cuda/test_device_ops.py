"""Every op that the lowering for a GPU adds goes through the text form."""

from __future__ import annotations

import importlib
from typing import Any, get_args

import pytest

from tileprof import ir
from tileprof.compiler import compile_kernel
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target

kernels: Any = importlib.import_module("benchmarks.gpu_kernels")
SIZES = {"M": 4096, "N": 4096, "K": 4096}


def lowered(target: str, stages: int) -> list[ir.Kernel]:
    """A matrix product after each pass."""
    kernel = compile_kernel(kernels.matmul.compile(**SIZES, stages=stages).traced).kernel
    found: list[ir.Kernel] = []
    compile_cuda(kernel, find_target(target), Controls(), observe=lambda name, k: found.append(k))
    return found


@pytest.mark.spread("sm_90a-4")
@pytest.mark.parametrize(("target", "stages"), [("sm_90a", 4), ("sm_80", 2)])
def test_text_is_parsed_back(target: str, stages: int) -> None:
    """The kernel after each pass prints the same after a parse, and is valid."""
    for kernel in lowered(target, stages):
        ir.verify(kernel)
        text = ir.print_kernel(kernel)
        assert ir.print_kernel(ir.parse(text)) == text


def test_a_product_uses_the_device_ops() -> None:
    """Both targets together use all ops but exchanges between threads, marks, turns, and what takes
    the next tile where tiles take different time."""
    used = {
        type(op) for kernel in (*lowered("sm_90a", 4), *lowered("sm_80", 2)) for op in kernel.ops()
    }
    taken = {ir.NextTile, ir.RingSend, ir.RingReceive}
    turns = {ir.TurnStart, ir.TurnWait, ir.TurnPass}
    others = {ir.AllReduce, ir.ConvertLayout, ir.Mark}
    assert set(get_args(ir.DeviceOp)) - used == others | taken | turns
