"""Training steps of programs that mark none: loop, number, time and parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked_programs import tileprof
from tests.repeated import in_one_of_five_runs
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
    with torch.no_grad():  # an evaluation in each step
        model(x), model(x), model(x)
"""


@pytest.mark.parametrize(("steps_run", "warm_up"), [(12, 0), (40, 2)])
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
    assert min(parts.untrained, parts.backward, parts.optimizer) > 0
    assert parts.untrained < parts.forward
    whole = parts.data + parts.forward + parts.backward + parts.optimizer
    assert whole == pytest.approx(steps.time_ns)
    assert steps.time_ns * count <= report.program.host.whole * (1 + 1e-9)
    text = render_reports({"train": report}, ReportOptions(), width=120)
    assert f"A step (train.py:8, {count} steps) takes" in text
    assert " % in modules without a backward pass), backward " in " ".join(text.split())
    assert ("the first included" in text) == (warm_up == 0)
    assert to_json(report)["steps"]["count"] == count


BY_HAND = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
for step in range(12):
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
"""
TRAINER = """
import time
import torch
class Trainer:
    steps = 0
    def __init__(self, model, data, tests):
        self.model, self.data, self.tests = model, data, tests
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def fit(self, epochs):
        for _ in range(epochs):
            self.epoch()
    def epoch(self):
        for x, y in self.data:
            if self.steps % 10 == 5:
                self.evaluate()
            self.steps += 1
            loss = self.forward(x, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.update()
    def evaluate(self):
        time.sleep(0.4)
        with torch.no_grad():
            for x, y in self.tests:
                self.forward(x, y)
    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.model(x), y)
    def update(self):
        self.optimizer.step()
"""
FITTED = """
import torch
from trainers import Trainer
data = torch.utils.data.TensorDataset(torch.randn(80, 64), torch.randint(0, 10, (80,)))
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
loaders = [torch.utils.data.DataLoader(data, batch_size=size) for size in (8, 40)]
trainer = Trainer(model, *loaders)
trainer.fit(3)
"""


def test_steps_of_a_program_that_updates_parameters_itself(tmp_path: Path) -> None:
    """No optimizer: each backward pass from a loss is a step, and what changes parameters after it
    is the optimizer's part."""
    script, kept = tmp_path / "train.py", tmp_path / "train.tprof"
    script.write_text(BY_HAND)
    tileprof(tmp_path, ["run", "--quiet", "-o", str(kept), str(script)])
    steps = analyze(load(kept)).program.training
    assert steps is not None
    assert (steps.count, steps.location.line, steps.of) == (12, 5, "host")
    assert min(steps.parts.forward, steps.parts.backward, steps.parts.optimizer) > 0


@in_one_of_five_runs
def test_steps_in_the_loop_of_an_installed_trainer(tmp_path: Path) -> None:
    """Its text is in no profile: the function that all parts of a step are called from counts."""
    script, kept = tmp_path / "train.py", tmp_path / "train.tprof"
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "trainers.py").write_text(TRAINER)
    script.write_text(f"import sys\nsys.path.insert(0, {str(installed)!r})\n{FITTED}")
    tileprof(tmp_path, ["run", "--quiet", "-o", str(kept), str(script)])
    report = analyze(load(kept))
    steps = report.program.training
    assert steps is not None
    # Two of thirty were set-up, at the line that calls the library.
    assert (steps.count, steps.location.file, steps.location.line) == (28, str(script), 10)
    parts = steps.parts
    assert min(parts.data, parts.forward, parts.backward, parts.optimizer) > 0
    # Evaluations, with a loader of their own, take 0.4 s each and are in no step.
    assert report.program.host.whole > 1.1e9
    assert 0 < steps.time_ns * steps.count < report.program.host.whole - 1.1e9


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
