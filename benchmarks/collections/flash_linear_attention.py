"""Tests of kernels that fla-org/flash-linear-attention has in TileLang, compared with PyTorch.

The library itself needs Triton: files are loaded alone, with what they take of it stood in for.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1] / "fla/ops"


def _chunks(lengths: Any, size: int) -> Any:
    made = []
    for sequence, (start, end) in enumerate(itertools.pairwise(lengths)):
        made += [(sequence, at) for at in range(math.ceil((int(end) - int(start)) / size))]
    return torch.tensor(made)


STOOD_IN = {
    "fla": {},
    "fla.ops": {},
    "fla.ops.utils": {"prepare_chunk_indices": _chunks},
    "fla.ops.utils.constant": {"RCP_LN2": 1 / math.log(2)},
    "fla.ops.attn": {},
    "fla.ops.attn.parallel": {
        "parallel_attn_bwd_preprocess": lambda o, do: (o.float() * do.float()).sum(-1)
    },
}


def load(path: str) -> Any:
    """Return a module of the library."""
    for name, held in STOOD_IN.items():
        module = types.ModuleType(name)
        vars(module).update(held, __path__=[])
        sys.modules[name] = module
    spec = importlib.util.spec_from_file_location("held", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(found: torch.Tensor, want: torch.Tensor) -> None:
    """Compare by the size of the whole result, as the library's own tests do."""
    error = (found.double() - want.double()).norm() / want.double().norm()
    assert error < 5e-3, f"relative error {error:.3g}"


def attention(q: Any, k: Any, v: Any, window: int | None, sink: Any, ends: list[int]) -> Any:
    """Causal attention of (batch, length, heads, dim), each sequence for itself."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    at = torch.arange(q.shape[1])
    apart = at[:, None] - at
    number = torch.bucketize(at, torch.tensor(ends[1:]), right=True)
    seen = (apart >= 0) & (number[:, None] == number)
    if window is not None:
        seen &= apart < window
    scores = scores.masked_fill(~seen, float("-inf"))
    if sink is not None:
        held = (sink * math.log(2))[None, :, None, None].expand(len(q), -1, q.shape[1], 1)
        scores = torch.cat([scores, held], -1)
    weights = scores.softmax(-1)[..., : q.shape[1]]
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


@pytest.mark.parametrize(
    ("dim", "window", "has_sink", "ends"),
    [
        (64, None, False, None),
        (64, 40, True, None),
        (128, None, True, None),
        (100, None, False, None),
        (64, None, False, [0, 70, 201, 230]),
    ],
)
def test_attention(dim: int, window: int | None, has_sink: bool, ends: list[int] | None) -> None:
    """Results and gradients; several sequences in one where `ends` are given."""
    length = 230
    q = torch.randn(1, length, 4, dim).bfloat16()
    k, v = (torch.randn(1, length, 2, dim).bfloat16() for _ in range(2))
    given = torch.randn(1, length, 4, dim).bfloat16()
    sink = torch.randn(4) if has_sink else None
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    want = attention(*leaves, window, sink, ends or [0, length])
    want.backward(given.double())
    lengths = None if ends is None else torch.tensor(ends)
    folder = "common/backends/tilelang/"
    forward = load(folder + "parallel_attn_fwd.py").parallel_attn_fwd_tilelang
    out, lse = forward(q, k, v, None, sink, dim**-0.5, window, lengths)
    close(out, want)
    backward = load(folder + "parallel_attn_bwd.py").parallel_attn_bwd_tilelang
    grads = backward(q, k, v, out, None, lse, given, sink, dim**-0.5, window, cu_seqlens=lengths)
    for found, leaf in zip(grads, leaves):
        close(found, leaf.grad)


def test_rwkv6_inside_of_chunks() -> None:
    """Scores of a chunk's rows under decays of each channel."""
    batch, length, heads, dim, chunk = 2, 128, 2, 64, 64
    q, k = (torch.randn(batch, length, heads, dim).bfloat16() for _ in range(2))
    u = torch.randn(heads, dim).bfloat16()
    decay = -torch.rand(batch, length, heads, dim) * 0.1
    inclusive = decay.cumsum(1)
    exclusive = inclusive - decay
    run = load("rwkv6/backends/tilelang/chunk_fwd_intra.py").chunk_rwkv6_fwd_intra_tilelang
    found = run(q, k, inclusive, exclusive, u, dim**-0.5, chunk)
    parts = [x.double().unflatten(1, (-1, chunk)) for x in (q, k, inclusive, exclusive)]
    left, right = parts[0] * torch.exp2(parts[3]), parts[1] * torch.exp2(-parts[2])
    scores = torch.einsum("bnihd,bnjhd->bnihj", left, right).transpose(3, 4)
    own = torch.einsum("bnihd,bnihd,hd->bnih", parts[0], parts[1], u.double())
    lower = torch.ones(chunk, chunk).tril(-1)[None, None, :, :, None]
    diagonal = torch.eye(chunk)[None, None, :, :, None]
    want = (scores * lower + own[..., None, :] * diagonal) * dim**-0.5
    close(found, want.transpose(3, 4).flatten(1, 2))
