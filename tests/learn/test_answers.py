"""Exercises that ask for values: wrong answers get a hint and never the right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileprof import learn
from tileprof.cli import main

WRONG = [
    ("find_race", {"LINES": {23, 29}}, "One of the lines takes part in a race"),
    ("find_race", {"LINES": {1, 2}}, "No two blocks access the same element in these lines"),
    ("find_race", {"LINES": 27}, "27 is no answer to the question"),
    ("why_not_tma", {"INSTRUCTION": "mma"}, "See the remark that begins with `gemm:`."),
    ("why_not_tma", {"INSTRUCTION": "wgmma", "STRIDE": 1001}, "See the reason `not tma`"),
    (
        "why_not_tma",
        {"INSTRUCTION": "wgmma", "STRIDE": 2002, "PADDED": 1004},
        "For K=1004, the compiler still does not load both tiles by TMA.",
    ),
    (
        "why_not_tma",
        {"INSTRUCTION": "wgmma", "STRIDE": 2002, "PADDED": 1016},
        "A smaller K will do.",
    ),
    ("read_profile", {"STEP_MS": 1640}, "The scope `step` has a count and an average."),
    ("read_profile", {"STEP_MS": "long"}, "'long' is no answer to the question"),
    ("judge_warning", {"COSTS": "copy_wait"}, "A finding that costs time has a gain"),
    (
        "judge_warning",
        {"COSTS": "bank_conflict", "LINE": 34, "HARMLESS": "copy_wait", "REAL": {"transpose"}},
        "Divide the two times of `scale`, and look again.",
    ),
]


@pytest.mark.parametrize(("name", "answers", "hint"), WRONG)
def test_wrong_answers_get_a_hint(
    name: str, answers: dict[str, Any], hint: str, tmp_path: Path
) -> None:
    """The hint is the exercise's, for the first question that is wrong."""
    learn.start(name, tmp_path)
    failure = learn.check(name, folder=tmp_path, **answers).failure
    assert failure is not None
    assert failure.stage == "answer"
    assert failure.hint.startswith(hint)


def test_a_kernel_that_was_removed_is_missed(tmp_path: Path) -> None:
    """The judge of the race needs the kernel of the file."""
    learn.start("find_race", tmp_path)
    (tmp_path / "find_race.py").write_text("LINES = {27, 29}\n")
    failure = learn.check("find_race", folder=tmp_path).failure
    assert failure is not None
    assert failure.message == "find_race.py has no kernel 'smooth'"


def test_recordings_open_with_the_commands_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands in the tasks run, and their output shows the answers."""
    monkeypatch.chdir(tmp_path)
    for name in ("read_profile", "judge_warning", "find_race", "why_not_tma"):
        learn.start(name)
    shown = {
        ("view", "training.tprof", "-d", "4"): ["137 ms"],
        ("report", "training.tprof"): ["(precision)", "2.13×", "1,236 times"],
        ("report", "warning.tprof", "-i", "bank"): ["bank_conflict, kernels.cu:34", "copy_wait"],
        ("check", "find_race.py:smooth", "--set", "M=6", "--set", "N=96"): [":27", ":29"],
        (
            *("compile", "why_not_tma.py:scores", "--target", "sm_90a", "--emit", "remarks"),
            *("--set", "M=512", "--set", "N=512", "--set", "K=1001"),
        ): ["wgmma", "row stride 2002 B"],
    }
    for arguments, texts in shown.items():
        main(arguments)
        out = capsys.readouterr().out
        assert all(text in out for text in texts), (arguments, out)
