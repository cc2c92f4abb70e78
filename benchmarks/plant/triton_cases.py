# ruff: noqa: ANN001, ANN202
"""Triton kernels with known defects beside the same without; imported only where Triton is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from .triton_pairs import TritonCase

__all__ = ["prepared"]

Run = Callable[[], torch.Tensor]


@triton.jit
def product(
    a, b, c, M, N, K,
    m: tl.constexpr, n: tl.constexpr, k: tl.constexpr, group: tl.constexpr,
    precision: tl.constexpr,
):  # fmt: skip
    """C = A · B, with blocks in groups of rows."""
    across = tl.cdiv(N, n)
    width = group * across
    block = tl.program_id(0)
    first = block // width * group
    height = min(tl.cdiv(M, m) - first, group)
    rows = (first + block % width % height) * m + tl.arange(0, m)
    columns = block % width // height * n + tl.arange(0, n)
    depth = tl.arange(0, k)
    sums = tl.zeros((m, n), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, k)):
        x = tl.load(a + rows[:, None] * K + (step * k + depth)[None, :], mask=rows[:, None] < M)
        y = tl.load(
            b + (step * k + depth)[:, None] * N + columns[None, :], mask=columns[None, :] < N
        )
        sums = tl.dot(x, y, sums, input_precision=precision)
    kept = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], sums, mask=kept)


@triton.jit
def scaled(
    out, x, n, block: tl.constexpr
):  # fmt: skip
    """Twice each element."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit(do_not_specialize=["n"])
def scaled_any(
    out, x, n, block: tl.constexpr
):  # fmt: skip
    """The same, of an n that may be anything."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def copied(
    out, x, M, N, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    """A tile, along its rows."""
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    at = i[:, None] * N + j[None, :]
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def copied_down(
    out, x, M, N, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    """A thread a row, column after column."""
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    for column in range(columns):
        at = i * N + tl.program_id(1) * columns + column
        tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def softmax(
    out, x, N, block: tl.constexpr
):  # fmt: skip
    """A row a program."""
    at = tl.arange(0, block)
    row = tl.program_id(0) * N
    values = tl.load(x + row + at, mask=at < N, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + at, values / tl.sum(values, 0), mask=at < N)


@triton.jit
def softmax_double(
    out, x, N, block: tl.constexpr
):  # fmt: skip
    """The same with exponentials of float64."""
    at = tl.arange(0, block)
    row = tl.program_id(0) * N
    values = tl.load(x + row + at, mask=at < N, other=-float("inf"))
    values = tl.exp((values - tl.max(values, 0)).to(tl.float64)).to(tl.float32)
    tl.store(out + row + at, values / tl.sum(values, 0), mask=at < N)


@triton.jit
def column_sum(
    out, x, N, rows: tl.constexpr, columns: tl.constexpr, turns: tl.constexpr
):  # fmt: skip
    """Blocks add up some rows, then each other's sums."""
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    total = tl.zeros((columns,), dtype=tl.float32)
    for turn in range(turns):
        i = (tl.program_id(1) * turns + turn) * rows + tl.arange(0, rows)
        total += tl.sum(tl.load(x + i[:, None] * N + j[None, :]), 0)
    tl.atomic_add(out + j, total)


@triton.jit
def mixed(
    out, given, block: tl.constexpr
):  # fmt: skip
    """Rounds of arithmetic on integers."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(given + at)
    y = x * 0
    for _ in range(8):
        for turn in range(64):
            x = (x ^ (y >> 15)) * 1566083941
            y = (y ^ (x >> 13)) + turn
    tl.store(out + at, x ^ y)


@triton.jit
def mixed_unrolled(
    out, given, block: tl.constexpr
):  # fmt: skip
    """The same, unrolled."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(given + at)
    y = x * 0
    for _ in range(8):
        for turn in tl.static_range(64):
            x = (x ^ (y >> 15)) * 1566083941
            y = (y ^ (x >> 13)) + turn
    tl.store(out + at, x ^ y)


# -- on a GPU


def prepared(case: TritonCase) -> tuple[dict[str, Run], torch.Tensor, float, Callable[[], Any]]:
    """A call of each twin, the result in float64, how far a result may be from it, and what is to
    be done before a result is looked at."""
    torch.manual_seed(0)
    launches, expected, limit, *more = _WORKS[case.work](**case.shape)
    made = {}
    for twin, (kernel, options) in ((t, (w.kernel, w.options)) for t, w in case.twins()):
        made[twin] = partial(launches, globals()[kernel], dict(options))
    return made, expected, limit, more[0] if more else _nothing


def _nothing() -> None:
    pass


def _product(M: int, N: int, K: int, dtype: torch.dtype = torch.bfloat16) -> Any:
    a, b = torch.randn(M, K, device="cuda").to(dtype), torch.randn(K, N, device="cuda").to(dtype)
    c = torch.empty(M, N, device="cuda", dtype=dtype)

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        grid = (triton.cdiv(M, options["m"]) * triton.cdiv(N, options["n"]),)
        kernel[grid](a, b, c, M, N, K, **{"precision": "tf32", **options})
        return c

    return run, a.double() @ b.double(), 0.01


def _product32(M: int, N: int, K: int) -> Any:
    return _product(M, N, K, torch.float32)


def _scaled(N: int) -> Any:
    x = torch.randn(N, device="cuda")
    out = torch.empty_like(x)

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        kernel[(triton.cdiv(N, options["block"]),)](out, x, N, **options)
        return out

    return run, x.double() * 2, 0.0


def _copied(M: int, N: int) -> Any:
    x = torch.randn(M, N, device="cuda")
    out = torch.empty_like(x)

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        kernel[(M // options["rows"], N // options["columns"])](out, x, M, N, **options)
        return out

    return run, x.double() * 2, 0.0


def _softmax(M: int, N: int) -> Any:
    x = torch.randn(M, N, device="cuda")
    out = torch.empty_like(x)

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        kernel[(M,)](out, x, N, **options)
        return out

    return run, torch.softmax(x.double(), 1), 1e-5


def _column_sum(M: int, N: int) -> Any:
    x = torch.randn(M, N, device="cuda")
    out = torch.empty(N, device="cuda")

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        high = options["rows"] * options["turns"]
        kernel[(N // options["columns"], M // high)](out, x, N, **options)
        return out

    return run, x.double().sum(0), 1e-4, out.zero_


def _mixed(N: int) -> Any:
    given = torch.randint(0, 1 << 30, (N,), device="cuda", dtype=torch.int32)
    out = torch.empty_like(given)

    def run(kernel: Any, options: dict[str, Any]) -> torch.Tensor:
        kernel[(N // options["block"],)](out, given, **options)
        return out

    return run, _rounds(given), 0.0


def _rounds(x: torch.Tensor) -> torch.Tensor:
    """By PyTorch: integers of 32 bits wrap around, and shifts keep the sign."""
    y = torch.zeros_like(x)
    for _ in range(8):
        for turn in range(64):
            x = (x ^ (y >> 15)) * 1566083941
            y = (y ^ (x >> 13)) + turn
    return (x ^ y).double()


_WORKS: dict[str, Callable[..., Any]] = {
    "product": _product, "product32": _product32, "scaled": _scaled, "copied": _copied,
    "softmax": _softmax, "column_sum": _column_sum, "mixed": _mixed,
}  # fmt: skip
