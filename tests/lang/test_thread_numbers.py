"""Work of single threads gives, as tile operations, what the threads of a GPU give."""

# mypy: disable-error-code="valid-type, no-redef, no-untyped-def"
# ruff: noqa: ANN001, ANN201
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.everywhere import compiled_for, results_everywhere
from tests.lang.checks import names_of_text, refused_in_place, same_everywhere
from tileprof import ir
from tileprof.errors import KernelError, UnsupportedPython
from tileprof.remarks.layouts import Converted, GlobalAccess

RNG = np.random.default_rng(3)
THREADS = 32


same = partial(same_everywhere, debug=False)
"""Compare every device's outputs; a kernel of threads does not run as plain Python."""


@tileprof.jit
def rows_by_threads(A, B, block: int = 32, step: int = 8):
    """A product of a matrix and a vector: a row for each thread."""
    N, K = T.const("N, K")
    A: T.Tensor((K,), T.float32)
    B: T.Tensor((N, K), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=block) as bn:
        tn = T.get_thread_binding(0)
        vector = T.alloc_shared((step,), T.float32)
        rows = T.alloc_shared((block, step), T.float32)
        total = T.alloc_local((1,), T.float32)
        T.clear(total)
        for bk in T.serial(T.ceildiv(K, step)):
            for k in T.serial(step):
                vector[k] = A[bk * step + k]
                rows[tn, k] = B[bn * block + tn, bk * step + k]
            for k in T.serial(step):
                total[0] += vector[k] * rows[tn, k]
        C[bn * block + tn] = total[0]
    return C


@tileprof.jit
def rows_by_several_threads(A, B, block: int = 8, parts: int = 4, width: int = 4):
    """Threads along two axes: some of a row each, added up in shared memory."""
    N, K = T.const("N, K")
    A: T.Tensor((K,), T.float32)
    B: T.Tensor((N, K), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=(block, parts)) as bn:
        tn, tk, _ = T.get_thread_bindings()
        a = T.alloc_local((width,), T.float32)
        total = T.alloc_local((1,), T.float32)
        sums = T.alloc_shared((block,), T.float32)
        if tk == 0:
            sums[tn] = 0
        T.clear(total)
        for bk in T.serial(T.ceildiv(K, parts * width)):
            first = bk * parts * width + tk * width
            for k in T.vectorized(width):
                a[k] = A[first + k]
            for k in T.serial(width):
                total[0] += a[k] * B[bn * block + tn, first + k]
        T.atomic_add(sums[tn], total[0])
        C[bn * block + tn] = sums[tn]
    return C


@pytest.mark.parametrize("function", [rows_by_threads, rows_by_several_threads])
def test_products_of_a_matrix_and_a_vector(function: Any) -> None:
    """With arrays of each thread, shared memory, and one or two axes of threads."""
    a = RNG.standard_normal(40).astype("f4")
    b = RNG.standard_normal((45, 40)).astype("f4")
    same(function, [a, b], b @ a)


def test_vectorized_loops_of_threads_become_wide_accesses() -> None:
    """What a thread loads in a vectorized loop is one access of 16 bytes."""
    a, b = np.zeros(64, "f4"), np.zeros((16, 64), "f4")
    kernel = rows_by_several_threads.compile(a, b).program.kernel
    program = compiled_for(kernel, "sm_90a", None, {})
    widths = [
        r.decision.width for r in program.remarks
        if isinstance(r.decision, GlobalAccess) and (r.op, r.name) == ("load", "A")
    ]  # fmt: skip
    assert widths == [16]
    assert not [r for r in program.remarks if isinstance(r.decision, Converted)]


