"""A softmax of rows in Triton; all its work is in one function."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def row_softmax(X, Y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(X + at)
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(Y + at, e / tl.sum(e, axis=0))


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Of each row, whose length is a power of two."""
    y = torch.empty_like(x)
    row_softmax[(x.shape[0],)](x, y, x.shape[1])
    return y
