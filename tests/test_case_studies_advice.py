"""The stories of advice: their programs are right, the runner takes the finding that asks for a
change, and the page says what was measured."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import DATA, stored
from tileprof.analyzer import analyze

torch = pytest.importorskip("torch")

sys.path[:0] = ["benchmarks"]
measuring: Any = importlib.import_module("measuring")
page_advice: Any = importlib.import_module("page_advice")
runs: Any = importlib.import_module("case_studies.advice.runs")
telling: Any = importlib.import_module("case_studies.advice.telling")
del sys.path[0]
stories: Any = importlib.import_module("case_studies.advice.stories")
tile: Any = importlib.import_module("case_studies.advice.tile_kernel")
training: Any = importlib.import_module("case_studies.advice.training")

TILE, TRITON, TRAINING = stories.STORIES
CHANGE = stories.Change


# -- programs


@pytest.mark.parametrize("version", tile.VERSIONS)
def test_a_tile_kernel_is_right(version: str) -> None:
    """As PyTorch in float64, on the processor."""
    given = tile.inputs(tile.SMALL, "cpu")
    (result,), (expected,) = tile.fresh(version, given)(), tile.reference(given)
    assert runs.difference(result, expected) <= tile.LIMIT


@pytest.mark.parametrize("version", tile.VERSIONS)
def test_a_tile_kernel_compiles(version: str) -> None:
    """For an H200; only the first converts what it copies, and only the last has four stages."""
    pytest.importorskip("cuda.bindings.nvrtc")
    import tileprof
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    kernel = tileprof.jit(tile.VERSIONS[version][0]).compile(**tile.SHAPE).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), None)
    said = "\n".join(map(str, program.all_remarks))
    assert ("copy W → W_shared: loads and stores" in said) == (version == "before")
    assert ("224.1 KB" in said) == (version == "deeper")


INTERPRETED = """
from case_studies.advice import triton_kernel as kernels
given = kernels.inputs(kernels.SMALL, "cpu")
for version in kernels.VERSIONS:
    for result, expected in zip(kernels.fresh(version, given)(), kernels.reference(given)):
        apart = (result.double() - expected).abs().max() / expected.abs().max()
        assert apart <= kernels.LIMIT, (version, apart)
print(*kernels.VERSIONS)
"""


def test_a_triton_kernel_is_right() -> None:
    """Each version as PyTorch in float64, in Triton's interpreter."""
    pytest.importorskip("triton")
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=env, cwd=stories.ROOT, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["before", *(each.name for each in TRITON.changes)], ran.stderr


@pytest.mark.parametrize("fixes", [(), *((name,) for name in training.CHANGES), ("fused", "sync")])
def test_a_fix_changes_no_result(fixes: tuple[str, ...]) -> None:
    """Loss, hits and gradients of three steps are those of the script as it was written."""
    logs = []
    for chosen in ((), fixes):
        each = training.Training(training.SIZES["tiny"], "cpu", chosen)
        each.run(3)
        logs.append([list(map(float, step)) for step in each.log])
    torch.testing.assert_close(torch.tensor(logs[1]), torch.tensor(logs[0]), rtol=1e-4, atol=1e-5)
    torch.set_float32_matmul_precision("highest")


def test_fixes_are_named() -> None:
    """Those that there are; others are refused."""
    assert training.fixes_of("sync,tf32") == ("sync", "tf32")
    assert training.fixes_of("") == ()
    with pytest.raises(argparse.ArgumentTypeError, match="no fix 'cuda'; there are tf32, "):
        training.fixes_of("tf32,cuda")


def test_stories_and_programs_fit() -> None:
    """Each change is one that the program has."""
    assert [each.name for each in TRAINING.changes] == list(training.CHANGES)
    assert ["before", *(each.name for each in TILE.changes)] == list(tile.VERSIONS)
    source = (stories.FOLDER / TRITON.file).read_text()
    assert all(f'"{each.name}": (' in source for each in TRITON.changes)


# -- the runner


SPILLS = CHANGE("cast_once", ("spill-hot",), "registers", "Fewer registers.")
NOTHING = CHANGE("deeper", ("tail-wave",), "", "Nothing asks for it.")


