"""Case studies as clean kernels: no false alarm, and how much of them is proved."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import pytest

from benchmarks.studies import FOLDER, QUICK, study
from tileprof.checker import Plan, check_call, check_proofs

ALIKE = ("attention", "flash_attention", "fp8_attention", "fp8_matmul")
"""Their accesses are those of `attention_varlen`, `attention_backward` and `block_scaled_gemm`."""
CHECKED = [name for name in QUICK if name not in ALIKE]
LADDER = importlib.import_module("case_studies.gemm_ladder.steps")
PROVED = {
    "attention_varlen": 2 / 6,
    "grouped_matmul": 4 / 6,
    "paged_attention": 12 / 15,
    "sparse_attention": 2 / 3,
}
"""Share of the verdicts that are proofs; 1 for the other programs.  These have indices that are
loaded."""


@pytest.mark.spread(without=[
    "attention_backward", "attention_varlen", "mla_decode", "paged_attention", "sparse_attention"
])  # fmt: skip
@pytest.mark.parametrize("name", CHECKED)
def test_clean_kernels_have_no_finding(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is proved, for all inputs or for those with these tensors of integers."""
    report = check_call(study(name).main, (), dict(QUICK[name]), Plan(seeds=(0,)))
    assert "agree" in capsys.readouterr().out
    assert report.findings == ()
    assert not report.stopped
    statuses = Counter(v.status for each in report.launches for v in each.verdicts.values())
    assert set(statuses) <= {"proved", "enumerated"}
    insides = [each.inside for each in report.launches if each.inside is not None]
    assert len(insides) == len(report.launches)
    assert {s for each in insides for s in (each.races, each.deadlocks)} <= {"proved", "explored"}
    assert report.proved == pytest.approx(PROVED.get(name, 1))


@pytest.mark.parametrize("step", LADDER.STEPS, ids=lambda step: step.name)
def test_steps_of_the_ladder_are_proved(step: Any) -> None:
    """Each rung for all inputs and these extents."""
    assert check_proofs(step.traced(512, 512, 256)).proved == 1


def test_every_case_study_of_kernels_is_known() -> None:
    """A new one joins; those without kernels of ours, or that train, do not."""
    programs = {path.stem for path in FOLDER.glob("*.py")}
    assert programs - set(QUICK) == {"combining", "train_gpt"}
