"""Numbers that are clamped before they become elements of 8 bits, on a real GPU."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

N = 1 << 16


def nearest(limit: float, dtype: str) -> Any:
    """The largest number of its sign in place of one that is too large, two to a thread's word."""

    @T.prim_func
    def nearest(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), dtype)) -> None:
        with T.Kernel(N // 256, threads=128) as b:
            y = T.alloc_fragment((256,), dtype)
            for i in T.Parallel(256):
                x = X[b * 256 + i]
                y[i] = T.if_then_else(x > limit, limit, T.if_then_else(x < -limit, -limit, x))
            T.copy(y, Y[b * 256])

    return nearest


@pytest.mark.parametrize(("limit", "dtype"), [(448.0, "float8_e4m3"), (57344.0, "float8_e5m2")])
def test_what_is_too_large_becomes_the_largest(limit: float, dtype: str) -> None:
    """NaN stays one, and everything else is as PyTorch rounds what is clamped."""
    bits = np.arange(N, dtype=np.uint32) << 16
    x = torch.from_numpy(bits.view(np.float32).copy()).cuda()
    kind = {"float8_e4m3": torch.float8_e4m3fn}.get(dtype) or getattr(torch, dtype)
    y = torch.zeros(N, device="cuda", dtype=kind)
    tileprof.compile(nearest(limit, dtype))(x, y)
    found, wanted = y.float(), x.clamp(-limit, limit).to(kind).float()
    assert torch.equal(found.isnan(), x.isnan())
    assert torch.equal(found[~x.isnan()], wanted[~x.isnan()])


def narrowed(limit: float, dtype: str) -> Any:
    """Numbers clamped to ± `limit`, in 8 bits."""

    @T.prim_func
    def narrowed(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), dtype)) -> None:
        with T.Kernel(N // 1024, threads=128) as b:
            y = T.alloc_fragment((1024,), dtype)
            for i in T.Parallel(1024):
                y[i] = T.clamp(X[b * 1024 + i], -limit, limit)
            T.copy(y, Y[b * 1024])

    return narrowed


@pytest.mark.parametrize(
    ("limit", "dtype"),
    [(448.0, "float8_e4m3"), (464.0, "float8_e4m3"), (57344.0, "float8_e5m2")],
)
def test_every_upper_half_of_a_float(limit: float, dtype: str) -> None:
    """Infinities, denormals and ties are rounded as by PyTorch; NaN becomes the lower limit."""
    bits = np.arange(N, dtype=np.uint32) << 16
    x = torch.from_numpy(bits.view(np.float32).copy()).cuda()
    kernel = tileprof.compile(narrowed(limit, dtype))
    kind = {"float8_e4m3": torch.float8_e4m3fn}.get(dtype) or getattr(torch, dtype)
    y = torch.zeros(N, device="cuda", dtype=kind)
    kernel(x, y)
    x = torch.where(torch.isnan(x), torch.full_like(x, -limit), x).clamp(-limit, limit)
    # PyTorch saturates nothing: 464 is a tie, and the even neighbour is 448.
    wanted = x.clamp(-448.0, 448.0).to(kind) if dtype == "float8_e4m3" else x.to(kind)
    assert torch.equal(y.view(torch.uint8), wanted.view(torch.uint8))
