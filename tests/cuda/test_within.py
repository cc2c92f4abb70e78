"""Numbers that are clamped before they become elements of 8 bits, and tiles that are inside as a
whole: neither is looked at one by one."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import function
from tileprof import ir
from tileprof.compiler.codegen.ranges import clamped
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

COLUMNS = 128
FLOAT = ir.dtype("float32")


def quantised(
    low: float = -448.0, high: float = 448.0, dtype: str = "float8_e4m3", tall: int = 32
) -> Any:
    """Rows divided by their largest number, in 8 bits; a tile has so many."""
    M = T.dynamic("m")

    @T.prim_func
    def quantised(
        X: T.Tensor((M, COLUMNS), "bfloat16"),
        Y: T.Tensor((M, COLUMNS), dtype),
        S: T.Tensor((M,), "float32"),
    ) -> None:
        with T.Kernel(T.ceildiv(M, tall), threads=128) as b:
            x = T.alloc_shared((tall, COLUMNS), "bfloat16")
            here = T.alloc_fragment((tall, COLUMNS), "bfloat16")
            most = T.alloc_fragment((tall,), "float32")
            y = T.alloc_fragment((tall, COLUMNS), dtype)
            out = T.alloc_shared((tall, COLUMNS), dtype)
            for _ in T.Pipelined(1, num_stages=2):
                T.copy(X[b * tall, 0], x)
                T.copy(x, here)
                T.reduce_absmax(here, most, dim=1)
                for i in T.Parallel(tall):
                    most[i] = T.max(most[i], 1e-4) * (1 / 448)
                for i, j in T.Parallel(tall, COLUMNS):
                    y[i, j] = T.clamp(here[i, j] / most[i], low, high)
                for i in T.Parallel(tall):
                    S[b * tall + i] = most[i]
                T.copy(y, out)
                T.copy(out, Y[b * tall, 0])

    return quantised


@cache
def program(
    low: float = -448.0, high: float = 448.0, dtype: str = "float8_e4m3", tall: int = 32
) -> CudaProgram:
    """The kernel for a GPU with conversions to 8 bits."""
    kernel = tileprof.compile(quantised(low, high, dtype, tall)).program.kernel
    return compile_cuda(kernel, find_target("sm_90a"))


@pytest.mark.spread("70-32", "5-32")
@pytest.mark.parametrize(("rows", "tall"), [(64, 32), (70, 32), (5, 32), (69, 16)])
def test_rows_of_whole_and_of_ragged_tiles(rows: int, tall: int) -> None:
    """The last tile has zeros where there is no row, and stores none of them."""
    x = np.random.default_rng(rows).standard_normal((rows, COLUMNS)).astype(ml_dtypes.bfloat16)
    y = np.zeros((rows, COLUMNS), ml_dtypes.float8_e4m3fn)
    s = np.full(rows, np.nan, np.float32)
    made = program(tall=tall)
    emulate(made.source, made.kernel, [x, y, s], symbols={"m": rows})
    most = np.abs(x.astype(np.float32)).max(axis=1) * np.float32(1 / 448)
    np.testing.assert_allclose(s, most, rtol=1e-6)
    back = y.astype(np.float32) * s[:, None]
    np.testing.assert_allclose(back, x.astype(np.float32), rtol=1 / 15, atol=s.max() * 2**-9)


def test_a_whole_tile_is_asked_for_once() -> None:
    """Its chunks have no conditions; those of a ragged tile have one each."""
    text = program().source.text
    whole, ragged = text.partition("} else {")[::2]
    assert "+ 31) < m) {" in whole
    assert "tp_there" not in whole
    assert "const bool tp_there" in ragged


def test_a_few_chunks_are_asked_for_each() -> None:
    """Of two chunks of a thread, without a branch."""
    text = program(tall=16).source.text
    assert "+ 15) < m) {" not in text
    assert text.count("const bool tp_there") == 1


@pytest.mark.parametrize(
    ("low", "high", "dtype", "within"),
    [
        (-448.0, 448.0, "float8_e4m3", True),
        (-448.0, 464.0, "float8_e4m3", True),
        (-448.0, 465.0, "float8_e4m3", False),
        (-1000.0, 448.0, "float8_e4m3", False),
        (-57344.0, 57344.0, "float8_e5m2", True),
        (-57344.0, 61440.0, "float8_e5m2", False),
    ],
)
def test_what_is_clamped_is_not_looked_at(
    low: float, high: float, dtype: str, within: bool
) -> None:
    """Where no number can be too large for the type."""
    text = program(low, high, dtype).source.text
    assert ("tp_narrow_within<16>" in text) is within
    assert ("tp_narrow_vector<16>" in text) is not within


@pytest.mark.sweep
def test_instructions_of_a_conversion() -> None:
    """The 32 numbers of a thread are neither compared, corrected nor kept for that."""
    both = program(), program(high=465.0)
    clamped_, open_ = ([i.name for i in function(each).instructions] for each in both)
    assert clamped_.count("FSETP") == open_.count("FSETP") - 32
    assert len(clamped_) + 100 <= len(open_)
    few, many = (r.registers for each in both for r in each.cubin.resources.values())
    assert few + 4 <= many


# -- numbers that are too large become the largest


def nearest(x: Any, high: float, low: float) -> Any:
    """The largest number of its sign in place of one that is too large."""
    return T.if_then_else(x > high, high, T.if_then_else(x < low, low, x))


def rounded(dtype: str, high: float, low: float) -> Any:
    """Through registers, and straight to a tensor."""

    @T.prim_func
    def rounded(X: T.Tensor((1024,), "float32"), Y: T.Tensor((2, 1024), dtype)) -> None:
        with T.Kernel(2, threads=128) as b:
            held = T.alloc_fragment((512,), dtype)
            for i in T.Parallel(512):
                held[i] = nearest(X[b * 512 + i], high, low)
            T.copy(held, Y[0, b * 512])
            for i in T.Parallel(512):
                Y[1, b * 512 + i] = nearest(X[b * 512 + i], high, low)

    return rounded


LARGE = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}


def samples(most: float) -> np.ndarray[Any, Any]:
    """Numbers around the largest one, what is none, and many others."""
    around = [most * f for f in (0.9, 0.999, 1.0, 1.001, 1.03, 1.04, 1.07, 2.0)]
    named = [*around, 0.0, -0.0, 1e-3, 1e30, math.inf, math.nan]
    many = np.random.default_rng(0).standard_normal(1024 - 2 * len(named)) * most
    return np.array([*named, *(-x for x in named), *many], np.float32)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("dtype", LARGE)
def test_what_is_too_large_becomes_the_largest(dtype: str, target: str) -> None:
    """As the text of the kernel says, NaN included; the conversion alone does it."""
    most = LARGE[dtype]
    kernel = tileprof.compile(rounded(dtype, most, -most)).program.kernel
    made = compile_cuda(kernel, find_target(target))
    assert "tp_narrow_saturated<4>" in made.source.text
    assert "tp_put_saturated_global<4>" in made.source.text
    x, numpy_type = samples(most), ir.dtype(dtype).to_numpy()
    y = np.zeros((2, 1024), numpy_type)
    emulate(made.source, made.kernel, [x, y])
    with np.errstate(invalid="ignore"):
        want = np.where(x > most, most, np.where(x < -most, -most, x)).astype(numpy_type)
    for row in y:
        np.testing.assert_array_equal(row.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize(("high", "low"), [(464.0, -448.0), (448.0, -464.0), (448.0, -1.0)])
def test_other_bounds_are_computed(high: float, low: float) -> None:
    """Where hardware would stop at another number."""
    kernel = tileprof.compile(rounded("float8_e4m3", high, low)).program.kernel
    made = compile_cuda(kernel, find_target("sm_90a"))
    assert "saturated" not in made.source.text
    x, y = samples(448.0), np.zeros((2, 1024), ml_dtypes.float8_e4m3fn)
    emulate(made.source, made.kernel, [x, y])
    want = np.where(x > high, high, np.where(x < low, low, x)).astype(y.dtype)
    for row in y:
        np.testing.assert_array_equal(row.astype(np.float32), want.astype(np.float32))


# -- bounds of floats

numbers = st.one_of(st.none(), st.sampled_from([-math.inf, -448.0, -1.0, 0.0, 2.0, 448.0]))
"""A constant, or something that is not known."""
trees = st.recursive(
    numbers, lambda inner: st.tuples(st.sampled_from(["min", "max"]), inner, inner), max_leaves=6
)


def _made(tree: Any) -> ir.Value:
    match tree:
        case None:
            return ir.Value(FLOAT, "x")
        case (kind, a, b):
            return ir.Binary(kind, _made(a), _made(b)).result
        case _:
            return ir.Constant(tree, FLOAT).result


def _value(tree: Any, unknown: Any) -> float:
    match tree:
        case None:
            return float(next(unknown))
        case (kind, a, b):
            join = np.fmin if kind == "min" else np.fmax
            return float(join(_value(a, unknown), _value(b, unknown)))
        case _:
            return float(tree)


@given(trees, st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 1e9, -3.0, 0.5])))
@settings(max_examples=150, deadline=None)
def test_bounds_hold_for_any_number(tree: Any, given_: list[float]) -> None:
    """Also for NaN, in place of which minima and maxima give their other operand."""
    unknown = iter([*given_, *[math.nan, 1.0] * 8])
    low, high = clamped(_made(tree))
    value = _value(tree, unknown)
    if math.isfinite(low) or math.isfinite(high):
        assert low <= value <= high
