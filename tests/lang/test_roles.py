"""Roles with loops of their own are one program, in an order that their barriers allow."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201, ANN202
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for
from tests.lang.checks import refused_in_place, same_everywhere
from tests.spread import examples
from tileprof.errors import KernelError

RNG = np.random.default_rng(11)

same = partial(same_everywhere, debug=False)
"""Compare every device's outputs; a kernel of threads does not run as plain Python."""


def said_by_compiler(kernel: Any) -> str:
    """Return the remarks on a kernel that is compiled for a GPU with warp groups."""
    remarks = compiled_for(kernel.program.kernel, "sm_90a", None, {}).remarks
    return "\n".join(map(str, remarks))


@tileprof.jit
def product(A, B, slots: int = 2, tile: int = 32, cases: bool = False, load_last: bool = False):
    """One group loads and one multiplies, each in a loop of its own; slots are numbered, or there
    is a case for each of them."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        a = T.alloc_shared((slots, 64, tile), T.float16)
        b = T.alloc_shared((slots, tile, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        full, free = T.alloc_barrier([128] * slots), T.alloc_barrier([128] * slots)
        loads = T.alloc_var(T.int32, 0)
        done = T.alloc_var(T.int32, 0)
        tx = T.get_thread_binding()
        loader = tx >= 128 if load_last else tx < 128

        @T.macro
        def load(k, s, phase):
            T.barrier_wait(free[s], phase ^ 1)
            T.tma_copy(A[by * 64, k * tile], a[s, :, :], barrier=full[s])
            T.tma_copy(B[k * tile, bx * 64], b[s, :, :], barrier=full[s])
            T.barrier_arrive(full[s])

        @T.macro
        def multiply(k, s, phase):
            T.barrier_wait(full[s], phase)
            T.wgmma_gemm(a[s, :, :], b[s, :, :], c, clear_accum=k == 0)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(c, num_regs=32)
            T.barrier_arrive(free[s])

        if loader:
            T.dec_max_nreg(24)
            for k in T.serial(T.ceildiv(K, tile)):
                if cases:
                    slot = loads % slots
                    for s in range(slots):
                        if slot == s:
                            load(k, s, loads // slots % 2)
                else:
                    load(k, loads % slots, loads // slots & 1)
                loads = loads + 1
        else:
            T.inc_max_nreg(240)
            for k in T.serial(T.ceildiv(K, tile)):
                if cases:
                    slot = done % slots
                    for s in range(slots):
                        if slot == s:
                            multiply(k, s, done // slots % 2)
                else:
                    multiply(k, done % slots, done // slots & 1)
                done = done + 1
            T.copy(c, C[by * 64, bx * 64])
    return C


@pytest.mark.spread(without=["1-False-False"])
@pytest.mark.parametrize(
    ("slots", "cases", "load_last"), [(1, False, False), (3, True, False), (2, False, True)]
)
def test_loops_of_two_roles_run_together(slots: int, cases: bool, load_last: bool) -> None:
    """The product is right, and is compiled to what one pipelined loop is compiled to."""
    a, b = (RNG.integers(-3, 4, s).astype("f2") for s in ((96, 128), (128, 64)))
    options: Any = {"slots": slots, "cases": cases, "load_last": load_last}
    same(product, [a, b], a.astype("f4") @ b.astype("f4"), **options)
    said = said_by_compiler(product.compile(M=512, N=512, K=512, **options))
    assert "tma, issued by the producer warp group" in said
    assert "wgmma" in said


@tileprof.jit
def chosen(A, which):
    """One group loads rows, each thread of the other adds an element that its number chooses."""
    R = T.const("R")
    A: T.Tensor((R, 128), T.float32)
    which: T.Tensor((128,), T.int32)
    B = T.empty((128,), T.float32)
    with T.Kernel(1, threads=256):
        rows = T.alloc_shared((2, 128), T.float32)
        total = T.alloc_local((1,), T.float32)
        full, free = T.alloc_barrier([128] * 2), T.alloc_barrier([128] * 2)
        tx = T.get_thread_binding()
        if tx < 128:
            for k in T.serial(R):
                T.barrier_wait(free[k % 2], k // 2 & 1 ^ 1)
                T.tma_copy(A[k, 0:128], rows[k % 2, :], barrier=full[k % 2])
                T.barrier_arrive(full[k % 2])
        else:
            total[0] = 0
            for k in T.serial(R):
                T.barrier_wait(full[k % 2], k // 2 & 1)
                at = which[tx - 128]
                total[0] += T.if_then_else(at >= 0, rows[k % 2, at], 1)
                T.barrier_arrive(free[k % 2])
            B[tx - 128] = total[0]
    return B


def test_threads_of_a_role_choose_what_they_read() -> None:
    """What is not chosen is not read: its index may be outside."""
    rows = RNG.integers(-9, 9, (5, 128)).astype("f4")
    which = RNG.integers(-3, 128, 128).astype("i4")
    expected = np.where(which >= 0, rows[:, which].sum(0), 5)
    same(chosen, [rows, which], expected.astype("f4"))


@tileprof.jit
def halves(A, B):
    """One group loads, two multiply the halves of a tile, each with a fragment of one name."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 128), threads=384) as (bx, by):
        top, low = T.alloc_shared((2, 64, 32), T.float16), T.alloc_shared((2, 64, 32), T.float16)
        b = T.alloc_shared((2, 32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        full, free = T.alloc_barrier([128] * 2), T.alloc_barrier([256] * 2)
        tx = T.get_thread_binding()

        @T.macro
        def multiply(a, row):
            for k in T.serial(K // 32):
                T.barrier_wait(full[k % 2], k // 2 & 1)
                T.wgmma_gemm(a[k % 2, :, :], b[k % 2, :, :], c, clear_accum=k == 0)
                T.barrier_arrive(free[k % 2])
            T.sync_threads(barrier_id=4, arrive_count=128)
            T.copy(c, C[by * 128 + row, bx * 64])

        if tx < 128:
            for k in T.serial(K // 32):
                T.barrier_wait(free[k % 2], (k // 2 & 1) ^ 1)
                T.tma_copy(A[by * 128, k * 32], top[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(A[by * 128 + 64, k * 32], low[k % 2, :, :], barrier=full[k % 2])
                T.tma_copy(B[k * 32, bx * 64], b[k % 2, :, :], barrier=full[k % 2])
                T.barrier_arrive(full[k % 2])
        elif tx < 256:
            multiply(top, 0)
        else:
            multiply(low, 64)
    return C


def test_two_roles_multiply_what_one_loads() -> None:
    """A fragment is each role's own, and the work goes to as many groups as multiply."""
    a, b = (RNG.integers(-3, 4, s).astype("f2") for s in ((128, 96), (96, 64)))
    same(halves, [a, b], a.astype("f4") @ b.astype("f4"))
    said = said_by_compiler(halves.compile(M=512, N=512, K=512))
    assert "tma, issued by the producer warp group" in said
    assert "do the same work" not in said


@tileprof.jit
def waves(A, counts, slots: int = 2, steps: int = 3, flags: bool = True):
    """Each block goes over tiles; how many there are is data.  One group loads a tile for each of
    the others, and every role has variables of its own that it shares the names of."""
    A: T.Tensor((8, steps, 64), T.int32)
    counts: T.Tensor((1,), T.int32)
    out = T.empty((8, 64), T.int32)
    with T.Kernel(2, threads=384) as block:
        first, second = T.alloc_shared((slots, 64), T.int32), T.alloc_shared((slots, 64), T.int32)
        total = T.alloc_shared((1,), T.int32)
        acc = T.alloc_fragment((64,), T.int32)
        place, valid = T.alloc_local((1,), T.int32), T.alloc_local((2,), T.int32)
        full0, free0 = T.alloc_barrier([128] * slots), T.alloc_barrier([128] * slots)
        full1, free1 = T.alloc_barrier([128] * slots), T.alloc_barrier([128] * slots)
        loaded0, loaded1 = T.alloc_var(T.int32, 0), T.alloc_var(T.int32, 0)
        used = T.alloc_local((1,), T.int32)
        used[0] = 0
        tx = T.get_thread_binding()
        T.clear(out[block * 4 : block * 4 + 4, :])

        @T.macro
        def consume(w, number, buffer, full, free):
            at = w * 2 + number
            if at < total[0]:
                place[0] = block * 4 + at
                T.clear(acc)
                for k in T.serial(steps):
                    s = used[0] % slots
                    T.barrier_wait(full[s], used[0] // slots & 1)
                    for i in T.Parallel(64):
                        acc[i] += buffer[s, i] * (k + 1)
                    T.barrier_arrive(free[s])
                    used[0] = used[0] + 1
                T.copy(acc, out[place[0], :])
                if tx % 128 == 5:
                    out[place[0], 63] = place[0] + 1000

        if tx < 128:
            if tx == 0:
                total[0] = counts[0]
            T.sync_threads()
            for w in T.serial(2):
                place[0] = block * 4 + w * 2
                if flags:
                    valid[0] = 0
                    if w * 2 < total[0]:
                        valid[0] = 1
                    else:
                        valid[0] = 0
                    if w * 2 + 1 < total[0]:
                        valid[1] = 1
                    else:
                        valid[1] = 0
                for k in T.serial(steps):
                    if valid[0] != 0 if flags else w * 2 < total[0]:
                        s = loaded0 % slots
                        T.barrier_wait(free0[s], (loaded0 // slots & 1) ^ 1)
                        T.tma_copy(A[block * 4 + w * 2, k, :], first[s, :], barrier=full0[s])
                        T.barrier_arrive(full0[s])
                        loaded0 = loaded0 + 1
                    if valid[1] != 0 if flags else w * 2 + 1 < total[0]:
                        s = loaded1 % slots
                        T.barrier_wait(free1[s], (loaded1 // slots & 1) ^ 1)
                        T.tma_copy(A[block * 4 + w * 2 + 1, k, :], second[s, :], barrier=full1[s])
                        T.barrier_arrive(full1[s])
                        loaded1 = loaded1 + 1
        elif tx < 256:
            T.sync_threads()
            for w in T.serial(2):
                consume(w, 0, first, full0, free0)
        else:
            T.sync_threads()
            for w in T.serial(2):
                consume(w, 1, second, full1, free1)
    return out


def waves_expected(a: Any, count: int) -> Any:
    """Return what `waves` computes."""
    steps = a.shape[1]
    out = np.zeros((8, 64), "i4")
    for block in range(2):
        for at in range(min(count, 4)):
            row = block * 4 + at
            out[row] = (a[row] * np.arange(1, steps + 1)[:, None]).sum(0)
            out[row, 63] = row + 1000
    return out


@pytest.mark.parametrize(("count", "flags"), [(0, True), (3, False)])
def test_roles_that_share_out_tiles(count: int, flags: bool) -> None:
    """Roles come to a loop from inside and outside of a branch, and some tiles are not there."""
    a = RNG.integers(-99, 99, (8, 3, 64)).astype("i4")
    counts = np.array([count], "i4")
    same(waves, [a, counts], waves_expected(a, count), flags=flags)


@settings(max_examples=examples(8), deadline=None)
@given(
    slots=st.integers(1, 4), steps=st.integers(1, 6), count=st.integers(0, 5),
    flags=st.booleans(),
)  # fmt: skip
def test_any_ring_of_any_length(slots: int, steps: int, count: int, flags: bool) -> None:
    """Rings that are longer and shorter than loops, and loops that are cut short to be checked."""
    a = RNG.integers(-99, 99, (8, steps, 64)).astype("i4")
    with tileprof.device("interpreter"):
        made = waves(a, np.array([count], "i4"), slots=slots, steps=steps, flags=flags)
    np.testing.assert_array_equal(made, waves_expected(a, count))


# -- errors


@tileprof.jit
def never_arrives(A):
    """The group that loads waits for a barrier at which none arrives."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=256) as _:
        full, free = T.alloc_barrier(128), T.alloc_barrier(128)
        tile = T.alloc_shared((64,), T.int32)
        tx = T.get_thread_binding()
        if tx < 128:
            for k in T.serial(4):
                T.barrier_wait(free, (k & 1) ^ 1)
                T.tma_copy(A, tile, barrier=full)
                T.barrier_arrive(full)
        else:
            for k in T.serial(4):
                T.barrier_wait(full, k & 1)
                T.copy(tile, A)


@tileprof.jit
def reads_afterwards(A):
    """Each thread has its own count, which differs between roles."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=256) as _:
        full, free = T.alloc_barrier(128), T.alloc_barrier(128)
        tile = T.alloc_shared((64,), T.int32)
        count = T.alloc_var(T.int32, 0)
        tx = T.get_thread_binding()
        if tx < 128:
            for k in T.serial(4):
                T.barrier_wait(free, (k & 1) ^ 1)
                T.tma_copy(A, tile, barrier=full)
                T.barrier_arrive(full)
                count = count + 1
        else:
            for k in T.serial(4):
                T.barrier_wait(full, k & 1)
                T.copy(tile, A)
                T.barrier_arrive(free)
        if tx < 64:
            A[tx] = count


@pytest.mark.parametrize("function", [never_arrives, reads_afterwards])
def test_roles_without_an_order_are_refused(function: Any) -> None:
    """A wait that nobody ends, and a variable whose value depends on the role."""
    message = "a wait for a phase that is not over"
    refused_in_place(function, np.zeros(64, "i4"), KernelError, message, __file__)


# -- what such kernels are written with


@tileprof.jit
def cleared(A, start: int = 0, inner: bool = False, n: int = 3):
    """A product that begins anew in one iteration of a loop, or where a branch is taken."""
    A: T.Tensor((16, 16), T.float32)
    out = T.empty((16, 16), T.float32)
    with T.Kernel(1, threads=128) as _:
        a = T.alloc_shared((16, 16), T.float32)
        c = T.alloc_fragment((16, 16), T.float32)
        T.copy(A, a)
        T.fill(c, 100)
        for k in range(start, n):
            if inner:
                if k % 2 == 1:
                    T.gemm(a, a, c, clear_accum=k == start)
            else:
                T.gemm(a, a, c, clear_accum=k == start)
        T.copy(c, out)
    return out


@pytest.mark.spread("3-False-3-0-1", "0-True-4-2-1")
@pytest.mark.parametrize(
    ("start", "inner", "n", "times", "kept"),
    [(0, False, 3, 3, 0), (2, False, 3, 1, 0), (3, False, 3, 0, 1), (0, True, 4, 2, 1),
     (1, True, 4, 2, 0)],
)  # fmt: skip
def test_a_product_begins_anew(start: int, inner: bool, n: int, times: int, kept: int) -> None:
    """What a tile held is dropped in the iteration that says so, and only there."""
    a = RNG.integers(-2, 3, (16, 16)).astype("f4")
    same_everywhere(cleared, [a], a @ a * times + 100 * kept, start=start, inner=inner, n=n)


@tileprof.jit
def cleared_first(A, B):
    """How many iterations there are is known at launch."""
    n = T.dynamic("n")
    A: T.Tensor((n, 16, 16), T.float32)
    B: T.Tensor((16, 16), T.float32)
    with T.Kernel(1, threads=128) as _:
        a = T.alloc_shared((16, 16), T.float32)
        c = T.alloc_fragment((16, 16), T.float32)
        T.copy(B, c)
        for k in T.Pipelined(n, num_stages=2):
            T.copy(A[k, :, :], a)
            T.gemm(a, a, c, clear_accum=k == 0)
        T.copy(c, B)


@pytest.mark.parametrize("n", [0, 2])
def test_a_loop_without_iterations_clears_nothing(n: int) -> None:
    """The tile is cleared before the loop only where the loop has a first iteration."""
    a = RNG.integers(-2, 3, (n, 16, 16)).astype("f4")
    b = RNG.integers(-2, 3, (16, 16)).astype("f4")
    right = sum((x @ x for x in a), np.zeros((16, 16), "f4")) if n else b.copy()
    for device in ("interpreter", "cpu"):
        held = b.copy()
        with tileprof.device(device):
            cleared_first(a, held)
        np.testing.assert_allclose(held, right, err_msg=device)


@tileprof.jit
def slices(A, write: bool = False):
    """A slice begins where a variable says, and is as long as the numbers in it say."""
    A: T.Tensor((64,), T.int32)
    out = T.empty((16,), T.int32)
    with T.Kernel(1, threads=32) as _:
        at = T.alloc_local((1,), T.int32)
        at[0] = A[0]
        if write:
            begin = at[0]
            at[0] = 3
            T.copy(A[begin : at[0] + 16], out)
        else:
            T.copy(A[at[0] + 4 : at[0] + 20], out)
    return out


def test_a_slice_between_two_reads_of_a_variable() -> None:
    """Both reads give one number where nothing is written in between."""
    a = np.arange(7, 71).astype("i4")
    same(slices, [a], a[11:27])


@tileprof.jit
def parts(A, begin: Callable[[str], Any]):
    """A context manager of Python around operations."""
    A: T.Tensor((16,), T.int32)
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(16):
            A[i] = i
        with begin("twice") as factor:
            for i in T.Parallel(16):
                A[i] = A[i] * factor


def test_context_managers_of_python_work_while_a_kernel_is_traced() -> None:
    """A manager that a function gives is entered and left once, and its value is a number."""
    seen: list[str] = []

    @contextmanager
    def begin(name: str) -> Iterator[int]:
        seen.append(f"{name} begins")
        yield 2
        seen.append(f"{name} ends")

    a = np.zeros(16, "i4")
    with tileprof.device("interpreter"):
        parts(a, begin)
    np.testing.assert_array_equal(a, np.arange(16) * 2)
    assert seen == ["twice begins", "twice ends"]
