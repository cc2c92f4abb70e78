"""Tiles that are stored by way of shared memory, where rings leave no room for them."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.remarks.copies import StagedTma, StoresFromRegisters
from tileprof.remarks.launches import MemoryForStaged


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
