"""Training steps of programs that mark none: loop, number, time and parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torch_programs import tileprof
from tileprof.analyzer import analyze
from tileprof.analyzer.json_form import to_json
from tileprof.analyzer.program.training_steps import innermost_loop
from tileprof.profile import load
from tileprof.viewer.findings import ReportOptions, render_reports

PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
for _ in range(4):  # set-up, which is no step
    model(x)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for step in range(STEPS):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("steps_run", "warm_up"), [(12, 0), (200, 2)])
def test_loop_around_the_optimizer_is_found_with_its_visits_and_parts(
    tmp_path: Path, steps_run: int, warm_up: int
) -> None:
    """Nobody marked the steps; the loop of set-up before them does not count."""
    count = steps_run - warm_up
    script, kept = tmp_path / "train.py", tmp_path / "train.tprof"
    script.write_text(PROGRAM.replace("STEPS", str(steps_run)))
    words = ["run", "--quiet", "-o", str(kept), "--warm-up", str(warm_up), str(script)]
    tileprof(tmp_path, words)
    report = analyze(load(kept))
    steps = report.program.training
    assert steps is not None
    assert (steps.count, steps.location.line, steps.of) == (count, 8, "host")
    parts = steps.parts
    assert min(parts.forward, parts.backward, parts.optimizer) > 0
    whole = parts.data + parts.forward + parts.backward + parts.optimizer
    assert whole == pytest.approx(steps.time_ns)
    assert steps.time_ns * count <= report.program.host.whole * (1 + 1e-9)
    text = render_reports({"train": report}, ReportOptions(), width=120)
    assert f"A step (train.py:8, {count} steps) takes" in text
    assert ("the first included" in text) == (warm_up == 0)
    assert to_json(report)["steps"]["count"] == count


LOOPS = """\
for epoch in range(3):
    for batch in data:
        train(batch)
    evaluate()
print()
for each in models:
    def train(batch):
        return batch
"""


@pytest.mark.parametrize(
    ("line", "loop"), [(3, (2, 3)), (4, (1, 4)), (5, None), (8, None), (1, (1, 4))]
)
def test_innermost_loop_around_a_line_is_of_its_own_function(
    line: int, loop: tuple[int, int] | None
) -> None:
    """A loop around a definition does not run its body."""
    assert innermost_loop(LOOPS, line) == loop


def test_text_that_is_no_python_has_no_loops() -> None:
    """A profile may hold files of another version, or none."""
    assert innermost_loop("for in:", 1) is None
    assert innermost_loop("", 1) is None
