"""Objects of `tileprof.learn` as a notebook shows them, and kernels of a cell."""

from __future__ import annotations

import importlib
from pathlib import Path

from tileprof import learn

SOLUTIONS = Path(__file__).parent / "solutions"


def test_list_task_hint_and_result_have_html(tmp_path: Path) -> None:
    """Text is escaped; a table of a task keeps its columns."""
    assert "<td><code>add</code></td>" in learn.course(tmp_path)._repr_html_()
    page = learn.start("judge_warning", tmp_path)._repr_html_()
    assert "  transpose   load tile: 8-way bank conflict" in page
    assert "check(&quot;judge_warning&quot;, COSTS=…)" in page
    task = learn.start("gather", tmp_path)._repr_html_()
    assert "(Index &gt;= 0) &amp; (Index &lt; len(Table))" in task
    assert "Hint 1 of 3" in learn.hint("gather", tmp_path)._repr_html_()
    result = learn.check("gather", folder=tmp_path)
    assert "✗" in result._repr_html_()
    assert repr(result) == result.text()


def test_a_kernel_of_a_cell_is_checked_without_a_file(tmp_path: Path) -> None:
    """A function is judged as a file's, and solves the exercise."""
    module = importlib.import_module("tests.learn.solutions.add")
    assert learn.check(1, module.add, folder=tmp_path).passed
    assert learn.course(tmp_path).folder.solved == ["add"]
    assert not (tmp_path / "add.py").exists()


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    """Checks of one process see what an editor saved meanwhile, in the error's line too."""
    file = learn.start("add", tmp_path).file
    first = learn.check("add", folder=tmp_path).failure
    assert first is not None
    assert first.location is not None
    text = file.read_text()
    file.write_text("# one line more\n" + text)
    second = learn.check("add", folder=tmp_path).failure
    assert second is not None
    assert second.location is not None
    assert second.location.line == first.location.line + 1
    assert second.text().splitlines()[1].strip() == "C[i] = A[i] + B[i]"
    file.write_text((SOLUTIONS / "add.py").read_text())
    assert learn.check("add", folder=tmp_path).passed
