"""Reducers: accumulators that the points of a loop update."""

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
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.errors import DeviceAssertError, KernelError, ShapeError, TileprofError

RNG = np.random.default_rng(0)


def gemv(M: int = 40, N: int = 64) -> Any:
    """A matrix times a vector, by blocks of columns, and the largest product of each row."""

    @T.prim_func
    def gemv(
        A: T.Tensor((M, N), "float16"),
        x: T.Tensor((N,), "float16"),
        y: T.Tensor((M,), "float32"),
        high: T.Tensor((M,), "float32"),
    ) -> None:
        with T.Kernel(T.ceildiv(M, 32), threads=64) as block:
            total = T.alloc_reducer(32, "float32", replication="all")
            most = T.alloc_reducer((32,), "float32", op="max")
            T.clear(total)
            T.reducer_init(most)
            a = T.alloc_shared((32, 32), "float16")
            v = T.alloc_fragment(32, "float16")
            for k in T.Pipelined(N // 32, num_stages=2):
                T.copy(A[block * 32, k * 32], a)
                T.copy(x[k * 32], v)
                for i, j in T.Parallel(32, 32):
                    product = T.cast(a[i, j], "float32") * v[j]
                    total[i] += product
                    T.reducer_update(most[i], product)
            T.finalize_reducer(total)
            T.copy(total, y[block * 32])
            found = T.alloc_fragment((32,), "float32")
            T.finalize_reducer(most, found)
            T.copy(found, high[block * 32])

    return gemv


def chosen() -> Any:
    """Updates under conditions, in serial loops, and of a whole tile into one element."""

    @T.prim_func
    def chosen(
        A: T.Tensor((24, 40), "int32"),
        columns: T.Tensor((40,), "int32"),
        bits: T.Tensor((1,), "int32"),
        least: T.Tensor((40, 24), "int32"),
    ) -> None:
        with T.Kernel(1, threads=32):
            count = T.alloc_reducer((40,), "int32")
            mask = T.alloc_reducer((1,), "int32", "bitor")
            low = T.alloc_reducer((40, 24), "int32", "min")
            T.reducer_init(count, 5)
            T.reducer_init(mask)
            T.reducer_init(low, 3)
            for i, j in T.Parallel(24, 40):
                if A[i, j] > 0:
                    count[j] += 1
                else:
                    for k in T.serial(2):
                        count[j] = k + count[j]
                mask[0] |= A[i, j]
                low[j, i] = T.min(low[j, i], A[i, j])
            T.copy(count, columns)
            T.copy(mask, bits)
            T.copy(low, least)

    return chosen


def binned() -> Any:
    """Points that choose their element: a histogram, and rows of unequal parts."""

    @T.prim_func
    def binned(
        A: T.Tensor((20, 24), "int32"),
        bins: T.Tensor((5,), "int32"),
        parts: T.Tensor((20, 3), "int32"),
    ) -> None:
        with T.Kernel(1, threads=64):
            count = T.alloc_reducer((5,), "int32")
            most = T.alloc_reducer((20, 3), "int32", "max")
            T.reducer_init(count)
            T.reducer_init(most)
            for i, j in T.Parallel(20, 24):
                if A[i, j] >= 0:
                    count[A[i, j] % 5] += A[i, j]
                most[i, T.min(2, j // 7)] = T.max(most[i, T.min(2, j // 7)], A[i, j])
            T.copy(count, bins)
            T.copy(most, parts)

    return binned


def gemv_arrays() -> tuple[list[Any], list[Any]]:
    """Arguments, and what the last two are afterwards."""
    a, x = RNG.standard_normal((40, 64)).astype("f2"), RNG.standard_normal(64).astype("f2")
    products = a.astype("f4") * x.astype("f4")
    return [a, x, np.zeros(40, "f4"), np.zeros(40, "f4")], [products.sum(1), products.max(1)]


def chosen_arrays() -> tuple[list[Any], list[Any]]:
    """Arguments, and what the last three are afterwards."""
    a = RNG.integers(-9, 10, (24, 40)).astype("i4")
    columns = 5 + (a > 0).sum(0) + (a <= 0).sum(0)
    bits = np.bitwise_or.reduce(a.reshape(-1))[None]
    made = [np.zeros(40, "i4"), np.zeros(1, "i4"), np.zeros((40, 24), "i4")]
    return [a, *made], [columns, bits, np.minimum(a.T, 3)]


def binned_arrays() -> tuple[list[Any], list[Any]]:
    """Arguments, and what the last two are afterwards."""
    a = RNG.integers(-9, 99, (20, 24)).astype("i4")
    bins = [a[(a >= 0) & (a % 5 == n)].sum() for n in range(5)]
    parts = np.stack([a[:, :7].max(1), a[:, 7:14].max(1), a[:, 14:].max(1)], 1)
    return [a, np.zeros(5, "i4"), np.zeros((20, 3), "i4")], [np.array(bins), parts]


CASES = {
    "binned": (binned(), binned_arrays),
    "gemv": (gemv(), gemv_arrays),
    "chosen": (chosen(), chosen_arrays),
}


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_points_update_reducers(name: str, device: str) -> None:
    """What each point contributes is combined once, on every device of the host."""
    function, arrays = CASES[name]
    given, wanted = arrays()
    with tileprof.device(device):
        tileprof.compile(function)(*given)
    for found, want in zip(given[-len(wanted) :], wanted):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.spread(without=["gemv"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_run_as_python_updates_reducers(name: str, monkeypatch: Any) -> None:
    """Points run one after the other; an element can be looked at between."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    function, arrays = CASES[name]
    given, wanted = arrays()
    with tileprof.device("interpreter"):
        tileprof.compile(function)(*given)
    for found, want in zip(given[-len(wanted) :], wanted):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


@pytest.mark.spread("binned-sm_90a", "gemv-sm_80", "chosen-sm_90a")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_threads_combine_what_their_points_have(name: str, target: str) -> None:
    """On an emulated GPU."""
    function, arrays = CASES[name]
    given, wanted = arrays()
    program = compile_cuda(tileprof.compile(function).program.kernel, TARGETS[target])
    emulate(program.source, program.kernel, given, seed=1)
    for found, want in zip(given[-len(wanted) :], wanted):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_an_update_is_a_reduction_after_the_loop() -> None:
    """The loop writes a tile of products; sums over columns go into the reducer."""
    kernel = tileprof.compile(gemv()).program.kernel
    reduced = [o for o in kernel.ops() if isinstance(o, ir.Reduce)]
    assert [(o.kind, o.dim, o.clear) for o in reduced] == [("sum", 1, False), ("max", 1, False)]


def mistaken(update: Any) -> Any:
    """A kernel that uses a reducer in a loop by `update`."""

    @T.prim_func
    def mistaken(A: T.Tensor((8, 8), "float32"), y: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((8,), "float32")
            plain = T.alloc_fragment((8,), "float32")
            T.clear(acc)
            for i, j in T.Parallel(8, 8):
                update(acc, plain, A, i, j)
            T.copy(acc, y)

    return mistaken


def _set(acc: Any, plain: Any, A: Any, i: Any, j: Any) -> None:
    acc[i] = A[i, j]


def _product(acc: Any, plain: Any, A: Any, i: Any, j: Any) -> None:
    acc[i] *= A[i, j]


def _read(acc: Any, plain: Any, A: Any, i: Any, j: Any) -> None:
    acc[i] += A[i, j]
    A[i, j] = acc[i]


def _other(acc: Any, plain: Any, A: Any, i: Any, j: Any) -> None:
    T.reducer_update(plain[i], A[i, j])


@pytest.mark.parametrize(
    ("update", "error", "words"),
    [
        (_set, KernelError, "does not update its element"),
        (_product, KernelError, "does not update its element"),
        (_read, KernelError, "is read in the loop that updates it"),
        (_other, KernelError, "takes a reducer"),
    ],
)
def test_what_is_no_update_is_refused(update: Any, error: type[TileprofError], words: str) -> None:
    """With the reason and a way out."""
    with pytest.raises(error, match=words) as caught:
        tileprof.compile(mistaken(update))
    assert caught.value.hint


def test_an_index_that_chooses_between_many_elements_is_refused() -> None:
    """Each point would have as many contributions; the hint names what does better."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")) -> None:
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((64,), "int32")
            T.reducer_init(acc)
            for i in T.Parallel(64):
                acc[A[i]] += 1

    with pytest.raises(ShapeError, match="does not go over its 64 elements") as caught:
        tileprof.compile(kernel)
    assert "T.atomic_add" in (caught.value.hint or "")


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_an_index_outside_of_the_reducer_stops_the_launch(device: str) -> None:
    """Its update is not left out without a word."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")) -> None:
        with T.Kernel(1, threads=32):
            acc = T.alloc_reducer((4,), "int32")
            T.reducer_init(acc)
            for i in T.Parallel(8):
                acc[A[i]] += 1
            T.copy(acc, A[0:4])

    compiled = tileprof.compile(kernel)
    with tileprof.device(device):
        compiled(made := np.array([0, 1, 2, 3, 3, 2, 1, 1], "i4"))
        assert made[:4].tolist() == [1, 3, 2, 2]
        for wrong in (4, -1):
            given = np.array([0, 1, 2, wrong, 3, 2, 1, 0], "i4")
            with pytest.raises(DeviceAssertError, match="index 0 of the reducer `acc` is outside"):
                compiled(given)


def test_an_index_that_is_always_inside_is_not_checked() -> None:
    """A remainder, and a minimum of what is not negative."""
    program = compile_cuda(tileprof.compile(binned()).program.kernel, TARGETS["sm_90a"])
    assert "outside of 0" not in program.source.text


def test_an_unknown_reducer_is_refused() -> None:
    """The names of all others are in the hint."""

    @T.prim_func
    def kernel(y: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.clear(T.alloc_reducer((8,), "float32", op="mean"))

    with pytest.raises(KernelError, match="no reducer 'mean'") as caught:
        tileprof.compile(kernel)
    assert "bitxor" in (caught.value.hint or "")
