"""Numbers and exchanges of warps, roles and barriers give what they give on a GPU."""

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
from tests.everywhere import compiled_for
from tests.lang.checks import names_of_text, refused_in_place, same_everywhere
from tests.spread import examples
from tileprof.errors import KernelError, UnsupportedPython

RNG = np.random.default_rng(5)


same = partial(same_everywhere, debug=False)
"""Compare every device's outputs; a kernel of threads does not run as plain Python."""


# -- numbers and exchanges


@tileprof.jit
def numbers():
    """Numbers of lanes, warps and groups in a block of two axes."""
    out = T.empty((5, 2, 128), T.int32)
    with T.Kernel(1, threads=(128, 2)) as _:
        x, y = T.get_thread_binding(0), T.get_thread_binding(1)
        out[0, y, x] = T.get_lane_idx()
        out[1, y, x] = T.get_warp_idx()
        out[2, y, x] = T.get_warp_group_idx()
        out[3, y, x] = T.if_then_else(T.shuffle_elect(64), 1, 0)
        out[4, y, x] = T.if_then_else(T.shuffle_elect(), 1, 0)
    return out


def test_numbers_count_the_first_axis_fastest() -> None:
    """A warp is 32 neighbours, a group 128, and the first of several is elected."""
    linear = np.arange(256).reshape(2, 128)
    right = [linear % 32, linear // 32, linear // 128, linear % 64 == 0, linear == 0]
    same(numbers, [], np.stack(right).astype("i4"))


@tileprof.jit
def exchanged(A, width: int = 32):
    """Each kind of exchange, and values that warps combine."""
    A: T.Tensor((64,), T.int32)
    out = T.empty((9, 64), T.int32)
    bits = T.empty((64,), T.uint64)
    with T.Kernel(1, threads=64) as _:
        tx = T.get_thread_binding(0)
        mine = T.alloc_local((1,), T.int32)
        mine[0] = A[tx] * 2
        out[0, tx] = T.shfl_xor(mine[0], 5, width)
        out[1, tx] = T.shfl_up(mine[0], 3, width)
        out[2, tx] = T.shfl_down(mine[0], 3, width)
        out[3, tx] = T.shfl_sync(mine[0], tx * 3 + 1, width)
        out[4, tx] = T.warp_reduce_sum(mine[0])
        out[5, tx] = T.warp_reduce_max(mine[0]) - T.warp_reduce_min(mine[0])
        out[6, tx] = T.any_sync(mine[0] > 120) * 2 + T.all_sync(mine[0] > -200)
        out[7, tx] = T.warp_reduce_bitor(mine[0]) ^ T.warp_reduce_bitand(mine[0])
        out[8, tx] = T.tvm_warp_shuffle(0xFFFFFFFF, mine[0], tx ^ 1, width, 32)
        bits[tx] = T.ballot(mine[0] > 0)
    return out, bits


def _sources(width: int) -> list[Any]:
    """Return which thread each value comes from, as CUDA defines it."""
    at = np.arange(64)
    lane, group = at % 32, at % 32 // width
    other = lane ^ 5
    xor = at - lane + np.where(other < (group + 1) * width, other, lane)
    up = np.where(at % width >= 3, at - 3, at)
    down = np.where(at % width + 3 < width, at + 3, at)
    return [xor, up, down, at - at % width + (at * 3 + 1) % width]


def test_threads_of_a_warp_exchange_values() -> None:
    """Exchanges of whole warps and of groups of threads give what the instructions give."""
    width = 8
    a = RNG.integers(-70, 70, 64).astype("i4")
    mine, at = a * 2, np.arange(64)
    warps = mine.reshape(2, 32)
    spread = [
        warps.sum(1), warps.max(1) - warps.min(1),
        (warps > 120).any(1) * 2 + (warps > -200).all(1),
        np.bitwise_or.reduce(warps, 1) ^ np.bitwise_and.reduce(warps, 1),
    ]  # fmt: skip
    rows = [mine[s] for s in _sources(width)] + [np.repeat(s, 32) for s in spread]
    rows.append(mine[at - at % width + (at ^ 1) % width])
    masks = (warps > 0).astype("u8") @ (np.uint64(1) << np.arange(32, dtype="u8"))
    same(exchanged, [a], np.stack(rows), np.repeat(masks, 32), width=width)


def _draw(draw: Callable[[Any], Any], depth: int, count: str = "2") -> list[str]:
    """Return statements of threads that all run; `count` is the variable of the loop around."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        far, times = draw(st.integers(0, 9)), draw(st.integers(1, 3))
        width = draw(st.sampled_from([4, 8, 32]))
        kind = draw(st.sampled_from(["xor", "up", "down", "sync", "own", "if", "for", "sum"]))
        match kind:
            case "xor" | "up" | "down":
                lines.append(f"x[0] = x[0] * {times} - T.shfl_{kind}(x[0], {far}, {width})")
            case "sync":
                lines.append(f"x[0] = x[0] + T.shfl_sync(x[0] + tx, tx * {times} + {far}, {width})")
            case "sum":
                lines.append(f"x[0] = T.warp_reduce_sum(x[0] * tx) % 97 + {count}")
            case "own":
                lines.append(f"x[0] = x[0] * {times} + tx - {count}")
            case "if" if depth:
                lines.append(f"if {count} % 3 < {times}:")
                lines += ["    " + line for line in _draw(draw, depth - 1, count)]
            case "for" if depth:
                lines.append(f"for c{depth} in T.serial({times}):")
                lines += ["    " + line for line in _draw(draw, depth - 1, f"c{depth}")]
    return lines or ["x[0] = tx"]


class _Model:
    """What the exchanges give, for an array with an element for each thread."""

    def _of(self, x: Any, source: Any) -> Any:
        return np.broadcast_to(x, 64)[source]

    def shfl_xor(self, x: Any, delta: int, width: int) -> Any:
        lane = np.arange(64) % 32
        other = lane ^ delta
        kept = np.where(other < (lane // width + 1) * width, other, lane)
        return self._of(x, np.arange(64) - lane + kept)

    def shfl_up(self, x: Any, delta: int, width: int) -> Any:
        at = np.arange(64)
        return self._of(x, np.where(at % width >= delta, at - delta, at))

    def shfl_down(self, x: Any, delta: int, width: int) -> Any:
        at = np.arange(64)
        return self._of(x, np.where(at % width + delta < width, at + delta, at))

    def shfl_sync(self, x: Any, lane: Any, width: int) -> Any:
        at = np.arange(64)
        return self._of(x, at - at % width + lane % width)

    def warp_reduce_sum(self, x: Any) -> Any:
        return np.repeat(np.broadcast_to(x, 64).reshape(2, 32).sum(1, dtype="i4"), 32)


def _expected(lines: list[str], x: Any) -> Any:
    """Run a program for all threads at once."""
    state: dict[str, Any] = {"x": [x], "tx": np.arange(64, dtype="i4"), "T": _Model()}

    def run(block: list[str]) -> None:
        at = 0
        while at < len(block):
            line, end = block[at], at + 1
            while end < len(block) and block[end].startswith("    "):
                end += 1
            inner = [each[4:] for each in block[at + 1 : end]]
            if line.startswith("if"):
                if eval(line[3:-1], {}, state):
                    run(inner)
            elif line.startswith("for"):
                for count in range(int(line[-3])):
                    state[line[4:6]] = count
                    run(inner)
            else:
                state["x"][0] = np.broadcast_to(eval(line[7:], {}, state), 64).astype("i4")
            at = end

    with np.errstate(over="ignore"):
        run(lines)
    return state["x"][0]


def _built(lines: list[str]) -> Any:
    head = [
        "@tileprof.jit", "def drawn(A):", "    A: T.Tensor((64,), T.int32)",
        "    X = T.empty((64,), T.int32)", "    with T.Kernel(1, threads=64) as _:",
        "        tx = T.get_thread_binding(0)", "        x = T.alloc_local((1,), T.int32)",
        "        x[0] = A[tx]",
    ]  # fmt: skip
    tail = ["        X[tx] = x[0]", "    return X"]
    text = "\n".join([*head, *("        " + line for line in lines), *tail]) + "\n"
    scope = names_of_text(text, tileprof=tileprof, T=T)
    return scope["drawn"]


@given(data=st.data())
@settings(max_examples=examples(10), deadline=None)
def test_random_exchanges(data: st.DataObject) -> None:
    """Exchanges in loops and branches that all threads take."""
    lines = _draw(data.draw, 2)
    a = (np.arange(64) * 7 % 23).astype("i4")
    with tileprof.device("interpreter"):
        found = _built(lines)(a)
    assert (found == _expected(lines, a)).all(), lines


# -- roles and barriers


@tileprof.jit
def product_by_roles(A, B, slots: int = 2, tile: int = 32, dtype=T.float16):
    """One role loads, one multiplies; barriers say which slot is full and which is free."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=256) as (bx, by):
        a = T.alloc_shared((slots, 64, tile), dtype)
        b = T.alloc_shared((slots, tile, 64), dtype)
        c = T.alloc_fragment((64, 64), T.float32)
        full = T.alloc_barrier([128] * slots)
        free = T.alloc_barrier([128] * slots)
        with T.ws(0):
            T.clear(c)
        for k in range(T.ceildiv(K, tile)):
            with T.ws(1):
                T.mbarrier_wait_parity(free[k % slots], k // slots % 2 ^ 1)
                T.tma_copy(A[by * 64, k * tile], a[k % slots, :, :], barrier=full[k % slots])
                T.tma_copy(B[k * tile, bx * 64], b[k % slots, :, :], barrier=full[k % slots])
                T.mbarrier_arrive(full[k % slots])
            with T.ws(0):
                T.mbarrier_wait_parity(full[k % slots], k // slots % 2)
                T.gemm(a[k % slots, :, :], b[k % slots, :, :], c)
                T.mbarrier_arrive(free[k % slots])
        with T.ws(0):
            T.copy(c, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("slots", [1, 3])
def test_roles_that_hand_tiles_over(slots: int) -> None:
    """The product is right, and its loads run ahead as in a pipelined loop."""
    a, b = (RNG.integers(-3, 4, s).astype("f2") for s in ((96, 128), (128, 64)))
    same(product_by_roles, [a, b], a.astype("f4") @ b.astype("f4"), slots=slots)
    kernel = product_by_roles.compile(M=512, N=512, K=512, slots=slots)
    remarks = compiled_for(kernel.program.kernel, "sm_90a", None, {}).remarks
    said = "\n".join(map(str, remarks))
    assert "tma, issued by the producer warp group" in said
    assert "fills a part of the shared tile" not in said


@tileprof.jit
def phases_in_variables(A, count: int = 5):
    """Each role keeps its phase in a variable; a slot lives on to the next iteration."""
    A: T.Tensor((5, 64), T.int32)
    out = T.empty((5, 64), T.int32)
    with T.Kernel(1, threads=256) as _:
        tile = T.alloc_shared((2, 64), T.int32)
        full, free = T.alloc_barrier(128), T.alloc_barrier(1)
        phase = T.alloc_var(T.int32, 0)
        T.clear(tile)
        for k in T.serial(count):
            if T.get_warp_group_idx() == 1:
                T.barrier_wait(free, phase ^ 1)
                T.tma_copy(A[k, :], tile[k % 2, :], barrier=full)
                T.barrier_arrive(full)
                phase = phase ^ 1
            else:
                T.barrier_wait(full, phase)
                for i in T.Parallel(64):
                    out[k, i] = tile[k % 2, i] - tile[(k + 1) % 2, i]
                phase = phase ^ 1
                if T.shuffle_elect(128):
                    T.barrier_arrive(free)
    return out


def test_phases_in_variables_of_a_role() -> None:
    """What the iteration before has loaded is still there."""
    a = RNG.integers(-99, 99, (5, 64)).astype("i4")
    same(phases_in_variables, [a], a - np.concatenate([np.zeros((1, 64), "i4"), a[:-1]]))


@tileprof.jit
def turns_by_hand(A):
    """A role copies with cp.async, and arrives when its copies are over."""
    A: T.Tensor((4, 64), T.int32)
    out = T.empty((4, 64), T.int32)
    with T.Kernel(1, threads=256) as _:
        tile = T.alloc_shared((64,), T.int32)
        full, free = T.alloc_barrier(128), T.alloc_barrier(128)
        for k in T.serial(4):
            with T.ws(1):
                T.set_max_nreg(24, 0)
                T.barrier_wait(free, k % 2 ^ 1)
                with T.attr("default", "async_scope", 1):
                    T.async_copy(A[k, :], tile)
                T.cp_async_barrier_noinc(full)
            with T.ws(0):
                T.set_max_nreg(240, 1)
                T.barrier_wait(full, k % 2)
                for i in T.Parallel(64):
                    out[k, i] = tile[i] * 2
                T.named_barrier_arrive(1, 256)
                T.barrier_arrive(free)
    return out


def test_roles_that_copy_by_cp_async() -> None:
    """Copies are over where their role arrives, and the instruction is the one that is named."""
    a = RNG.integers(-99, 99, (4, 64)).astype("i4")
    same(turns_by_hand, [a], a * 2)
    kernel = turns_by_hand.compile()
    remarks = compiled_for(kernel.program.kernel, "sm_90a", None, {}).remarks
    assert any("cp.async" in str(r) and "A" in r.subject for r in remarks), remarks


# -- errors


@tileprof.jit
def waits_first(A):
    """The role that waits is written before the one that arrives."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=256) as _:
        full = T.alloc_barrier(128)
        tile = T.alloc_shared((64,), T.int32)
        with T.ws(0):
            T.barrier_wait(full, 0)
            T.copy(tile, A)
        with T.ws(1):
            T.tma_copy(A, tile, barrier=full)
            T.barrier_arrive(full)


@tileprof.jit
def arrives_too_seldom(A):
    """64 of 128 threads arrive."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=256) as _:
        full = T.alloc_barrier(128)
        if T.get_thread_binding(0) < 64:
            T.barrier_arrive(full)
        T.barrier_wait(full, 0)
        T.clear(A)


@tileprof.jit
def loops_by_data(A):
    """How often threads arrive is known only when the kernel runs."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=128) as _:
        full = T.alloc_barrier(128)
        for k in T.serial(A[0]):
            T.barrier_arrive(full)
            T.barrier_wait(full, k % 2)
        T.clear(A)


@tileprof.jit
def takes_one_by_data(A):
    """Which barrier is meant is known only when the kernel runs."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=128) as _:
        full = T.alloc_barrier([128, 128])
        T.barrier_arrive(full[A[0]])
        T.clear(A)


@tileprof.jit
def takes_a_third(A):
    """There are two barriers."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=128) as _:
        full = T.alloc_barrier([128, 128])
        T.barrier_arrive(full[2])
        T.clear(A)


@tileprof.jit
def waits_for_a_tile(A):
    """A tile is no barrier."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=128) as _:
        tile = T.alloc_shared((64,), T.int32)
        T.barrier_wait(tile, 0)
        T.clear(A)


@tileprof.jit
def exchanges_among_some(A):
    """A mask leaves threads out."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=64) as _:
        tx = T.get_thread_binding(0)
        A[tx] = T.shfl_xor(A[tx], 1, mask=0xFFFF)


@tileprof.jit
def exchanges_in_fives(A):
    """Groups have a power of 2 threads."""
    A: T.Tensor((64,), T.int32)
    with T.Kernel(1, threads=64) as _:
        tx = T.get_thread_binding(0)
        A[tx] = T.shfl_xor(A[tx], 1, 5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (waits_first, "not over in the order of the program: 128 of 128 arrivals are missing"),
        (arrives_too_seldom, "64 of 128 arrivals are missing"),
        (loops_by_data, "the number of iterations of a loop around them is known only at launch"),
        (takes_one_by_data, "which one is meant depends on data"),
        (takes_a_third, "barrier 2 of 2"),
        (waits_for_a_tile, "`T.mbarrier_wait_parity` of"),
        (exchanges_among_some, "`T.shfl_xor` with a mask of some threads"),
        (exchanges_in_fives, "`width=5` of `T.shfl_xor`"),
    ],
    ids=lambda held: getattr(held, "kernel_name", None),
)
def test_what_a_tile_program_cannot_say_is_an_error_at_its_line(
    function: Any, message: str
) -> None:
    """The sentence names the cause; the place is in the kernel."""
    refused_in_place(function, np.zeros(64, "i4"), KernelError, message, __file__)


def test_roles_do_not_run_as_plain_python() -> None:
    """A block runs as one there, and the error says where it does run."""
    plain = tileprof.jit(phases_in_variables.function, debug=True)
    with pytest.raises(UnsupportedPython, match="runs as plain Python"):
        plain(np.zeros((5, 64), "i4"))
