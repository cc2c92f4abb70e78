"""Convolutions as products of tiles that `T.im2col` makes."""

# mypy: disable-error-code="no-untyped-def,no-redef,valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.errors import KernelError

Floats = np.ndarray[Any, np.dtype[np.float32]]


@tileprof.jit
def convolution(image, filters, stride, dilation, pad):  # noqa: ANN001, ANN201
    """A product of every tile of patches with the flattened filters."""
    N, H, W, C, K, F = T.const("N, H, W, C, K, F")
    image: T.Tensor((N, H, W, C), T.float32)
    filters: T.Tensor((K, K, C, F), T.float32)
    OH = (H + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    OW = (W + 2 * pad - dilation * (K - 1) - 1) // stride + 1
    out = T.empty((N * OH * OW, F), T.float32)
    with T.Kernel(T.ceildiv(N * OH * OW, 32), threads=32) as by:
        patches = T.alloc_shared((32, 16), T.float32)
        weights = T.alloc_shared((16, F), T.float32)
        sums = T.alloc_fragment((32, F), T.float32)
        flat = T.reshape(filters, (K * K * C, F))
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K * K * C, 16), num_stages=2):
            T.im2col(image, patches, by, k, K, stride, dilation, pad)
            T.copy(flat[k * 16, 0], weights)
            T.gemm(patches, weights, sums)
        T.copy(sums, out[by * 32, 0])
    return out


def expected(image: Floats, filters: Floats, stride: int, dilation: int, pad: int) -> Floats:
    """Sums over the taps of a filter, each a product over all channels."""
    taps, features = filters.shape[0], filters.shape[3]
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    reach = dilation * (taps - 1) + 1
    high, wide = (each - reach + 1 for each in padded.shape[1:3])
    made = np.zeros((len(image), -(-high // stride), -(-wide // stride), features), np.float32)
    for y in range(taps):
        for x in range(taps):
            top, left = y * dilation, x * dilation
            part = padded[:, top : top + high : stride, left : left + wide : stride]
            made += part @ filters[y, x]
    return made.reshape(-1, features)


@pytest.mark.parametrize("device", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("stride", "dilation", "pad", "taps"), [(1, 1, 1, 3), (2, 1, 0, 3), (1, 2, 2, 3), (3, 1, 2, 2)]
)
def test_convolutions(device: str, stride: int, dilation: int, pad: int, taps: int) -> None:
    """Any stride, dilation and padding; the last tiles are cut in both directions."""
    rng = np.random.default_rng(0)
    image = rng.integers(-3, 4, (2, 9, 11, 5)).astype(np.float32)
    filters = rng.integers(-3, 4, (taps, taps, 5, 8)).astype(np.float32)
    with tileprof.device(device):
        found = convolution(image, filters, stride, dilation, pad)
    np.testing.assert_array_equal(found, expected(image, filters, stride, dilation, pad))


def test_an_image_of_another_rank() -> None:
    """The error is at the author's line."""

    @tileprof.jit
    def kernel(image):  # noqa: ANN001, ANN202
        H, W = T.const("H, W")
        image: T.Tensor((H, W), T.float32)
        with T.Kernel(1):
            patches = T.alloc_shared((32, 16), T.float32)
            T.im2col(image, patches, 0, 0, 3, 1, 1, 1)

    with pytest.raises(KernelError, match="2 and 2 dimensions") as caught:
        kernel(np.zeros((8, 8), np.float32))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
