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


def test_each_gpu_takes_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two steps meet each other; one that fails is told, and one for which no time is left."""
    listed = tmp_path / "nvidia-smi"
    listed.write_text("#!/bin/sh\necho GPU 0: played; echo GPU 1: played\n")
    listed.chmod(listed.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    # Each opens its end of a pipe, which waits until the other end is open too.
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    said = f"import os; open({pipe!r}, %r); print(os.environ['CUDA_VISIBLE_DEVICES'])"
    steps = {
        "first": on_gpu.Step(40, ("-c", said % "r")),
        "second": on_gpu.Step(40, ("-c", said % "w")),
        "wrong": on_gpu.Step(40, ("-c", "raise SystemExit(3)")),
    }
    monkeypatch.setattr(on_gpu, "STEPS", steps)
    out = tmp_path / "out"
    assert on_gpu.main([str(out), "--seconds", "60"]) == 1
    assert {(out / f"{name}.log").read_text() for name in ("first", "second")} == {"0\n", "1\n"}
    assert "wrong ends with 3" in (out / "steps.txt").read_text()
    assert on_gpu.main([str(out), "--seconds", "30", "--steps", "first"]) == 0
    assert "first is not begun" in capsys.readouterr().out


def test_places_share_no_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer processors than GPUs the last ones share all."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(8)})
    assert [place.processors for place in on_gpu.places(2)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    few = [place.processors for place in on_gpu.places(9)]
    assert few == [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,), (0, 1, 2, 3, 4, 5, 6, 7)]


def test_no_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is started."""
    monkeypatch.setattr(on_gpu, "devices", lambda: 0)
    with pytest.raises(SystemExit):
        on_gpu.main([str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
