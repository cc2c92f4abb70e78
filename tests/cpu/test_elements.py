"""Scalar ops and element accesses, compiled, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import kernel, load, run
from tileprof import ir
from tileprof.errors import BoundsError

Array = np.ndarray[Any, Any]
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COUNT = 257

EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.fmin,
    "max": np.fmax,
    "copysign": np.copysign,
    "truncmod": np.fmod,
    "floormod": np.remainder,
    "floordiv": np.floor_divide,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}
NEAR: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(np.asarray(10, x.dtype), x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "atan2": np.arctan2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "floordiv": np.floor_divide,
    "floormod": np.remainder,
    "truncmod": np.fmod,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "neg": np.negative,
    "not": np.invert,
    "abs": np.abs,
    "popcount": lambda x: np.array([bin(int(v) % (1 << 8 * x.itemsize)).count("1") for v in x]),
}
UNARY = {"neg", "abs", "sqrt", "floor", "ceil", "trunc", "round", "not", "popcount"}
UNARY |= set(NEAR) - {"atan2"}


def elementwise(dtype: str, ops: list[str]) -> str:
    """Row r of `y` is op r of `a` and `b`."""
    body = [f"    %n = constant {COUNT} : index", "    parallel [%n] body(%i: index) {"]
    body += [f"    %a = load %x, [%i] : {dtype}", f"    %b = load %z, [%i] : {dtype}"]
    for row, op in enumerate(ops):
        operands = "%a" if op in UNARY else "%a, %b"
        body.append(f"    %r{row} = {op} {operands} : {dtype}")
        body.append(f"    %k{row} = constant {row} : index")
        body.append(f"    store %r{row}, %y, [%k{row}, %i]")
    params = [f"%x: global<{COUNT}, {dtype}>", f"%z: global<{COUNT}, {dtype}>"]
    params.append(f"%y: global<{len(ops)}, {COUNT}, {dtype}>")
    return kernel(f"ops_{dtype}", params, "\n".join([*body, "    }"]))


@pytest.mark.spread("float64", "float16", "float8_e4m3")
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_ops_round_after_each_one(dtype: str) -> None:
    """What is exact but for one rounding equals NumPy's to the bit; functions are within 4 units
    in the last place."""
    held = ir.dtype(dtype).to_numpy()
    rng = np.random.default_rng(1)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
    with np.errstate(all="ignore"):
        a = np.concatenate([special, rng.normal(0, 3, COUNT - 8)]).astype(held)
        b = np.concatenate([special[::-1], rng.normal(0, 2, COUNT - 8)]).astype(held)
        ops = [*EXACT, *NEAR]
        y = np.zeros((len(ops), COUNT), held)
        run(elementwise(dtype, ops), [a, b, y])
        # Narrow floats are computed in float32, then rounded.
        wide = np.float64 if dtype == "float64" else np.float32
        x, z = a.astype(wide), b.astype(wide)
        for row, op in enumerate(ops):
            function = EXACT.get(op) or NEAR[op]
            expected = function(x) if op in UNARY else function(x, z)
            found: Array = y[row].astype(wide)
            rounded: Array = np.asarray(expected).astype(held).astype(wide)
            if op in EXACT:
                np.testing.assert_array_equal(found, rounded, op)
            else:
                unit = {"float64": 2.0**-52, "float32": 2.0**-23}.get(dtype, 0)
                unit = unit or float(2 * np.spacing(np.float16(1)) if dtype == "float16" else 0.13)
                unit = 2.0**-7 if dtype == "bfloat16" else unit
                np.testing.assert_allclose(found, rounded, rtol=4 * unit, atol=1e-4, err_msg=op)


@pytest.mark.spread("int8", "int64", "uint16", "uint64")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_ops_wrap(dtype: str) -> None:
    """Integers of every width wrap around and divide as NumPy's do, the smallest by -1 included."""
    held = ir.dtype(dtype).to_numpy()
    rng, info = np.random.default_rng(2), np.iinfo(held)
    a = rng.integers(info.min, info.max, COUNT, held, endpoint=True)
    b = rng.integers(info.min, info.max, COUNT, held, endpoint=True)
    b[: COUNT // 2] = b[: COUNT // 2] % 7 + 1
    b[b == 0] = 1
    a[0], b[0] = info.min, held.type(-1) if info.min else 3
    ops = list(WHOLE)
    y = np.zeros((len(ops), COUNT), held)
    run(elementwise(dtype, ops), [a, b, y])
    with np.errstate(all="ignore"):
        for row, op in enumerate(ops):
            inside = np.ones(COUNT, bool)
            if op in ("shl", "shr"):
                inside = (b >= 0) & (b < info.bits)
            expected = WHOLE[op](a) if op in UNARY else WHOLE[op](a, b)
            np.testing.assert_array_equal(
                y[row][inside], np.asarray(expected).astype(held)[inside], op
            )


def test_division_by_zero_and_wide_shifts_do_not_stop_the_process() -> None:
    """x / 0 and x % 0 give 0, as NumPy does; a shift by the width or more leaves only the sign."""
    a, b = np.full(COUNT, -9, np.int32), np.zeros(COUNT, np.int32)
    ops = ["floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"]
    y = np.ones((len(ops), COUNT), np.int32)
    text = elementwise("int32", ops)
    executable = load(text)
    executable.run([a, b, y], [])
    assert y[:, 0].tolist() == [0, 0, 0, 0, -9, -9]
    executable.run([a, b + 32, y], [])
    assert y[:, 0].tolist() == [-1, 23, 0, -9, 0, -1]


CASTS = (
    *(("float32", t) for t in (*FLOATS[2:], "int8", "int32", "bool", "float64")),
    *(("float64", t) for t in ("float16", "float32")),
    *((s, "float32") for s in (*FLOATS[2:], "uint8", "int64", "bool")),
    ("int64", "int8"),
    ("uint8", "float16"),
    ("bfloat16", "float8_e4m3"),
)


def test_casts() -> None:
    """Every conversion rounds to nearest even once, overflows as its type does, and truncates
    toward zero to integers."""
    params, launches, arrays, expected = [], [], [], []
    rng = np.random.default_rng(3)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-8, 448.0, 464.0, 480.0, 65519.9, 65520.0]
    for number, (source, target) in enumerate(CASTS):
        s, t = ir.dtype(source), ir.dtype(target)
        given = np.concatenate([special, rng.normal(0, 1, 200) * 2.0 ** rng.integers(-20, 16, 200)])
        if not s.is_float or not t.is_float:
            given = rng.integers(0, 100, 211) + (0.5 if s.is_float else 0)
        with np.errstate(all="ignore"):
            x = given.astype(s.to_numpy())
            middle = x.astype(np.float32) if s.bits < 32 and s.is_float else x
            expected.append(middle.astype(t.to_numpy()))
        arrays += [x, np.zeros(211, t.to_numpy())]
        params += [f"%x{number}: global<211, {source}>", f"%y{number}: global<211, {target}>"]
        launches.append(f"""    %n = constant 211 : index
    parallel [%n] body(%i: index) {{
      %a = load %x{number}, [%i] : {source}
      %c = cast %a : {target}
      store %c, %y{number}, [%i]
    }}""")
    run(kernel("casts", params, *launches), arrays)
    for at, want in enumerate(expected):
        found = arrays[2 * at + 1]
        np.testing.assert_array_equal(
            found.astype(np.float64), want.astype(np.float64), str(CASTS[at])
        )


