"""Tests of the kernels of deepseek-ai/DeepSeek-V3.2-Exp, through the functions that call them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import kernel

FP8 = torch.float8_e4m3fn


def _groups(x: torch.Tensor) -> torch.Tensor:
    return x.float().unflatten(-1, (-1, 128))


@pytest.mark.parametrize("rows", [32, 77])
@pytest.mark.parametrize("scale_fmt", [None, "ue8m0"])
def test_act_quant(rows: int, scale_fmt: str | None) -> None:
    """Values over the scale of their 128; rounded up to a power of two where asked."""
    x = torch.randn(rows, 512, dtype=torch.bfloat16)
    y, scales = kernel.act_quant(x, scale_fmt=scale_fmt)
    want = _groups(x).abs().amax(-1).clamp(min=1e-4) / 448
    if scale_fmt:
        want = torch.exp2(torch.ceil(torch.log2(want)))
    torch.testing.assert_close(scales, want, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        _groups(y) * scales[..., None], _groups(x), rtol=0.07, atol=want.max().item()
    )


@pytest.mark.parametrize("rows", [32, 77])
def test_fp8_gemm(rows: int) -> None:
    """A product of quantized rows and of a matrix that was quantized in blocks."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        a, a_scales = kernel.act_quant(torch.randn(rows, 512, dtype=torch.bfloat16))
        b = torch.randn(256, 512, dtype=torch.float32).to(FP8)
        b_scales = torch.rand(2, 4, dtype=torch.float32) + 0.5
        found = kernel.fp8_gemm(a, a_scales, b, b_scales)
    finally:
        torch.set_default_dtype(torch.float32)
    wide = b.float().reshape(2, 128, 4, 128) * b_scales[:, None, :, None]
    want = (_groups(a) * a_scales[..., None]).flatten(1) @ wide.reshape(256, 512).T
    torch.testing.assert_close(found.float(), want, rtol=2e-2, atol=5e-2)


def test_fp8_index() -> None:
    """Scores of the indexer, for a number of keys that no tile divides."""
    q = torch.randn(2, 3, 32, 128).to(FP8)
    k = torch.randn(2, 700, 128).to(FP8)
    weights, scales = torch.rand(2, 3, 32), torch.rand(2, 700)
    scores = torch.einsum("bmhd,bnd->bmnh", q.float(), k.float()).relu()
    want = (scores * weights[:, :, None]).sum(-1) * scales[:, None]
    torch.testing.assert_close(kernel.fp8_index(q, weights, k, scales), want, rtol=1e-3, atol=1e-2)
