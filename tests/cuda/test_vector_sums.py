"""Sums of neighbours in global memory: which are made together, how many at once, and the same
numbers as one by one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cuda.elementwise_support import compare, compare_together, launch, numbers, source
from tests.verified import parse
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.unit import emit
from tileprof.compiler.cuda.target import find_target

EIGHTS = "regs (0,1) (0,2) (0,4) | lanes (0,8) (0,16) (0,32) (1,0) (2,0) | warps (4,0) (8,0)"
"""16 × 64, vectors of 8 along rows."""
PAIRS = "regs (0,1) (0,8) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (0,16) (0,32)"
"""8 × 64 as products of matrices leave it: two neighbours a register pair."""
COPIES = "regs (0,1) (0,2) | lanes (0,4) (0,8) (0,16) (0,0) (0,0) | warps (0,0) (1,0)"
"""2 × 32, of which several threads hold each point."""


def added(
    dtype: str, layout: str, rows: int, columns: int, kind: str = "add", more: str = ""
) -> str:
    """Rows of x joined with twice those of y, in a loop of this layout; `m` rows are there."""
    return launch(
        f"%x: global<m, {columns}, {dtype}>, %y: global<m, {columns}, {dtype}>",
        f"""
    parallel [%c{rows}, %c{columns}] {{layout = "{layout}"}} body(%i: index, %j: index) {{
      %v = load %y, [%i, %j] : {dtype}
      %w = add %v, %v : {dtype}
      %old = atomic {kind} %w, %x, [%i, %j] : {dtype}
{more}
    }}""",
        symbols="%m",
    )


def calls(text: str) -> dict[str, int]:
    """How often each function adds, and how many elements at once."""
    found = re.findall(r"tp_atomic(?:_add_vector<\d>|_add_global|<\w+>)", text)
    return {name: found.count(name) for name in found}


FORMS = (
    ("float32", EIGHTS, (16, 64), 4),
    ("float16", EIGHTS, (16, 64), 8),
    ("bfloat16", EIGHTS, (16, 64), 8),
    ("float32", PAIRS, (8, 64), 2),
    ("bfloat16", PAIRS, (8, 64), 2),
    ("float32", COPIES, (2, 32), 4),
)
"""Type, layout, rows and columns, and how many elements are added together."""


def test_together() -> None:
    """As many as 16 bytes and the layout have; a vector lies inside or outside as a whole."""
    cases: list[Any] = []
    for dtype, layout, (rows, columns), _ in FORMS:
        text = added(dtype, layout, rows, columns)
        for held in (rows, rows - 1):
            arrays = [numbers(dtype, held, columns, seed=seed) for seed in (0, 1)]
            cases.append((text, arrays, (held,)))
    for (*_, width), text in zip(FORMS, compare_together(cases)[::2]):
        assert set(calls(text)) == {f"tp_atomic_add_vector<{width}>"}


@pytest.mark.parametrize(
    ("dtype", "kind", "more"),
    [
        ("int32", "add", ""),
        ("float32", "max", ""),
        ("float32", "add", "      store %old, %y, [%i, %j] : float32"),
    ],
    ids=["whole numbers", "maxima", "earlier elements are asked for"],
)
def test_one_by_one(dtype: str, kind: str, more: str) -> None:
    """What the hardware does to one element only."""
    text = added(dtype, EIGHTS, 16, 64, kind, more.replace(" : float32", ""))
    made = compare(text, [numbers(dtype, 16, 64), numbers(dtype, 16, 64, seed=1)], [16])
    assert all(name.startswith("tp_atomic<") for name in calls(made.text))


def test_narrow_sums_that_are_no_neighbours() -> None:
    """One narrow float is added with the pair that it is in."""
    text = launch(
        "%x: global<64, 16, bfloat16>, %y: global<64, 16, bfloat16>",
        f"""
    parallel [%c16, %c64] {{layout = "{EIGHTS}"}} body(%i: index, %j: index) {{
      %v = load %y, [%j, %i] : bfloat16
      %old = atomic add %v, %x, [%j, %i] : bfloat16
    }}""",
    )
    made = compare(text, [numbers("bfloat16", 64, 16), numbers("bfloat16", 64, 16, seed=1)])
    assert set(calls(made.text)) == {"tp_atomic_add_global"}
    older = emit(parse(text), find_target("sm_80"), Controls())
    assert set(calls(older.text)) == {"tp_atomic<TpAdd>"}


def test_an_element_read_again_keeps_its_place() -> None:
    """A sum that a later op of the point looks at is not moved behind the vector."""
    text = launch(
        "%x: global<16, 64, float32>, %y: global<16, 64, float32>",
        f"""
    parallel [%c16, %c64] {{layout = "{EIGHTS}"}} body(%i: index, %j: index) {{
      %v = load %y, [%i, %j] : float32
      %old = atomic add %v, %x, [%i, %j] : float32
      %w = load %x, [%i, %j] : float32
      store %w, %y, [%i, %j]
    }}""",
    )
    made = compare(text, [numbers("float32", 16, 64), numbers("float32", 16, 64, seed=1)])
    assert set(calls(made.text)) == {"tp_atomic<TpAdd>"}
    off = source(added("float32", EIGHTS, 16, 64), Controls(vectorize=False))
    assert set(calls(off.text)) == {"tp_atomic<TpAdd>"}
