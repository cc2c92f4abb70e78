# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, ANN201
"""Products whose A is computed into registers go along K in slices."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import Joined
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.remarks.products import SlicedProduct
from tileprof.runtime.interpreter import InterpreterExecutable


def weighted(stages, depth=64, turns=4, transposed=True, used_again=False):
    """Packed weights 64 × K times 16 columns, K in so many turns of `depth`."""
    b_shape = (16, turns * depth) if transposed else (turns * depth, 16)
    b_tile = (16, depth) if transposed else (depth, 16)

    @T.prim_func
    def main(
        P: T.Tensor((64, turns * depth // 2), T.uint8),
        B: T.Tensor(b_shape, T.bfloat16),
        C: T.Tensor((64, 16), T.float32),
    ):
        with T.Kernel(1, threads=128):
            p = T.alloc_shared((64, depth // 2), T.uint8)
            b = T.alloc_shared(b_tile, T.bfloat16)
            w = T.alloc_fragment((64, depth), T.bfloat16)
            c = T.alloc_fragment((64, 16), T.float32)
            T.clear(c)
            for k in T.Pipelined(turns, num_stages=stages):
                T.copy(P[0, k * depth // 2], p)
                if transposed:
                    T.copy(B[0, k * depth], b)
                else:
                    T.copy(B[k * depth, 0], b)
                for i, j in T.Parallel(64, depth):
                    w[i, j] = T.cast((p[i, j // 2] >> T.uint8(j % 2 * 4)) & T.uint8(15), T.bfloat16)
                if used_again:
                    T.gemm(w, b, c, transpose_B=transposed)
                T.gemm(w, b, c, transpose_B=transposed)
            T.copy(c, C)

    return main


def lowered(function):
    """The kernel and what the compiler makes of it."""
    kernel = prove_bounds(simplify(tileprof.compile(function).traced))
    return kernel, compile_cuda(kernel, TARGETS["sm_90a"])


def products(program):
    """The products of tensor cores that it starts."""
    return [o for o in ir.walk(program.kernel.body) if isinstance(o, ir.AsyncGemm)]


FORMS = [(1, 2, True), (1, 5, False), (2, 1, False), (2, 2, True), (2, 5, True), (3, 1, True),
         (3, 2, False), (3, 5, True)]  # fmt: skip
"""Stages, iterations, and whether B is transposed: every two of them in each of their values."""


def test_the_same_result():
    """Slices are written while products of others run, and slots freed when all have read them."""
    made = [lowered(weighted(stages, 64, turns, other)) for stages, turns, other in FORMS]
    joined = Joined(program.source for _, program in made)
    for form, (kernel, program) in zip(FORMS, made):
        shapes = [p.type.shape for p in kernel.params]
        rng = np.random.default_rng(0)
        packed = rng.integers(0, 256, shapes[0]).astype(np.uint8)
        b = rng.integers(-2, 3, shapes[1]).astype(ml_dtypes.bfloat16)
        expected = np.zeros(shapes[2], np.float32)
        InterpreterExecutable(kernel).run([packed, b, expected], [])
        for seed in range(3):
            found = np.full(shapes[2], np.nan, np.float32)
            joined.emulate(program.source, program.kernel, [packed, b, found], seed=seed)
            np.testing.assert_array_equal(found, expected, err_msg=str(form))


def test_other_slices_run_on():
    """Three of four products run while the registers of the fourth are written."""
    _, program = lowered(weighted(2))
    assert len(products(program)) == 4
    loop = next(
        o
        for o in ir.walk(program.kernel.body)
        if isinstance(o, ir.For) and any(isinstance(i, ir.AsyncGemm) for i in o.body.ops)
    )
    waits = [o.pending for o in loop.body.ops if isinstance(o, ir.Wait)]
    assert waits == [3] * 4
    said = [r.decision for r in program.remarks if r.op == "gemm"]
    assert said[1:] == [SlicedProduct(4, "w")]


@pytest.mark.parametrize(("depth", "slices"), [(16, 1), (32, 2), (48, 1), (64, 4)])
def test_slices_hold_whole_instructions(depth, slices):
    """An instruction multiplies 16 elements of K."""
    _, program = lowered(weighted(2, depth))
    assert len(products(program)) == slices


def test_a_fragment_that_is_used_twice_stays_whole():
    """Otherwise every use would need it in slices."""
    _, program = lowered(weighted(2, used_again=True))
    assert len(products(program)) == 2