def test_a_double_is_rounded_once_to_a_narrow_float() -> None:
    """Just above the middle of two bfloat16 goes up; by way of float32 it would be the middle."""
    x, y = np.array([1 + 2.0**-8 + 2.0**-40]), np.zeros(1, ir.dtype("bfloat16").to_numpy())
    body = """    %v = load %x, [%c0] : float64
    %w = cast %v : bfloat16
    store %w, %y, [%c0]"""
    run(kernel("once", ["%x: global<1, float64>", "%y: global<1, bfloat16>"], body), [x, y])
    assert float(y[0]) == 1 + 2.0**-7


@pytest.mark.parametrize("count", [1, 7, 127, 128, 1000, 1001])
def test_blocks_at_the_edge_are_guarded(count: int) -> None:
    """Reads outside give the safe value, writes are dropped: nothing beyond the edge is touched."""
    text = """kernel @scale(%x: global<n, float32> safe(3.5), %y: global<m, float32>)
    symbols(%n, %m) {
  %c128 = constant 128 : index
  %c127 = constant 127 : index
  %sum = add %m, %c127 : index
  %blocks = floordiv %sum, %c128 : index
  launch [%blocks] {threads = [128]} body(%bx: index) {
    parallel [%c128] body(%i: index) {
      %at = mul %bx, %c128 : index
      %j = add %at, %i : index
      %v = load %x, [%j] : float32
      %w = add %v, %v : float32
      store %w, %y, [%j]
    }
  }
}"""
    x = np.arange(count, dtype=np.float32)
    held = np.full(count + 20, -1, np.float32)
    run(text, [x, held[: count + 10]], [count, count + 10])
    assert held.tolist() == [*(2 * x).tolist(), *[7.0] * 10, *[-1.0] * 10]


OUTSIDE = kernel(
    "outside",
    ["%x: global<8, float32>", "%which: int32"],
    """    %n = constant 4 : index
    %s = alloc shared {shape = [4, 4]} : shared<4, 4, float32>
    %one = constant 1.0 : float32
    %two = constant 2 : int32
    %zero = constant 0 : int32
    fill %s, %one
    %first = eq %which, %zero : bool
    %k = cast %which : index
    if %first then {
      parallel [%n] body(%i: index) {
        %j = sub %i, %c2 : index
        store %one, %x, [%j] loc("kernel.py":7:8-7:12 "f")
      }
    } otherwise {
      %second = lt %which, %two : bool
      if %second then {
        parallel [%c2, %n] body(%i: index, %j: index) {
          %up = add %i, %j : index
          %v = load %s, [%i, %up] : float32 loc("kernel.py":9:8-9:12 "f")
          store %v, %x, [%j]
        }
      } otherwise {
        %view = view %s, [%k, %c0] {sizes = [3, 4]} : shared<3, 4, float32>
        fill %view, %one loc("kernel.py":11:8-11:12 "f")
      }
    }""",
)