def test_the_first_finding_that_asks_is_taken() -> None:
    """Among suggestions alone, by rule and by what the title says."""
    findings = analyze(stored("h200-stalls")).findings
    found = stories.chosen(findings, [NOTHING, SPILLS])
    assert found is not None
    assert (found[0].rule, found[0].severity, found[1]) == ("spill-hot", "suggestion", SPILLS)
    assert stories.chosen(findings, [NOTHING]) is None
    assert stories.chosen(findings, [replace(SPILLS, said="bytes")]) is None
    symptoms = [each for each in findings if each.severity == "symptom"]
    assert symptoms
    rules = tuple(each.rule for each in symptoms)
    assert stories.chosen(symptoms, [CHANGE("any", rules, "", "")]) is None


class Kept:
    """Records what is kept already; each change makes it twice as fast."""

    def record(self, done: tuple[str, ...], path: Path) -> None:
        shutil.copy(DATA / "h200-stalls.tprof", path)

    def times(self, states: Sequence[tuple[str, ...]]) -> list[list[float]]:
        return [[8.0 / 2 ** len(done)] * 5 for done in states]

    def apart(self) -> dict[str, float]:
        return {"before": 0.5}


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A story whose first change is asked for, and whose second is not."""
    story, folder = replace(TILE, changes=(SPILLS, NOTHING)), tmp_path_factory.mktemp("told")
    found: dict[str, Any] = telling.told(story, Kept(), folder, folder / "reports")
    reports = sorted((folder / "reports").iterdir())
    assert [each.name for each in reports] == ["tile-1.txt", "tile-2.txt", "tile-3.txt"]
    assert all("suggestion: registers are spilled" in each.read_text() for each in reports)
    where = {"date": "2026-11-22 10:00", "device": "made", "gpu": {"driver_version": "1"},
             "python": "3.12", "torch": "2", "tileprof": "0"}  # fmt: skip
    return {**json.loads(json.dumps(found)), "quick": False, "circumstances": where}


def test_a_step_is_what_was_asked_for(row: dict[str, Any]) -> None:
    """With the finding's own gain, its text, and what the change changes."""
    asked, not_asked = row["steps"]
    findings = analyze(stored("h200-stalls")).findings
    gain = next(each.kernel_gain for each in findings if each.rule == "spill-hot")
    assert gain is not None
    assert asked["predicted"] == [gain.low, gain.mid, gain.high]
    assert asked["printed"].startswith("suggestion: registers are spilled")
    assert "kernels.cu:18" in asked["printed"]
    assert (
        "-    W: T.Tensor((N, K), T.float32)\n+    W: T.Tensor((N, K), T.bfloat16)" in asked["diff"]
    )
    assert not_asked["predicted"] is None
    assert not_asked["error"] == "no suggestion of tail-wave"
    assert [each["rule"] for each in not_asked["found"]] == [each.rule for each in findings]
    assert [step["measured"]["ratio"] for step in row["steps"]] == [2.0, 2.0]
    assert (row["whole"]["ratio"], row["ms"]) == (4.0, [8.0, 4.0, 2.0])


def test_what_the_runner_says(row: dict[str, Any]) -> None:
    """A change that was not asked for is told loudly, with all that was found."""
    study: Any = importlib.import_module("case_studies.advice.study")
    lines = "\n".join(study.said(row))
    assert "tile 1 cast_once    predicted " in lines
    assert "tile 2 deeper       NOT ASKED FOR, measured 2.000×" in lines
    assert "no suggestion of tail-wave. What was found:\n    suggestion " in lines
    assert "\n    suggestion spill-hot: registers are spilled" in lines
    wrong = "\n".join(study.said({**row, "apart": {"deeper": float("inf")}}))
    assert wrong.endswith("tile: WRONG RESULTS of deeper")


def test_why_a_story_failed() -> None:
    """The line of a traceback that names the error; its folders are left out."""
    study: Any = importlib.import_module("case_studies.advice.study")
    text = "Traceback:\n  File x\nValueError: /home/me/a.py is wrong\nTry again."
    assert study._cause(text) == "ValueError: a.py is wrong"
    assert study._cause("") == "it ended without a result"


