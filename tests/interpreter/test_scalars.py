"""The meaning of each scalar op, against Python's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interpreter.running import array, compute
from tests.repeated import for_each
from tileprof import ir
from tileprof.ir.scalar import BinaryKind, CompareKind, UnaryKind
from tileprof.runtime.interpreter import arithmetic, convert

Number = int | float
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")


def wrap(value: int, dtype: str) -> int:
    """An integer as it is left over in the width of a type."""
    held = ir.DTYPES[dtype]
    value &= (1 << held.bits) - 1
    signed = held.kind != "uint" and value >> (held.bits - 1)
    return value - (1 << held.bits) if signed else value


def ends(dtype: str) -> list[int]:
    """Numbers of an integer type at which something could go wrong."""
    bits = ir.DTYPES[dtype].bits
    if ir.DTYPES[dtype].kind == "uint":
        return [0, 1, 2, 3, 7, 100, (1 << bits) - 1, 1 << (bits - 1)]
    return [0, 1, -1, 3, -3, 7, -7, 100, (1 << (bits - 1)) - 1, -(1 << (bits - 1))]


INTEGER_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "truncmod": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


@for_each(kind=INTEGER_BINARY, dtype=INTEGERS)
def test_integer_binary(kind: str, dtype: str) -> None:
    """Integers compute as Python's do and wrap around at their width; division rounds as said."""
    second = range(ir.DTYPES[dtype].bits) if kind in ("shl", "shr") else ends(dtype)
    skip_zero = kind in ("floordiv", "floormod", "truncdiv", "truncmod")
    pairs = [(a, b) for a in ends(dtype) for b in second if b or not skip_zero]
    lefts, rights = ([p[i] for p in pairs] for i in (0, 1))
    got = compute(f"{kind} %a, %b", dtype, a=(dtype, lefts), b=(dtype, rights))
    assert got.tolist() == [wrap(INTEGER_BINARY[kind](a, b), dtype) for a, b in pairs]


def test_shift_out() -> None:
    """A shift by the width or more, or by a negative number, moves every bit out."""
    left, by = [-5, 5, -5, 5], [32, 40, -1, 99]
    got = compute("shl %a, %b", "int32", a=("int32", left), b=("int32", by))
    assert got.tolist() == [0, 0, 0, 0]
    got = compute("shr %a, %b", "int32", a=("int32", left), b=("int32", by))
    assert got.tolist() == [-1, 0, -1, 0]


NAN, INF = math.nan, math.inf
FLOAT_BINARY: dict[str, list[tuple[float, float, float]]] = {
    "add": [(1.5, 2.25, 3.75), (INF, -INF, NAN)],
    "sub": [(1.5, 2.25, -0.75)],
    "mul": [(1.5, -2.0, -3.0), (0.0, INF, NAN)],
    "div": [(1.0, 4.0, 0.25), (1.0, 0.0, INF), (-1.0, 0.0, -INF), (0.0, 0.0, NAN)],
    "floordiv": [(7.0, 2.0, 3.0), (-7.0, 2.0, -4.0)],
    "floormod": [(7.5, 2.0, 1.5), (-7.5, 2.0, 0.5), (7.5, -2.0, -0.5)],
    "truncdiv": [(7.0, 2.0, 3.0), (-7.0, 2.0, -3.0)],
    "truncmod": [(7.5, 2.0, 1.5), (-7.5, 2.0, -1.5)],
    "min": [(1.0, 2.0, 1.0), (NAN, 2.0, 2.0), (1.0, NAN, 1.0), (NAN, NAN, NAN)],
    "max": [(1.0, 2.0, 2.0), (NAN, 2.0, 2.0), (1.0, NAN, 1.0), (NAN, NAN, NAN)],
    "pow": [(2.0, 3.0, 8.0), (4.0, 0.5, 2.0), (-8.0, 0.5, NAN)],
    "atan2": [(0.0, -1.0, math.pi), (1.0, 1.0, math.pi / 4)],
    "copysign": [(3.0, -0.0, -3.0), (-3.0, 2.0, 3.0)],
}


@pytest.mark.parametrize("kind", FLOAT_BINARY)
def test_float_binary(kind: str) -> None:
    """Floats follow IEEE; `min` and `max` give the other operand for a NaN."""
    a, b, expected = (list(column) for column in zip(*FLOAT_BINARY[kind]))
    got = compute(f"{kind} %a, %b", "float64", a=("float64", a), b=("float64", b))
    np.testing.assert_array_equal(got, expected)


