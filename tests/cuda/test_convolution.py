"""Convolutions as products of gathered tiles, and tensors that are copied under another shape."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.test_im2col import expected
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.copies import CpAsync, TmaLoad, TmaStore

CHANNELS, FEATURES, HEIGHT, WIDTH = 32, 64, 6, 10


def convolution(stride: int, dilation: int, pad: int, guarded: bool = False) -> Any:
    """A product of tiles of patches with a filter of 3 × 3 that is seen as a matrix.

    guarded: patches as loops over elements, as an author writes them without `im2col`.
    """
    high, wide = ((e + 2 * pad - 2 * dilation - 1) // stride + 1 for e in (HEIGHT, WIDTH))
    rows = 2 * high * wide

    @T.prim_func
    def main(
        Image: T.Tensor((2, HEIGHT, WIDTH, CHANNELS), "float16"),
        Filters: T.Tensor((3, 3, CHANNELS, FEATURES), "float16"),
        Out: T.Tensor((2, high, wide, FEATURES), "float32"),
    ) -> None:
        with T.Kernel(T.ceildiv(rows, 64), threads=128) as by:
            patches = T.alloc_shared((64, CHANNELS), "float16")
            weights = T.alloc_shared((CHANNELS, FEATURES), "float16")
            sums = T.alloc_fragment((64, FEATURES), "float32")
            staged = T.alloc_shared((64, FEATURES), "float32")
            matrix = T.reshape(Filters, (9 * CHANNELS, FEATURES))
            flat = T.reshape(Out, (rows, FEATURES))
            T.clear(sums)
            for k in T.Pipelined(9, num_stages=2):
                if guarded:
                    for i, j in T.Parallel(64, CHANNELS):
                        at = by * 64 + i
                        y = at % (high * wide) // wide * stride + k // 3 * dilation - pad
                        x = at % wide * stride + k % 3 * dilation - pad
                        inside = (y >= 0) & (x >= 0) & (y < HEIGHT) & (x < WIDTH) & (at < rows)
                        patches[i, j] = T.if_then_else(
                            inside, Image[at // (high * wide), y, x, j], 0
                        )
                else:
                    T.im2col(Image, patches, by, k, 3, stride, dilation, pad)
                T.copy(matrix[k * CHANNELS, 0], weights)
                T.gemm(patches, weights, sums)
            T.copy(sums, staged)
            T.copy(staged, flat[by * 64, 0])

    return main


def compiled(program: Any, target: str) -> tuple[ir.Kernel, CudaProgram]:
    """The kernel, and its program for a GPU."""
    kernel = tileprof.compile(program).program.kernel
    made = compile_cuda(kernel, TARGETS[target])
    ir.verify(made.kernel)
    return kernel, made


def decided(made: CudaProgram, kind: type) -> list[str]:
    """What is copied in a way."""
    return [each.name for each in made.remarks if isinstance(each.decision, kind)]


@pytest.mark.spread("2-1-0-True")
@pytest.mark.parametrize(
    ("stride", "dilation", "pad", "guarded"), [(1, 1, 1, False), (2, 1, 0, True), (1, 2, 2, True)]
)
def test_patches_run_ahead(stride: int, dilation: int, pad: int, guarded: bool) -> None:
    """Rows that lie outside of the image are filled with zeros, 16 bytes at a time; the filter
    under another shape runs ahead with them, and TMA stores the result."""
    rng = np.random.default_rng(0)
    image = rng.integers(-2, 3, (2, HEIGHT, WIDTH, CHANNELS)).astype(np.float16)
    filters = rng.integers(-2, 3, (3, 3, CHANNELS, FEATURES)).astype(np.float16)
    wanted = expected(image.astype(np.float32), filters.astype(np.float32), stride, dilation, pad)
    kernel, made = compiled(convolution(stride, dilation, pad, guarded), "sm_90a")
    assert decided(made, CpAsync) == ["Filters → weights", "Image → patches"]
    assert decided(made, TmaStore) == ["staged → Out"]
    out = np.full((len(wanted), FEATURES), np.nan, np.float32)
    type_ = kernel.params[2].type
    assert isinstance(type_, ir.BufferType)
    emulate(made.source, kernel, [image, filters, out.reshape(type_.static_shape)])
    np.testing.assert_array_equal(out, wanted)


def test_other_shapes_by_tma() -> None:
    """A tensor of rows known at launch only, whose last two dimensions are seen as one."""

    @T.prim_func
    def main(A: T.Tensor((T.dynamic("M"), 4, 32), "float16"), B: T.Tensor((128, 64), "float16"),
             C: T.Tensor((T.dynamic("M"), 2, 32), "float32")) -> None:  # fmt: skip
        M = T.dynamic("M")
        with T.Kernel(T.ceildiv(M, 64), threads=128) as by:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            staged = T.alloc_shared((64, 64), "float32")
            flat, out = T.reshape(A, (M, 128)), T.reshape(C, (M, 64))
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(flat[by * 64, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, staged)
            T.copy(staged, out[by * 64, 0])

    kernel, made = compiled(main, "sm_90a")
    assert decided(made, TmaLoad) == ["A → a", "B → b"]
    assert decided(made, TmaStore) == ["staged → C"]
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (100, 4, 32)).astype(np.float16)
    b = rng.integers(-2, 3, (128, 64)).astype(np.float16)
    c = np.full((100, 2, 32), np.nan, np.float32)
    emulate(made.source, kernel, [a, b, c], {"M": 100})
    wanted = a.reshape(100, 128).astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c.reshape(100, 64), wanted)
