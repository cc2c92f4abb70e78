"""Attention as an operator of PyTorch, with gradients: the kernels of `case_studies/attention.py`
and `attention_backward.py`."""

import torch
from torch import Tensor

import tileprof
from case_studies.attention import attention as forward
from case_studies.attention_backward import attention_backward as by_keys
from case_studies.attention_backward import rounded, row_dots
from case_studies.operators.norms import name_of


def _forward_tiles(q: Tensor) -> dict[str, int]:
    """The tiles that fit into shared memory."""
    if q.dtype.itemsize > 2:
        return {"block_M": 64, "block_N": 64, "stages": 1, "threads": 128}
    return {"block_N": 64 if q.shape[-1] > 128 else 128}


def _backward_tiles(q: Tensor) -> dict[str, int]:
    if q.dtype.itemsize > 2:
        return {"block_M": 32, "block_N": 64, "stages": 1, "threads": 128}
    return {"block_N": 64 if q.shape[-1] > 128 else 128}


def attention_backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    kind = name_of(q)
    dq_sums = torch.empty_like(q, dtype=lse.dtype, memory_format=torch.contiguous_format)
    delta = row_dots(out, d_out, dq_sums, dtype=kind)
    given = q, k, v, d_out, lse, delta, dq_sums
    dk, dv = by_keys(*given, causal=causal, dtype=kind, **_backward_tiles(q))
    if k.shape[2] != q.shape[2]:
        # Heads of queries that share keys: the sum over them.
        shared = (*k.shape[:3], q.shape[2] // k.shape[2], k.shape[3])
        dk, dv = dk.view(shared).sum(3), dv.view(shared).sum(3)
    dq = rounded(dq_sums.view(-1, q.shape[-1]), dtype=kind).view(q.shape)
    return dq, dk, dv


@tileprof.op("case_studies::attention", backward=attention_backward, keeps=("lse",))
def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Softmax attention of (batch, length, heads, width) queries over keys and values, which may
    have fewer heads."""
    out, lse = forward(q, k, v, causal=causal, dtype=name_of(q), **_forward_tiles(q))
    return out, lse