BOOL_BINARY = {
    "and": [False, False, False, True],
    "or": [False, True, True, True],
    "xor": [False, True, True, False],
}


@pytest.mark.parametrize("kind", BOOL_BINARY)
def test_bool_binary(kind: str) -> None:
    """`and`, `or` and `xor` of bool are logical."""
    got = compute(f"{kind} %a, %b", "bool", a=("bool", [0, 0, 1, 1]), b=("bool", [0, 1, 0, 1]))
    assert got.tolist() == BOOL_BINARY[kind]


def test_every_kind_of_binary_is_tested() -> None:
    """The tables above cover what the IR declares, and the interpreter has exactly that."""
    declared = set(get_args(BinaryKind))
    assert {*INTEGER_BINARY, *FLOAT_BINARY} == declared == set(arithmetic.BINARY)
    assert {*FLOAT_UNARY, *INTEGER_UNARY} == set(get_args(UnaryKind)) == set(arithmetic.UNARY)
    assert set(arithmetic.COMPARE) == set(get_args(CompareKind))


FLOAT_UNARY: dict[str, list[tuple[float, float]]] = {
    "neg": [(1.5, -1.5), (0.0, -0.0)],
    "abs": [(-1.5, 1.5), (2.0, 2.0)],
    "exp": [(0.0, 1.0), (1.0, math.e), (1000.0, INF)],
    "exp2": [(3.0, 8.0), (-1.0, 0.5)],
    "exp10": [(2.0, 100.0), (-1.0, 0.1)],
    "log": [(math.e, 1.0), (0.0, -INF), (-1.0, NAN)],
    "log2": [(8.0, 3.0)],
    "log10": [(1000.0, 3.0)],
    "log1p": [(0.0, 0.0), (1e-10, math.log1p(1e-10))],
    "sqrt": [(9.0, 3.0), (-1.0, NAN)],
    "rsqrt": [(4.0, 0.5), (0.0, INF)],
    "sin": [(1.0, math.sin(1.0))],
    "cos": [(1.0, math.cos(1.0))],
    "tan": [(1.0, math.tan(1.0))],
    "sinh": [(1.0, math.sinh(1.0))],
    "cosh": [(1.0, math.cosh(1.0))],
    "tanh": [(1.0, math.tanh(1.0)), (INF, 1.0)],
    "asin": [(1.0, math.pi / 2), (2.0, NAN)],
    "acos": [(-1.0, math.pi)],
    "atan": [(1.0, math.pi / 4)],
    "erf": [(0.5, math.erf(0.5)), (INF, 1.0)],
    "sigmoid": [(0.0, 0.5), (-1000.0, 0.0), (2.0, 1 / (1 + math.exp(-2.0)))],
    "floor": [(1.5, 1.0), (-1.5, -2.0)],
    "ceil": [(1.5, 2.0), (-1.5, -1.0)],
    "trunc": [(1.5, 1.0), (-1.5, -1.0)],
    "round": [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0)],
    "isnan": [(NAN, 1.0), (INF, 0.0), (1.0, 0.0)],
    "isinf": [(NAN, 0.0), (-INF, 1.0), (1.0, 0.0)],
    "isfinite": [(NAN, 0.0), (INF, 0.0), (1.0, 1.0)],
}
INTEGER_UNARY: dict[str, Callable[[int, int], int]] = {
    "neg": lambda a, bits: -a,
    "abs": lambda a, bits: abs(a),
    "not": lambda a, bits: ~a,
    "popcount": lambda a, bits: (a & ((1 << bits) - 1)).bit_count(),
    "clz": lambda a, bits: bits - (a & ((1 << bits) - 1)).bit_length(),
}


@for_each(kind=FLOAT_UNARY, dtype=["float64", "float32"])
def test_float_unary(kind: str, dtype: str) -> None:
    """Functions agree with `math` to two units in the last place."""
    given_, expected = (list(column) for column in zip(*FLOAT_UNARY[kind]))
    result = "bool" if kind.startswith("is") else dtype
    got = compute(f"{kind} %a", result, a=(dtype, given_))
    units = 2 * float(np.finfo(array(dtype, [0]).dtype).eps)
    # The argument itself is rounded to the type: next to a pole that shows.
    np.testing.assert_allclose(got, array(result, expected), rtol=4 * units, atol=units)