def test_accesses_outside_are_errors() -> None:
    """A negative index, an index outside a shared buffer and a tile that passes its end stop the
    launch with argument, index, shape, block and line; the process lives on."""
    executable = load(OUTSIDE)
    messages = []
    for which in (0, 1, 2):
        with pytest.raises(BoundsError) as caught:
            executable.run([np.zeros(8, np.float32), which], [])
        messages.append(str(caught.value).splitlines()[0])
    assert messages == [
        "kernel.py:7:9: `x` is written at [-2]: the index is negative (shape [8]), in block (0),"
        " point (i=0)",
        "kernel.py:9:9: `s` is read at [1, 4], outside its shape [4, 4], in block (0),"
        " point (i=1, j=3)",
        "kernel.py:11:9: a tile of 3×4 of `s` begins at [2, 0], outside its shape [4, 4],"
        " in block (0)",
    ]


CONTROL = kernel(
    "control",
    ["%x: global<n, float32>", "%y: global<n, float32>", "%s: float32"],
    """    %acc = alloc local {shape = []} : local<float32>
    %arr = alloc local {shape = [4]} : local<4, float32>
    %zero = constant 0.0 : float32
    store %s, %acc, []
    for serial %c0, %c4, %c1 body(%q: index) {
      store %s, %arr, [%q]
    }
    parallel [%n] body(%i: index) {
      %v = load %x, [%i] : float32
      %old = load %acc, [] : float32
      %new = add %old, %v : float32
      store %new, %acc, []
      %negative = lt %v, %zero : bool
      if %negative then {
        store %zero, %y, [%i]
        continue
      } otherwise { }
      for unroll %c0, %c4, %c1 body(%j: index) {
        %e = load %arr, [%j] : float32
        %f = mul %e, %v : float32
        store %f, %arr, [%j]
        %stop = eq %j, %c2 : bool
        if %stop then { break } otherwise { }
      }
      %a2 = load %arr, [%c2] : float32
      %a3 = load %arr, [%c3] : float32
      %sum = add %a2, %a3 : float32
      %private = load %acc, [] : float32
      %both = add %sum, %private : float32
      store %both, %y, [%i]
    }""",
    """    %m1 = constant -1 : index
    %count = alloc local {shape = []} : local<int32>
    %zero = constant 0 : int32
    %one = constant 1 : int32
    %five = constant 5 : int32
    store %zero, %count, []
    while condition {
      %now = load %count, [] : int32
      %go = lt %now, %five : bool
      yield [%go]
    } body {
      %before = load %count, [] : int32
      %after = add %before, %one : int32
      store %after, %count, []
    }
    for serial %c3, %c0, %m1 body(%k: index) {
      %v = load %y, [%k] : float32
      %times = load %count, [] : int32
      %by = cast %times : float32
      %w = mul %v, %by : float32
      store %w, %y, [%k]
    }""",
    symbols="%n",
)


def test_control_flow_and_private_locals() -> None:
    """A `local` written in a parallel is private to each point; continue, break, while and loops
    that count down do what they say."""
    x = np.array([1, -2, 3, 4, -5, 6], np.float32)
    y = np.zeros(6, np.float32)
    run(CONTROL, [x, y, 2.0], [6])
    expected = [0.0 if v < 0 else 2 * v + 2 + 2 + v for v in x.tolist()]
    expected[1:4] = [5 * v for v in expected[1:4]]
    assert y.tolist() == expected


def test_scalars_reach_the_kernel_to_the_bit() -> None:
    """Arguments of every element type: integers wrap to their width, floats round to theirs."""
    given = {
        "bool": True,
        "int8": -3,
        "uint16": 65535,
        "int32": -(2**31),
        "uint64": 2**64 - 1,
        "int64": -(2**63),
        "float64": 0.1,
        "float32": 0.1,
        "float16": 0.1,
        "bfloat16": 0.1,
        "float8_e4m3": 0.3,
        "float8_e5m2": np.inf,
        "index": 1 << 40,
    }
    params = [f"%s_{d}: {d}" for d in given] + [f"%y_{d}: global<1, {d}>" for d in given]
    body = "\n".join(f"    store %s_{d}, %y_{d}, [%c0]" for d in given)
    arrays = [np.zeros(1, ir.dtype(d).to_numpy()) for d in given]
    run(kernel("scalars", params, body), [*given.values(), *arrays])
    expected = [np.asarray(v).astype(a.dtype).item() for v, a in zip(given.values(), arrays)]
    assert [a[0].item() for a in arrays] == expected
