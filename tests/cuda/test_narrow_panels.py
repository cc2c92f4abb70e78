# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Tiles whose rows are no multiple of 128 bytes: TMA loads them in narrower panels."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.copies import TilePanels, TmaLoad
from tileprof.remarks.products import GemmInstruction

ROUNDS = 2


@tileprof.jit
def product(A, B, C, dtype: str, depth: int):
    """Tiles of `depth` elements a row."""
    A: T.Tensor((64, depth * ROUNDS), dtype)
    B: T.Tensor((64, depth * ROUNDS), dtype)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, depth), dtype)
        b = T.alloc_shared((64, depth), dtype)
        total = T.alloc_fragment((64, 64), T.float32)
        T.clear(total)
        for k in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[0, k * depth], a)
            T.copy(B[0, k * depth], b)
            T.gemm(a, b, total, transpose_B=True)
        T.copy(total, C)


def lowered(dtype: str, depth: int) -> CudaProgram:
    """For an H200."""
    kernel = product.compile(dtype=dtype, depth=depth).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    return program


@pytest.mark.spread("float16-96-64", "float8_e4m3-160-32")
@pytest.mark.parametrize(
    ("dtype", "depth", "swizzle"),
    [("float16", 96, 64), ("bfloat16", 80, 32), ("float8_e4m3", 192, 64), ("float8_e4m3", 160, 32)],
)
def test_rows_of_several_panels(dtype: str, depth: int, swizzle: int) -> None:
    """Each panel is a box, and warp groups multiply from them."""
    program = lowered(dtype, depth)
    said = [r.decision for r in program.remarks]
    assert sum(isinstance(each, TmaLoad) for each in said) == 2
    (instruction,) = (each for each in said if isinstance(each, GemmInstruction))
    assert instruction.instruction == "wgmma"
    shared = [o for o in program.kernel.ops() if isinstance(o, ir.Alloc) and o.hint in ("a", "b")]
    assert {o.layout for o in shared} == {f"swizzle={swizzle}"}
    rng = np.random.default_rng(0)
    kind = {"float8_e4m3": ml_dtypes.float8_e4m3fn, "bfloat16": ml_dtypes.bfloat16}
    a, b = (
        rng.integers(-2, 3, (64, depth * ROUNDS)).astype(kind.get(dtype, np.float16))
        for _ in range(2)
    )
    c = np.zeros((64, 64), np.float32)
    emulate(program.source, program.kernel, [a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_rows_without_panels() -> None:
    """The narrowest has 32 bytes."""
    program = lowered("float16", 88)
    reasons = [r.reason for each in program.remarks for r in each.rejected]
    assert TilePanels(176, 32) in reasons
