"""Planted regressions: each still finds the text that it edits, and enough of them are planted."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from benchmarks.bisect_plants import with_table
from benchmarks.bisecting import plants_ours, plants_triton
from benchmarks.bisecting.planting import REPOSITORY, farm, replaced
from benchmarks.bisecting.plants import Edit, Null, Plant
from tests.repeated import for_each
from tileprof.bisecting.culprits import _READ_BY
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import PASSES

EVERY: list[Plant | Null] = [*plants_ours.PLANTS, *plants_ours.NULLS]
RESULTS = REPOSITORY / "benchmarks" / "results" / "bisect.json"


@for_each(which=EVERY)
def test_edit_finds_its_text_once(which: Plant | Null) -> None:
    """A compiler that changed asks for the plant to be written anew."""
    for edit in which.compiler:
        assert (REPOSITORY / "tileprof" / edit.file).read_text().count(edit.old) == 1
    for edit in which.kernel:
        replaced((REPOSITORY / which.suite.partition(":")[0]).read_text(), edit)


def test_kernels_of_triton_have_the_texts_that_are_edited() -> None:
    """Edits of Triton itself need the version that they are for, and are not looked at here."""
    triton: list[Plant | Null] = [*plants_triton.PLANTS, *plants_triton.NULLS]
    for each in triton:
        for edit in each.kernel:
            replaced((REPOSITORY / each.suite.partition(":")[0]).read_text(), edit)


def test_results_are_those_of_all_plants_and_reach_what_is_claimed() -> None:
    """At least 25 plants of tileprof and 15 of Triton; nine of ten are right, two of a hundred
    false alarms."""
    held = json.loads(RESULTS.read_text())
    for engine, plants, least in (
        ("tileprof", plants_ours.PLANTS, 25),
        ("triton", plants_triton.PLANTS, 15),
    ):
        rows = held[engine]["plants"]
        assert [row["name"] for row in rows] == [each.name for each in plants]
        assert len(rows) >= least
    rates = held["rates"]
    assert rates["all"]["right level"] >= 0.9
    without = rates["edits without effect"]
    assert without["false alarms"] <= 0.02 * without["tried"]
    assert all(each["rate"] <= 0.02 for each in rates["simulated noise"].values())


def test_page_has_the_measured_figures() -> None:
    """The table on the page is that of the results; the benchmark writes both."""
    page = (REPOSITORY / "docs" / "bisect.md").read_text()
    assert with_table(page, json.loads(RESULTS.read_text())) == page


def test_copy_of_a_package_has_the_edit_and_leaves_the_original(tmp_path: Path) -> None:
    """Folders on the way to an edited file are copied, others are links."""
    package = tmp_path / "package"
    for place, text in {"a/x.py": "one", "a/y.cuh": "two", "b/z.py": "three"}.items():
        (package / place).parent.mkdir(parents=True, exist_ok=True)
        (package / place).write_text(text)
    farm(package, tmp_path / "copy", [Edit("a/x.py", "one", "1")])
    assert (tmp_path / "copy/a/x.py").read_text() == "1"
    assert (package / "a/x.py").read_text() == "one"
    assert not (tmp_path / "copy/a/y.cuh").is_symlink()
    assert (tmp_path / "copy/b").is_symlink()


def test_ways_out_are_options_that_passes_read() -> None:
    """Names of passes and options are those of the compiler."""
    assert set(_READ_BY) <= {each.name for each in PASSES}
    names = {each.name for each in fields(Controls)}
    assert all(set(each) <= names for each in _READ_BY.values())
