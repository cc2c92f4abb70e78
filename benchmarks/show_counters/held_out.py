"""Kernels that were written for other benchmarks, or by others, for `show_counters`.

The page's counting was written for other kernels first.  What machine code of these showed then
(sums of vectors, joined loads) is counted too, so they are no test that nobody looked at.
`HELD_OUT` are in this repository; those of `of_tilelang` are in a checkout of TileLang and are read
as `tileprof show` reads them.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN202
from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np

import tileprof.lang as T
from benchmarks.gpu_kernels import matmul_int4
from benchmarks.plant.kernels.bag import bag
from benchmarks.plant.kernels.channels_last import channels_last
from benchmarks.plant.kernels.column_sum import column_sum
from benchmarks.plant.kernels.layer_norm import layer_norm
from benchmarks.plant.kernels.matvec import matvec
from benchmarks.plant.kernels.quantise import quantise
from benchmarks.plant.kernels.rotary import rotary
from benchmarks.plant.kernels.row_top import row_top
from benchmarks.show_counters.kernels import Case, normal

_BF16 = ml_dtypes.bfloat16


def _rotary(draw):
    heads = draw.standard_normal((8, 512, 128), np.float32).astype(_BF16)
    angles = [draw.standard_normal((512, 64), np.float32) for _ in range(2)]
    return [heads, *angles]


def _quantise(draw):
    rows = draw.standard_normal((256, 2048), np.float32).astype(_BF16)
    return [rows, np.zeros(256, np.float32)]


def _column_sum(draw):
    return [draw.standard_normal((512, 1024), np.float32), np.zeros(1024, np.float32)]


def _bag(draw):
    table = draw.standard_normal((2048, 256), np.float32).astype(_BF16)
    return [table, draw.integers(0, 2048, (256, 8), np.int32)]


def _int4(draw):
    a = draw.standard_normal((256, 256), np.float32).astype(_BF16)
    packed = draw.integers(0, 256, (256, 128), np.uint8)
    return [a, packed, draw.standard_normal(256, np.float32)]


HELD_OUT: tuple[Case, ...] = (
    Case(rotary, _rotary, "rotary embedding"),
    Case(layer_norm, normal((256, 1024)), "LayerNorm through shared memory"),
    Case(quantise, _quantise, "rows as int8"),
    Case(matvec, normal((512, 2048), (2048,), dtype=_BF16), "matrix by a vector"),
    Case(column_sum, _column_sum, "sums of columns by atomics"),
    Case(channels_last, normal((2, 128, 1024)), "channels put last, padded shared memory"),
    Case(row_top, normal((512, 512)), "greatest of each row, a thread a row"),
    Case(bag, _bag, "sums of rows that indices name"),
    Case(matmul_int4, _int4, "int4 weights by bfloat16"),
)


def of_tilelang(checkout: Path) -> tuple[Case, ...]:
    """Return kernels of TileLang's examples."""
    from tileprof.cli.kernel.kernels import find

    def case(place, arguments, about, **options):
        return Case(find(str(checkout / "examples" / place)), arguments, about, options)

    return (
        case("elementwise/example_elementwise_add.py:elementwise_add",
             normal((512, 512), (512, 512)), "elementwise add through shared memory",
             block_M=32, block_N=32, threads=128, in_dtype=T.float32, out_dtype=T.float32),
        case("norm/rms_norm.py:rms_norm_splitk", normal((256, 2048)), "RMSNorm in parts",
             blk_m=1, blk_k=512),
        case("topk/example_topk.py:tl_topk", normal((256, 128)), "top 6 of rows",
             topk=6, blk_m=64, threads=128),
    )  # fmt: skip
