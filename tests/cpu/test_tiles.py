"""Tile ops, compiled, against NumPy.  One kernel holds many launches: a compilation costs more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import kernel, run, shape
from tileprof import ir

Array = np.ndarray[Any, Any]


def values(rng: np.random.Generator, extents: tuple[int, ...], dtype: str) -> Array:
    """Small numbers that every type holds."""
    made: Array = rng.integers(0 if dtype[0] in "ub" else -3, 4, extents)
    return made.astype(ir.dtype(dtype).to_numpy())


class Cases:
    """Launches and arrays of one kernel, with what is expected of some of the arrays."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.params: list[str] = []
        self.launches: list[str] = []
        self.arrays: list[Array] = []
        self.expected: list[tuple[str, Array, Array]] = []

    def tensor(self, array: Array, dtype: str) -> str:
        """One more parameter; its name."""
        name = f"%p{len(self.arrays)}"
        self.params.append(f"{name}: global<{shape(*array.shape)}, {dtype}>")
        self.arrays.append(array)
        return name

    def check(self, name: str, *, rtol: float = 0, atol: float = 0) -> None:
        """Run everything and compare."""
        run(kernel(name, self.params, *self.launches), self.arrays)
        for label, found, expected in self.expected:
            np.testing.assert_allclose(
                found.astype(np.float64),
                expected.astype(np.float64),
                rtol=rtol,
                atol=atol,
                err_msg=label,
            )


COPIES = (
    ("float32", "float32"),
    ("float32", "bfloat16"),
    ("float8_e4m3", "float16"),
    ("int8", "float32"),
    ("float32", "int32"),
    ("bool", "float32"),
    ("float64", "float32"),
)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 40), (16, 33), (40, 7)])
def test_tiles_that_pass_the_edge(rows: int, columns: int) -> None:
    """A tile reads the safe value outside its tensor and writes nothing there; types convert on
    the way."""
    arrays, params, launches = [], [], []
    for number, (source, target) in enumerate(COPIES):
        params.append(f"%x{number}: global<m, n, {source}> safe(2)")
        params.append(f"%y{number}: global<48, 48, {target}>")
        x = values(np.random.default_rng(number), (rows, columns), source)
        arrays += [x, np.ones((48, 48), ir.dtype(target).to_numpy())]
        launches.append(f"""    %c16 = constant 16 : index
    for serial %c0, %c3, %c1 body(%i: index) {{
      for serial %c0, %c3, %c1 body(%j: index) {{
        %r = mul %i, %c16 : index
        %q = mul %j, %c16 : index
        %v = view %x{number}, [%r, %q] {{sizes = [16, 16]}} : global<16, 16, {source}>
        %t = alloc shared {{shape = [16, 16]}} : shared<16, 16, {source}>
        %u = alloc fragment {{shape = [16, 16]}} : fragment<16, 16, {target}>
        copy %v, %t
        copy %t, %u
        %w = view %y{number}, [%r, %q] {{sizes = [16, 16]}} : global<16, 16, {target}>
        copy %u, %w
        %z = view %x{number}, [%r, %q] {{sizes = [16, 16]}} : global<16, 16, {source}>
        copy %t, %z
      }}
    }}""")
    before = [a.copy() for a in arrays]
    run(kernel("copies", params, *launches, symbols="%m, %n"), arrays, [rows, columns])
    for number, (source, _) in enumerate(COPIES):
        expected = np.full((48, 48), 1 if source == "bool" else 2, np.float64)
        expected[:rows, :columns] = before[2 * number].astype(np.float64)
        np.testing.assert_array_equal(arrays[2 * number + 1].astype(np.float64), expected)
        np.testing.assert_array_equal(arrays[2 * number], before[2 * number])


