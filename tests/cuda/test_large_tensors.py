"""Addresses of tensors of more than 2³¹ elements whose extents only a launch knows."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import re

import numpy as np

import tileprof
import tileprof.lang as T
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


@tileprof.jit
def doubled(X, Y):
    b, n, m = T.dynamic("b, n, m")
    X: T.Tensor((b, n, 3, m), T.float32)
    Y: T.Tensor((b, n, 3, m), T.float32)
    with T.Kernel(T.ceildiv(m, 64), n, b, threads=32) as (bx, by, bz):
        for k, i in T.Parallel(3, 64):
            Y[bz, by, k, bx * 64 + i] = X[bz, by, k, bx * 64 + i] * 2
        Y[bz, by, 2, bx * 64] = X[bz, by, 2, bx * 64] * 4


def test_products_of_extents_have_64_bits() -> None:
    """Each extent fits into 31 bits; what lies between neighbours need not, nor twice an extent."""
    program = compile_cuda(doubled.compile().program.kernel, find_target("sm_90a"))
    text = program.source.text
    assert "(((int64_t)m) * 3)" in text
    assert "((((int64_t)m) * 3) * n)" in text
    assert not re.search(r"\(m \* |[(+] 2 \* m", text)
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 70)).astype(np.float32)
    y = np.zeros_like(x)
    emulate(program.source, program.kernel, [x, y], {"b": 2, "n": 3, "m": 70})
    want = x * 2
    want[:, :, 2, ::64] = x[:, :, 2, ::64] * 4
    np.testing.assert_array_equal(y, want)
