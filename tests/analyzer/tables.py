# mypy: ignore-errors
# ruff: noqa: ANN201, ANN202
"""Tile kernels some of whose threads have more work than others."""

from typing import Any

import tileprof.lang as T


def table(lanes: int, threads: int = 128) -> Any:
    """Of 512 entries, `lanes` in each turn, each by a series."""

    @T.prim_func
    def main(Y: T.Tensor((16, 512), T.float32)):
        with T.Kernel(16, threads=threads) as bx:
            values = T.alloc_shared((512,), T.float32)
            total = T.alloc_fragment((lanes,), T.float32)
            for part in T.serial(512 // lanes):
                for i in T.Parallel(lanes):
                    total[i] = 1.0
                for n in T.serial(9):
                    for i in T.Parallel(lanes):
                        total[i] = total[i] * 0.5 + T.cast(part * lanes + i + n, T.float32)
                for i in T.Parallel(lanes):
                    values[part * lanes + i] = total[i]
            T.copy(values, Y[bx, 0])

    return main


@T.prim_func
def uneven(
    N: T.Tensor((1024,), T.int32),
    X: T.Tensor((1024, 1024), T.float32),
    Y: T.Tensor((1024,), T.float32),
):
    """Sums of columns of which each has a length of its own, turned around."""
    with T.Kernel(4, threads=256) as bx:
        turned = T.alloc_shared((256,), T.float32)
        total = T.alloc_fragment((256,), T.float32)
        for i in T.Parallel(256):
            total[i] = 0.0
            for k in T.serial(N[bx * 256 + i]):
                total[i] += X[k, bx * 256 + i]
        T.copy(total, turned)
        for i in T.Parallel(256):
            Y[bx * 256 + i] = turned[255 - i]
