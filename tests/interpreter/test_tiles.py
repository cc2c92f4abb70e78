"""Ops on whole tiles against NumPy, edges and element types included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interpreter.kernels import MATMUL, SOFTMAX
from tests.interpreter.running import array, run
from tests.repeated import for_each
from tileprof import ir
from tileprof.errors import Location

COPY = """
kernel @copy(%x: global<m, n, float32> safe(7.0), %y: out global<m, n, float32>, %dx: index,
    %dy: index) symbols(%m, %n) {
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  %m1 = add %m, %c2 : index
  %gy = floordiv %m1, %c3 : index
  %c1 = constant 1 : index
  %n1 = add %n, %c1 : index
  %gx = floordiv %n1, %c2 : index
  launch [%gx, %gy] {threads = [32]} body(%bx: index, %by: index) {
    %s = alloc shared {shape = [3, 2]} : shared<3, 2, float32>
    %row = mul %by, %c3 : index
    %column = mul %bx, %c2 : index
    %r = add %row, %dy : index
    %c = add %column, %dx : index
    %xv = view %x, [%r, %c] {sizes = [3, 2]} : global<3, 2, float32>
    copy %xv, %s loc("copy.py":5:4-5:9 "f")
    %yv = view %y, [%row, %column] {sizes = [3, 2]} : global<3, 2, float32>
    copy %s, %yv loc("copy.py":6:4-6:9 "f")
  }
}
"""


@given(
    m=st.integers(1, 9),
    n=st.integers(1, 7),
    dx=st.integers(0, 4),
    dy=st.integers(0, 4),
    order=st.sampled_from("CF"),
)
@settings(max_examples=25, deadline=None)
def test_copy_property(m: int, n: int, dx: int, dy: int, order: Any) -> None:
    """For every shape and shift: what lies outside reads as the safe value, and is counted."""
    x = np.arange(m * n, dtype=np.float32).reshape(m, n).copy(order)
    y = np.zeros((m, n), np.float32, order)
    result = run(COPY, x, y, dx, dy, symbols=(m, n))
    padded = np.full((m + 20, n + 20), 7, np.float32)
    padded[:m, :n] = x
    np.testing.assert_array_equal(y, padded[dy : dy + m, dx : dx + n])
    rows, columns = -(-m // 3) * 3, -(-n // 2) * 2
    inside = max(min(m - dy, rows), 0) * max(min(n - dx, columns), 0)
    lines = {5: rows * columns - inside, 6: rows * columns - m * n}
    expected = {Location("copy.py", k): v for k, v in lines.items() if v}
    assert result.guarded_by_line == expected


SAME_TILE = """
kernel @same_tile(%x: global<4, 4, int8>, %y: out global<3, 4, 4, float16>) {
  %c0 = constant 0 : index
  %c3 = constant 3 : index
  launch [%c3] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [4, 4]} : shared<4, 4, float32>
    copy %x, %s
    %yv = view %y, [%bx, %c0, %c0] {sizes = [1, 4, 4]} : global<1, 4, 4, float16>
    copy %s, %yv
  }
}
"""


def test_copy_converts_and_drops_extents_of_one() -> None:
    """A whole parameter in, a 1 × 4 × 4 view out; int8 → float32 → float16."""
    x, y = np.arange(16, dtype=np.int8).reshape(4, 4), np.zeros((3, 4, 4), np.float16)
    run(SAME_TILE, x, y)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (3, 4, 4)))


VIEWS = """
kernel @views(%x: global<2, 6, int32>, %y: out global<3, 3, int32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c3 = constant 3 : index
  launch [%c3] {threads = [32]} body(%bx: index) {
    %s = alloc shared {shape = [2, 6]} : shared<2, 6, int32>
    copy %x, %s
    %outer = view %s, [%c1, %c1] {sizes = [1, 5]} : shared<1, 5, int32>
    %inner = view %outer, [%c0, %bx] {sizes = [1, 3]} : shared<1, 3, int32>
    %head = view %s, [%c0, %bx] {sizes = [1, 3]} : shared<1, 3, int32>
    copy %inner, %head
    %yv = view %y, [%bx, %c0] {sizes = [1, 3]} : global<1, 3, int32>
    copy %head, %yv
  }
}
"""


def test_views_of_views_and_of_block_buffers() -> None:
    """Offsets add up, and each block's view starts where the block says."""
    x, y = np.arange(12, dtype=np.int32).reshape(2, 6), np.zeros((3, 3), np.int32)
    run(VIEWS, x, y)
    assert y.tolist() == [[7, 8, 9], [8, 9, 10], [9, 10, 11]]


