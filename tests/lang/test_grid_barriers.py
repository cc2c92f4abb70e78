"""Barriers over the grid: what blocks wrote before is there for all of them afterwards."""

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
from tileprof.compiler.cuda.target import TARGETS, find_target
from tileprof.emulator import emulate
from tileprof.errors import KernelError, TileprofError

BLOCKS, WIDTH = 5, 32


def normalized(blocks: int = BLOCKS) -> Any:
    """Each block sums a row; after the barrier, it scales a column by all sums, twice."""

    @T.prim_func
    def normalized(
        A: T.Tensor((blocks, WIDTH), "float32"),
        order: T.Tensor((blocks,), "int32"),
        sums: T.Tensor((blocks,), "float32"),
        B: T.Tensor((blocks, WIDTH), "float32"),
    ) -> None:
        with T.Kernel(blocks, threads=32) as block:
            row = order[block]
            scale = 0.5 if block < 2 else 2.0
            tile = T.alloc_fragment((WIDTH,), "float32")
            total = T.alloc_fragment((1,), "float32")
            later = T.alloc_fragment((WIDTH,), "float32")
            T.copy(A[row, 0], tile)
            T.reduce_sum(tile, total, dim=0)
            T.copy(total, sums[row])
            T.sync_grid()
            T.copy(A[row, 0], later)
            for i in T.Parallel(WIDTH):
                later[i] = later[i] * scale + sums[(row + 1) % blocks]
            T.copy(later, B[row, 0])
            T.sync_grid()
            last = T.alloc_fragment((WIDTH,), "float32")
            T.copy(B[(row + 2) % blocks, 0], last)
            T.copy(last, A[row, 0])

    return normalized


def arrays() -> tuple[list[Any], list[Any]]:
    """Arguments, and what the tensors are afterwards."""
    rng = np.random.default_rng(0)
    a, order = rng.standard_normal((BLOCKS, WIDTH)).astype("f4"), rng.permutation(BLOCKS)
    sums = a.sum(1)
    scale = np.empty((BLOCKS, 1), "f4")
    scale[order] = np.where(np.arange(BLOCKS) < 2, 0.5, 2.0)[:, None]
    b = a * scale + np.roll(sums, -1)[:, None]
    given = [a, order.astype("i4"), np.zeros(BLOCKS, "f4"), np.zeros_like(a)]
    return given, [np.roll(b, -2, axis=0), order, sums, b]


def check(found: list[Any], wanted: list[Any]) -> None:
    """Compare every tensor."""
    for each, want in zip(found, wanted):
        np.testing.assert_allclose(each, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_blocks_see_what_all_wrote_before_the_barrier(device: str) -> None:
    """Of a block's neighbours too, which come later in the grid."""
    given, wanted = arrays()
    with tileprof.device(device):
        tileprof.compile(normalized())(*given)
    check(given, wanted)


def test_a_barrier_ends_one_launch_and_begins_another() -> None:
    """So a GPU needs no room for all blocks at once; scalars are computed again."""
    kernel = tileprof.compile(normalized()).program.kernel
    launches = [o for o in kernel.ops() if isinstance(o, ir.Launch)]
    assert len(launches) == 3
    assert not any(isinstance(o, ir.Annotate) for o in kernel.ops())
    program = compile_cuda(kernel, TARGETS["sm_90a"])
    given, wanted = arrays()
    emulate(program.source, program.kernel, given, seed=2)
    check(given, wanted)


def keeping() -> Any:
    """Buffers of every kind that are used on both sides of two barriers."""

    @T.prim_func
    def keeping(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")) -> None:
        with T.Kernel(4, threads=64) as block:
            tx = T.get_thread_binding()
            shared = T.alloc_shared((64,), "int32")
            tile = T.alloc_fragment((8, 8), "int32")
            mine, total = T.alloc_local((2,), "int32"), T.alloc_var("int32", 3)
            for i, j in T.Parallel(8, 8):
                tile[i, j] = i * 10 + j
            shared[tx] = A[block, tx]
            mine[0] = tx
            mine[1] = A[block, 63 - tx]
            B[block, tx] = shared[tx] + mine[1]
            total = total + block
            T.sync_grid()
            total = total + B[(block + 1) % 4, 0]
            mine[0] = mine[0] + B[(block + 3) % 4, tx]
            T.sync_grid()
            for i, j in T.Parallel(8, 8):
                B[block, i * 8 + j] = tile[i, j] + total
            B[block, tx] = B[block, tx] * 1000 + shared[tx] + mine[0] * mine[1]

    return keeping


@pytest.mark.spread(without=["sm_90a"])
@pytest.mark.parametrize("device", ["interpreter", "cpu", "sm_90a"])
def test_a_block_keeps_what_is_on_the_chip(device: str) -> None:
    """Tiles, shared memory, what each thread has, and a variable."""
    a = np.random.default_rng(4).integers(0, 9, (4, 64)).astype("i4")
    first = a + a[:, ::-1]
    total = 3 + np.arange(4) + np.roll(first, -1, 0)[:, 0]
    tile = (np.arange(8)[:, None] * 10 + np.arange(8)).reshape(-1)
    mine = np.arange(64) + np.roll(first, 1, 0)
    wanted = (tile + total[:, None]) * 1000 + a + mine * a[:, ::-1]
    made = np.zeros_like(a)
    kernel = tileprof.compile(keeping())
    if device == "sm_90a":
        program = compile_cuda(kernel.program.kernel, find_target(device))
        kinds = [p.type for p in program.kernel.params[2:] if isinstance(p.type, ir.BufferType)]
        kept = [np.zeros(kind.static_shape, kind.dtype.to_numpy()) for kind in kinds]
        emulate(program.source, program.kernel, [a, made, *kept], seed=2)
    else:
        with tileprof.device(device):
            kernel(a, made)
    np.testing.assert_array_equal(made, wanted)


def mistaken(way: str) -> Any:
    """A kernel that cannot meet at its barrier, or keeps what a block loses there."""

    @T.prim_func
    def mistaken(A: T.Tensor((4, 32), "float32")) -> None:
        with T.Kernel(4, threads=32) as block:
            tile = T.alloc_shared((32,), "float32")
            shown = A[block, 0] if block > 1 else A[block, 1]
            if way == "loop":
                for _ in T.serial(2):
                    T.sync_grid()
            if way == "branch" and block > 1:
                T.sync_grid()
            T.copy(A[block, 0], tile)
            T.sync_grid()
            if way == "part":
                A[block, 1] = shown

    return mistaken


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("loop", "stands inside of a loop"),
        ("branch", "stands inside of a loop, a branch"),
        ("part", "is read from memory that the kernel writes before"),
    ],
)
def test_what_a_block_cannot_keep_is_refused(way: str, words: str) -> None:
    """With a way out."""
    with pytest.raises(KernelError) as caught:
        tileprof.compile(mistaken(way))
    assert words in caught.value.message
    assert caught.value.hint
    assert caught.value.location


def test_plain_python_has_no_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks run one after the other there."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    given, _ = arrays()
    with tileprof.device("interpreter"), pytest.raises(TileprofError, match="plain Python"):
        tileprof.compile(normalized())(*given)
