"""Loops over elements that gather a tile in a pipelined loop: they run ahead by cp.async."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import EmulationError, Watch, emulate
from tileprof.remarks.copies import CpAsync
from tileprof.remarks.layouts import LoadedAhead
from tileprof.remarks.loops import RunsAhead

ROWS, COLUMNS, BLOCK = 96, 64, 32


def _compiled(program: Any, target: str) -> tuple[Any, CudaProgram]:
    kernel = tileprof.compile(program).program.kernel
    made = compile_cuda(kernel, TARGETS[target])
    ir.verify(made.kernel)
    return kernel, made


def _copied(made: CudaProgram) -> dict[str, int]:
    """Bytes of each cp.async by what it copies."""
    found = {r.name: r.decision for r in made.remarks}
    return {name: d.width for name, d in found.items() if isinstance(d, CpAsync)}


def _refilled(made: CudaProgram) -> list[bool]:
    return [r.decision.refilled for r in made.remarks if isinstance(r.decision, RunsAhead)]


def _ahead(made: CudaProgram) -> list[str]:
    """Tensors whose elements are loaded an iteration before addresses are computed with them."""
    return [r.name for r in made.remarks if isinstance(r.decision, LoadedAhead)]


def _stages(made: CudaProgram) -> list[int]:
    return [r.decision.stages for r in made.remarks if isinstance(r.decision, RunsAhead)]


@T.prim_func
def _attended(
    Q: T.Tensor((64, COLUMNS), "float16"),
    KV: T.Tensor((ROWS, COLUMNS), "float16"),
    Scale: T.Tensor((ROWS,), "float32"),
    At: T.Tensor((4 * BLOCK,), "int32"),
    Out: T.Tensor((64, COLUMNS), "float32"),
) -> None:
    with T.Kernel(1, threads=128):
        q = T.alloc_shared((64, COLUMNS), "float16")
        kv = T.alloc_shared((BLOCK, COLUMNS), "float16")
        scale = T.alloc_shared((BLOCK,), "float32")
        s = T.alloc_fragment((64, BLOCK), "float32")
        p = T.alloc_fragment((64, BLOCK), "float16")
        o = T.alloc_fragment((64, COLUMNS), "float32")
        T.copy(Q, q)
        T.clear(o)
        for k in T.Pipelined(4, num_stages=2):
            for i, j in T.Parallel(BLOCK, COLUMNS):
                row = At[k * BLOCK + i]
                kv[i, j] = KV[row, j]
            for i in T.Parallel(BLOCK):
                scale[i] = Scale[At[k * BLOCK + i]]
            T.gemm(q, kv, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, BLOCK):
                p[i, j] = s[i, j] * scale[j]
            T.gemm(p, kv, o)
        T.copy(o, Out)


@pytest.mark.spread("sm_90a")
@pytest.mark.parametrize("target", TARGETS)
def test_gathered_rows_run_ahead(target: str) -> None:
    """Rows beyond the tensor read as zeros, as those of a load do."""
    kernel, made = _compiled(_attended, target)
    assert _copied(made) == {"Q → q": 16, "KV → kv": 16, "Scale → scale": 4}
    assert _stages(made) == [2]
    random = np.random.default_rng(0)
    q = random.integers(-2, 3, (64, COLUMNS)).astype(np.float16)
    kv = random.integers(-2, 3, (ROWS, COLUMNS)).astype(np.float16)
    scale = random.integers(-1, 2, ROWS).astype(np.float32)
    at = random.integers(0, ROWS + 8, 4 * BLOCK).astype(np.int32)
    o = np.zeros((64, COLUMNS), np.float32)
    emulate(made.source, kernel, [q, kv, scale, at, o])
    padded = np.vstack([kv, np.zeros((8, COLUMNS), np.float16)]).astype(np.float32)[at]
    factors = np.append(scale, np.zeros(8, np.float32))[at]
    np.testing.assert_array_equal(o, (q.astype(np.float32) @ padded.T * factors) @ padded)


def _summed(rows: int, stages: int, written: bool = False, offset: int = 0) -> Any:
    @T.prim_func
    def summed(
        X: T.Tensor((512, 136), "float32"),
        At: T.Tensor((4 * rows,), "int32"),
        Y: T.Tensor((rows, 128), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((rows, 128), "float32")
            y = T.alloc_fragment((rows, 128), "float32")
            T.clear(y)
            for k in T.Pipelined(4, num_stages=stages):
                for i, j in T.Parallel(rows, 128):
                    x[i, j] = X[At[k * rows + i], j + offset]
                for i, j in T.Parallel(rows, 128):
                    y[i, j] += x[i, j]
                if written:
                    for j in T.Parallel(128):
                        X[k, j] = y[0, j]
            T.copy(y, Y)

    return summed


@pytest.mark.spread(without=["16-2-False-2-8-2"])
@pytest.mark.parametrize(
    ("rows", "stages", "written", "offset", "width", "ahead"),
    [
        (16, 3, False, 4, 16, 3),
        (16, 2, False, 2, 8, 2),
        (16, 2, False, 1, 4, 2),
        # Three slots of 96 KB each are more than a block has.
        (192, 3, False, 0, 16, 2),
        (320, 2, False, 0, 0, 0),
        (16, 2, True, 0, 0, 0),
    ],
)
def test_as_wide_and_as_far_ahead_as_it_may(
    rows: int, stages: int, written: bool, offset: int, width: int, ahead: int
) -> None:
    """Widths follow from alignment and stages from memory; what the loop writes is read in its
    turn."""
    kernel, made = _compiled(_summed(rows, stages, written, offset), "sm_90a")
    assert _copied(made).get("X → x", 0) == width
    assert _stages(made) == ([ahead] if ahead else [])
    if rows > 16 or written:
        return
    x = np.arange(512 * 136, dtype=np.float32).reshape(512, 136) % 8191
    at = np.random.default_rng(rows).integers(0, 512, 4 * rows).astype(np.int32)
    y = np.zeros((rows, 128), np.float32)
    emulate(made.source, kernel, [x, at, y])
    np.testing.assert_array_equal(y, x[at, offset : offset + 128].reshape(4, rows, 128).sum(0))


def _batched() -> Any:
    batch, length = T.dynamic("batch"), T.dynamic("length")

    @T.prim_func
    def batched(
        X: T.Tensor((batch, length, 1, 72), "float16"),
        At: T.Tensor((batch, 4 * BLOCK), "int32"),
        Y: T.Tensor((batch, BLOCK, 64), "float32"),
    ) -> None:
        with T.Kernel(batch, threads=128) as b:
            x = T.alloc_shared((BLOCK, 64), "float16")
            y = T.alloc_fragment((BLOCK, 64), "float32")
            T.clear(y)
            for k in T.Pipelined(4, num_stages=2):
                for i, j in T.Parallel(BLOCK, 64):
                    x[i, j] = X[b, At[b, k * BLOCK + i], 0, j + 8]
                for i, j in T.Parallel(BLOCK, 64):
                    y[i, j] += x[BLOCK - 1 - i, j]
            T.copy(y, Y[b, :, :])

    return batched


def test_rows_of_a_batch_whose_length_is_known_at_launch() -> None:
    """Any number of rows of 144 bytes keeps the next matrix at a multiple of 16 bytes: nothing is
    left to look at when the kernel runs."""
    kernel, made = _compiled(_batched(), "sm_90a")
    assert _copied(made) == {"X → x": 16}
    assert _stages(made) == [2]
    assert "length) % " not in made.source.text
    x = np.arange(3 * 50 * 72, dtype=np.int32).reshape(3, 50, 1, 72) % 61
    at = np.random.default_rng(1).integers(0, 54, (3, 4 * BLOCK)).astype(np.int32)
    y = np.zeros((3, BLOCK, 64), np.float32)
    emulate(made.source, kernel, [x.astype(np.float16), at, y], {"batch": 3, "length": 50})
    padded = np.concatenate([x[:, :, 0, 8:], np.zeros((3, 4, 64), np.int32)], 1)
    rows = np.stack([held[index] for held, index in zip(padded, at, strict=True)])
    np.testing.assert_array_equal(y, rows.reshape(3, 4, BLOCK, 64).sum(1)[:, ::-1])


def _scored(heads: int, columns: int, chunks: int | None, stages: int, table: bool) -> Any:
    """Sums of scores of gathered rows: of `chunks` times 32 of them, or of as many as are given."""
    count = T.dynamic("count") if chunks is None else chunks

    @T.prim_func
    def scored(
        Q: T.Tensor((heads, columns), "float16"),
        KV: T.Tensor((ROWS, columns), "float16"),
        At: T.Tensor((count, BLOCK), "int32"),
        Table: T.Tensor((ROWS,), "int32"),
        Y: T.Tensor((count, BLOCK), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((heads, columns), "float16")
            kv = T.alloc_shared((BLOCK, columns), "float16")
            s = T.alloc_fragment((heads, BLOCK), "float32")
            y = T.alloc_fragment((BLOCK,), "float32")
            T.copy(Q, q)
            for k in T.Pipelined(count, num_stages=stages):
                for i, j in T.Parallel(BLOCK, columns):
                    if table:
                        kv[i, j] = KV[Table[At[k, i]], j]
                    else:
                        kv[i, j] = KV[At[k, i], j]
                T.gemm(q, kv, s, transpose_B=True, clear_accum=True)
                T.reduce_sum(s, y, dim=0)
                T.copy(y, Y[k, :])

    return scored


@pytest.mark.spread(
    "16-64-5-True-3-True-2", "16-64-0-False-2-False-1", "128-512-3-True-2-False-0"
)  # fmt: skip
@pytest.mark.parametrize(
    ("heads", "columns", "chunks", "known", "stages", "table", "pending"),
    [
        (16, 64, 5, True, 2, False, 1),
        (16, 64, 5, True, 3, True, 2),
        (16, 64, 1, False, 3, False, 2),
        (16, 64, 0, False, 2, False, 1),
        # Products of 1024 cycles hide a load: no thread waits before it asks for the next one.
        (128, 512, 3, True, 2, False, 0),
    ],
)
def test_a_slot_is_loaded_anew_behind_its_last_use(
    heads: int, columns: int, chunks: int, known: bool, stages: int, table: bool, pending: int
) -> None:
    """As many loads are on their way as there are slots where products are short; what addresses
    are computed with was loaded an iteration before."""
    program = _scored(heads, columns, chunks if known else None, stages, table)
    kernel, made = _compiled(program, "sm_90a")
    assert _refilled(made) == [pending > 0]
    assert _ahead(made) == ["Table" if table else "At"]
    loop = made.source.text.partition("for (int k = ")[2]
    assert f"tp_cp_async_wait<{pending}>();" in loop
    random = np.random.default_rng(heads + chunks)
    q = random.integers(-2, 3, (heads, columns)).astype(np.float16)
    kv = random.integers(-2, 3, (ROWS, columns)).astype(np.float16)
    names = random.permutation(ROWS).astype(np.int32)
    at = random.integers(0, ROWS, (chunks, BLOCK)).astype(np.int32)
    y, watch = np.zeros((chunks, BLOCK), np.float32), Watch()
    symbols = {} if known else {"count": chunks}
    emulate(made.source, kernel, [q, kv, at, names, y], symbols, watch=watch)
    rows = kv.astype(np.float32)[names[at] if table else at]
    np.testing.assert_array_equal(y, (rows @ q.astype(np.float32).T).sum(-1))
    assert not watch.found


@T.prim_func
def _blocks(
    X: T.Tensor((128, COLUMNS), "float32"),
    At: T.Tensor((3,), "int32"),
    Y: T.Tensor((BLOCK, COLUMNS), "float32"),
) -> None:
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((BLOCK, COLUMNS), "float32")
        y = T.alloc_fragment((BLOCK, COLUMNS), "float32")
        T.clear(y)
        for k in T.Pipelined(3, num_stages=2):
            T.copy(X[At[k], 0], x)
            for i, j in T.Parallel(BLOCK, COLUMNS):
                y[i, j] += x[i, j]
        T.copy(y, Y)


@pytest.mark.parametrize("first", [64, 112, -16])
def test_a_tile_that_begins_before_its_tensor_is_noted(first: int) -> None:
    """What is behind the tensor reads as zeros, as it does elsewhere; a negative index is an
    error, and nothing before the tensor is read."""
    kernel, made = _compiled(_blocks, "sm_80")
    assert _stages(made) == [2]
    x = np.arange(128 * COLUMNS, dtype=np.float32).reshape(128, COLUMNS)
    at, y = np.array([0, first, 32], np.int32), np.zeros((BLOCK, COLUMNS), np.float32)
    if first < 0:
        with pytest.raises(EmulationError, match="noted"):
            emulate(made.source, kernel, [x, at, y])
        return
    emulate(made.source, kernel, [x, at, y])
    padded = np.vstack([x, np.zeros((BLOCK, COLUMNS), np.float32)])
    np.testing.assert_array_equal(y, sum(padded[a : a + BLOCK] for a in at))


@T.prim_func
def _shifted_rows(
    X: T.Tensor((32, 64), "float16"),
    W: T.Tensor((64, 32), "float16"),
    Out: T.Tensor((64, 64), "float32"),
) -> None:
    with T.Kernel(1, threads=128):
        w = T.alloc_shared((64, 32), "float16")
        x = T.alloc_shared((32, 64), "float16")
        o = T.alloc_fragment((64, 64), "float32")
        T.clear(o)
        for shift in T.Pipelined(3, num_stages=2):
            T.copy(W, w)
            for i, j in T.Parallel(32, 64):
                at = j + shift - 1
                x[i, j] = T.if_then_else((at >= 0) & (at < 64), X[i, at], T.cast(0, "float16"))
            T.gemm(w, x, o)
        T.copy(o, Out)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_columns_left_out_may_lie_before_the_first(target: str) -> None:
    """A condition that keeps the last index from being negative still does so without a branch."""
    random = np.random.default_rng(3)
    x, w = (random.integers(-2, 3, shape).astype("f2") for shape in ((32, 64), (64, 32)))
    kernel, made = _compiled(_shifted_rows, target)
    out = np.zeros((64, 64), "f4")
    emulate(made.source, kernel, [x, w, out], {}, seed=1)
    padded = np.pad(x.astype("f4"), ((0, 0), (1, 1)))
    expected = sum(w.astype("f4") @ padded[:, shift : shift + 64] for shift in range(3))
    np.testing.assert_allclose(out, expected)