@for_each(kind=INTEGER_UNARY, dtype=INTEGERS)
def test_integer_unary(kind: str, dtype: str) -> None:
    """Bits are counted in the width of the type; `neg` and `abs` wrap around."""
    got = compute(f"{kind} %a", dtype, a=(dtype, ends(dtype)))
    expected = [INTEGER_UNARY[kind](a, ir.DTYPES[dtype].bits) for a in ends(dtype)]
    assert got.tolist() == [wrap(v, dtype) for v in expected]


def test_not_of_bool_is_logical() -> None:
    """`not` of bool turns it around."""
    assert compute("not %a", "bool", a=("bool", [0, 1])).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_compare(dtype: str) -> None:
    """Comparisons of every type give bool."""
    left, right = [1, 2, 3], [2, 2, 2]
    expected = {"lt": [1, 0, 0], "le": [1, 1, 0], "gt": [0, 0, 1], "ge": [0, 1, 1]}
    expected |= {"eq": [0, 1, 0], "ne": [1, 0, 1]}
    for kind, wanted in expected.items():
        got = compute(f"{kind} %a, %b", "bool", a=(dtype, left), b=(dtype, right))
        assert got.astype(int).tolist() == wanted


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_unequal_to_everything(dtype: str) -> None:
    """Only `ne` holds of a NaN."""
    for kind in get_args(CompareKind):
        got = compute(f"{kind} %a, %b", "bool", a=(dtype, [NAN, 1]), b=(dtype, [NAN, NAN]))
        assert got.tolist() == [kind == "ne"] * 2


@pytest.mark.spread
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div"])
@given(data=st.data())
def test_narrow_floats_round_after_each_op(name: str, kind: str, data: st.DataObject) -> None:
    """Each operation gives what a scalar of `ml_dtypes` gives."""
    held = ir.DTYPES[name].to_numpy()
    number = st.floats(-500, 500, width=32)
    values = np.array(data.draw(st.lists(number, min_size=2, max_size=20)), np.float32).astype(held)
    left, right = values[:-1], values[1:]
    got = arithmetic_quietly(kind, left, right, ir.DTYPES[name])
    scalar = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__"}[kind]
    with np.errstate(all="ignore"):
        expected = [getattr(a, scalar)(b) for a, b in zip(left, right)]
    np.testing.assert_array_equal(got.astype(np.float64), np.array(expected, np.float64))


def arithmetic_quietly(kind: str, left: Any, right: Any, dtype: ir.DType) -> Any:
    """One operation, as the interpreter runs it."""
    with np.errstate(all="ignore"):
        return arithmetic.binary(kind, left, right, dtype)


def nearest(exact: Fraction, dtype: np.dtype[Any]) -> float:
    """An exact number rounded once, to nearest even, to a float type."""
    guess = np.float32(float(exact)).astype(dtype) if dtype != np.float64 else np.float64(exact)
    far = np.array([guess, 1000 * abs(guess), -1000 * abs(guess)], dtype)
    around = [c for c in np.nextafter(guess, far) if np.isfinite(c)]

    def rank(candidate: Any) -> tuple[Fraction, int]:
        bits = int(np.asarray(candidate).view(f"u{dtype.itemsize}"))
        return abs(Fraction(float(candidate)) - exact), bits & 1

    return float(min(around, key=rank))


ordinary = st.floats(-1e6, 1e6, width=32)


