"""Kernels whose pages were written down before anybody compared them with counters.

`FROZEN` are in this repository, those of `frozen_of_tilelang` in a checkout of TileLang.  Their
numbers are in `results/show-counters-frozen.json`, made by `python -m benchmarks.show_counters
--freeze` without a GPU.  A run compares the counters with these numbers as well as with the pages
that are made now, so that a later mend of the counting shows as one.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202
from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T
from benchmarks.plant.kernels.add_norm import add_norm
from benchmarks.plant.kernels.cross_entropy import cross_entropy
from benchmarks.plant.kernels.moments import moments
from benchmarks.plant.kernels.pages import pages
from benchmarks.plant.kernels.softmax_grad import softmax_grad
from benchmarks.plant.kernels.split_k import split_k
from benchmarks.plant.kernels.swiglu import swiglu
from benchmarks.plant.kernels.w8a8 import w8a8
from benchmarks.show_counters.kernels import Case, normal
from case_studies.chunk_scan import chunk_scan
from case_studies.chunk_scan import inputs as chunk_inputs
from case_studies.int4_matmul import int4_matmul
from case_studies.mla_decode import inputs as mla_inputs
from case_studies.mla_decode import mla_decode
from case_studies.sparse_attention import inputs as sparse_inputs
from case_studies.sparse_attention import lists, sparse_attention

_BF16, _FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def _mixed(draw, *kinds):
    """Draw normal numbers, or whole ones below a limit, of shapes and types."""
    made = []
    for shape, dtype, *limit in kinds:
        if limit:
            made.append(draw.integers(*limit, shape).astype(dtype))
        else:
            made.append(draw.standard_normal(shape, np.float32).astype(dtype))
    return made


def drawn_as(*kinds):
    """Return what draws arguments of these shapes and types; whole numbers between bounds."""
    return lambda draw: _mixed(draw, *kinds)


def _split(draw):
    return [*_mixed(draw, ((128, 1024), _BF16), ((256, 1024), _BF16)),
            np.zeros((128, 256), np.float32)]  # fmt: skip


def _moments(draw):
    return [draw.standard_normal((512, 1024), np.float32), np.zeros((2, 1024), np.float32)]


def _sparse(draw):
    q, k, v, mask = sparse_inputs(1, 384, 4, 2, 64)
    return [q, k, v, *lists(mask)]


def _mask(draw):
    pair = _mixed(draw, ((512, 512), np.float16), ((512, 512), np.float16))
    return [*pair, draw.random((4, 4, 16)) < 0.5]


def _post(draw):
    mixes, streams, factors, branch = _mixed(
        draw, ((64, 4, 4), np.float32), ((64, 4, 2560), _BF16), ((64, 4), np.float32),
        ((64, 2560), _BF16),
    )  # fmt: skip
    return [mixes, streams, factors, branch, np.zeros_like(streams)]


@tileprof.jit
def convolved(X, W, rows: int = 4, channels: int = 128):
    """Depthwise convolution, 3 × 3, of images whose channels lie last; without a border."""
    N, H, Wide, C = T.const("N, H, Wide, C")
    X: T.Tensor((N, H, Wide, C), T.float16)
    W: T.Tensor((3, 3, C), T.float32)
    Y = T.empty((N, H - 2, Wide - 2, C), T.float16)
    with T.Kernel(C // channels, (H - 2) * (Wide - 2) // rows, N, threads=128) as (bc, at, n):
        total = T.alloc_fragment((rows, channels), T.float32)
        y, x = at * rows // (Wide - 2), at * rows % (Wide - 2)
        T.clear(total)
        for tap in T.unroll(9):
            for i, c in T.Parallel(rows, channels):
                here = T.cast(X[n, y + tap // 3, x + i + tap % 3, bc * channels + c], T.float32)
                total[i, c] += here * W[tap // 3, tap % 3, bc * channels + c]
        T.copy(total, Y[n, y, x : x + rows, bc * channels : (bc + 1) * channels])
    return Y


FROZEN: tuple[Case, ...] = (
    Case(swiglu, drawn_as(((128, 4096), _BF16)), "gate of a feed-forward layer"),
    Case(cross_entropy, drawn_as(((256, 1024), np.float32), ((256,), np.int32, 0, 1024)),
         "cross entropy of rows"),
    Case(softmax_grad, normal((256, 2048), (256, 2048), dtype=_BF16), "gradient of a softmax"),
    Case(moments, _moments, "sums of columns and of their squares, by atomics"),
    Case(pages, drawn_as(((64, 16, 512), _BF16), ((4, 12), np.int32, 0, 64)), "keys out of pages"),
    Case(split_k, _split, "product split along K, summed by the copy engine"),
    Case(w8a8, drawn_as(((256, 512), np.int8, -128, 128), ((256, 512), np.int8, -128, 128),
                      ((256,), np.float32), ((256,), np.float32)), "int8 product, scaled"),
    Case(int4_matmul, drawn_as(((128, 512), _BF16), ((192, 256), np.uint8, 0, 256),
                             ((192, 16), np.float32)), "int4 weights with scales of groups"),
    Case(convolved, drawn_as(((2, 18, 18, 256), np.float16), ((3, 3, 256), np.float32)),
         "depthwise convolution, 3 × 3"),
    Case(chunk_scan, lambda draw: chunk_inputs(1, 2, 256, 1, 4, 64, 128), "scan over chunks"),
    Case(add_norm, normal((256, 2048), (256, 2048), (2048,), dtype=_BF16), "RMSNorm of a sum"),
    Case(mla_decode, lambda draw: mla_inputs(2, 64, 320), "decoding with latent attention"),
    Case(sparse_attention, _sparse, "attention over tiles that lists name"),
)  # fmt: skip


def frozen_of_tilelang(checkout: Path) -> tuple[Case, ...]:
    """Return kernels of TileLang's examples."""
    from tileprof.cli.kernel.kernels import find

    def case(place, arguments, about, **options):
        return Case(find(str(checkout / "examples" / place)), arguments, about, options)

    def made(place, title, sizes, arguments, about, **options):
        """Kernels of a function that makes them for sizes."""
        kernel = find(str(checkout / "examples" / place))(*sizes, **options)
        return Case(kernel, arguments, about, title=title)

    return (
        case("cast/example_per_token_cast_to_fp8.py:per_token_cast_to_fp8", normal((256, 1024)),
             "groups of each token as fp8", blk_m=8),
        case("deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py:tl_gemm",
             drawn_as(((128, 512), _FP8), ((256, 512), _FP8), ((128, 4), np.float32),
                    ((2, 4), np.float32)), "fp8 product with scales of blocks",
             block_N=128, in_dtype=T.float8_e4m3fn, out_dtype=T.bfloat16, accum_dtype=T.float32),
        case("linear_attention/example_mamba_chunk_state.py:chunk_state_fwd",
             normal((1, 512, 1, 128), (1, 512, 4, 64), (1, 4, 2, 256), (1, 4, 2, 256),
                    dtype=np.float16), "states of chunks",
             block_M=64, block_N=64, block_K=64, num_stages=2, threads=128),
        case("gemv/example_gemv.py:gemv_alloc_reducer",
             normal((256, 1024), (1024,), dtype=np.float16), "matrix by a vector",
             block_M=128, block_N=128, num_stages=2, threads=256),
        case("blocksparse_gemm/example_blocksparse_gemm.py:blocksparse_matmul", _mask,
             "product of tiles that a mask keeps", block_M=128, block_N=128, block_K=32,
             num_stages=2, thread_num=128, enable_rasteration=True),
        case("deepseek_mhc/example_mhc_post.py:mhc_post_tilelang", _post,
             "streams mixed and a branch added", hc=4, hidden=2560),
        made("flash_attention/example_mha_fwd_bshd.py:flashattn", "main", (1, 2, 256, 64, True),
             normal(*[(1, 256, 2, 64)] * 3, dtype=np.float16), "causal attention",
             block_M=64, block_N=64, num_stages=1, threads=128),
    )  # fmt: skip