FILL = """
kernel @fill(%y: out global<4, 3, int32>) {
  %c0 = constant 0 : index
  %c4 = constant 4 : index
  launch [%c4] {threads = [32]} body(%bx: index) {
    %s = alloc fragment {shape = [3]} : fragment<3, int32>
    %v = cast %bx : int32
    fill %s, %v
    %yv = view %y, [%bx, %c0] {sizes = [1, 3]} : global<1, 3, int32>
    copy %s, %yv
  }
}
"""


def test_fill() -> None:
    """A fill value may differ from block to block."""
    y = np.zeros((4, 3), np.int32)
    run(FILL, y)
    assert y.tolist() == [[i] * 3 for i in range(4)]


@pytest.mark.parametrize("shape", [(64, 64, 32), (100, 70, 50), (1, 1, 1), (130, 64, 33)])
def test_matmul(shape: tuple[int, int, int]) -> None:
    """Tiles at the edges are padded with zeros on the way in and cut on the way out."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    c = np.zeros((m, n), np.float32)
    run(MATMUL, a.astype(np.float32), b.astype(np.float32), c, symbols=(m, n, k))
    np.testing.assert_array_equal(c, a @ b)


def gemm_kernel(a: str, b: str, c: str, options: str, shapes: str) -> str:
    """One gemm on whole parameters; `shapes` like `2,3 3,4 2,4`."""
    sa, sb, sc = (s.replace(",", ", ") for s in shapes.split())
    return f"""
kernel @gemm(%a: global<{sa}, {a}>, %b: global<{sb}, {b}>, %c: global<{sc}, {c}>) {{
  %c1 = constant 1 : index
  launch [%c1] {{threads = [32]}} body(%bx: index) {{
    gemm %a, %b, %c {options}
  }}
}}
"""


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_gemm_transposes(left: bool, right: bool, clear: bool) -> None:
    """`c += a @ b`, either operand transposed; with `clear` the old `c` does not count."""
    a, b, c = (
        np.random.default_rng(i).integers(-9, 9, s) for i, s in enumerate([(2, 3), (3, 4), (2, 4)])
    )
    held = c.astype(np.float64)
    flags = {"transpose_a": left, "transpose_b": right, "clear": clear}
    options = "{" + ", ".join(f"{k} = true" for k, v in flags.items() if v) + "}"
    shapes = f"{'3,2' if left else '2,3'} {'4,3' if right else '3,4'} 2,4"
    text = gemm_kernel(
        "float64", "float64", "float64", options if any(flags.values()) else "", shapes
    )
    arrays = (a.T if left else a), (b.T if right else b)
    run(text, *(v.astype(np.float64) for v in arrays), held)
    np.testing.assert_array_equal(held, a @ b + (0 if clear else c))


GEMM_TYPES = [
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float16", "float16"),
    ("float8_e4m3", "float8_e5m2", "bfloat16"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("int32", "int32", "int32"),
    ("int64", "int64", "int64"),
]


@pytest.mark.parametrize(("a_type", "b_type", "c_type"), GEMM_TYPES)
def test_gemm_types(a_type: str, b_type: str, c_type: str) -> None:
    """Float sums are made in float32 and rounded once to `c`; integer sums are exact and wrap."""
    rng = np.random.default_rng(1)
    wide = 1 << 20 if a_type in ("int32", "int64") else 12
    low = 0 if a_type == "uint8" else -wide
    a, b = (
        array(a_type, rng.integers(low, wide, (3, 8))),
        array(b_type, rng.integers(-9, 9, (8, 5))),
    )
    c = array(c_type, rng.integers(-9, 9, (3, 5)))
    held = np.float32 if ir.DTYPES[c_type].is_float else np.int64
    exact = a.astype(held) @ b.astype(held) + c.astype(held)
    expected = exact.astype(c.dtype)
    run(gemm_kernel(a_type, b_type, c_type, "", "3,8 8,5 3,5"), a, b, c)
    np.testing.assert_array_equal(c.astype(held), expected.astype(held))


def test_gemm_integers_wrap() -> None:
    """A sum beyond int32 is left over in 32 bits."""
    a, b = np.full((1, 2), 1 << 20, np.int32), np.full((2, 1), 1 << 11, np.int32)
    c = np.zeros((1, 1), np.int32)
    run(gemm_kernel("int32", "int32", "int32", "", "1,2 2,1 1,1"), a, b, c)
    assert c.tolist() == [[0]]
    a, b = np.full((1, 2), 1 << 40, np.int64), np.full((2, 1), 3, np.int64)
    c = np.zeros((1, 1), np.int64)
    run(gemm_kernel("int64", "int64", "int64", "", "1,2 2,1 1,1"), a, b, c)
    assert c.tolist() == [[6 << 40]]


def reduce_kernel(kind: str, source: str, target: str, dim: int, clear: bool = True) -> str:
    """Reduce each block's 3 × 4 tile into 4 or 3 elements."""
    left = 4 if dim == 0 else 3
    return f"""
kernel @reduce(%x: global<2, 3, 4, {source}>, %y: global<2, {left}, {target}>) {{
  %c0 = constant 0 : index
  %c2 = constant 2 : index
  launch [%c2] {{threads = [32]}} body(%bx: index) {{
    %s = alloc fragment {{shape = [3, 4]}} : fragment<3, 4, {source}>
    %t = alloc fragment {{shape = [{left}]}} : fragment<{left}, {target}>
    %xv = view %x, [%bx, %c0, %c0] {{sizes = [1, 3, 4]}} : global<1, 3, 4, {source}>
    copy %xv, %s
    %yv = view %y, [%bx, %c0] {{sizes = [1, {left}]}} : global<1, {left}, {target}>
    copy %yv, %t
    reduce {kind} %s, %t {{dim = {dim}, clear = {str(clear).lower()}}}
    copy %t, %yv
  }}
}}
"""


