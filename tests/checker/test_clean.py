"""Case studies as clean kernels: no false alarm, and how much of them is proved."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tileprof.checker import Plan, Report, check_call, check_proofs

LADDER = importlib.import_module("case_studies.gemm_ladder.steps")
FOLDER = Path(__file__).parents[2] / "case_studies"
SMALL: dict[str, dict[str, int]] = {
    "attention": {"length": 150},
    "attention_backward": {"length": 150},
    "attention_varlen": {},
    "chunk_scan": {},
    "flash_attention": {"length": 200, "repeat": 1},
    "fp8_matmul": {},
    "grouped_matmul": {},
    "int4_matmul": {"repeat": 1},
    "matmul": {"m": 300, "n": 200, "k": 100, "repeat": 1},
    "mla_decode": {},
    "paged_attention": {},
    "rms_norm": {"m": 64, "n": 512, "repeat": 1},
    "softmax": {"m": 64, "n": 512, "repeat": 1},
    "sparse_attention": {},
    "vector_add": {"n": 10_000, "repeat": 1},
}
"""Arguments of each program's `main` with which it runs quickly in the interpreter."""
PROVED = {
    "attention_varlen": 2 / 6,
    "grouped_matmul": 4 / 6,
    "paged_attention": 12 / 15,
    "sparse_attention": 2 / 3,
}
"""Share of the verdicts that are proofs; 1 for the other programs.  These have indices that are
loaded."""


def checked(name: str, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The check of all kernels that a case study calls."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"checked_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return check_call(module.main, (), SMALL[name], Plan(seeds=(0,)))


@pytest.mark.parametrize("name", SMALL)
def test_clean_kernels_have_no_finding(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is proved, or explored where indices are data."""
    report = checked(name, monkeypatch)
    assert "agree" in capsys.readouterr().out
    assert report.findings == ()
    assert not report.stopped
    statuses = Counter(v.status for each in report.launches for v in each.verdicts.values())
    assert set(statuses) <= {"proved", "explored"}
    insides = [each.inside for each in report.launches if each.inside is not None]
    assert len(insides) == len(report.launches)
    assert {s for each in insides for s in (each.races, each.deadlocks)} <= {"proved", "explored"}
    assert report.proved == pytest.approx(PROVED.get(name, 1))


@pytest.mark.parametrize("step", LADDER.STEPS, ids=lambda step: step.name)
def test_steps_of_the_ladder_are_proved(step: Any) -> None:
    """Each rung for all inputs and these extents."""
    assert check_proofs(step.traced(512, 512, 256)).proved == 1


def test_every_case_study_of_kernels_is_checked() -> None:
    """A new one joins; those without kernels of ours, or that train, do not."""
    programs = {path.stem for path in FOLDER.glob("*.py")}
    assert programs - set(SMALL) == {"combining", "train_gpt"}
