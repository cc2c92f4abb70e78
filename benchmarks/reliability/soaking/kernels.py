"""The tile kernel that the soak launches, with two parts that are measured."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T


@tileprof.jit
def shift_and_scale(X, Y, block: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        part = T.alloc_fragment((block,), T.float32)
        with T.scope("shift"):
            for i in T.Parallel(block):
                part[i] = X[bx * block + i] + 1
        with T.scope("scale"):
            for i in T.Parallel(block):
                Y[bx * block + i] = part[i] * 0.5