REDUCE: dict[str, Any] = {
    "sum": np.add.reduce,
    "abssum": lambda v, axis: np.abs(v).sum(axis),
    "max": np.max,
    "min": np.min,
    "absmax": lambda v, axis: np.abs(v).max(axis),
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
    "bitxor": np.bitwise_xor.reduce,
}


@for_each(kind=REDUCE, dim=[0, 1], dtype=["int32", "float32", "bfloat16"])
def test_reduce(kind: str, dim: int, dtype: str) -> None:
    """Each kind along each dimension."""
    if kind.startswith("bit") and dtype != "int32":
        return
    x = np.random.default_rng(2).integers(-20, 20, (2, 3, 4))
    y = array(dtype, np.zeros((2, 4 if dim == 0 else 3)))
    run(reduce_kernel(kind, dtype, dtype, dim), array(dtype, x), y)
    np.testing.assert_array_equal(y.astype(np.int64), REDUCE[kind](x, axis=dim + 1))


def test_reduce_without_clear_combines() -> None:
    """What is in the target takes part."""
    x, y = array("int32", np.arange(24).reshape(2, 3, 4)), np.full((2, 3), 100, np.int32)
    run(reduce_kernel("sum", "int32", "int32", 1, clear=False), x, y)
    np.testing.assert_array_equal(y, x.sum(2) + 100)
    y = np.full((2, 3), 9, np.int32)
    run(reduce_kernel("max", "int32", "int32", 1, clear=False), x, y)
    np.testing.assert_array_equal(y, np.maximum(x.max(2), 9))


def test_reduce_rounds_at_the_end() -> None:
    """256 + 1 + 1 + 1 in bfloat16 is 260, not 256: the sum is made in float32."""
    x, y = array("bfloat16", np.zeros((2, 3, 4))), array("bfloat16", np.zeros((2, 3)))
    x[0, 0] = [256, 1, 1, 1]
    run(reduce_kernel("sum", "bfloat16", "bfloat16", 1), x, y)
    assert float(y[0, 0]) == 260