def test_gains_are_medians_of_turns() -> None:
    """Forwards and backwards, so that each has the same neighbours."""
    order: list[int] = []

    def batch(at: int) -> float:
        order.append(at)
        return [3.0, 1.0][at]

    times = measuring.times([partial(batch, at) for at in (0, 1)], 3)
    assert order == [1, 0, 0, 1, 1, 0]
    held = telling.measured(*times)
    assert (held["ratio"], held["low"], held["high"]) == (3.0, 3.0, 3.0)


def test_texts_without_folders() -> None:
    """Files of the repository by their path in it, others by their name."""
    text = f"{stories.ROOT}/case_studies/a.py:3 and /usr/lib/python3/site-packages/torch/nn/b.py:4"
    assert telling.plain(text) == "case_studies/a.py:3 and b.py:4"
    for kept in ("~1.5 / 2 of w/o x", "a/b/c.py:3", "16 bytes/s"):
        assert telling.plain(kept) == kept


def test_a_kernel_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner's own path, on the processor: nothing is sampled, so nothing is asked for."""
    monkeypatch.setattr(measuring, "batch_ms", lambda call, launches: 1.0)
    found = telling.told(TILE, runs.runs_of(TILE, True, "cpu"), tmp_path, tmp_path)
    assert all("error" in step for step in found["steps"])
    assert set(found["apart"]) == set(tile.VERSIONS)
    assert max(found["apart"].values()) <= 1
    assert found["ms"] == [1.0, 1.0, 1.0]


def test_a_script_without_a_gpu(tmp_path: Path) -> None:
    """It is recorded by the command line, and timed by the host's clock."""
    made = runs.runs_of(TRAINING, True, "cpu")
    made.steps, made.batch = 2, 1
    path = tmp_path / "training-1.tprof"
    made.record(("sync", "fused"), path)
    from tileprof.profile import load

    profile = load(path)
    (step,) = profile.find(kind="scope", name="step")
    assert profile.node(step).own("count") == 2
    made.file = "missing.py"
    with pytest.raises(RuntimeError, match=r"missing\.py"):
        made.record((), path)
    times = made.times([(), ("sync",)])
    assert [len(each) for each in times] == [5, 5]
    assert min(map(min, times)) > 0


# -- the page


def test_the_page(row: dict[str, Any]) -> None:
    """Code, finding, diff, predicted beside measured, and that a prediction missed."""
    text = "\n".join(page_advice.page({"studies": [row]}))
    assert "def gelu_layer(X, W, bias):" in text
    assert "suggestion: registers are spilled where it costs time (spill-hot)" in text
    assert "-    W: T.Tensor((N, K), T.float32)" in text
    assert "8 → 4 → 2 ms per launch: 4.00× [4.00, 4.00]" in text
    assert "| tile: deeper | – | nothing | 2.00× [2.00, 2.00] | – |" in text
    assert "does **not** suggest this change: no suggestion of tail-wave" in text
    low, mid, high = row["steps"][0]["predicted"]
    predicted = f"{mid:.2f}× ({low:.2f}–{high:.2f})"
    assert f"| tile: cast_once | `spill-hot` | {predicted} | 2.00× [2.00, 2.00] | " in text
    assert "```python" not in text  # fences that a test of the documentation would run


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.9, "below its range"), (2.0, "inside of what was"), (9.0, "above its range")],
)
def test_misses_are_told(row: dict[str, Any], ratio: float, said: str) -> None:
    """On which side, and why, where that is known."""
    measured = {"ratio": ratio, "low": ratio, "high": ratio}
    step = {**row["steps"][0], "predicted": [1.5, 2.0, 3.0], "measured": measured}
    text = "\n".join(page_advice.page({"studies": [{**row, "steps": [step]}]}))
    assert said in text
    assert ("The reason is unknown." in text) == (ratio != 2.0)


def test_a_story_that_failed(row: dict[str, Any]) -> None:
    """Is on the page, without a section."""
    failed = {"study": "triton", "title": "A kernel", "steps": [], "error": "no triton"}
    text = "\n".join(page_advice.page({"studies": [row, failed]}))
    assert "A kernel: not measured, no triton" in text
    assert "## A kernel\n" not in text
