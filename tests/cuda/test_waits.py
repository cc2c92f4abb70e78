"""Waits for products of warp groups."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate


def test_a_product_in_flight_is_awaited_before_the_sum_of_another_is_set() -> None:
    """Sums that begin with numbers from elsewhere do not make all products run one by one."""

    @T.prim_func
    def two(
        A: T.Tensor((64, 512), "float16"),
        B: T.Tensor((64, 512), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            T.copy(B[0, 0], b)
            for k in T.serial(8):
                for i, j in T.Parallel(64, 64):
                    s[i, j] = T.if_then_else(i >= j + k, 0.0, -1.0)
                T.gemm(a, b, s, transpose_B=True)
                T.gemm(a, b, c)
            T.copy(c, C)

    made = compile_cuda(tileprof.compile(two).program.kernel, TARGETS["sm_90a"]).kernel
    loops = [o for o in made.ops() if isinstance(o, ir.For)]
    loop = next(o for o in loops if any(isinstance(e, ir.AsyncGemm) for e in ir.walk(o.body)))
    order = [o for o in ir.walk(loop.body) if isinstance(o, ir.Wait | ir.Parallel | ir.AsyncGemm)]
    # The first store into the sums has nothing running beside it.
    first = next(at for at, o in enumerate(order) if isinstance(o, ir.AsyncGemm))
    assert [o.pending for o in order[:first] if isinstance(o, ir.Wait)] == [0]


def test_loops_begin_without_the_products_of_the_loop_before() -> None:
    """A sum that a loop does not go on with is complete before it: else it takes registers there,
    and all products run one by one."""

    @T.prim_func
    def two_loops(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        C: T.Tensor((2, 64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            sums = [T.alloc_fragment((64, 64), "float32") for _ in range(2)]
            T.clear(sums[0])
            T.clear(sums[1])
            for k in T.serial(4):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, sums[0], transpose_B=True)
            for k in T.serial(4):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(b, a, sums[1], transpose_B=True)
            T.copy(sums[0], C[0, 0, 0])
            T.copy(sums[1], C[1, 0, 0])

    made = compile_cuda(tileprof.compile(two_loops).program.kernel, TARGETS["sm_90a"])
    loops = [o for o in made.kernel.ops() if isinstance(o, ir.For)]
    loops = [o for o in loops if any(isinstance(e, ir.AsyncGemm) for e in o.body.ops)]
    assert len(loops) == 2
    for loop in loops:
        sums = {e.c for e in loop.body.ops if isinstance(e, ir.AsyncGemm)}
        waits = [e for e in loop.body.ops if isinstance(e, ir.Wait) and e.queue == "wgmma"]
        assert waits
        assert all(sums.issuperset(w.held) for w in waits)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 256)).astype(np.float16) for _ in range(2))
    c = np.zeros((2, 64, 64), np.float32)
    emulate(made.source, made.kernel, [a, b, c], seed=1)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(c, [want, want.T])


@pytest.mark.spread("product")
@pytest.mark.parametrize("guarded", [True, False], ids=["product", "sums"])
def test_products_run_on_where_branches_decide(guarded: bool) -> None:
    """A product that a condition guards, and sums that a condition sets, do not make all products
    run one by one; results are those of the interpreter."""

    @T.prim_func
    def chosen(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((4, 64, 64), "float16"),
        Mask: T.Tensor((4,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            v = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            half = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            for k in T.serial(4):
                T.copy(B[k, 0, 0], b)
                if Mask[k] != 0:
                    T.fill(s, 1)
                    if guarded:
                        T.gemm(a, b, s, transpose_B=True)
                        T.copy(s, half)
                        T.copy(B[k, 0, 0], v)
                        for i, j in T.Parallel(64, 64):
                            c[i, j] *= 2
                        T.gemm(half, v, c)
                else:
                    T.clear(s)
                if not guarded:
                    T.gemm(a, b, s, transpose_B=True)
                    T.copy(s, half)
                    T.copy(B[k, 0, 0], v)
                    for i, j in T.Parallel(64, 64):
                        c[i, j] *= 2
                    T.gemm(half, v, c)
            T.copy(c, C)

    kernel = tileprof.compile(chosen).program.kernel
    made = compile_cuda(kernel, TARGETS["sm_90a"])
    (branch,) = (o for o in made.kernel.ops() if isinstance(o, ir.If) and o.otherwise.ops)
    loop = next(o for o in made.kernel.ops() if isinstance(o, ir.For) and branch in o.body.ops)
    before = branch.then.ops if guarded else loop.body.ops[: loop.body.ops.index(branch)]
    kinds = [type(o) for o in before if isinstance(o, ir.Wait | ir.AsyncGemm)]
    assert kinds[-1:] == [ir.Wait]
    if importlib.util.find_spec("cuda.bindings") is not None:
        assert [n for n in made.cubin.notes if n.kind == "serialized"] == []
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-1, 2, n).astype(np.float16) for n in ((64, 64), (4, 64, 64)))
    mask = np.array([1, 0, 1, 0], np.int32)
    want = np.zeros((64, 64), np.float32)
    for k in range(4):
        if mask[k] or not guarded:
            s = a.astype(np.float32) @ b[k].T.astype(np.float32) + bool(mask[k])
            want = 2 * want + s @ b[k].astype(np.float32)
    for seed in range(2):
        c = np.zeros((64, 64), np.float32)
        emulate(made.source, made.kernel, [a, b, mask, c], seed=seed)
        np.testing.assert_array_equal(c, want)


def test_threads_are_done_with_a_slot_before_tma_fills_it() -> None:
    """Reads of threads are fenced in front of the release; those of tensor cores are waited for."""

    @T.prim_func
    def added(
        A: T.Tensor((4096, 512), "float16"),
        B: T.Tensor((4096, 512), "float16"),
        R: T.Tensor((4096, 4096), "float16"),
        C: T.Tensor((4096, 4096), "float32"),
    ) -> None:
        with T.Kernel(32, 32, threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            r = T.alloc_shared((128, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(R[by * 128, bx * 128], r)
            T.clear(c)
            for k in T.Pipelined(8, num_stages=4):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                C[by * 128 + i, bx * 128 + j] = c[i, j] + r[i, j]

    made = compile_cuda(tileprof.compile(added).program.kernel, TARGETS["sm_90a"])
    released = [o for o in made.kernel.ops() if isinstance(o, ir.RingRelease)]
    assert sorted((o.lag, o.fence) for o in released) == [(0, True), (1, False), (1, False)]
    text = made.source.text
    assert text.count("tp_fence_async();") == 1
    assert text.index("tp_fence_async();") < text.index("mbarrier_arrive(ring_empty + ")


@pytest.mark.spread("behind it")
@pytest.mark.parametrize("apart", [False, True], ids=["at its end", "behind it"])
def test_products_of_a_loop_that_may_not_run(apart: bool) -> None:
    """No product runs on where ways with and without the loop meet, which would make all products
    run one by one: what the next iteration would wait for at once is awaited at an iteration's end,
    what runs beside its loads behind the loop.  Results are right for any count."""

    @T.prim_func
    def counted(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((4, 64, 64), "float16"),
        Count: T.Tensor((1,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            v = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            half = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.copy(A[0, 0], a)
            for k in T.serial(Count[0]):
                T.copy(B[k, 0, 0], b)
                if apart:
                    T.copy(B[k, 0, 0], v)
                T.clear(s)
                T.gemm(a, b, s, transpose_B=True)
                T.copy(s, half)
                T.gemm(half, v if apart else b, c)
            T.copy(c, C)

    kernel = tileprof.compile(counted).program.kernel
    made = compile_cuda(kernel, TARGETS["sm_90a"])
    (loop,) = (o for o in made.kernel.ops() if isinstance(o, ir.For))
    kinds = [type(o) for o in loop.body.ops if isinstance(o, ir.Wait | ir.AsyncGemm)]
    around = [o for o in made.kernel.ops() if isinstance(o, ir.If) and loop in o.then.ops]
    if apart:
        (branch,) = around
        assert kinds[-1] is ir.AsyncGemm
        assert isinstance(branch.then.ops[-1], ir.Wait)
    else:
        assert not around
        assert kinds == [ir.AsyncGemm, ir.Wait, ir.AsyncGemm, ir.Wait]
    if importlib.util.find_spec("cuda.bindings") is not None:
        assert [n for n in made.cubin.notes if n.kind == "serialized"] == []
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-1, 2, n).astype(np.float16) for n in ((64, 64), (4, 64, 64)))
    for count in (0, 3):
        c = np.ones((64, 64), np.float32)
        emulate(made.source, made.kernel, [a, b, np.array([count], np.int32), c])
        parts = [(a.astype(np.float32) @ x.T) @ x for x in b.astype(np.float32)[:count]]
        np.testing.assert_array_equal(c, sum(parts, np.zeros((64, 64), np.float32)))