def test_reduce_max_skips_nan() -> None:
    """A maximum gives the other operand for a NaN; of nothing but NaN it is NaN."""
    x, y = np.zeros((2, 3, 4), np.float32), np.zeros((2, 3), np.float32)
    x[0, 0] = [np.nan, -3, -2, np.nan]
    x[0, 1] = np.nan
    run(reduce_kernel("max", "float32", "float32", 1), x, y)
    np.testing.assert_array_equal(y[0], [-2, np.nan, 0])


def test_reduce_into_a_wider_type() -> None:
    """int8 summed into int32 does not wrap at 8 bits."""
    x, y = np.full((2, 3, 4), 100, np.int8), np.zeros((2, 3), np.int32)
    run(reduce_kernel("sum", "int8", "int32", 1), x, y)
    assert y.tolist() == [[400] * 3] * 2


SCAN = """
kernel @scan(%x: global<3, 4, DTYPE>, %y: out global<3, 4, DTYPE>) {
  %c1 = constant 1 : index
  launch [%c1] {threads = [32]} body(%bx: index) {
    %s = alloc fragment {shape = [3, 4]} : fragment<3, 4, DTYPE>
    copy %x, %s
    scan KIND %s, %s {dim = DIM, reverse = REVERSE}
    copy %s, %y
  }
}
"""


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_scan(kind: str, dim: int, reverse: bool, dtype: str) -> None:
    """Inclusive, along either dimension, from either end, in place."""
    x = array(dtype, np.random.default_rng(3).integers(-9, 9, (3, 4)))
    y = np.zeros_like(x)
    text = SCAN.replace("DTYPE", dtype).replace("KIND", kind)
    run(text.replace("DIM", str(dim)).replace("REVERSE", str(reverse).lower()), x, y)
    function = np.cumsum if kind == "sum" else np.maximum.accumulate
    turned = np.flip(x, dim) if reverse else x
    expected = function(turned, axis=dim)
    np.testing.assert_array_equal(y, np.flip(expected, dim) if reverse else expected)


TILE_ATOMIC = """
kernel @tile_atomic(%x: global<m, float32>, %y: global<3, float32>) symbols(%m) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c4 = constant 4 : index
  %up = sub %m, %c1 : index
  %more = add %up, %c4 : index
  %blocks = floordiv %more, %c4 : index
  launch [%blocks] {threads = [32]} body(%bx: index) {
    %s = alloc fragment {shape = [4]} : fragment<4, float32>
    %at = mul %bx, %c4 : index
    %xv = view %x, [%at] {sizes = [4]} : global<4, float32>
    copy %xv, %s
    %yv = view %y, [%c0] {sizes = [4]} : global<4, float32>
    tile_atomic KIND %s, %yv
  }
}
"""


@pytest.mark.parametrize(("kind", "function"), [("add", np.sum), ("max", np.max), ("min", np.min)])
def test_tile_atomic(kind: str, function: Any) -> None:
    """All blocks combine into one tile; the fourth element lies outside and is dropped."""
    x, y = np.arange(1, 21, dtype=np.float32), np.array([5, 5, 5], np.float32)
    result = run(TILE_ATOMIC.replace("KIND", kind), x, y, symbols=(20,))
    columns = np.concatenate([np.full((1, 4), 5), x.reshape(5, 4)])[:, :3]
    assert y.tolist() == function(columns, axis=0).tolist()
    assert result.guarded == 5


@pytest.mark.parametrize("shape", [(5, 1000), (3, 1024), (1, 1)])
def test_softmax(shape: tuple[int, int]) -> None:
    """Rows shorter than the tile are padded with the safe value, minus infinity."""
    x = np.random.default_rng(4).normal(size=shape).astype(np.float32)
    y = np.zeros_like(x)
    run(SOFTMAX, x, y, symbols=shape)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_copy_to_bfloat16_rounds() -> None:
    """A tile is converted as its elements would be."""
    text = SAME_TILE.replace("float16", "bfloat16").replace("int8", "float32")
    x = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
    y = np.zeros((3, 4, 4), ml_dtypes.bfloat16)
    run(text, x, y)
    np.testing.assert_array_equal(y[2], x.astype(ml_dtypes.bfloat16))
