"""Facts of tile programs that rules rest on are found however an author spells the program."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tileprof.analyzer.tiles.contractions import contractions
from tileprof.analyzer.tiles.gathers import begun_by_data, placed_by_data
from tileprof.analyzer.tiles.masked_loops import masked_loops
from tileprof.analyzer.tiles.neighbours import loaded_with_neighbours
from tileprof.analyzer.tiles.repeated import repeated
from tileprof.analyzer.tiles.walks import walk_of
from tileprof.analyzer.tiles.whole_extents import Dimension, is_whole
from tileprof.ir.plain import plain_kernel
from tileprof.kernel_ir import TileKernel

_ONE = """\
import tileprof
import tileprof.lang as T

@T.macro
def scaled(x, factor):
    return x * factor

@T.macro
def multiply(a, b, sums, d):
    for r, c in T.Parallel(64, 64):
        sums[r, c] += T.cast(a[r, d], "float32") * T.cast(b[d, c], "float32")

@T.prim_func
def kernel(X: T.Tensor((512, 512), "float32"), H: T.Tensor((512, 512), "float16"),
           Y: T.Tensor((512, 512), "float32")):
"""
_IN_BLOCKS = "    with T.Kernel(8, 8, threads=128) as (bx, by):\n"
_TILES = (
    "a = T.alloc_shared((64, 64), 'float16')\nb = T.alloc_shared((64, 64), 'float16')\n"
    "sums = T.alloc_fragment((64, 64), 'float32')\nT.clear(sums)\n"
    "T.copy(H[by * 64, 0], a)\nT.copy(H[0, bx * 64], b)\n"
)
_AT = "Y[by * 64 + i, bx * 64 + j]"
BY_HAND = (
    "for d in T.serial(64):\n    multiply(a, b, sums, d)\n",
    "for d in range(64):\n    for c, r in T.Parallel(64, 64):\n"
    "        sums[r, c] = T.cast(b[d, c], 'float32') * T.cast(a[r, d], 'float32') + sums[r, c]\n",
    "for r, c in T.Parallel(64, 64):\n    for d in T.serial(64):\n"
    "        sums[r, c] += T.cast(a[r, d], 'float32') * T.cast(b[d, c], 'float32')\n",
    "for d in T.unroll(64):\n    for r, c in T.Parallel(64, 64):\n"
    "        sums[r, c] += T.cast(a[r, d] * b[d, c], 'float32')\n",
    "for half in T.serial(2):\n    for d in T.serial(32):\n"
    "        for r, c in T.Parallel(64, 64):\n"
    "            left = T.cast(a[r, half * 32 + d], 'float32')\n"
    "            sums[r, c] += left * T.cast(b[half * 32 + d, c], 'float32')\n",
)
LEFT_OUT = (
    f"for i, j in T.Parallel(64, 128):\n    if j < 64:\n        {_AT} = X[i, j]\n",
    f"for i, j in T.Parallel(64, 128):\n    if 64 > j:\n        {_AT} = X[i, j]\n",
    f"for i, j in T.Parallel(128, 64):\n    if i <= 63:\n        {_AT} = X[i, j]\n",
    f"for i, j in T.Parallel(64, 128):\n    if not (j >= 64):\n        {_AT} = X[i, j]\n",
    f"for i, j in T.Parallel(64, 128):\n    if j >= 64:\n        {_AT} = X[i, j]\n",
    f"for j, i in T.Parallel(128, 128):\n    if i < 64 and j < 64:\n        {_AT} = X[i, j]\n",
)
SHIFTED = (
    "for i, j in T.Parallel(64, 64):\n    Y[by * 64 + i, bx * 64 + j] = X[by, j] + X[by, j + 1]\n",
    "for i, j in T.Parallel(64, 64):\n    at = bx * 64 + j\n"
    "    Y[by * 64 + i, at] = X[by, T.max(at, 1) - 1] + X[by, T.max(at, 1)]\n",
    "for i, j in T.Parallel(64, 64):\n    at = j + 1 + bx * 64\n"
    "    Y[by * 64 + i, bx * 64 + j] = X[by, bx * 64 + j] + X[by, at]\n",
    "for i, j in T.Parallel(64, 64):\n    total = X[by, j]\n"
    "    for tap in list(range(3)):\n        total = total + X[by, j + tap]\n"
    "    Y[by * 64 + i, bx * 64 + j] = scaled(total, 0.5)\n",
    "for i, j in T.Parallel(64, 64):\n    at = bx * 64 + j\n"
    "    Y[by * 64 + i, at] = X[by, (at + 511) % 512] + X[by, at]\n",
    "for j, i in T.Parallel(64, 64):\n"
    "    Y[by * 64 + i, j] = T.cast(H[by, 2 + j], 'float32') + T.cast(H[by, j], 'float32')\n",
)
_PLACES = "at = T.alloc_fragment((64,), 'int32')\nT.clear(at)\n"
BY_DATA = (
    "for i in T.Parallel(64):\n    Y[by, T.cast(X[bx, i], 'int32')] = 1.0\n",
    "for i in T.Parallel(64):\n    at[i] = T.if_then_else(X[bx, at[i]] < 0.5, i, 7)\n",
    "for i, j in T.Parallel(64, 64):\n    Y[by, at[j] + j] = X[by * 64 + i, bx * 64 + j]\n",
    "for j, i in T.Parallel(64, 64):\n"
    "    place = T.if_then_else(X[0, i] > 0.0, i, j)\n    Y[by * 64 + j, place] = 1.0\n",
)
_LOOP = "held = T.alloc_shared((64, 64), 'float32')\nsums = T.alloc_fragment((64, 64), 'float32')\n"
AGAIN = (
    "T.clear(sums)\nfor k in T.serial(8):\n    T.copy(X[by * 64, 0], held)\n"
    "    for i, j in T.Parallel(64, 64):\n        sums[i, j] += held[i, j] * X[k, j]\n",
    "T.clear(sums)\nfor k in T.Pipelined(8, num_stages=2):\n"
    "    T.copy(X[by * 64 : by * 64 + 64, bx * 64 : bx * 64 + 64], held)\n"
    "    for i, j in T.Parallel(64, 64):\n        sums[i, j] += held[i, j] * X[k, j]\n",
    "T.clear(sums)\nfor k in range(8):\n    for i, j in T.Parallel(64, 64):\n"
    "        held[i, j] = X[by * 64 + i, j]\n"
    "    for i, j in T.Parallel(64, 64):\n        sums[i, j] += held[i, j] * X[k, j]\n",
    "T.clear(sums)\nT.copy(X[by * 64, 0], held)\nT.copy(X[by * 64, 0], held)\n"
    "for i, j in T.Parallel(64, 64):\n    sums[i, j] += held[i, j]\n",
    "T.clear(sums)\nfor k in T.serial(8):\n    for i, j in T.Parallel(64, 64):\n"
    "        sums[i, j] += X[k, j]\n    T.copy(sums, Y[by * 64, bx * 64])\n",
)
LONG = (
    "for turn in T.serial(16):\n    for i in T.Parallel(256):\n"
    "        Y[by * 64 + bx * 8, turn * 16 + i] = X[by * 64 + bx * 8, turn * 16 + i]\n",
    "for turn in range(16):\n    for i, j in T.Parallel(4, 64):\n"
    "        Y[by * 64 + turn * 4 + i, bx * 64 + j] = X[by * 64 + turn * 4 + i, bx * 64 + j]\n",
    "tile = T.alloc_fragment((4, 64), 'float32')\nfor turn in T.serial(16):\n"
    "    T.copy(X[by * 64 + turn * 4, bx * 64], tile)\n"
    "    for i, j in T.Parallel(4, 64):\n        tile[i, j] = scaled(tile[i, j], 2.0)\n"
    "    T.copy(tile, Y[by * 64 + turn * 4, bx * 64])\n",
    "tile = T.alloc_shared((4, 64), 'float32')\nfor turn in T.serial(0, 16):\n"
    "    T.copy(X[(by * 16 + turn) * 4, bx * 64], tile)\n"
    "    T.copy(tile, Y[(by * 16 + turn) * 4, bx * 64])\n",
    "for turn in T.serial(16):\n    row = by * 64 + turn * 4\n"
    "    for i, j in T.Parallel(4, 64):\n"
    "        Y[row + i, bx * 64 + j] = X[row + i, bx * 64 + j] + 1.0\n",
)
FACTS: dict[str, tuple[str, tuple[str, ...], Callable[[TileKernel], object]]] = {
    "a product by hand": (_TILES, BY_HAND, contractions),
    "elements left out": ("", LEFT_OUT, masked_loops),
    "neighbours in a row": ("", SHIFTED, loaded_with_neighbours),
    "places that data give": (_PLACES, BY_DATA, placed_by_data),
    "done again": (_LOOP, AGAIN, repeated),
    "a block that walks tiles": ("", LONG, walk_of),
}
"""Facts by name: the lines before each spelling, the spellings, and the function that finds it."""


def traced(body: str, folder: Path) -> TileKernel:
    """Return the records of a kernel whose blocks do this."""
    path = folder / "spelled.py"
    path.write_text(_ONE + _IN_BLOCKS + "".join(f"        {line}\n" for line in body.splitlines()))
    spec = importlib.util.spec_from_file_location("spelled", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return plain_kernel(module.kernel.compile().program.kernel)


@pytest.mark.spread
@pytest.mark.parametrize(
    ("fact", "number"), [(fact, at) for fact, held in FACTS.items() for at in range(len(held[1]))]
)
def test_a_fact_is_found_in_each_spelling(fact: str, number: int, tmp_path: Path) -> None:
    """Spellings with helpers, other loops, orders of axes and operands, conditions and types."""
    before, spellings, finds = FACTS[fact]
    assert finds(traced(before + spellings[number], tmp_path))


@pytest.mark.parametrize(
    ("place", "begins"),
    [("T.cast(X[by, 0], 'int32') + j", True), ("T.cast(X[by, 0], 'int32') * 16 + j", False),
     ("by * 16 + j", False)],
)  # fmt: skip
def test_rows_that_begin_where_a_loaded_number_says(
    place: str, begins: bool, tmp_path: Path
) -> None:
    """Lanes lie side by side all the same, and rows of 16 elements begin at whole accesses."""
    body = f"for j in T.Parallel(64):\n    Y[bx, j] = T.cast(H[bx, {place}], 'float32')\n"
    kernel = traced(body, tmp_path)
    assert {tensor for _, tensor, _ in begun_by_data(kernel)} == ({"H"} if begins else set())
    assert not placed_by_data(kernel)


def test_rows_taken_by_their_numbers_lie_in_the_order_of_lanes(tmp_path: Path) -> None:
    """Whichever rows these are, lanes go along them."""
    body = (
        "for i, j in T.Parallel(64, 64):\n    Y[T.cast(X[by, i], 'int32'), j] = X[i, bx * 64 + j]\n"
    )
    assert not placed_by_data(traced(body, tmp_path))


@pytest.mark.parametrize(("dimension", "whole"), [("M", False), ("N", True), ("K", True)])
def test_tiles_with_all_of_a_tensor(dimension: Dimension, whole: bool, tmp_path: Path) -> None:
    """64 of 512 rows by all columns of a tensor of 512 × 512, 512 deep."""
    body = (
        "a = T.alloc_shared((64, 512), 'float16')\nb = T.alloc_shared((512, 512), 'float16')\n"
        "sums = T.alloc_fragment((64, 512), 'float32')\nT.clear(sums)\n"
        "T.copy(H[by * 64, 0], a)\nT.copy(H[0, 0], b)\nT.gemm(a, b, sums, transpose_B=True)\n"
        "T.copy(sums, Y[by * 64, 0])\n"
    )
    kernel = traced(body, tmp_path)
    (line,) = (op.line for op in kernel.named("gemm"))
    assert is_whole(kernel, line, dimension) == whole
    assert not is_whole(kernel, line + 1, dimension)
