# mypy: ignore-errors
"""Products into two accumulators in turn: which loops, the same sums, and what the assembler makes
of them."""

import re
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from benchmarks.studies import study
from tileprof import ir
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate
from tileprof.remarks.products import Alternates

TILE = {"block_M": 128, "threads": 256}


def lowered(m: int, n: int, k: int, controls: dict | None = None, **options: int) -> CudaProgram:
    """The product with scales of blocks, for an H200."""
    made = study("block_scaled_gemm").block_scaled_gemm
    kernel = made.compile(M=m, N=n, K=k, **{**TILE, "stages": 3, **options}).program.kernel
    return compile_cuda(kernel, find_target("sm_90a"), Controls(**(controls or {})))


def alternating(program: CudaProgram) -> list[str]:
    """The accumulators that have a second one."""
    return [r.decision.buffer for r in program.remarks if isinstance(r.decision, Alternates)]


@pytest.mark.spread("one left over")
@pytest.mark.parametrize(
    ("blocks", "options", "controls"),
    [(5, {"stages": 2}, {}), (7, {}, {"cluster": 2}), (8, {"stages": 5}, {})],
    ids=["one left over", "three left over", "two steps"],
)
def test_sums(blocks: int, options: dict, controls: dict) -> None:
    """Steps of four iterations, and what is left over; rows and columns beyond the last tile, and
    several tiles for a block."""
    m, n, k = 150, 136, 128 * blocks
    program = lowered(m, n, k, controls, **options)
    ir.verify(program.kernel)
    assert alternating(program) == ["partial"]
    made = study("block_scaled_gemm")
    given = made.inputs(m, n, k)
    want = made.reference(*given)
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    arrays = [*given, c]
    emulate(program.source, program.kernel, arrays, seed=blocks, resident=2, watch=Watch())
    assert np.linalg.norm(c.astype(np.float64) - want) < 2.5e-3 * np.linalg.norm(want)


@pytest.mark.parametrize(
    ("k", "options", "controls"),
    [
        (1024, {}, {"overlap": False}),
        (1024, {}, {"ping_pong": True}),
        (1024, {}, {"delayed_release": False}),
        (1024, {"block_M": 192, "threads": 384}, {}),
        (1024, {"block_M": 256}, {}),
        (1024, {"block_M": 64, "threads": 128}, {}),
        (384, {}, {}),
    ],
    ids=["in order", "in turns", "freed at once", "three groups", "slices", "one group", "short"],
)
def test_others_have_one(k: int, options: dict, controls: dict) -> None:
    """Where the author wants another order, where registers hold one accumulator, and in a loop
    that is shorter than a step."""
    assert alternating(lowered(256, 128, k, controls, **options)) == []


@pytest.mark.sweep
def test_code() -> None:
    """In a step of the steady loop three products run beside sums, whose multiply-adds stand
    between the issue of the next product and the wait for it; none are run one by one."""
    pytest.importorskip("cuda.bindings.nvrtc")
    program = lowered(4096, 4096, 7168, stages=5)
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    assert {r.spill_stores for r in program.cubin.resources.values()} == {0}
    lines = disassemble(program.cubin).split("\n")
    waits = [at for at, line in enumerate(lines) if "DEPBAR.LE gsb0" in line]
    assert [re.search(r"gsb0, 0x(\d)", lines[at])[1] for at in waits] == ["1", "1", "1", "0"]
    between = [lines[first:second] for first, second in pairwise(waits)]
    assert [sum("FFMA" in line for line in part) for part in between] == [64] * 3
    for part in between[:2]:  # behind the third wait the last product of a step is under way
        assert sum("QGMMA" in line for line in part) == 4