@tileprof.jit
def combined(A, B, block: int = 4, parts: int = 8):
    """A row by several threads, which combine their sums and largest elements."""
    N, K = T.const("N, K")
    A: T.Tensor((N, K), T.float32)
    B: T.Tensor((K,), T.float32)
    total = T.empty((N,), T.float32)
    largest = T.empty((N, parts), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=(block, parts)) as bn:
        tn = T.get_thread_binding(0)
        tk = T.get_thread_binding(1)
        held = T.alloc_local((2,), T.float32)
        result = T.alloc_local((1,), T.float32)
        most = T.alloc_local((1,), T.float32)
        held[0] = 0
        held[1] = -T.infinity(T.float32)
        for k in T.serial(K // parts):
            # This differs along one axis only.
            factor = B[k * parts + tk]
            held[0] += A[bn * block + tn, k * parts + tk] * factor
            held[1] = T.max(held[1], A[bn * block + tn, k * parts + tk])
        with T.attr(
            T.comm_reducer(lambda x, y: x + y, [T.cast(0, T.float32)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(
                T.tvm_thread_allreduce(T.uint32(1), held[0], True, result[0], tk, dtype="handle")
            )
        with T.attr(T.comm_reducer(lambda x, y: T.max(x, y), [0]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), held[1], True, most[0], tn, tk))
        total[bn * block + tn] = result[0]
        largest[bn * block + tn, tk] = most[0]
    return total, largest


@tileprof.jit
def combined_by_all(A):
    """All threads of a block, along its only axis."""
    N = T.const("N")
    A: T.Tensor((N, 32), T.int32)
    out = T.empty((N, 32), T.int32)
    with T.Kernel(N, threads=32) as row:
        tx = T.get_thread_binding(0)
        least = T.alloc_local((1,), T.int32)
        with T.attr(T.comm_reducer(lambda x, y: T.min(x, y), [0]), "reduce_scope", 0):
            T.tvm_thread_allreduce(1, A[row, tx], True, least[0], tx)
        out[row, tx] = A[row, tx] - least[0]
    return out


def test_what_all_threads_combine() -> None:
    """Each has the result."""
    a = RNG.integers(-99, 99, (3, 32)).astype("i4")
    same(combined_by_all, [a], a - a.min(1, keepdims=True))


def test_what_threads_combine() -> None:
    """Along one axis and along both; what all threads have is written by any."""
    a, b = RNG.standard_normal((8, 16)).astype("f4"), RNG.standard_normal(16).astype("f4")
    most = np.repeat(a.reshape(2, 64).max(1), 32).reshape(8, 8)
    same(combined, [a, b], a @ b, most)


@tileprof.jit
def masked(A, first, end, step: int = 64):
    """Each thread writes elements of its own, some of them twice."""
    R, W = T.const("R, W")
    A: T.Tensor((R, W), T.float32)
    first: T.Tensor((R,), T.int32)
    end: T.Tensor((R,), T.int32)
    out = T.empty((R, W), T.float32)
    with T.Kernel(R, threads=THREADS) as row:
        tx = T.thread_binding(0, THREADS, thread="threadIdx.x")
        for n in T.Pipelined(T.ceildiv(W, step)):
            for k in T.serial(step // THREADS):
                at = n * step + k * THREADS + tx
                out[row, at] = A[row, at]
                if at < first[row] or at >= end[row]:
                    out[row, at] = -T.infinity(T.float32)
    return out


def test_conditions_on_places_of_threads() -> None:
    """At edges that are inside of a step, and past the end of rows."""
    a = RNG.standard_normal((3, 150)).astype("f4")
    first, end = np.array([0, 33, 149], "i4"), np.array([150, 34, 149], "i4")
    at, right = np.arange(150), a.copy()
    right[(at < first[:, None]) | (at >= end[:, None])] = -np.inf
    same(masked, [a, first, end], right)


@tileprof.jit
def suffix_sums(A, count: int = 16):
    """Some threads hand sums on in a loop inside of a branch, where they wait for each other."""
    B_ = T.const("B_")
    A: T.Tensor((B_, 16), T.int32)
    out = T.empty((B_, 16), T.int32)
    with T.Kernel(B_, threads=THREADS) as row:
        tx = T.get_thread_binding()
        held = T.alloc_shared((count,), T.int32)
        mine = T.alloc_var(T.int32)
        if tx < count:
            held[tx] = A[row, tx]
            for i in T.serial(4):
                far = 1 << i
                T.sync_threads()
                if tx < count - far:
                    mine = held[tx] + held[tx + far]
                T.sync_threads()
                if tx < count - far:
                    held[tx] = mine
            T.sync_threads()
            out[row, tx] = held[count - 1 - tx]
    return out


def test_threads_wait_for_each_other_inside_of_a_branch() -> None:
    """The sums of a step are there before the next."""
    a = RNG.integers(-9, 9, (2, 16)).astype("i4")
    same(suffix_sums, [a], a[:, ::-1].cumsum(1, dtype="i4"))


@tileprof.jit
def compacted(A):
    """An atomic's value from before is the place of a later store; order is not fixed."""
    W = T.const("W")
    A: T.Tensor((W,), T.int32)
    out = T.empty((W,), T.int32)
    found = T.empty((1,), T.int32)
    with T.Kernel(1, threads=THREADS) as _:
        tx = T.get_thread_binding()
        count = T.alloc_shared((1,), T.int32)
        place = T.alloc_var(T.int32)
        count[0] = 0
        for n in T.serial(T.ceildiv(W, THREADS)):
            value = A[n * THREADS + tx]
            if value > 0 and n * THREADS + tx < W:
                place = T.atomic_add(count[0], 1, return_prev=True)
                out[place] = value
        found[0] = count[0]
    return out, found


def test_places_from_atomics() -> None:
    """Every positive element has one place, those before the count."""
    a = RNG.integers(-5, 5, 75).astype("i4")
    right = np.sort(a[a > 0])
    for device, (out, found) in results_everywhere(compacted, [a], debug=False):
        assert found[0] == right.size, device
        assert (np.sort(out[: right.size]) == right).all(), device


@tileprof.jit
def atomics_of_tiles(A, half: int = THREADS // 2):
    """Atomics of threads beside atomics of points, which are done once each."""
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    sums = T.empty((N,), T.int32)
    counts = T.empty((3,), T.int32)
    with T.Kernel(1, threads=THREADS) as _:
        tx = T.get_thread_binding()
        s = T.alloc_shared((N,), T.int32)
        c = T.alloc_shared((3,), T.int32)
        T.clear(s)
        T.clear(c)
        T.atomic_add(c[0], 1)
        if tx < half:
            for i in T.Parallel(N):
                T.atomic_add(s[i], A[i])
        for _k in T.serial(2):
            if tx % 4 == 0:
                T.atomic_add(c[1], 1)
            for i in T.Parallel(N):
                if T.atomic_add(c[2], 1, return_prev=True) < 5:
                    T.atomic_add(s[i % 2], 100)
        T.copy(s, sums)
        T.copy(c, counts)
    return sums, counts


def test_atomics_of_points_are_done_once_beside_numbers_of_threads() -> None:
    """A `T.Parallel` with an atomic is work on a whole tile; only other atomics count threads."""
    a = RNG.integers(-5, 5, 75).astype("i4")
    for device, (sums, counts) in results_everywhere(atomics_of_tiles, [a], debug=False):
        assert counts.tolist() == [THREADS, THREADS // 2, 150], device
        assert (sums[2:] == a[2:]).all(), device
        assert sums[:2].sum() == a[:2].sum() + 500, device


@tileprof.jit
def gathered(A, late: bool = False, twice: bool = False):
    """Threads put the positive ones of four elements each into shared memory."""
    W = T.const("W")
    A: T.Tensor((W,), T.int32)
    out = T.empty((W,), T.int32)
    found = T.empty((1,), T.int32)
    with T.Kernel(1, threads=THREADS) as _:
        tx = T.get_thread_binding()
        count = T.alloc_shared((1,), T.int32)
        kept = T.alloc_shared((W + 1,), T.int32)
        place, before = T.alloc_var(T.int32), T.alloc_var(T.int32)
        T.clear(count)
        T.clear(kept)
        place = W
        for n in T.serial(W // THREADS // 4):
            for j in T.serial(4):
                value = A[n * THREADS * 4 + tx * 4 + j]
                if value > 0:
                    before = place
                    place = T.atomic_add(count[0], 1, return_prev=True)
                    if late:
                        kept[before] = value
                    else:
                        kept[place] = value
                    if twice:
                        kept[0] = kept[0]
        found[0] = count[0]
        for n in T.serial(W // THREADS):
            out[n * THREADS + tx] = kept[n * THREADS + tx]
    return out, found


def test_places_that_a_counter_gives_out_need_no_order() -> None:
    """A loop that stores there alone stays in one piece; at other places it does not."""
    a = RNG.integers(-5, 5, 256).astype("i4")
    right = np.sort(a[a > 0])
    for device, (out, found) in results_everywhere(gathered, [a], debug=False):
        assert found[0] == right.size, device
        assert (np.sort(out[: right.size]) == right).all(), device
    assert _loops_in_points(gathered, a) == 2
    assert _loops_in_points(gathered, a, late=True) == 1
    assert _loops_in_points(gathered, a, twice=True) == 1


def _loops_in_points(function: Any, *arrays: Any, **static: Any) -> int:
    """Count the loops inside of loops over points."""
    ops = function.compile(*arrays, **static).program.kernel.ops()
    points = [o for o in ops if isinstance(o, ir.Parallel)]
    return sum(isinstance(o, ir.For) for p in points for o in ir.walk(p.body))


@tileprof.jit
def taken_apart(A):
    """Roles with operations on whole tiles, and elements beside them."""
    A: T.Tensor((16, 16), T.float32)
    out = T.empty((16, 16), T.float32)
    sums = T.empty((16,), T.float32)
    with T.Kernel(1, threads=64) as _:
        tx = T.get_thread_binding()
        tile = T.alloc_shared((16, 16), T.float32)
        total = T.alloc_fragment((16,), T.float32)
        T.copy(A, tile)
        if tx < 32:
            T.reduce_sum(tile, total, dim=1)
            for i in T.Parallel(16):
                sums[i] = total[i]
            if tx < 16:
                out[tx, 0] = 7
        else:
            for i, j in T.Parallel(16, 15):
                out[i, j + 1] = tile[i, j] * 2
        if tx >= 64:
            T.clear(tile)
            for i in T.Parallel(16):
                sums[i] = 0
    return out, sums


def test_roles_of_warps_with_whole_tiles() -> None:
    """Each role is done once, and one that no thread has is not."""
    a = RNG.standard_normal((16, 16)).astype("f4")
    out = np.concatenate([np.full((16, 1), 7, "f4"), a[:, :15] * 2], 1)
    same(taken_apart, [a], out, a.sum(1))


@tileprof.jit
def sums_of_some_rows(A, n: int = 5):
    """Variables that only some threads begin with, and buffers that only some clear."""
    A: T.Tensor((6, 16), T.float32)
    out = T.empty((8,), T.float32)
    with T.Kernel(2, threads=4) as block:
        row = block * 4 + T.get_thread_binding(0)
        kept = T.alloc_local((2, 3), T.float32)
        T.fill(kept, 1)
        if row < n:
            total = T.alloc_var("float32", init=2.0)
            for k in T.serial(16):
                total = total + A[row, k]
            T.clear(kept)
            kept[1, 2] = total
        out[row] = kept[0, 1] + kept[1, 2]
    return out


def test_variables_begin_in_a_branch_that_some_threads_take() -> None:
    """A branch by more than the number of the thread may allocate and clear."""
    a = RNG.integers(-4, 5, (6, 16)).astype("f4")
    same(sums_of_some_rows, [a], np.concatenate([2 + a[:5].sum(1), np.full(3, 2, "f4")]))


# -- random programs


_KINDS = ("own", "take", "give", "same", "if", "for", "long", "keep", "meet", "new", "clear", "end")
"""Statements of a random program."""


def _draw(
    draw: Callable[[Any], Any], depth: int, count: str = "2", may_end: bool = True
) -> list[str]:
    """Return statements; `count` is the variable of the loop around, in which no thread ends."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        far, times = draw(st.integers(0, 7)), draw(st.integers(1, 3))
        kind = draw(st.sampled_from(_KINDS))
        match kind:
            case "own":
                lines.append(f"x[0] = x[0] * {times} + tx - {count}")
            case "take":
                lines.append(f"x[0] = x[0] + s[(tx + {far}) % 8]")
            case "give":
                lines.append(f"s[(tx + {far}) % 8] = x[0] + {times} * tx")
            case "same":
                lines.append(f"s[{far}] = {times} + {count}")
            case "end" if may_end:
                lines += [f"if (tx + x[0]) % 7 == {times}:", "    T.thread_return()"]
            case "keep":
                lines += [f"y[0] = s[(tx * 3 + {far}) % 8]", "x[0] = y[0] - x[0]"]
            case "new":
                lines += [f"z = T.alloc_var('int32', {far} * tx)", "x[0] = z - x[0]"]
            case "clear":
                lines += ["T.clear(y)", "y[0] = y[0] + x[0]"]
            case "meet":
                lines.append("T.sync_threads()")
            case "if" if depth:
                asked = draw(st.sampled_from(["tx", "x[0]", count]))
                lines.append(f"if {asked} % 3 < {times}:")
                lines += ["    " + line for line in _draw(draw, depth - 1, count, may_end)]
            case "for" | "long" if depth:
                stop = f"tx % {times + 1}" if kind == "long" else times
                lines.append(f"for c{depth} in T.serial({stop}):")
                # Threads that are in different iterations write in any order.
                number = count if kind == "long" else f"c{depth}"
                lines += ["    " + line for line in _draw(draw, depth - 1, number, False)]
    return lines or ["x[0] = tx"]


def _expected(lines: list[str]) -> Any:
    """Run a program for all threads at once, one statement after the other."""
    tx = np.arange(8, dtype="i4")
    state: dict[str, Any] = {"x": tx * 0 + 1, "y": tx * 0, "z": tx, "s": tx * 5, "tx": tx}
    gone = np.zeros(8, bool)

    def run(block: list[str], active: Any) -> None:
        at = 0
        while at < len(block):
            line, end = block[at], at + 1
            while end < len(block) and block[end].startswith("    "):
                end += 1
            inner = [each[4:] for each in block[at + 1 : end]]
            scope = {**state, "x": [state["x"]], "y": [state["y"]]}
            active = active & ~gone
            if line.startswith("if"):
                run(inner, active & (eval(line[3:-1], {}, scope) == 1))
            elif line.startswith("for"):
                stop = np.broadcast_to(eval(line[line.index("(") + 1 : -2], {}, scope), 8)
                for count in range(stop.max()):
                    state[line[4:6]] = count
                    run(inner, active & (count < stop))
            elif line == "T.thread_return()":
                gone[active] = True
            elif line == "T.clear(y)":
                state["y"] = np.where(active, 0, state["y"])
            elif not line.startswith("T."):
                line = line.replace("T.alloc_var('int32', ", "(")
                target, _, value = line.partition(" = ")
                made = np.broadcast_to(eval(value, {}, scope), 8)
                if target[0] == "s":
                    index = np.broadcast_to(eval(target[2:-1], {}, scope), 8)
                    state["s"] = state["s"].copy()
                    state["s"][index[active]] = made[active]
                else:
                    state[target[0]] = np.where(active, made, state[target[0]])
            at = end

    run(lines, np.ones(8, bool))
    return np.where(gone, 0, state["x"]), np.where(gone, 0, state["s"])


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_random_programs_of_threads(data: st.DataObject) -> None:
    """Statements of threads in loops and branches, with values handed from thread to thread."""
    lines = _draw(data.draw, 2)
    head = [
        "@tileprof.jit", "def drawn(A):", "    A: T.Tensor((8,), T.int32)",
        "    X = T.empty((8,), T.int32)", "    S = T.empty((8,), T.int32)",
        "    with T.Kernel(1, threads=8) as _:", "        tx = T.get_thread_binding(0)",
        "        x = T.alloc_local((1,), T.int32)", "        y = T.alloc_local((1,), T.int32)",
        "        s = T.alloc_shared((8,), T.int32)", "        x[0] = 1", "        y[0] = 0",
        "        s[tx] = A[tx]", "        X[tx] = 0", "        S[tx] = 0",
    ]  # fmt: skip
    tail = ["        X[tx] = x[0]", "        S[tx] = s[tx]", "    return X, S"]
    text = "\n".join([*head, *("        " + line for line in lines), *tail]) + "\n"
    scope = names_of_text(text, tileprof=tileprof, T=T)
    with tileprof.device("interpreter"):
        x, s = scope["drawn"]((np.arange(8) * 5).astype("i4"))
    right_x, right_s = _expected(lines)
    assert (x == right_x).all(), text
    assert (s == right_s).all(), text


# -- errors


@tileprof.jit
def leaves_alone(A):
    """One thread leaves a loop."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        tx = T.get_thread_binding(0)
        for i in T.serial(4):
            if A[tx] > i:
                break
            A[tx] = i


@tileprof.jit
def copies_from_its_place(A):
    """A copy of a tile that begins elsewhere for each thread."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=8) as _:
        tx = T.get_thread_binding(0)
        tile = T.alloc_shared((8,), T.int32)
        T.copy(A[tx * 8 : tx * 8 + 8], tile)
        T.copy(tile, A[0:8])


@tileprof.jit
def takes_too_many(A):
    """More threads than the block has."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        tx = T.thread_binding(0, 16, thread="threadIdx.x")
        A[tx] = 0


@tileprof.jit
def asks_for_an_axis(A):
    """A block has three axes."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        A[T.get_thread_binding(3)] = 0


@tileprof.jit
def asks_in_points(A):
    """Points of a tile have no thread of their own."""
    A: T.Tensor((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        for i in T.Parallel(8):
            A[i] = T.get_thread_binding(0)


@tileprof.jit
def combines_strangely(A):
    """A function of two values that is none of those that are known."""
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1, threads=8) as _:
        T.comm_reducer(lambda x, y: x - y, [0])
        A[0] = 0


@tileprof.jit
def combines_without_a_way(A):
    """Outside of the statement that says how."""
    A: T.Tensor((8,), T.float32)
    with T.Kernel(1, threads=8) as _:
        tx = T.get_thread_binding(0)
        mine = T.alloc_local((1,), T.float32)
        T.tvm_thread_allreduce(1, A[tx], True, mine[0], tx)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (leaves_alone, "one thread cannot leave a loop in which others go on"),
        (copies_from_its_place, "works on a whole tile and cannot differ between them"),
        (takes_too_many, "from 0 to 16, where the block has 8 threads"),
        (asks_for_an_axis, "T.get_thread_binding(3)"),
        (combines_strangely, "a function that is not a sum, maximum or minimum"),
        (combines_without_a_way, "`T.tvm_thread_allreduce` outside of `T.attr`"),
        (asks_in_points, "`T.get_thread_binding` inside `T.Parallel`"),
    ],
    ids=lambda held: getattr(held, "kernel_name", None),
)
def test_what_a_tile_program_cannot_say_is_an_error_at_its_line(
    function: Any, message: str
) -> None:
    """The sentence names the cause; the place is in the kernel."""
    size = function.signature.parameters and (64 if function is copies_from_its_place else 8)
    dtype = "f4" if "combines" in function.kernel_name else "i4"
    refused_in_place(function, np.zeros(size, dtype), KernelError, message, __file__)


def test_a_kernel_of_threads_does_not_run_as_plain_python() -> None:
    """A block runs as one there, and the error says where it does run."""
    plain = tileprof.jit(suffix_sums.function, debug=True)
    with pytest.raises(UnsupportedPython, match="runs as plain Python"):
        plain(np.zeros((1, 16), "i4"))


@tileprof.jit
def where_no_thread_comes(A):
    """Stores that are alike for all threads, in a branch that no thread takes."""
    A: T.Tensor((32,), T.int32)
    B = T.empty((32,), T.int32)
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        kept = T.alloc_shared((2,), T.int32)
        if tx == 0:
            kept[0] = 5
            kept[1] = 6
        if A[tx] > 100:
            kept[0] = 1
            kept[0] = kept[0] + 1
            kept[1] = kept[0]
        B[tx] = kept[0] * 10 + kept[1]
    return B


@pytest.mark.parametrize(("largest", "expected"), [(100, 56), (101, 22)])
def test_statements_alike_for_all_threads_run_only_where_one_comes(
    largest: int, expected: int
) -> None:
    """In a branch that depends on data, they once ran in any case."""
    values = np.arange(32, dtype=np.int32)
    values[7] = largest
    same(where_no_thread_comes, [values], np.full(32, expected))


@tileprof.jit
def uses_what_was(A):
    """Values are used after the memory that they were read from has changed, also in a branch."""
    A: T.Tensor((8,), T.int32)
    B = T.empty((8,), T.int32)
    with T.Kernel(1, threads=8) as _:
        tx = T.get_thread_binding(0)
        kept = T.alloc_shared((8,), T.int32)
        kept[tx] = A[tx]
        old = kept[tx]
        twice = old * 2
        kept[7 - tx] = tx
        B[tx] = old * 100 + kept[tx]
        if A[tx] > 3:
            x = kept[tx]
            kept[tx] = 0
            B[tx] += x * 1000 + twice * 10000
    return B


def test_value_from_before_memory_changed_is_kept() -> None:
    """It was once refused, because a value is computed where a statement uses it."""
    given = np.array([1, 5, 2, 3, 9, 4, 0, 7], np.int32)
    now = 7 - np.arange(8)
    taken = (given > 3) * (now * 1000 + given * 20000)
    same(uses_what_was, [given], given * 100 + now + taken)