def test_strides_and_extents_of_one() -> None:
    """`x[2, 16:32, b, :]` of an array in any order fits 16 × 24; four rows of it are there."""
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(3, 20, 5, 24)).astype(np.float32))
    y = np.zeros((16, 24), np.float32)
    text = kernel(
        "strided",
        ["%x: global<3, n, 5, 24, float32, strides=[a, b, c, d]>", "%y: global<16, 24, float32>"],
        """    %c16 = constant 16 : index
    %v = view %x, [%c2, %c16, %c4, %c0] {sizes = [1, 16, 1, 24]} : global<1, 16, 1, 24, float32>
    copy %v, %y""",
        symbols="%n, %a, %b, %c, %d",
    )
    run(text, [x, y], [20, *(s // 4 for s in x.strides)])
    np.testing.assert_array_equal(y, np.pad(x[2, 16:, 4, :], ((0, 12), (0, 0))))


GEMMS = (
    ("float32", "float32", "float32"),
    ("float64", "float64", "float64"),
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float16", "float16"),
    ("float8_e4m3", "float8_e5m2", "float32"),
    ("int8", "uint8", "int32"),
)


@pytest.mark.spread(
    "float32-float32-float32", "float8_e4m3-float8_e5m2-float32", "int8-uint8-int32"
)  # fmt: skip
@pytest.mark.parametrize("types", GEMMS, ids="-".join)
def test_gemm(types: tuple[str, str, str]) -> None:
    """Every transposition, with and without clearing, extents that divide nothing, more rows than
    one panel of `b` has; small whole numbers, so that every sum is exact.  All eight cases are of
    one type, since which way an operand lies is no matter of its type."""
    cases = Cases()
    every = range(8) if types == GEMMS[0] else (1, 6)
    extents = [(64, 32, 48), (7, 5, 3), (16, 130, 65), (1, 16, 300)][
        : 4 if types == GEMMS[0] else 2
    ]
    for number, (m, n, k) in enumerate(extents):
        for case in every if number == 1 else (number * 2 + 1, 6 - number):
            left, right, clear = case & 1, case & 2, case & 4
            a_shape, b_shape = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
            a, b = (values(cases.rng, s, t) for s, t in zip((a_shape, b_shape), types))
            c = values(cases.rng, (m, n), types[2])
            names = [cases.tensor(x, t) for x, t in zip((a, b, c), types)]
            wide = [x.astype(np.float64) for x in (a, b, c)]
            product = (wide[0].T if left else wide[0]) @ (wide[1].T if right else wide[1])
            cases.expected.append((f"{m, n, k, case}", c, product + (0 if clear else wide[2])))
            tiles = [shape(*s) for s in (a_shape, b_shape, (m, n))]
            flags = f"transpose_a = {_flag(left)}, transpose_b = {_flag(right)}"
            cases.launches.append(f"""    %a = alloc shared {{shape = [{tiles[0]}]}}
      : shared<{tiles[0]}, {types[0]}>
    %bb = alloc shared {{shape = [2, {tiles[1]}]}} : shared<2, {tiles[1]}, {types[1]}>
    %c = alloc fragment {{shape = [{tiles[2]}]}} : fragment<{tiles[2]}, {types[2]}>
    copy {names[0]}, %a
    %stage = view %bb, [%c1, %c0, %c0] {{sizes = [1, {tiles[1]}]}}
      : shared<1, {tiles[1]}, {types[1]}>
    copy {names[1]}, %stage
    copy {names[2]}, %c
    gemm %a, %stage, %c {{{flags}, clear = {_flag(clear)}}}
    copy %c, {names[2]}""")
    cases.check("gemm_" + types[0])


def _flag(value: int) -> str:
    return "true" if value else "false"


def test_gemm_of_the_callers_memory() -> None:
    """Views of global tensors that pass the edge multiply as if they were zero there."""
    x, y, z = (np.random.default_rng(n).normal(size=(20, 20)).astype(np.float32) for n in range(3))
    expected = z.copy()
    expected[16:, 16:] += x[16:, :] @ y[:, 16:]
    text = kernel(
        "direct",
        [f"%{p}: global<20, 20, float32>" for p in "xyz"],
        """    %c16 = constant 16 : index
    %v = view %x, [%c16, %c0] {sizes = [8, 32]} : global<8, 32, float32>
    %w = view %y, [%c0, %c16] {sizes = [32, 8]} : global<32, 8, float32>
    %u = view %z, [%c16, %c16] {sizes = [8, 8]} : global<8, 8, float32>
    gemm %v, %w, %u""",
    )
    run(text, [x, y, z])
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5)


KINDS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, d: x.sum(d),
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "abssum": lambda x, d: np.abs(x).sum(d),
    "absmax": lambda x, d: np.fmax.reduce(np.abs(x), d),
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
    "bitxor": np.bitwise_xor.reduce,
}
JOIN: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "abssum": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "absmax": np.fmax,
}


@pytest.mark.spread("float16-float16", "int8-int32", "bool-int32")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "float32"),
        ("bfloat16", "float32"),
        ("float16", "float16"),
        ("int8", "int32"),
        ("bool", "int32"),
    ],
)
def test_reduce(source: str, target: str) -> None:
    """Rows and columns of any length, joined with the target unless it is cleared; NaN loses
    against any number, and rows of nothing but NaN or infinity keep it.  All shapes are of one
    type, since how a loop walks a shape is no matter of its type."""
    cases = Cases()
    whole = source in ("int8", "bool")
    every = [
        ((16, 200), 1),
        ((16, 200), 0),
        ((3, 5, 70), 0),
        ((3, 5, 70), 1),
        ((130, 9), 0),
        ((300,), 0),
    ]
    for number, (extents, dim) in enumerate(every if source == "float32" else every[:2]):
        kinds = [k for k in KINDS if whole or not k.startswith("bit")]
        for kind in kinds if number < (2 if source == "float32" else 1) else kinds[:2]:
            clear = kind.startswith("bit") or number % 2 == 0
            x = values(cases.rng, extents, source)
            if not whole and kind in ("max", "min", "absmax"):
                x.flat[5] = np.nan
                if number == 0:
                    x[1], x[2], x[3, 7:] = np.nan, -np.inf, np.inf
            kept = tuple(e for d, e in enumerate(extents) if d != dim) or (1,)
            y = values(cases.rng, kept, target)
            wide = x.astype(np.int64 if whole else np.float64)
            made = np.asarray(KINDS[kind](wide, dim)).reshape(kept)
            made = made if clear else JOIN[kind](y.astype(np.float64), made)
            cases.expected.append((f"{kind} {extents} {dim}", y, made))
            names = [cases.tensor(x, source), cases.tensor(y, target)]
            s, t = shape(*extents), shape(*kept)
            cases.launches.append(f"""    %s = alloc fragment {{shape = [{s}]}}
      : fragment<{s}, {source}>
    %t = alloc fragment {{shape = [{t}]}} : fragment<{t}, {target}>
    copy {names[0]}, %s
    copy {names[1]}, %t
    reduce {kind} %s, %t {{dim = {dim}, clear = {_flag(clear)}}}
    copy %t, {names[1]}""")
    cases.check("reduce_" + source)


