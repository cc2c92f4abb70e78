# mypy: ignore-errors
# ruff: noqa: ANN202
"""A tile kernel whose blocks compute a table, some entries in each turn."""

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
