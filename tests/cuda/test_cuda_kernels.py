# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, SIM102
"""Orders that a lowering may get wrong: loops left early, tensors loaded and written, tiles in
flight over a turn, two stores.  The interpreter says what is right."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import Joined
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.runtime.interpreter import InterpreterExecutable


def small(*shape, dtype=ml_dtypes.bfloat16):
    """Whole numbers: products and their sums are exact."""
    return np.random.default_rng(0).integers(-2, 3, shape).astype(dtype)


def product(stages, leave=""):
    """128 × 64 × 256 in four turns, the second of which is left."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 256), T.bfloat16),
        B: T.Tensor((256, 64), T.bfloat16),
        C: T.Tensor((128, 64), T.float32),
    ):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((64, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=stages):
                if leave == "continue":
                    if k == 1:
                        continue
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
                if leave == "break":
                    if k == 1:
                        break
            T.copy(c, C[by * 64, 0])

    return main


@T.prim_func
def chain(X: T.Tensor((256, 64), T.bfloat16), W: T.Tensor((64, 64), T.bfloat16)):
    """Each turn loads what the one before stored."""
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), T.bfloat16)
        w = T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(W, w)
        for k in T.Pipelined(3, num_stages=3):
            T.copy(X[k * 64, 0], s)
            T.gemm(s, w, c, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                c[i, j] = T.cast(k, T.float32) + T.cast(s[i, j], T.float32)
            T.copy(c, X[(k + 1) * 64, 0])


@T.prim_func
def tiles_of_a_turn(
    A: T.Tensor((64, 256), T.bfloat16),
    B: T.Tensor((256, 64), T.bfloat16),
    C: T.Tensor((64, 64), T.float32),
):
    """The product of a turn still reads its tiles when the next one begins."""
    with T.Kernel(1, threads=128):
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.serial(4):
            z = T.alloc_shared((64, 64), T.float32)
            u = T.alloc_fragment((64, 64), T.float32)
            for i, j in T.Parallel(64, 64):
                z[i, j] = T.cast(A[i, k * 64 + j], T.float32)
            for i, j in T.Parallel(64, 64):
                u[i, j] = z[j, i]
            a = T.alloc_shared((64, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            for i, j in T.Parallel(64, 64):
                a[j, i] = u[i, j]
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


@T.prim_func
def two_stores(A: T.Tensor((64, 64), T.float32), C: T.Tensor((64, 64), T.float32)):
    """A tile, then one column of it again."""
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), T.float32)
        T.copy(A, s)
        T.copy(s, C)
        for i in T.Parallel(64):
            C[i, 0] = 7.0


@T.prim_func
def left_with_a_product(
    A: T.Tensor((64, 64), T.bfloat16),
    B: T.Tensor((64, 64), T.bfloat16),
    n: T.int32,
    C: T.Tensor((64, 64), T.float32),
):
    """`break` between a product and the first use of its result."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        for k in T.serial(4):
            T.gemm(a, b, c)
            if k == n:
                break
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] + 1.0
        T.copy(c, C)


def zeros(*shape):
    """A result to be written."""
    return np.zeros(shape, np.float32)


OPERANDS = [small(128, 256), small(256, 64), zeros(128, 64)]
KERNELS = {
    **{f"stages {n}": (product(n), OPERANDS) for n in (1, 2, 3, 4)},
    "break": (product(3, "break"), OPERANDS),
    "continue": (product(3, "continue"), OPERANDS),
    "chain": (chain, [small(256, 64), small(64, 64)]),
    "tiles of a turn": (tiles_of_a_turn, [small(64, 256), small(256, 64), zeros(64, 64)]),
    "two stores": (two_stores, [small(64, 64, dtype=np.float32), zeros(64, 64)]),
    "left with a product": (
        left_with_a_product,
        [small(64, 64), small(64, 64), 1, zeros(64, 64)],
    ),
}


@cache
def programs():
    """Kernels and their CUDA programs by kernel name and target, and their joint emulated text."""
    made = {}
    for name, (function, _) in KERNELS.items():
        kernel = prove_bounds(simplify(tileprof.compile(function).program.kernel))
        for target in ("sm_90a", "sm_80"):
            program = compile_cuda(kernel, find_target(target))
            ir.verify(program.kernel)
            made[name, target] = kernel, program
    return made, Joined(program.source for _, program in made.values())


@pytest.mark.spread
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", KERNELS)
def test_order(name, target):
    """Equal to the interpreter for several orders of threads and of late data."""
    made, joined = programs()
    kernel, program = made[name, target]
    _, given = KERNELS[name]
    expected = [v.copy() if isinstance(v, np.ndarray) else v for v in given]
    InterpreterExecutable(kernel).run(expected, ())
    for seed in range(4):
        found = [v.copy() if isinstance(v, np.ndarray) else v for v in given]
        joined.emulate(program.source, program.kernel, found, seed=seed)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one, "f8"), np.asarray(other, "f8"))