def test_scan() -> None:
    """Inclusive sums and running maxima along either dimension, from either end."""
    cases = Cases()
    for dtype in ("float32", "int32", "bfloat16"):
        for dim in (0, 1):
            for kind in ("sum", "max"):
                for reverse in (False, True):
                    x = values(cases.rng, (6, 20), dtype)
                    y = np.zeros_like(x)
                    wide = np.flip(x, dim) if reverse else x
                    function = np.add if kind == "sum" else np.fmax
                    made = function.accumulate(wide.astype(np.float64), dim)
                    label = f"{dtype} {dim} {kind} {reverse}"
                    cases.expected.append((label, y, np.flip(made, dim) if reverse else made))
                    names = [cases.tensor(x, dtype), cases.tensor(y, dtype)]
                    cases.launches.append(f"""    %s = alloc shared {{shape = [6, 20]}}
      : shared<6, 20, {dtype}>
    copy {names[0]}, %s
    scan {kind} %s, %s {{dim = {dim}, reverse = {_flag(reverse)}}}
    copy %s, {names[1]}""")
    cases.check("scan")


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16", "uint64"])
def test_blocks_combine_by_atomics(dtype: str) -> None:
    """Many blocks add to one element and one tile: nothing is lost."""
    text = f"""kernel @atomics_{dtype}(
    %x: global<20, {dtype}>, %y: global<20, {dtype}>, %h: global<2, {dtype}>) {{
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c20 = constant 20 : index
  %c64 = constant 64 : index
  %one = constant 1 : {dtype}
  launch [%c64] {{threads = [32]}} body(%b: index) {{
    %t = alloc shared {{shape = [20]}} : shared<20, {dtype}>
    copy %x, %t
    tile_atomic add %t, %y
    parallel [%c20] body(%i: index) {{
      %old = atomic add %one, %h, [%c0] : {dtype}
      %high = atomic max %old, %h, [%c1] : {dtype}
    }}
  }}
}}"""
    count = 64 if dtype == "bfloat16" else 64 * 20
    x = (np.arange(20) % 3).astype(ir.dtype(dtype).to_numpy())
    y, h = np.zeros_like(x), np.zeros(2, x.dtype)
    run(text.replace("%c20] body", "%c1] body") if dtype == "bfloat16" else text, [x, y, h])
    np.testing.assert_array_equal(y.astype(float), 64.0 * x.astype(float))
    assert h.astype(float).tolist() == [count, count - 1]


def test_a_loop_that_copies_its_result_on_the_way() -> None:
    """A parallel followed by a copy of what it wrote gives the same inside and at the edge, and the
    tile is still there for who reads it later."""
    text = """kernel @mirror(
    %x: global<m, 40, float32>, %y: global<m, 40, float32>, %z: global<m, 40, float32>)
    symbols(%m) {
  %c0 = constant 0 : index
  %c8 = constant 8 : index
  %c40 = constant 40 : index
  %c7 = constant 7 : index
  %sum = add %m, %c7 : index
  %blocks = floordiv %sum, %c8 : index
  launch [%blocks] {threads = [32]} body(%b: index) {
    %t = alloc fragment {shape = [8, 40]} : fragment<8, 40, float32>
    %at = mul %b, %c8 : index
    %v = view %x, [%at, %c0] {sizes = [8, 40]} : global<8, 40, float32>
    copy %v, %t
    parallel [%c8, %c40] body(%i: index, %j: index) {
      %a = load %t, [%i, %j] : float32
      %s = add %a, %a : float32
      store %s, %t, [%i, %j]
    }
    %w = view %y, [%at, %c0] {sizes = [8, 40]} : global<8, 40, float32>
    copy %t, %w
    parallel [%c8, %c40] body(%i: index, %j: index) {
      %a = load %t, [%i, %j] : float32
      %s = mul %a, %a : float32
      store %s, %t, [%i, %j]
    }
    %u = view %z, [%at, %c0] {sizes = [8, 40]} : global<8, 40, float32>
    copy %t, %u
  }
}"""
    x = np.random.default_rng(0).normal(size=(19, 40)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    run(text, [x, y, z], [19])
    np.testing.assert_array_equal(y, x + x)
    np.testing.assert_array_equal(z, (x + x) * (x + x))
