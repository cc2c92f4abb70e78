"""Steps of a run on a GPU: what they start exists, and they keep to the time that is given."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path

import pytest

from benchmarks import on_gpu

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", on_gpu.STEPS)
def test_a_step_starts_what_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are found on the step's own path, files and folders in the checkout."""
    step = on_gpu.STEPS[name]
    for path in dict(step.environment).get("PYTHONPATH", "").split(os.pathsep):
        monkeypatch.syspath_prepend(path or str(ROOT))
    if step.arguments[0] == "-m":
        assert importlib.util.find_spec(step.arguments[1]) is not None
    for each in step.arguments:
        if each.startswith(("tests/", "benchmarks/")):
            assert (ROOT / each).exists()


def test_steps_that_no_time_is_left_for_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that fails is told too, and what runs beside is waited for."""
    listed = tmp_path / "nvidia-smi"
    listed.write_text("#!/bin/sh\necho GPU 0: played; echo GPU 1: played\n")
    listed.chmod(listed.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    said = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    steps = {
        "first": on_gpu.Step(40, ("-c", said)),
        "wrong": on_gpu.Step(40, ("-c", "raise SystemExit(3)")),
        "long": on_gpu.Step(40, ("-c", said)),
    }
    monkeypatch.setattr(on_gpu, "STEPS", steps)
    monkeypatch.setattr(on_gpu, "LEAST_S", 35.0)
    out = tmp_path / "out"
    assert on_gpu.main([str(out), "--seconds", "40", "--steps", "first,wrong", "--beside", "long"])
    assert (out / "first.log").read_text() == "0\n"
    assert (out / "long.log").read_text() == "1\n"
    told = (out / "steps.txt").read_text()
    assert "wrong ends with 3" in told
    assert "long, beside the others, ends with 0" in told
    assert on_gpu.main([str(out), "--seconds", "34", "--steps", "first"]) == 0
    assert "first is not begun" in capsys.readouterr().out


def test_no_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is started."""
    monkeypatch.setattr(on_gpu, "devices", lambda: 0)
    with pytest.raises(SystemExit):
        on_gpu.main([str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
