"""The page of a drawing in a real browser: what is seen, what keys and clicks do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.drawing.kernels import product, ring, scattered
from tests.viewer.browser import Browser, chromium
from tileprof.drawing import show

SOURCE = (Path(__file__).parent / "kernels.py").read_text().split("\n")
LINE = next(n for n, text in enumerate(SOURCE, 1) if "T.copy(A[by" in text)
TO_STEP = (
    "(() => {{ const slider = document.querySelector('.stepping input'); slider.value = {};"
    " slider.dispatchEvent(new Event('input')); }})()"
)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of the file."""
    started = Browser(chromium(), tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a product of 70×100 and 100×40 in tiles of 32."""
    path = tmp_path_factory.mktemp("pages") / "product.html"
    show(product, np.ones((70, 100), np.float32), np.ones((100, 40), np.float32)).save(path)
    return path


@pytest.fixture
def page(browser: Browser, drawn: Path) -> Iterator[Browser]:
    """The page, shown; at the end, nothing went wrong in it and nothing was asked for."""
    browser.open(drawn)
    yield browser
    assert browser.errors == []
    assert {each.partition("#")[0] for each in browser.requests} <= {drawn.as_uri()}


def test_the_first_view_has_the_grid_the_tensors_and_the_code(page: Browser) -> None:
    """With bytes against what must move; the first block is chosen."""
    (facts,) = page.texts("#facts")
    # A is read by 2 columns of blocks, B by 3 rows of them, C is written once.
    moved, least = 2 * 28_000 + 3 * 16_000 + 11_200, 28_000 + 16_000 + 11_200
    assert f"{moved / 1000:.0f} KB" in facts
    assert f"{moved / least:.1f}× the {least / 1000:.1f} KB that must move" in facts
    assert page.texts(".tensor h2 code") == ["A", "B", "C"]
    assert page.texts(".tensor .sums")[0].startswith("read by all blocks 56.0 KB")
    assert page.texts(".block h2") == ["Block (0, 0)"]
    assert [line for line in page.texts("#code .row") if "T.copy(A[" in line]
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_keys_choose_a_block_and_its_elements_are_told(page: Browser) -> None:
    """Arrows on the grid; the last block passes the edges."""
    page.run("document.querySelector('.card canvas').focus()")
    page.key("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown")
    assert page.texts(".block h2") == ["Block (1, 2)"]
    assert [text.strip() for text in page.texts(".tensor .key")] == [
        "reads [64:70, 0:100]",
        "reads [0:100, 32:40]",
        "writes [64:70, 32:40]",
    ]


def test_an_element_under_the_mouse_names_the_blocks_that_share_it(page: Browser) -> None:
    """A click keeps their frames."""
    page.click(".tensor canvas")
    (tip,) = page.texts("#tip")
    assert re.fullmatch(r"A\[3[45], \d+\]\nread by 2 blocks: x 0–1, y 1", tip)


def test_steps_follow_keys_and_mark_the_line(page: Browser) -> None:
    """Each names elements, bytes and the slot; the source is beside it."""
    page.run("location.hash = '#steps'")
    page.settle()
    page.run("document.activeElement.blur()")
    page.key("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    (said,) = page.texts("#panel-steps .wide[aria-live]")
    assert said.split("\n") == [
        f"step 5 of 14: copy, line {LINE}, iteration 1",
        "reads A[0:32, 32:64], 4.10 KB of global memory",
        "writes a[0:32, 0:32], 4.10 KB of shared memory, slot 1 (phase 0)",
    ]
    (line,) = page.texts("#code .row.same")
    assert "T.copy(A[by * tile, k * tile], a)" in line
    assert any("slot 0: iteration 0 · slot 1: iteration 1" in t for t in page.texts(".card .key"))
    page.key("ArrowLeft")
    assert f"gemm, line {LINE + 2}" in page.texts("#panel-steps .wide[aria-live]")[0]


def test_slots_are_told_with_the_groups_that_an_iteration_waits_for(page: Browser) -> None:
    """Three slots, filled two iterations ahead; a click on work goes to its step."""
    page.run("location.hash = '#steps'")
    page.settle()
    (card,) = page.texts("#panel-steps .pipeline")
    assert "Slots and groups of a, b" in card
    assert "all threads copy with cp.async, 2 iterations ahead, into 3 slots" in card
    page.run(TO_STEP.format(8))
    page.settle()
    (told,) = page.texts("#panel-steps .waits")
    assert told.startswith("Iteration 2: slot 2, its 1st use")
    assert f"start copy a (line {LINE}), copy b (line {LINE + 1}) into slot 2" in told
    assert "at most 1 later group of its own is under way" in told
    assert "It is for no later iteration of this loop." in told


def test_barriers_are_told_with_their_phases(browser: Browser, tmp_path: Path) -> None:
    """A producer warp group and consumers: who completes which phase of which barrier."""
    path = tmp_path / "ring.html"
    show(ring, *(np.ones((128, 512), ml_dtypes.bfloat16) for _ in "AB")).save(path)
    browser.open(path, "#steps")
    # The last step of a loop of 8 iterations: copies, then the product.
    browser.run(TO_STEP.format(3 * 6))
    browser.settle()
    (told,) = browser.texts("#panel-steps .waits")
    lines = told.split("\n")
    assert lines[0] == "Iteration 5: slot 1, its 2nd use"
    assert "waits for empty[1] to complete phase 0" in lines[1]
    assert "done with iteration 1" in lines[1]
    assert "tells full[1] to expect 32.8 KB" in lines[2]
    assert "wait for full[1] to complete phase 1" in lines[3]
    assert "gemm a" in lines[4]
    assert "4 warps arrives at empty[1]" in lines[5]
    assert browser.errors == []


def test_every_access_has_a_row_with_the_bytes_of_the_run(page: Browser) -> None:
    """Sorted by bytes; a click marks the line."""
    page.run("location.hash = '#accesses'")
    page.settle()
    rows = [row.split("\t") for row in page.texts("#panel-accesses tbody tr")]
    found = {(row[0], row[1], row[2]): row[4:8] for row in rows}
    assert found[str(LINE), "copy read", "A"] == ["56.0 KB", "28.0 KB", "2.00×", "43.0 %"]
    page.click("#panel-accesses tbody tr")
    assert page.texts("#code .row[aria-selected=true]") == page.texts(f"#line-{rows[0][0]}")
    totals = [row.split("\t") for row in page.texts("#panel-accesses .totals tbody tr")]
    assert totals[0] == [
        "global read",
        "cp.async",
        "104 KB",
        "294",
        "4,160",
        "3,250",
        "sectors, 1.3×",
    ]
    (told,) = page.texts("#code .detail")
    assert re.search(r"write a: 768 of 768 wavefronts in 192 requests of all blocks", told)


def test_layouts_show_conflicts_with_and_without_a_swizzle(page: Browser) -> None:
    """An element under the mouse names its thread, or its bank."""
    page.run("location.hash = '#layouts'")
    page.settle()
    names = page.texts("#panel-layouts h2 code")
    assert {"a", "b", "c"} <= set(names)
    (table,) = page.texts(f"#panel-layouts .layout:nth-child({names.index('a') + 1}) table")
    assert "8 rows of 16 bytes (ldmatrix)\t1\t8\t1" in table


def test_a_narrow_window_has_all_of_it(page: Browser) -> None:
    """At 500 pixels nothing is wider than the window, in any view."""
    page.resize(500)
    try:
        for view in ("blocks", "steps", "accesses", "layouts"):
            page.run(f"location.hash = '#{view}'")
            page.settle()
            wide = "(e => e.scrollWidth > e.clientWidth)"
            assert not page.run(f"{wide}(document.documentElement)"), view
            assert not page.run(f"{wide}(document.querySelector('#panel-{view}'))"), view
    finally:
        page.resize(0, 0)


def test_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    """Markup in a source line or a name is shown, not made."""
    made = show(scattered, np.zeros((16, 8), np.float32), np.zeros(4, np.int32))
    for site in made.watch.launches[0].sites:
        hostile: Any = site.site
        object.__setattr__(hostile, "buffer", HOSTILE + site.site.buffer)
    made.save(tmp_path / "x.html")
    browser.open(tmp_path / "x.html", "#accesses")
    assert browser.errors == []
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert any(HOSTILE in row for row in browser.texts("#panel-accesses tbody tr"))
