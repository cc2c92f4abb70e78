"""Figures of layouts against the compiler's own tables."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.drawing.kernels import product
from tileprof import figures
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.errors import OutputError, UsageError

SVG = "{http://www.w3.org/2000/svg}"
MMA = "regs (0,1) (8,0) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps"


def cells(figure: figures.LayoutFigure) -> list[tuple[str, str, str]]:
    """Title, text and frame of each cell."""
    found = []
    for group in ElementTree.fromstring(figure.svg).iter(f"{SVG}g"):
        title, rect, text = (group.find(f"{SVG}{name}") for name in ("title", "rect", "text"))
        assert title is not None
        assert rect is not None
        assert text is not None
        found.append((title.text or "", text.text or "", rect.get("stroke", "")))
    return found


def test_each_element_of_a_fragment_has_its_thread_and_register() -> None:
    """Threads and registers in the figure are those in the layout's table."""
    table = parse_layout(MMA, (16, 8)).table()
    found = cells(figures.layout(MMA, (16, 8)))
    assert len(found) == 128
    for title, text, _ in found:
        row, column, thread, register = map(int, re.findall(r"\d+", title))
        assert tuple(table[thread, register]) == (row, column)
        assert text == f"T{thread} r{register}"


def test_a_swizzle_takes_the_conflicts_away() -> None:
    """Eight rows meet in four banks in plain rows, and in none with the swizzle."""
    figure = figures.layout("swizzle=128", (64, 64), "float16")
    assert "8 rows of 16 bytes at once: 8 wavefronts" in figure.svg
    assert "8 rows of 16 bytes at once: 1 wavefront<" in figure.svg
    found = cells(figure)
    plain, swizzled = found[: len(found) // 2], found[len(found) // 2 :]
    framed = [[text for _, text, stroke in side if stroke != "#fff"] for side in (plain, swizzled)]
    assert framed == [["0–3"] * 8, [f"{4 * n}–{4 * n + 3}" for n in range(8)]]
    assert {stroke for _, _, stroke in plain} == {"#fff", "#c8413b"}
    assert {stroke for _, _, stroke in swizzled} == {"#fff", "#2b7a4b"}


def test_a_buffer_of_a_kernel_has_the_layout_that_the_compiler_chose(tmp_path: Path) -> None:
    """The buffer is found by its name; `save` writes the figure as SVG."""
    kernel = product.compile(M=64, N=64, K=96)
    figure = figures.buffer_layout(kernel, "a")
    assert "a 3 × 32 × 32 float32: swizzle=128" in figure.svg
    figure.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == figure.svg
    assert figures.buffer_layout(kernel, "c", "sm_80").svg.count("<g>") == 32 * 32
    with pytest.raises(OutputError, match="cannot be written"):
        figure.save(tmp_path / "none" / "a.svg")


def test_what_is_no_layout_is_refused() -> None:
    """With the way out."""
    kernel = product.compile(M=64, N=64, K=64)
    with pytest.raises(UsageError, match=r"no buffer `x`[^\n]*\nIt has: .*\ba\b"):
        figures.buffer_layout(kernel, "x")
    for text, shape, dtype in (
        ("diagonal", (64, 64), "float16"),
        ("swizzle=128", (8, 8), "float16"),
        ("regs (0,1)", (16, 8), "float16"),
    ):
        with pytest.raises(UsageError, match="is not a layout"):
            figures.layout(text, shape, dtype)
    with pytest.raises(UsageError, match="no buffer has the shape"):
        figures.layout("rows", (), "float16")
