"""Attention as an operator of PyTorch, with gradients: the kernels of `case_studies/attention.py`
and `attention_backward.py`."""

import torch
from torch import Tensor

import tileprof
from case_studies.attention import attention as forward
from case_studies.attention_backward import attention_backward as by_keys
from case_studies.attention_backward import rounded, row_dots
from case_studies.operators.norms import name_of


def _keys_at_once(dim: int) -> int:
    """Keys in a tile: those of the widest heads are fewer."""
    return 64 if dim > 128 else 128


def attention_backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    kind = name_of(q)
    dq_sums = torch.empty_like(q, dtype=lse.dtype, memory_format=torch.contiguous_format)
    delta = row_dots(out, d_out, dq_sums, dtype=kind)
    block = _keys_at_once(q.shape[-1])
    dk, dv = by_keys(
        q, k, v, d_out, lse, delta, dq_sums, causal=causal, block_N=block, dtype=kind
    )
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
    block = _keys_at_once(q.shape[-1])
    out, lse = forward(q, k, v, causal=causal, block_N=block, dtype=name_of(q))
    return out, lse
