"""Tests of sparse attention and its indexer in THUDM/slime and radixark/miles.

Both train models with attention over chosen keys: GLM-5 in slime, DeepSeek-V4 with a sink in miles.
Their kernels are called by their own functions and compared with PyTorch, at small sizes.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
GLM = "slime_plugins.models.glm5.ops"
V4 = "miles_plugins.models.deepseek_v4.ops.kernel"
PACKAGE = GLM if (ROOT / "slime_plugins").is_dir() else V4
if PACKAGE == GLM:
    # The folders' own `__init__` loads what is not part of the kernels.
    sys.path.insert(0, str(ROOT / GLM.replace(".", "/")))


def load(name: str) -> Any:
    """Return a module of the kernels."""
    return importlib.import_module(name if PACKAGE == GLM else f"{PACKAGE}.{name}")


def close(found: torch.Tensor, want: torch.Tensor) -> None:
    """Compare by the size of the whole result: gradients are of bfloat16."""
    error = (found.float() - want.float()).norm() / want.float().norm()
    assert error < 1e-2, f"relative error {error:.3g}"


def chosen(queries: int, keys: int, count: int) -> torch.Tensor:
    """Return keys for each query, up to its own place, in any order; -1 where there are fewer."""
    made = torch.full((queries, count), -1, dtype=torch.int32)
    for at in range(queries):
        known = torch.randperm(min(keys, at + keys - queries + 1))[:count]
        made[at, : len(known)] = known.int()
    return made


def attention(q: Any, kv: Any, indices: Any, width: int, sink: Any = None) -> Any:
    """Attention of (queries, heads, dim) over chosen rows of (keys, dim)."""
    held = kv[indices.clamp(min=0).long()]
    scores = torch.einsum("qhd,qkd->qhk", q, held) / q.shape[-1] ** 0.5
    scores = scores.masked_fill((indices < 0)[:, None], float("-inf"))
    if sink is not None:
        scores = torch.cat([scores, sink[None, :, None].expand(len(q), -1, 1)], -1)
    weights = scores.softmax(-1)[..., : indices.shape[1]]
    return torch.einsum("qhk,qkd->qhd", weights, held[..., :width])


@pytest.mark.parametrize("heads", [16, 32])
def test_sparse_attention(heads: int) -> None:
    """Results and gradients."""
    queries, keys, count = 33, 160, 64
    dim, width = (576, 512) if PACKAGE == GLM else (512, 512)
    q = torch.randn(queries, heads, dim).bfloat16()
    kv = torch.randn(keys, dim).bfloat16()
    given = torch.randn(queries, heads, width).bfloat16()
    indices, sink = chosen(queries, keys, count), torch.randn(heads)
    leaves = [x.double().requires_grad_() for x in (q, kv, sink)]
    want = attention(leaves[0], leaves[1], indices, width, None if PACKAGE == GLM else leaves[2])
    want.backward(given.double())
    forward, backward = load("tilelang_sparse_mla_fwd"), load("tilelang_sparse_mla_bwd")
    if PACKAGE == GLM:
        at = indices[:, None]
        out, lse = forward.sparse_mla_fwd_interface(q, kv[:, None], at)
        dq, dkv = backward.sparse_mla_bwd(q, kv[:, None], out, given, at, lse)
        grads = [dq, dkv[:, 0]]
    else:
        out, lse = forward.sparse_mqa_fwd_interface(q[None], kv[None], sink, indices[None])
        held = backward.sparse_mqa_bwd_interface(
            q[None], kv[None], sink, out, given[None], indices[None], lse
        )
        out, grads = out[0], [held[0][0], held[1][0], held[2]]
    close(out, want)
    for found, leaf in zip(grads, leaves):
        close(found, leaf.grad)


def _scores(q: Any, k: Any, weights: Any) -> Any:
    return (torch.einsum("qhd,kd->qkh", q, k).relu() * weights[:, None]).sum(-1)


def test_indexer() -> None:
    """Scores of the keys that a query may see; the others are minus infinity."""
    queries, keys, heads = 40, 300, 32
    q, k = torch.randn(queries, heads, 128).bfloat16(), torch.randn(keys, 128).bfloat16()
    weights = torch.rand(queries, heads)
    first = torch.arange(queries, dtype=torch.int32) * 2
    last = first + 150
    found = load("tilelang_indexer_fwd").indexer_fwd_interface(q, k, weights, first, last)
    at = torch.arange(keys)
    seen = (at >= first[:, None]) & (at < last[:, None])
    want = _scores(q.float(), k.float(), weights)
    torch.testing.assert_close(found[seen], want[seen], rtol=1e-3, atol=1e-2)
    assert bool((found[~seen] == float("-inf")).all())


@pytest.mark.parametrize("heads", [8, 32])
def test_gradient_of_the_indexer(heads: int) -> None:
    """Gradients of scores of chosen keys."""
    queries, keys, count = 33, 128, 64
    q, k = torch.randn(queries, heads, 128).bfloat16(), torch.randn(keys, 128).bfloat16()
    weights, given = torch.rand(queries, heads), torch.randn(queries, count)
    indices = chosen(queries, keys, count)
    leaves = [x.double().requires_grad_() for x in (q, weights, k)]
    scores = _scores(leaves[0], leaves[2], leaves[1]).gather(1, indices.clamp(min=0).long())
    scores.backward(given.double() * (indices >= 0))
    found = load("tilelang_indexer_bwd").indexer_bwd_interface(q, weights, k, indices, given)
    for grad, leaf in zip(found, leaves):
        close(grad, leaf.grad)


@pytest.mark.skipif(PACKAGE == GLM, reason="slime quantizes elsewhere")
@pytest.mark.parametrize("scale_fmt", [None, "ue8m0"])
@pytest.mark.parametrize("inplace", [False, True])
def test_act_quant(scale_fmt: str | None, inplace: bool) -> None:
    """Values over the scale of their 128, or values as they are after that."""
    x = torch.randn(50, 256, dtype=torch.bfloat16)
    groups = x.float().unflatten(-1, (-1, 128))
    made = load("act_quant").act_quant(x.clone(), scale_fmt=scale_fmt, inplace=inplace)
    if inplace:
        held = made.float().unflatten(-1, (-1, 128))
    else:
        held = made[0].float().unflatten(-1, (-1, 128)) * made[1][..., None]
    largest = groups.abs().max().item()
    torch.testing.assert_close(held, groups, rtol=0.07, atol=largest / 448)
