# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Tiles of shared memory that stay in registers, those that must not, and rows that all threads
store."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate


@tileprof.jit
def normed(X, order: str = "same", late: bool = False, threads: int = 128):
    """Rows divided by the root of their mean square, read twice through one tile."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=threads) as block:
        tile = T.alloc_shared((1, 256), T.float32)
        squares = T.alloc_fragment((1, 256), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(squares)
        for step in T.serial(N // 256):
            T.copy(X[block, step * 256], tile)
            for i, j in T.Parallel(1, 256):
                squares[i, j] += tile[i, j] * tile[i, j]
        T.reduce_sum(squares, total, dim=1)
        for i in T.Parallel(1):
            total[i] = T.rsqrt(total[i] / N)
        for step in T.serial(N // 256):
            at = N // 256 - 1 - step
            if not late:
                T.copy(X[block, at * 256], tile)
            for i, j in T.Parallel(1, 256):
                if order == "same":
                    tile[i, j] = tile[i, j] * total[i]
                else:
                    squares[i, j] = tile[i, 255 - j] * total[i]
            if order == "same":
                T.copy(tile, Y[block, at * 256])
            else:
                T.copy(squares, Y[block, at * 256])
    return Y


def check(order: str, late: bool, threads: int = 128) -> CudaProgram:
    """The program, whose rows are right for several orders of threads."""
    columns = 256 if late else 512
    kernel = normed.compile(M=3, N=columns, order=order, late=late, threads=threads).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    x = np.random.default_rng(0).integers(-4, 5, (3, columns)).astype(np.float32)
    want = x / np.sqrt((x * x).mean(1, keepdims=True))
    if order != "same":
        want = want.reshape(3, -1, 256)[:, :, ::-1].reshape(3, columns)
    for seed in range(3):
        y = np.full_like(x, np.nan)
        emulate(program.source, program.kernel, [x, y], seed=seed)
        np.testing.assert_allclose(y, want, rtol=1e-5)
    return program


def tiles(program: CudaProgram) -> dict[str, str]:
    """Where each buffer of the kernel is."""
    return {o.result.name: o.space for o in program.kernel.ops() if isinstance(o, ir.Alloc)}


def test_each_thread_has_its_own() -> None:
    """In registers, without a barrier in the loops, and no row is stored by one thread alone."""
    program = check("same", late=False)
    assert tiles(program)["tile"] == "fragment"
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    assert len(loops) == 2
    assert not any(isinstance(o, ir.Barrier) for loop in loops for o in ir.walk(loop.body))


@pytest.mark.parametrize(
    ("order", "late"),
    [("other", False), ("same", True)],
    ids=["elements of other threads", "kept over a reduction"],
)
def test_tiles_in_shared_memory(order: str, late: bool) -> None:
    """What threads hand to each other, and what would take registers for long."""
    assert tiles(check(order, late))["tile"] == "shared"


@T.prim_func
def summed(X: T.Tensor((4, 512), T.float32), Y: T.Tensor((4, 2), T.float32)):
    """Two reductions between warps in each iteration, through the same memory."""
    with T.Kernel(1, threads=128):
        row = T.alloc_fragment((1, 512), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        for step in T.serial(4):
            T.copy(X[step, 0], row)
            T.reduce_sum(row, total, dim=1)
            T.reduce_max(row, most, dim=1)
            for i in T.Parallel(1):
                Y[step, i] = total[i]
                Y[step, 1 + i] = most[i]


def test_reductions_between_warps_do_not_race() -> None:
    """One barrier before the memory is written again and one before it is read."""
    program = compile_cuda(tileprof.compile(summed).program.kernel, find_target("sm_90a"))
    assert program.source.text.count("tp_barrier();") == 4
    x = np.random.default_rng(0).integers(-9, 9, (4, 512)).astype(np.float32)
    y, watch = np.zeros((4, 2), np.float32), Watch()
    emulate(program.source, program.kernel, [x, y], watch=watch)
    assert watch.found == []
    np.testing.assert_array_equal(y, np.stack([x.sum(1), x.max(1)], 1))


@pytest.mark.parametrize("threads", [32, 64])
def test_threads_of_one_warp_meet_by_themselves(threads: int) -> None:
    """A block of one warp needs no barrier of blocks."""
    text = check("other", late=False, threads=threads).source.text
    assert ("tp_warp_barrier();" in text, "tp_barrier();" in text) == (threads == 32, threads > 32)


@T.prim_func
def long_row(X: T.Tensor((8, 1024), T.bfloat16), Y: T.Tensor((8, 1024), T.bfloat16)):
    """A row of 2 KB through shared memory."""
    with T.Kernel(8, threads=32) as block:
        row = T.alloc_shared((1, 1024), T.bfloat16)
        T.copy(X[block, 0], row)
        T.copy(row, Y[block, 0])


@T.prim_func
def rows_of_a_tile(X: T.Tensor((8, 1024), T.bfloat16), Y: T.Tensor((8, 1024), T.bfloat16)):
    """Four rows of 512 bytes through shared memory."""
    with T.Kernel(4, 2, threads=32) as (column, block):
        rows = T.alloc_shared((4, 256), T.bfloat16)
        T.copy(X[block * 4, column * 256], rows)
        T.copy(rows, Y[block * 4, column * 256])


@pytest.mark.parametrize(("function", "bulk"), [(long_row, False), (rows_of_a_tile, True)])
def test_one_long_row_is_stored_by_all_threads(function, bulk: bool) -> None:
    """TMA would take an instruction for each 128 bytes of it, from one thread."""
    program = compile_cuda(tileprof.compile(function).program.kernel, find_target("sm_90a"))
    assert ("tp_tma_store" in program.source.text) == bulk
    assert bulk or any("one row of 2048 B" in str(r) for r in program.remarks)
    x = np.random.default_rng(0).standard_normal((8, 1024)).astype(ml_dtypes.bfloat16)
    for seed in range(2):
        y = np.zeros_like(x)
        emulate(program.source, program.kernel, [x, y], seed=seed)
        np.testing.assert_array_equal(y, x)


@T.prim_func
def centred(
    X: T.Tensor((5, 4096), T.bfloat16),
    Shift: T.Tensor((4096,), T.bfloat16),
    Y: T.Tensor((5, 4096), T.bfloat16),
):
    """Rows less their mean, 64 bytes of each for a thread; a shift that is kept over the sum."""
    with T.Kernel(5, threads=128) as block:
        tile = T.alloc_shared((1, 4096), T.bfloat16)
        shift = T.alloc_shared((4096,), T.bfloat16)
        row = T.alloc_fragment((1, 4096), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[block, 0], tile)
        T.copy(Shift, shift)
        for i, j in T.Parallel(1, 4096):
            row[i, j] = tile[i, j]
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(1, 4096):
            tile[i, j] = row[i, j] - total[i] / 4096 + shift[j]
        T.copy(tile, Y[block, 0])


@T.prim_func
def centred_in_turn(X: T.Tensor((5, 4096), T.bfloat16), Y: T.Tensor((5, 4096), T.bfloat16)):
    """The same rows, one after the other."""
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((1, 4096), T.bfloat16)
        row = T.alloc_fragment((1, 4096), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for block in T.serial(5):
            T.copy(X[block, 0], tile)
            for i, j in T.Parallel(1, 4096):
                row[i, j] = tile[i, j]
            T.reduce_sum(row, total, dim=1)
            for i, j in T.Parallel(1, 4096):
                tile[i, j] = row[i, j] - total[i] / 4096
            T.copy(tile, Y[block, 0])


@pytest.mark.parametrize(("function", "kept"), [(centred, True), (centred_in_turn, False)])
def test_large_tiles_outside_of_loops(function, kept: bool) -> None:
    """In registers, and as many blocks at once as shared memory had room for."""
    program = compile_cuda(tileprof.compile(function).program.kernel, find_target("sm_90a"))
    assert tiles(program)["tile"] == ("fragment" if kept else "shared")
    # Twice 8 KB and 1 KB of the system's leave room for 13; 32 + 16 + 16 registers for 8.
    assert f"__launch_bounds__(128, {8 if kept else 1})" in program.source.text
    x = np.random.default_rng(0).standard_normal((5, 4096)).astype(ml_dtypes.bfloat16)
    shift = np.random.default_rng(1).standard_normal(4096).astype(ml_dtypes.bfloat16)
    wide = x.astype(np.float32)
    want = wide - wide.mean(1, keepdims=True) + (shift.astype(np.float32) if kept else 0)
    for seed in range(2):
        y = np.zeros_like(x)
        emulate(program.source, program.kernel, [x, shift, y] if kept else [x, y], seed=seed)
        np.testing.assert_allclose(y.astype(np.float32), want, rtol=2e-2, atol=2e-2)


def test_as_many_blocks_as_are_asked_for() -> None:
    """The author's number of registers stays."""
    kernel = tileprof.compile(centred).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), Controls(registers=128))
    assert "__launch_bounds__(128, 1)" in program.source.text
