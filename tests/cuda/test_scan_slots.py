"""Scans of tiles: of slots that are loaded ahead, and of layouts without bank conflicts."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.loops import RunsAhead


def summed(rows: int, columns: int, dim: int, reverse: bool) -> Any:
    """Sums of five tiles, each scanned along a dimension."""

    @T.prim_func
    def main(
        X: T.Tensor((5, rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32")
    ) -> None:
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((rows, columns), "float32")
            scanned = T.alloc_shared((rows, columns), "float32")
            y = T.alloc_fragment((rows, columns), "float32")
            T.clear(y)
            for k in T.Pipelined(5, num_stages=3):
                T.copy(X[k, 0, 0], x)
                T.cumsum(x, scanned, dim=dim, reverse=reverse)
                for i, j in T.Parallel(rows, columns):
                    y[i, j] += scanned[i, j]
            T.copy(y, Y)

    return main


@pytest.mark.spread
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(
    ("rows", "columns", "dim", "reverse"),
    [(8, 64, 1, False), (64, 8, 0, True), (64, 4, 1, False), (2, 256, 1, True)],
)
def test_scans_of_slots(rows: int, columns: int, dim: int, reverse: bool, target: str) -> None:
    """By a warp for each line, by a thread for each, and by all warps for one."""
    kernel = tileprof.compile(summed(rows, columns, dim, reverse)).program.kernel
    made = compile_cuda(kernel, find_target(target))
    ir.verify(made.kernel)
    assert [r for r in made.remarks if isinstance(r.decision, RunsAhead)]
    x = np.random.default_rng(0).integers(-3, 4, (5, rows, columns)).astype(np.float32)
    y = np.full((rows, columns), np.nan, np.float32)
    emulate(made.source, kernel, [x, y])
    turned = np.flip(x, dim + 1) if reverse else x
    wanted = np.cumsum(turned, dim + 1)
    np.testing.assert_array_equal(y, (np.flip(wanted, dim + 1) if reverse else wanted).sum(0))


def counted(rows: int, columns: int, dim: int) -> Any:
    """A tile of ones that is scanned in place."""

    @T.prim_func
    def main(Y: T.Tensor((rows, columns), "int32")) -> None:
        with T.Kernel(1, threads=128):
            held = T.alloc_shared((rows, columns), "int32")
            for i, j in T.Parallel(rows, columns):
                held[i, j] = 1
            T.cumsum(held, dim=dim)
            for i, j in T.Parallel(rows, columns):
                Y[i, j] = held[i, j]

    return main


@pytest.mark.parametrize(
    ("rows", "columns", "dim", "layout"),
    [(128, 64, 0, "pad=1"), (32, 64, 1, "rows"), (512, 64, 0, "pad=1"), (16, 512, 0, "rows")],
    ids=["a warp a column", "a warp a row", "all warps a column", "a thread a column"],
)
def test_lanes_of_a_scan_are_at_different_banks(
    rows: int, columns: int, dim: int, layout: str
) -> None:
    """Elements of a column that a warp scans lie 64 words apart in plain rows: at one bank."""
    kernel = tileprof.compile(counted(rows, columns, dim)).program.kernel
    made = compile_cuda(kernel, find_target("sm_90a"))
    (tile,) = (op for op in made.kernel.ops() if isinstance(op, ir.Alloc) and len(op.shape) == 2)
    assert tile.layout == layout
    y = np.zeros((rows, columns), np.int32)
    emulate(made.source, kernel, [y])
    np.testing.assert_array_equal(y, np.cumsum(np.ones_like(y), dim))
