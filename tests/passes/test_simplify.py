"""What `simplify` does, before beside after, and what it must leave alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprof import ir
from tileprof.compiler.passes import simplify
from tileprof.compiler.passes.folding import exact, fold, wrap


def _simplified(
    body: str, params: str = "%x: global<8, float32>, %n: int32, %p: bool"
) -> list[str]:
    """The ops of a launch body after `simplify`; the value of interest is printed by the body."""
    lines = body.strip().splitlines()
    text = f"kernel @k({params}) {{\n %one = constant 1 : index\n"
    text += " launch [%one] {threads = [32]} body(%bx: index) {\n" + "\n".join(lines) + "\n}\n}\n"
    kernel = ir.parse(text)
    ir.verify(kernel)
    made = simplify(kernel)
    ir.verify(made)
    printed = ir.print_kernel(made)
    assert ir.print_kernel(simplify(made)) == printed, "it is idempotent"
    start = next(i for i, line in enumerate(printed.splitlines()) if "launch" in line)
    return [line.strip() for line in printed.splitlines()[start + 1 : -2]]


FOLDED = {
    "wraps around": ("int8", "mul", "100", "2", "-56"),
    "unsigned": ("uint8", "sub", "1", "2", "255"),
    "floor": ("int32", "floordiv", "-7", "2", "-4"),
    "truncated": ("int32", "truncdiv", "-7", "2", "-3"),
    "sign of the divisor": ("int32", "floormod", "-7", "2", "1"),
    "sign of the dividend": ("int32", "truncmod", "-7", "2", "-1"),
    "float32": ("float32", "add", "16777216.0", "3.0", "16777220.0"),
    "float16": ("float16", "add", "2048.0", "3.0", "2052.0"),
    "bfloat16": ("bfloat16", "mul", "1.0078125", "1.0078125", "1.015625"),
    "to infinity": ("float16", "mul", "256.0", "256.0", "inf"),
    "index": ("index", "mul", "64", "3", "192"),
}


@pytest.mark.parametrize("case", FOLDED.values(), ids=FOLDED.keys())
def test_constants_are_computed_as_the_type_does(case: tuple[str, str, str, str, str]) -> None:
    """Integers wrap around at their width, floats round to theirs."""
    kind, name, left, right, result = case
    body = f"%a = constant {left} : {kind}\n%b = constant {right} : {kind}\n"
    body += f"%c = {name} %a, %b : {kind}\nprint c %c"
    assert _simplified(body) == [f"%c = constant {result} : {kind}", "print c %c"]


KEPT = {
    "may fail": ("int32", "floordiv", "1", "0"),
    "NaN": ("float32", "add", "inf", "-inf"),
    "which zero": ("float32", "min", "0.0", "-0.0"),
    "unspecified": ("int32", "shl", "1", "32"),
    "not exactly rounded": ("float32", "pow", "2.0", "0.5"),
    "overflows": ("int8", "floordiv", "-128", "-1"),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT.keys())
def test_what_devices_may_do_differently_is_left_alone(case: tuple[str, str, str, str]) -> None:
    """Failures, NaNs and library functions happen where the kernel runs."""
    kind, name, left, right = case
    body = f"%a = constant {left} : {kind}\n%b = constant {right} : {kind}\n"
    body += f"%c = {name} %a, %b : {kind}\nprint c %c"
    assert _simplified(body)[-2:] == [f"%c = {name} %a, %b : {kind}", "print c %c"]


LAWS = {
    "x + 0": ("%z = constant 0 : int32\n%r = add %n, %z : int32", "print r %n"),
    "0 + x": ("%z = constant 0 : int32\n%r = add %z, %n : int32", "print r %n"),
    "x - x": ("%r = sub %n, %n : int32", "print r %0"),
    "x // 1": ("%z = constant 1 : int32\n%r = floordiv %n, %z : int32", "print r %n"),
    "-(-x)": ("%z = neg %n : int32\n%r = neg %z : int32", "print r %n"),
    "x <= x": ("%r = le %n, %n : bool", "print r %0"),
    "there and back": ("%w = cast %n : int64\n%r = cast %w : int32", "print r %n"),
    "if p then true": (
        "%t = constant true : bool\n%f = constant false : bool\n%r = select %p, %t, %f : bool",
        "print r %p",
    ),
}


@pytest.mark.parametrize("case", LAWS.values(), ids=LAWS.keys())
def test_laws(case: tuple[str, str]) -> None:
    """An op that is always equal to a value goes."""
    body, last = case
    assert _simplified(body + "\nprint r %r")[-1] == last


NO_LAWS = {
    "x + 0.0": "%z = constant 0.0 : float32\n%r = add %v, %z : float32",
    "x * 0.0": "%z = constant 0.0 : float32\n%r = mul %v, %z : float32",
    "x - x": "%r = sub %v, %v : float32",
    "x == x": "%r = eq %v, %v : bool",
    "through float16": "%w = cast %v : float16\n%r = cast %w : float32",
}


@pytest.mark.parametrize("body", NO_LAWS.values(), ids=NO_LAWS.keys())
def test_no_laws_for_floats(body: str) -> None:
    """-0.0, NaN and rounding make these differ."""
    lines = ["%v = load %x, [%bx] : float32", *body.splitlines(), "print r %r"]
    assert _simplified("\n".join(lines)) == lines


CLEANED = {
    "computed twice": """
        %a = mul %n, %n : int32
        %b = mul %n, %n : int32
        %c = add %a, %b : int32
        print c %c
    """,
    "not where it was computed in a branch": """
        if %p then {
          %a = mul %n, %n : int32
          print a %a
        } otherwise {
        }
        %b = mul %n, %n : int32
        print b %b
    """,
    "zero and negative constants": """
        %a = constant 0.0 : float32
        %b = constant -0.0 : float32
        store %a, %x, [%bx]
        store %b, %x, [%bx]
    """,
    "known branch": """
        %t = constant true : bool
        %r = if %t : int32 then {
          %a = mul %n, %n : int32
          yield [%a]
        } otherwise {
          yield [%n]
        }
        print r %r
    """,
    "branches that only yield": """
        %m = neg %n : int32
        %r = if %p : int32 then {
          yield [%n]
        } otherwise {
          yield [%m]
        }
        print r %r
    """,
    "a division stays behind its test": """
        %c7 = constant 7 : int32
        %r = if %p : int32 then {
          %q = floordiv %c7, %n : int32
          yield [%q]
        } otherwise {
          yield [%n]
        }
        print r %r
    """,
    "nested branches": """
        %q = lt %bx, %one : bool
        if %p then {
          if %q then {
            print both _
          } otherwise {
          }
        } otherwise {
        }
    """,
    "no trips": """
        %c4 = constant 4 : index
        for serial %c4, %one, %one body(%i: index) {
          print never _
        }
        for serial %c4, %one, %bx body(%i: index) {
          print perhaps _
        }
    """,
    "behind a break": """
        %t = constant true : bool
        %c4 = constant 4 : index
        for serial %one, %c4, %one body(%i: index) {
          print first _
          if %t then {
            break
          } otherwise {
          }
          print never _
        }
    """,
    "unused": """
        %t = alloc local {shape = []} : local<int32>
        %u = alloc local {shape = []} : local<int32>
        %s = alloc shared {shape = [8]} : shared<8, float32>
        %v = load %x, [%bx] : float32
        store %n, %t, []
        store %n, %u, []
        %w = load %u, [] : int32
        print w %w
        copy %x, %s
        if %p then {
          %e = exp %v : float32
        } otherwise {
        }
    """,
    "joined constants": """
        %c3 = constant 3 : index
        %c4 = constant 4 : index
        %a = add %c3, %bx : index
        %b = add %a, %c4 : index
        %v = load %x, [%b] : float32
        store %v, %x, [%bx]
    """,
}


def test_cleaning(golden: Callable[[str], None]) -> None:
    """Each case as written, then as simplified."""
    shown = []
    for name, body in CLEANED.items():
        before = [line.strip() for line in body.strip().splitlines()]
        shown += [f"-- {name}", *before, "--", *_simplified(body), ""]
    golden("\n".join(shown))


@given(
    st.sampled_from(["int8", "uint8", "int32", "index"]),
    st.sampled_from(["add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod"]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
)
@settings(max_examples=200, deadline=None)
def test_integer_folding_is_numpy_s(kind: str, name: str, left: int, right: int) -> None:
    """What is folded equals NumPy at the type's width."""
    dtype = ir.dtype(kind)
    held = dtype.to_numpy().type
    a, b = wrap(left, dtype), wrap(right, dtype)
    values = [ir.Constant(v, dtype).result for v in (a, b)]
    found = fold(ir.Binary(name, *values), [a, b])  # type: ignore[arg-type]
    function = {
        **{"add": np.add, "sub": np.subtract, "mul": np.multiply},
        **{"floordiv": np.floor_divide, "floormod": np.remainder, "truncmod": np.fmod},
    }.get(name, lambda x, y: held(math.trunc(int(x) / int(y))))
    if found is None:
        assert b == 0 or (b == -1 and a == -(2 ** (dtype.bits - 1)))
    elif name != "truncdiv" or abs(a) < 2**53:
        with np.errstate(all="ignore"):
            assert found == function(held(a), held(b))


@given(
    st.sampled_from(["float16", "bfloat16", "float32", "float64"]),
    st.sampled_from(["add", "sub", "mul", "div", "min", "max"]),
    st.floats(width=32, allow_nan=False),
    st.floats(width=32, allow_nan=False),
)
@settings(max_examples=200, deadline=None)
def test_float_folding_is_numpy_s(kind: str, name: str, left: float, right: float) -> None:
    """What is folded equals the operation of the type itself, to the bit."""
    dtype = ir.dtype(kind)
    a, b = exact(left, dtype), exact(right, dtype)
    if a is None or b is None:
        return
    values = [ir.Constant(v, dtype).result for v in (a, b)]
    found = fold(ir.Binary(name, *values), [a, b])  # type: ignore[arg-type]
    function = {
        **{"add": np.add, "sub": np.subtract, "mul": np.multiply},
        **{"div": np.divide, "min": np.minimum, "max": np.maximum},
    }[name]
    held = dtype.to_numpy().type
    with np.errstate(all="ignore"):
        expected = float(function(held(a), held(b)))
    if found is None:
        assert math.isnan(expected) or (a == b and name in ("min", "max"))
    else:
        assert (found, math.copysign(1, found)) == (expected, math.copysign(1, expected))
