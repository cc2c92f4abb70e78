"""`tileprof learn`: list, task, hints, checks and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tileprof.learn.catalogue import COURSE

SOLUTIONS = Path(__file__).parents[1] / "learn" / "solutions"


def test_list_shows_what_is_solved_and_the_next(cli: Any, folder: Path) -> None:
    """The list of a new folder begins with the first exercise; a solved one is marked."""
    assert cli("learn").out.endswith("Start the next one: tileprof learn add\n")
    cli("learn", "add")
    (folder / "add.py").write_text((SOLUTIONS / "add.py").read_text())
    found = cli("learn", "add", "--check")
    assert (found.code, found.out.splitlines()[0][:12]) == (0, "add: solved ")
    listed = cli("learn").out
    assert listed.startswith(f"1 of {len(COURSE)} puzzles solved in this folder\n")
    (line,) = [line for line in listed.splitlines() if " add " in line]
    assert line.endswith("solved")
    assert listed.endswith(f"Start the next one: tileprof learn {COURSE[1].name}\n")


def test_a_file_that_is_there_is_left_as_it_is(cli: Any, folder: Path) -> None:
    """A second start shows the task again and does not touch the learner's work."""
    assert "Your file: add.py" in cli("learn", "add").out
    (folder / "add.py").write_text("mine\n")
    assert "Your file, left as it is: add.py" in cli("learn", "add").out
    assert (folder / "add.py").read_text() == "mine\n"


def test_failed_check_shows_line_block_and_case(cli: Any) -> None:
    """Exit code 1; the interpreter's counterexample stands in the answer."""
    cli("learn", "1")
    found = cli("learn", "1", "--check")
    assert (found.code, found.err) == (1, "")
    assert found.out == (
        "add: not yet\n"
        "add.py:20:13: block (0) and block (1) both write `C` at [0] of shape [1000]\n"
        "    C[i] = A[i] + B[i]\n"
        "    ^^^^\n"
        "They run in any order: give each its own elements, or combine with T.atomic_add.\n"
        "Hidden test: A float32[1000], B float32[1000], on the interpreter.\n"
    )


def test_check_as_json(cli: Any) -> None:
    """The same facts as fields; without a name, of all files that are there."""
    cli("learn", "add", "--dir", "work")
    one = json.loads(cli("learn", "work/add.py", "--check", "--json").out)
    assert one["exercise"] == "add"
    assert not one["passed"]
    assert one["failure"]["stage"] == "kernel"
    assert one["failure"]["location"] == {"file": "work/add.py", "line": 20, "column": 12}
    found = cli("learn", "--check", "--json", "--dir", "work")
    assert (found.code, json.loads(found.out)) == (1, [one])


def test_hints_go_down_the_ladder_and_stay_at_the_last(cli: Any) -> None:
    """Each call gives one more; JSON has number and text."""
    first = cli("learn", "add", "--hint").out
    assert first.startswith("Hint 1 of 3\nEvery block runs the same lines.")
    numbers = [json.loads(cli("learn", "add", "--hint", "--json").out)["hint"] for _ in range(3)]
    assert numbers == [2, 3, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ad"], "there is no exercise `ad`\nDid you mean `add`? `tileprof learn` lists all"),
        (["0"], "there is no exercise `0`\n`tileprof learn` lists all"),
        (["--hint"], "`--hint` needs NAME\n"),
        (["add", "--hint", "--check"], "`--check` and `--hint` exclude each other\n"),
        (["add", "--check"], "there is no file add.py\nStart the exercise: tileprof learn add"),
        (["--check"], ". has no file of an exercise\n"),
    ],
)
def test_wrong_use(cli: Any, arguments: list[str], message: str) -> None:
    """One sentence, a way out, exit code 2."""
    found = cli("learn", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"tileprof: {message}")


def test_damaged_progress_names_the_file(cli: Any, folder: Path) -> None:
    """A progress file that is none is not overwritten."""
    (folder / ".tileprof-learn.json").write_text("[]")
    found = cli("learn")
    assert found.code == 2
    assert ".tileprof-learn.json is no progress of tileprof learn" in found.err
