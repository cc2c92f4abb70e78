"""The pages of trees are made from recordings: blocks, tables, no folder of a machine."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import trees
from tests.viewer.samples import Nested, matmul, node, profile_of, with_children
from tileprof.profile import Profile, save

PAGE = """# A program

<!-- facts small -->
<!-- end -->

```text
$ tileprof view small.tprof -d 1 --frames all
as it was
```

By hand.
"""


@pytest.fixture(scope="module")
def tool() -> Any:
    """The module that writes the pages."""
    return importlib.import_module("benchmarks.page_trees")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A folder with a recording whose command names folders of this machine."""
    command = "tileprof run -o /srv/kept/small-base-plain.tprof /srv/code/small.py"
    profile = matmul()
    tables = replace(profile.tables, provenance={"command": command})
    save(replace(profile, tables=tables), tmp_path / "small-base-plain.tprof")
    return tmp_path


def test_blocks_and_tables_are_written_anew_and_the_text_is_kept(
    tool: Any, recordings: Path
) -> None:
    """A block holds what its command prints; text outside of blocks and tables stays."""
    page = tool.written(PAGE, recordings)
    assert "as it was" not in page
    assert "--frames all\ntileprof run -o small.tprof small.py\n" in page
    assert "| device time below a line of the user's files |" in page
    assert page.endswith("By hand.\n")
    assert tool.written(page, recordings) == page


def test_a_missing_recording_is_named(tool: Any, tmp_path: Path) -> None:
    """A page is not written by halves."""
    with pytest.raises(FileNotFoundError, match="no recording of small"):
        tool.written(PAGE, tmp_path)


def test_pages_fit_a_screen_and_name_no_folder(tool: Any) -> None:
    """Each shown tree has at most 50 lines of at most 120 columns, and no path of a machine."""
    shown = [found[0] for page in tool.PAGES for found in tool.BLOCK.finditer(page.read_text())]
    assert len(shown) >= 2 * 6
    for block in shown:
        lines = block.splitlines()
        assert 5 < len(lines) <= 50
        assert max(map(len, lines)) <= tool.WIDTH
        assert not re.search(r"(?<![\w.])/(?:tmp|home|work|root|opt|usr|srv)/", block)


LIB = "/usr/lib/python3.12/site-packages"


def on_host(outside: str) -> Profile:
    """A model's two layers, and an operation of a function outside of modules."""

    def layer(name: str, *costs: int) -> Nested:
        operations = [node("op", f"aten::op{cost}", cpu_time=cost) for cost in costs]
        return with_children(node("frame", f"{name}.forward", f"{LIB}/net/m.py:3"), *operations)

    return profile_of(
        with_children(
            node("frame", "main", "/home/me/a.py:9", cpu_time=5),
            layer("Big", 50, 10),
            layer("Small", 20),
        ),
        with_children(
            node("frame", "sample", outside),
            node("op", "aten::multinomial", cpu_time=20),
        ),
    )


@pytest.mark.parametrize(
    ("outside", "share", "lost"),
    [
        ("/home/me/a.py:30", 1.0, []),
        (f"{LIB}/torch/generation.py:30", 0.8, ["sample/aten::multinomial"]),
    ],
)
def test_the_share_of_time_where_one_looks(outside: str, share: float, lost: list[str]) -> None:
    """In a module, or in a function of the user's where none is; the host's without a device."""
    profile = on_host(outside)
    assert trees.placed(profile) == pytest.approx(share)
    assert trees.misplaced(profile) == lost
    assert trees.hottest_module(profile) == "Big"


def test_lines_until_the_first_operation_of_the_hottest_module() -> None:
    """The tree's total does not count, nor do operations before the module's line."""
    profile = on_host("/home/me/a.py:30")
    shown = trees.rows(profile)
    assert len(shown) == 6
    assert "aten::op50" in shown[trees.lines_until(profile, "user", "Big") - 1]
    assert "aten::op20" in shown[trees.lines_until(profile, "user", "Small") - 1]
    assert trees.lines_until(profile, "user", "Absent") == len(shown)
