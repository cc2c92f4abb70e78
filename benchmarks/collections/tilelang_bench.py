"""Tests of the tasks of shuminghu/tilelang-bench, made of its own generator and its own scorer.

Each task has a kernel that solves it, inputs, a reference, shapes and a tolerance.  Shapes of the
tasks about speed are too large for a processor: their kernels run at small ones.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "harness"))
_FOLDER = Path(tempfile.mkdtemp(prefix="tilelang-bench-"))
os.environ["GRADERS_DIR"] = str(_FOLDER / "graders")

import gen_tasks  # noqa: E402
import score_correct  # noqa: E402

gen_tasks.TASKS = _FOLDER / "tasks"
gen_tasks.TASKS.mkdir()
gen_tasks.main()

SMALL = [(256, 256, 256), (130, 257, 64)]
"""Shapes of products; the second divides into no tile."""
TASKS = {track: sorted(p.name for p in (gen_tasks.TASKS / track).iterdir())
         for track in ("implement", "debug", "perf")}  # fmt: skip


def _problem(name: str) -> Any:
    return score_correct.load_module(str(_FOLDER / "graders" / name / "problem.py"), name)


def _score(track: str, name: str, build: Any, shapes: Any) -> None:
    tolerance = json.loads((gen_tasks.TASKS / track / name / "task.json").read_text())["tolerance"]
    problem = _problem(name)
    for shape in shapes or problem.SHAPES:
        result = score_correct.score_case(problem, build(problem), tuple(shape), tolerance, False)
        assert result["ok"], f"{shape}: {result['reason']}"


@pytest.mark.parametrize("name", TASKS["implement"])
def test_implement(name: str) -> None:
    """The kernel that solves the task, at all its shapes."""
    _score("implement", name, lambda problem: problem._build, None)


@pytest.mark.parametrize("name", TASKS["debug"])
def test_debug(name: str) -> None:
    """The corrected kernel, at all shapes of the task."""
    _score("debug", name, lambda problem: problem._build, None)


@pytest.mark.parametrize("name", TASKS["debug"])
def test_planted_bug(name: str) -> None:
    """The kernel with the planted bug compiles and gives another result than the reference."""
    solution = score_correct.load_module(str(ROOT / "tasks" / "debug" / name / "solution.py"), name)
    with pytest.raises(AssertionError, match="max_abs_err"):
        _score("debug", name, lambda problem: solution.build, None)


@pytest.mark.parametrize("name", TASKS["perf"])
@pytest.mark.parametrize("which", ["baseline", "target"])
def test_perf(name: str, which: str) -> None:
    """The slow and the tuned product; the task's own shapes are compiled and not run."""
    _score("perf", name, lambda problem: getattr(problem, which), SMALL)
    problem = _problem(name)
    for shape in problem.SHAPES:
        getattr(problem, which)(*shape)
