"""Tiles that are stored by way of shared memory, where rings leave no room for them."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.copies import StagedTma, StoresFromRegisters
from tileprof.remarks.launches import EarlierWait, MemoryForStaged


def product(columns: int) -> ir.Kernel:
    """Products of 64 rows, of which a block takes four, one after the other."""

    @T.prim_func
    def product(
        A: T.Tensor((512, 512), "float16"),
        B: T.Tensor((512, columns), "float16"),
        C: T.Tensor((512, columns), "float16"),
    ) -> None:
        with T.Kernel(2, threads=256) as block:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, columns), "float16")
            c = T.alloc_fragment((64, columns), "float32")
            for tile in T.serial(4):
                T.clear(c)
                for k in T.Pipelined(8, num_stages=3):
                    T.copy(A[(block * 4 + tile) * 64, k * 64], a)
                    T.copy(B[k * 64, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C[(block * 4 + tile) * 64, 0])

    held: ir.Kernel = tileprof.compile(product).program.kernel
    return held


@pytest.mark.parametrize(("columns", "fits"), [(256, True), (512, False)])
def test_a_tile_without_room_beside_rings_is_stored_from_registers(
    columns: int, fits: bool
) -> None:
    """The rings of the next tile are filled while this one is stored."""
    target = TARGETS["sm_90a"]
    program = compile_cuda(product(columns), target)
    (stored,) = (
        r for r in program.remarks if isinstance(r.decision, StagedTma | StoresFromRegisters)
    )
    assert isinstance(stored.decision, StagedTma) == fits
    assert program.source.launches[0].shared <= target.shared_per_block
    reasons = [r.reason for r in stored.rejected]
    rings, tile = 3 * 2 * 64 * (64 + columns), 2 * 64 * columns
    assert reasons == ([] if fits else [MemoryForStaged("tile", rings + tile, 232_448)])


def stored_then_summed(columns: int) -> ir.Kernel:
    """A product that is stored, and then a loop over tiles of the same size."""

    @T.prim_func
    def stored_then_summed(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, columns), "float16"),
        X: T.Tensor((4, 64, columns), "float32"),
        Y: T.Tensor((64, columns), "float32"),
        Z: T.Tensor((64, columns), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, columns), "float16")
            x = T.alloc_shared((64, columns), "float32")
            y = T.alloc_fragment((64, columns), "float32")
            z = T.alloc_fragment((64, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, y, clear_accum=True)
            T.copy(y, Y)
            T.clear(z)
            for k in T.serial(4):
                T.copy(X[k, :, :], x)
                for i, j in T.Parallel(64, columns):
                    z[i, j] += x[63 - i, j]
            T.copy(z, Z)

    held: ir.Kernel = tileprof.compile(stored_then_summed).program.kernel
    return held


@pytest.mark.parametrize(("columns", "waits"), [(64, True), (16, False)])
def test_a_stored_tile_gives_its_bytes_to_the_loop_behind_it(columns: int, waits: bool) -> None:
    """It is waited for where more blocks fit without it, and where it is small it is not."""
    kernel = stored_then_summed(columns)
    program = compile_cuda(kernel, TARGETS["sm_90a"])
    assert any(isinstance(r.decision, StagedTma) for r in program.remarks)
    found = [r.decision for r in program.remarks if isinstance(r.decision, EarlierWait)]
    tile, shared = 64 * columns * 4, program.source.launches[0].shared
    assert [(d.before, d.after) for d in found] == ([(2 * tile, tile)] if waits else [])
    assert shared == (tile if waits else 2 * tile)
    random = np.random.default_rng(columns)
    a, b, x = (random.integers(-3, 4, s) for s in ((64, 32), (32, columns), (4, 64, columns)))
    y, z = np.zeros((64, columns), np.float32), np.zeros((64, columns), np.float32)
    half = np.float16
    emulate(program.source, kernel, [a.astype(half), b.astype(half), x.astype(np.float32), y, z])
    np.testing.assert_array_equal(y, a @ b)
    np.testing.assert_array_equal(z, x.sum(0)[::-1])
