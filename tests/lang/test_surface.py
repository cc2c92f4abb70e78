"""Every operation of the language gives what NumPy gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang import surface
from tileprof import ir

X = np.array([0.5, 1.0, 2.5, -1.5, 0.25, 3.0, -0.75, 2.0], np.float32)
Y = np.array([2.0, -1.0, 0.5, 3.0, 1.5, 0.25, 4.0, -2.5], np.float32)


def run(kernel: Any, *args: Any) -> Any:
    """Compile, check the program's text and run it in the interpreter."""
    with tileprof.device("interpreter"):
        return kernel(*args)


Function = Callable[[Any, Any], Any]
# The operation on the left, what NumPy says about it on the right.
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "exp": (lambda x, y: T.exp(x), lambda x, y: np.exp(x)),
    "exp2": (lambda x, y: T.exp2(x), lambda x, y: np.exp2(x)),
    "exp10": (lambda x, y: T.exp10(x), lambda x, y: 10**x),
    "log": (lambda x, y: T.log(T.abs(x)), lambda x, y: np.log(abs(x))),
    "log2": (lambda x, y: T.log2(T.fabs(x)), lambda x, y: np.log2(abs(x))),
    "log10": (lambda x, y: T.log10(abs(x)), lambda x, y: np.log10(abs(x))),
    "log1p": (lambda x, y: T.log1p(abs(x)), lambda x, y: np.log1p(abs(x))),
    "sqrt": (lambda x, y: T.sqrt(abs(x)), lambda x, y: np.sqrt(abs(x))),
    "rsqrt": (lambda x, y: T.rsqrt(abs(x)), lambda x, y: 1 / np.sqrt(abs(x))),
    "trigonometry": (
        lambda x, y: T.sin(x) + T.cos(x) * T.tan(y),
        lambda x, y: np.sin(x) + np.cos(x) * np.tan(y),
    ),
    "hyperbolic": (
        lambda x, y: T.sinh(x) + T.cosh(x) * T.tanh(y),
        lambda x, y: np.sinh(x) + np.cosh(x) * np.tanh(y),
    ),
    "arcs": (
        lambda x, y: T.asin(x / 4) + T.acos(y / 4) + T.atan(x) + T.atan2(x, y),
        lambda x, y: np.arcsin(x / 4) + np.arccos(y / 4) + np.arctan(x) + np.arctan2(x, y),
    ),
    "erf": (lambda x, y: T.erf(x), lambda x, y: np.vectorize(math.erf)(x)),
    "sigmoid": (lambda x, y: T.sigmoid(x), lambda x, y: 1 / (1 + np.exp(-x))),
    "rounding": (
        lambda x, y: T.floor(x) + 10 * T.ceil(x) + 100 * T.trunc(x) + 1000 * T.round(x),
        lambda x, y: np.floor(x) + 10 * np.ceil(x) + 100 * np.trunc(x) + 1000 * np.rint(x),
    ),
    "nearbyint": (lambda x, y: T.nearbyint(x), lambda x, y: np.rint(x)),
    "max": (lambda x, y: T.max(x, y, 0.75), lambda x, y: np.maximum(np.maximum(x, y), 0.75)),
    "min": (lambda x, y: T.min(x, y), lambda x, y: np.minimum(x, y)),
    "clamp": (lambda x, y: T.clamp(x, -1, 2), lambda x, y: np.clip(x, -1, 2)),
    "pow": (lambda x, y: T.pow(abs(x), y) + x**2, lambda x, y: abs(x) ** y + x * x),
    "fmod": (lambda x, y: T.fmod(x, y), lambda x, y: np.fmod(x, y)),
    "copysign": (lambda x, y: T.copysign(x, y), lambda x, y: np.copysign(x, y)),
    "fma": (lambda x, y: T.fma(x, y, 1.0), lambda x, y: x * y + 1),
    "arithmetic": (lambda x, y: (x + y) * 2 - x / y, lambda x, y: (x + y) * 2 - x / y),
    "floor_division": (lambda x, y: x // y + x % y, lambda x, y: x // y + x % y),
    "if_then_else": (
        lambda x, y: T.if_then_else(x > y, x, 0),
        lambda x, y: np.where(x > y, x, 0),
    ),
    "any_of": (
        lambda x, y: T.Cast("float32", T.any_of(x > 2, y > 2, False)),
        lambda x, y: ((x > 2) | (y > 2)).astype(np.float32),
    ),
    "all_of": (
        lambda x, y: T.cast(T.all_of(x > 0, y > 0), "float32"),
        lambda x, y: ((x > 0) & (y > 0)).astype(np.float32),
    ),
    "words_for_logic": (
        lambda x, y: T.cast(T.Or(T.And(x > 0, T.Not(y > 0)), x > 2), "float32"),
        lambda x, y: ((x > 0) & ~(y > 0) | (x > 2)).astype(np.float32),
    ),
    "special": (
        lambda x, y: T.isnan(x / 0 * 0) + 2 * T.isinf(x / 0) + 4 * T.isfinite(x),
        lambda x, y: np.full_like(x, 7),
    ),
    "reinterpret": (
        lambda x, y: T.reinterpret(T.reinterpret(x, "int32") & 0x7FFFFFFF, "float32"),
        lambda x, y: abs(x),
    ),
    "casts": (
        lambda x, y: T.float32(T.int32(x)) + T.cast(T.float16(y), T.float32),
        lambda x, y: np.trunc(x) + y.astype(np.float16),
    ),
    "fast": (
        lambda x, y: getattr(T, "__exp")(x) + getattr(T, "__log")(abs(y)) * getattr(T, "__exp2")(x),
        lambda x, y: np.exp(x) + np.log(abs(y)) * np.exp2(x),
    ),
    "limits": (
        lambda x, y: T.max(T.min_value("int8"), -T.infinity("float32")) + T.max_value("int8") + x,
        lambda x, y: x - 1,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scalar_function(name: str) -> None:
    """Each function of scalars, element by element."""
    ours, numpys = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = numpys(X, Y).astype(np.float32)
        out = run(surface.elementwise, X, Y, ours)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_zeros_have_an_order(kind: str) -> None:
    """A zero with a minus is less than one without, in either order and on both devices."""
    x = np.array([0.0, -0.0, -0.0, 0.0, 2.0, -0.0], np.float32)
    y = np.array([-0.0, 0.0, -0.0, 0.0, -0.0, np.nan], np.float32)
    for device in ("interpreter", "cpu"):
        with tileprof.device(device):
            greater = surface.elementwise(
                x, y, lambda a, b: T.max(T.cast(a, kind), T.cast(b, kind))
            )
            lesser = surface.elementwise(x, y, lambda a, b: T.min(T.cast(a, kind), T.cast(b, kind)))
        np.testing.assert_array_equal(np.signbit(greater), [0, 0, 1, 0, 0, 1])
        np.testing.assert_array_equal(np.signbit(lesser), [1, 1, 1, 0, 1, 1])


INTEGERS = np.array([1, 7, -8, 100, 0, -3, 12, 255], np.int32)
INTEGER_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "shifts": (
        lambda x: T.shift_left(x, 2) + T.shift_right(x, 1) + (x << 1) - (x >> 2),
        lambda x: (x << 2) + (x >> 1) + (x << 1) - (x >> 2),
    ),
    "bits": (
        lambda x: T.bitwise_and(x, 12) + T.bitwise_or(x, 3) * T.bitwise_xor(x, 5) + ~x,
        lambda x: (x & 12) + (x | 3) * (x ^ 5) + ~x,
    ),
    "bitwise_not": (lambda x: T.bitwise_not(x), lambda x: ~x),
    "divisions": (
        lambda x: (
            T.floordiv(x, 3) * 99
            + T.FloorDiv(x, 3)
            + T.FloorMod(x, 3) * T.floormod(2, 3)
            - T.floormod(x, 3)
        ),
        lambda x: x // 3 * 100 + x % 3,
    ),
    "truncated": (
        lambda x: T.truncdiv(x, 3) * 100 + T.truncmod(x, 3),
        lambda x: np.trunc(x / 3).astype(np.int32) * 100 + np.fmod(x, 3),
    ),
    "ceildiv": (lambda x: T.ceildiv(x, 4), lambda x: -(-x // 4)),
    "popcount": (
        lambda x: T.popcount(x),
        lambda x: np.array([int(v & 0xFFFFFFFF).bit_count() for v in x.astype(np.int64)]),
    ),
    "clz": (
        lambda x: T.clz(x),
        lambda x: np.array([32 - int(v & 0xFFFFFFFF).bit_length() for v in x.astype(np.int64)]),
    ),
    "abs": (lambda x: abs(x) - (-x), lambda x: abs(x) + x),
}


@pytest.mark.parametrize("name", INTEGER_FUNCTIONS)
def test_integer_function(name: str) -> None:
    """Each function of integers, element by element."""
    ours, numpys = INTEGER_FUNCTIONS[name]
    assert run(surface.integers, INTEGERS, ours).tolist() == numpys(INTEGERS).tolist()


def test_numbers_stay_numbers() -> None:
    """Of what is known at compile time every function gives a Python number."""
    assert T.ceildiv(10, 4) == 3
    assert T.max(2, 3, 1) == 3
    assert T.exp2(3) == 8.0
    assert T.truncdiv(-7, 2) == -3
    assert T.if_then_else(False, 1, 2) == 2
    assert T.infinity("float16") == math.inf
    assert T.max_value("uint8") == 255
    assert T.float8_e4m3fn(1000.0) != T.float8_e4m3fn(1000.0)  # overflows to NaN
    assert T.int8(3.9) == 3


def test_element_types_are_names() -> None:
    """`T.float32` is its own name, under every alias."""
    assert T.float32 == "float32"
    assert T.float8_e4m3fn == "float8_e4m3"
    assert T.dtype(np.float16) == T.float16 == T.half
    assert (T.bfloat16.bits, T.bfloat16.bytes, repr(T.bfloat16)) == (16, 2, "T.bfloat16")


GRID = np.arange(-10, 10, dtype=np.float32).reshape(4, 5)
REDUCTIONS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "sum": (T.reduce_sum, np.sum),
    "max": (T.reduce_max, np.max),
    "min": (T.reduce_min, np.min),
    "abssum": (T.reduce_abssum, lambda x, axis: np.sum(abs(x), axis=axis)),
    "absmax": (T.reduce_absmax, lambda x, axis: np.max(abs(x), axis=axis)),
}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reduction(kind: str, dim: int) -> None:
    """Each reduction over each dimension, under its own name and through `T.reduce`."""
    function, numpys = REDUCTIONS[kind]
    expected = numpys(GRID, axis=dim)
    np.testing.assert_allclose(run(surface.reductions, GRID, kind, dim, True), expected)
    named = run(surface.reductions, GRID, kind, dim, True, function)
    np.testing.assert_allclose(named, expected)


def test_reduction_into_what_is_there() -> None:
    """Without `clear` the target takes part."""
    out = run(surface.reductions, GRID, "sum", 1, False)
    np.testing.assert_allclose(out, GRID.sum(1) + 2)


@pytest.mark.parametrize(
    ("kind", "ufunc"),
    [("bitand", np.bitwise_and), ("bitor", np.bitwise_or), ("bitxor", np.bitwise_xor)],
)
def test_bitwise_reduction(kind: str, ufunc: Any) -> None:
    """Bits of each row, into a target that keeps the dimension."""
    bits = np.array([[12, 10, 14], [7, 3, 1]], np.int32)
    assert run(surface.bit_reductions, bits, kind)[:, 0].tolist() == ufunc.reduce(bits, 1).tolist()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_scan(dim: int, reverse: bool, largest: bool) -> None:
    """Running sums in place, and running maxima into another tile, from both ends."""
    turned = np.flip(GRID, dim) if reverse else GRID
    found = np.maximum.accumulate(turned, dim) if largest else np.cumsum(turned, dim)
    expected = np.flip(found, dim) if reverse else found
    np.testing.assert_allclose(run(surface.scans, GRID, dim, reverse, largest), expected)


def test_views() -> None:
    """Another shape and another element type over the same memory."""
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    flat, halves, turned = run(surface.views, a)
    np.testing.assert_array_equal(flat, a.reshape(32))
    np.testing.assert_array_equal(halves, a.view(np.uint16))
    np.testing.assert_array_equal(turned, a.reshape(8, 4))


def test_atomics() -> None:
    """Elements and tiles, in place, and the value from before."""
    a = np.array([3, -2, 9, 4], np.int32)
    totals = np.zeros((4, 4), np.int32)
    before = run(surface.atomics, a, totals)
    assert totals.tolist() == [[14, 9, -2, 4], [14] * 4, [14] * 4, [9] * 4]
    assert sorted(before) == [0, 1, 2, 3]


def test_regions() -> None:
    """Elements, slices, `:`, `...`, negative and partial indices name the parts they name."""
    a = np.arange(512, dtype=np.float32).reshape(4, 8, 16)
    expected = a.copy()
    expected[:, 0, :] = a[:, 3, :]
    expected[:, 2:4, 8:12] = a[:, 2:4, 4:8]
    expected[:, 7, 0] = a[:, 7, 15]
    expected[:, 6, 0:4] = 5
    expected[:, 6, 4:8] = a[:, 2, 4:8]
    expected[:, :, -1] = a[:, :, 3]
    expected[:, 5] = 0
    np.testing.assert_array_equal(run(surface.regions, a, 3), expected)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_product(transpose_a: bool, transpose_b: bool, clear: bool) -> None:
    """Every transposition, added to what is there or not, with an operand that is a region."""
    a = np.arange(256).reshape(16, 16).astype(np.float16) / 16
    b = np.flipud(a).copy()
    left = (a.T if transpose_a else a).astype(np.float32)
    right = (b.T if transpose_b else b).astype(np.float32)
    out = run(surface.products, a, b, transpose_a, transpose_b, clear)
    np.testing.assert_allclose(out, left @ right + (0 if clear else 1), rtol=1e-5)


def test_loops() -> None:
    """Every kind of loop visits its points; hints are kept with it."""
    a = np.arange(1, 9, dtype=np.float32)
    out = run(surface.loops, a)
    every_other = np.where(np.arange(8) % 2 == 0, a, 0)
    rows = [a, every_other, a * 2, a, a, np.concatenate([[9], a[1:]]), a]
    np.testing.assert_array_equal(out, rows)
    kernel = surface.loops.compile().traced
    found = [(op.kind, op.hints) for op in kernel.ops() if isinstance(op, ir.For)]
    assert found[2] == ("unroll", (("unroll_factor", 4),))
    assert found[5] == ("pipelined", (("order", "[0]"), ("stage", "[0]")))


def test_variables() -> None:
    """Assignment to a variable stores, reading it takes what it holds now."""
    a = np.array([1.0, 2.0], np.float32)
    out = run(surface.variables, a)
    np.testing.assert_array_equal(out, [[5, 5, 6, -1], [10, 5, 12, -1]])


def test_macros() -> None:
    """Scalars by value, references to variables and elements, defaults, several results."""
    a = np.array([6.0, 12.0, 18.0, 24.0], np.float32)
    out = run(surface.macros, a)
    np.testing.assert_array_equal(out[:, 0], a / 2)
    np.testing.assert_array_equal(out[:, 1], a / 3 + a / 3)
    np.testing.assert_array_equal(out[:, 2:], [[2, 12]] * 4)


def test_strided_tensor() -> None:
    """Extents and strides that are known at launch: one kernel for a matrix and its transpose."""
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(run(surface.strided, a), a.T)
    np.testing.assert_array_equal(run(surface.strided, a.T), a)
    np.testing.assert_array_equal(run(surface.strided, a[::2, ::2]), a[::2, ::2].T)
    assert len(surface.strided._variants) == 1


def test_computed_extents() -> None:
    """The shape of an output follows from symbols and scalars of the launch."""
    a = np.arange(10, dtype=np.float32)
    out = run(surface.computed_extent, a, 2)
    assert out.tolist() == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]
    assert run(surface.computed_extent, a[:3].copy(), 0).tolist() == [[0]]


def test_diagnostics(capfd: pytest.CaptureFixture[str]) -> None:
    """What is printed has its message; an assertion that holds says nothing."""
    run(surface.diagnostics, np.array([1, 2, 3, 4], np.int32))
    out = capfd.readouterr()
    text = out.out + out.err
    assert "second" in text
    assert "only text" in text


def test_wishes() -> None:
    """Wishes are in the program under their names."""
    text = ir.print_kernel(surface.wishes.compile().traced)
    for line in (
        "hints = [[swizzle, 4], [order, column], [set_max_nreg, 0], [set_max_nreg, 0]]",
        'annotate annotate_layout %x {hints = [[layout, "layout<custom>"]]}',
        'annotate annotate_layout %y {hints = [[layout, "fragment<custom>"]]}',
        "annotate annotate_l2_hit_ratio %A {hints = [[ratio, 0.5]]}",
        "%A: global<64, 64, float16> safe(1)",
        "{hints = [[coalesced_width, 8], [eviction_policy, evict_first]]}",
    ):
        assert line in text


def test_launches_share_a_workspace() -> None:
    """What one launch leaves in a global workspace, the next finds there."""
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(run(surface.two_launches, a), a[::-1] * 2)