@given(a=ordinary, b=ordinary, c=ordinary)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    """`a * b + c` is the exact result rounded once, in float32 and in float64."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    for name in ("float32", "float64"):
        held = ir.DTYPES[name].to_numpy()
        x, y, z = (np.array(v, held) for v in (a, b, c))
        got = float(arithmetic.fma(x, y, z, ir.DTYPES[name]))
        if name == "float64":
            assert got == float(exact)
        elif abs(exact) > 1e-30 or exact == 0:
            assert got == nearest(exact, held)


def test_fma_of_large_float64() -> None:
    """Where the splitting of factors overflows, the product is still right; infinities stay."""
    got = compute(
        "fma %a, %b, %c",
        "float64",
        a=("float64", [1e308, 1e308, INF]),
        b=("float64", [1.0, 10.0, 1.0]),
        c=("float64", [1.0, 0.0, 1.0]),
    )
    assert got.tolist() == [1e308, INF, INF]


def test_fma_of_small_float64_rounds_once() -> None:
    """A product whose rounding error is below the smallest number is still rounded once."""
    least = 5e-324
    got = compute(
        "fma %a, %b, %c",
        "float64",
        a=("float64", [-least, 1.0, 2.0**-540]),
        b=("float64", [1.5, -0.0, 1.25 * 2.0**-535]),
        c=("float64", [-least, -0.0, -least]),
    )
    exact = [-2 * least, -0.0, -0.0]  # the last one is -0.375 of the smallest
    assert got.tobytes() == np.array(exact).tobytes()


@given(st.floats(-1e5, 1e5))
def test_float64_to_narrow_rounds_once(value: float) -> None:
    """A float64 goes to bfloat16 and float8 in one rounding."""
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3"):
        held = ir.DTYPES[name].to_numpy()
        largest = {"bfloat16": 3e38, "float8_e5m2": 57344, "float8_e4m3": 448}
        if abs(value) <= largest[name]:
            got = convert.narrow(np.float64(value), ir.DTYPES[name])
            assert float(got) == nearest(Fraction(value), held)


def test_double_rounding_is_avoided() -> None:
    """1 + 2**-8 + 2**-40 lies above the middle of two bfloat16; through float32 it would fall."""
    got = compute("cast %a", "bfloat16", a=("float64", [1 + 2**-8 + 2**-40]))
    assert float(got[0]) == 1 + 2**-7


CASTS = [
    ("float32", "int32", [1.9, -1.9, 0.5], [1, -1, 0]),
    ("bfloat16", "int8", [3.5, -3.5], [3, -3]),
    ("int32", "int8", [300, -129], [44, 127]),
    ("int64", "uint8", [-1, 256], [255, 0]),
    ("float32", "bool", [0.0, 0.5, NAN], [False, True, True]),
    ("int8", "bool", [0, 4], [False, True]),
    ("bool", "float16", [0, 1], [0.0, 1.0]),
    ("float32", "float16", [1e6, 2049.0], [INF, 2048.0]),
    ("float32", "bfloat16", [1.00390625, 1.01171875], [1.0, 1.015625]),
    ("float32", "float8_e4m3", [448.0, 1000.0], [448.0, NAN]),
    ("float32", "float8_e5m2", [57344.0, 1e6], [57344.0, INF]),
    ("int32", "float16", [2049, 2051], [2048.0, 2052.0]),
    ("index", "float32", [16777217], [16777216.0]),
    ("int32", "index", [-5], [-5]),
]


@pytest.mark.parametrize(("source", "target", "values", "expected"), CASTS)
def test_cast(source: str, target: str, values: list[Number], expected: list[Number]) -> None:
    """Floats round to nearest even and overflow as their type does; integers truncate and wrap."""
    got = compute("cast %a", target, a=(source, values))
    np.testing.assert_array_equal(got.astype(np.float64), np.array(expected, np.float64))


def test_bitcast() -> None:
    """The same bits under another type."""
    assert compute("bitcast %a", "uint32", a=("float32", [1.0])).tolist() == [0x3F800000]
    assert compute("bitcast %a", "index", a=("float64", [1.0])).tolist() == [0x3FF0000000000000]
    assert compute("bitcast %a", "bfloat16", a=("uint16", [0x3F80])).tolist() == [1.0]


def test_select() -> None:
    """`then` where the condition holds."""
    got = compute(
        "select %c, %a, %b",
        "int32",
        c=("bool", [1, 0]),
        a=("int32", [1, 2]),
        b=("int32", [3, 4]),
    )
    assert got.tolist() == [1, 4]


CONSTANTS = [
    ("300", "int8", 44),
    ("-1", "uint8", 255),
    ("true", "bool", 1),
    ("0.1", "float16", float(np.float16(0.1))),
    ("1.00390626", "bfloat16", 1.0078125),
    ("inf", "float32", INF),
    ("7", "index", 7),
    ("2", "float32", 2.0),
]


@pytest.mark.parametrize(("text", "dtype", "expected"), CONSTANTS)
def test_constant(text: str, dtype: str, expected: Number) -> None:
    """A constant is rounded, or wrapped, to its type."""
    got = compute(f"constant {text}", dtype, a=("int32", [0]))
    assert got.astype(np.float64).tolist() == [expected]


def test_uniform_index_wraps() -> None:
    """An index that is the same in all lanes has 64 bits as any other."""
    top = (1 << 63) - 1
    assert arithmetic.binary("add", top, 1, ir.DTYPES["index"]) == -(1 << 63)
    assert arithmetic.binary("mul", top, 2, ir.DTYPES["index"]) == -2
