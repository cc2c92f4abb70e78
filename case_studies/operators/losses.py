"""Cross-entropy of rows of logits as an operator of PyTorch, with gradients.

Logits are read in tiles with a running maximum and sum, so a row may be longer than the registers;
probabilities are never stored: the gradient computes them anew from the logarithm of the sum.
"""

import torch
from torch import Tensor

import tileprof
import tileprof.lang as T
from case_studies.operators.norms import LOG2E, name_of, sums_of

IGNORED = -100
"""A target whose row has no loss, as PyTorch's `ignore_index`."""
LOWEST = -1e30


@tileprof.jit
def row_losses(X, Targets, dtype: str = "float32", block_M: int = 4, block_N: int = 1024):
    M, N = T.dynamic("M"), T.const("N")
    X: T.Tensor((M, N), dtype)
    Targets: T.Tensor((M,), T.int64)
    Loss = T.empty((M,), sums_of(dtype))
    Lse = T.empty((M,), sums_of(dtype))
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        T.annotate_safe_value({X: LOWEST})
        tile = T.alloc_fragment((block_M, block_N), sums_of(dtype))
        top = T.alloc_fragment((block_M,), sums_of(dtype))
        before = T.alloc_fragment((block_M,), sums_of(dtype))
        total = T.alloc_fragment((block_M,), sums_of(dtype))
        T.fill(top, LOWEST)
        T.clear(total)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = X[bx * block_M + i, k * block_N + j]
            T.copy(top, before)
            T.reduce_max(tile, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                total[i] *= T.exp2((before[i] - top[i]) * LOG2E)
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = T.exp2((tile[i, j] - top[i]) * LOG2E)
            T.reduce_sum(tile, total, dim=1, clear=False)
        for i in T.Parallel(block_M):
            row = bx * block_M + i
            lse = top[i] + T.log(total[i])
            Lse[row] = lse
            if row < M:
                target = Targets[row]
                if target != IGNORED:
                    Loss[row] = lse - T.cast(X[row, target], sums_of(dtype))
                else:
                    Loss[row] = 0
    return Loss, Lse


@tileprof.jit
def row_losses_backward(
    dLoss, X, Targets, Lse, dtype: str = "float32", block_M: int = 4, block_N: int = 1024
):
    M, N = T.dynamic("M"), T.const("N")
    dLoss: T.Tensor((M,), sums_of(dtype))
    X: T.Tensor((M, N), dtype)
    Targets: T.Tensor((M,), T.int64)
    Lse: T.Tensor((M,), sums_of(dtype))
    dX = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            target = Targets[row]
            weight = T.exp2((T.cast(X[row, column], sums_of(dtype)) - Lse[row]) * LOG2E)
            hit = T.if_then_else(column == target, 1.0, 0.0)
            slope = T.if_then_else(target == IGNORED, 0.0, dLoss[row])
            dX[row, column] = (weight - hit) * slope
    return dX


def cross_entropy_backward(d_loss: Tensor, logits: Tensor, targets: Tensor, lse: Tensor) -> Tensor:
    return row_losses_backward(d_loss, logits, targets, lse, dtype=name_of(logits))


@tileprof.op(
    "case_studies::cross_entropy",
    backward=cross_entropy_backward,
    gradients=("logits",),
    keeps=("lse",),
)
def cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row of (rows, classes) logits in nats; 0 for the target -100."""
    loss, lse = row_losses(logits, targets, dtype=name_of(logits))
    return loss, lse


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows that are not ignored, as `torch.nn.functional.cross_entropy`."""
    return cross_entropy(logits, targets).sum() / torch.count_nonzero(targets != IGNORED)
