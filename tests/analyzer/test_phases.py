"""Phases of programs that train, evaluate, generate and load; against clocks of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.analyzer.made import found
from tests.analyzer.steps import MS, Step
from tests.analyzer.test_host_causes import LIBRARY, recorded
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.program.host import HostTime
from tileprof.analyzer.program.phases import phases
from tileprof.errors import Location
from tileprof.profile import Tables, TreeBuilder
from tileprof.viewer.findings import ReportOptions, render_reports
from tileprof.viewer.html import report_data

PROGRAM = """\
import json, time
import torch
from torch import nn
torch.set_num_threads(1)
took = dict.fromkeys(("training", "evaluation", "generation", "loading"), 0.0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(64, 256)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, at):
        return torch.rand(8_000).sort().values[:256]

def generate(x):
    for _ in range(250):
        x = torch.tanh(model(x))
    return x

for step in range(60):
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = (model(x) - x).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step > 1:
        took["training"] += time.perf_counter() - began
model.eval()
began = time.perf_counter()
rows = torch.cat(list(torch.utils.data.DataLoader(Rows(), 10)))
took["loading"] = time.perf_counter() - began
with torch.no_grad():
    began = time.perf_counter()
    for _ in range(60):
        model(rows).sum()
    took["evaluation"] = time.perf_counter() - began
    began = time.perf_counter()
    generate(x)
    took["generation"] = time.perf_counter() - began
with open("took.json", "w") as file:
    json.dump(took, file)
"""


def test_phases_are_those_that_the_program_measured(tmp_path: Path) -> None:
    """Each within a quarter and 15 ms; and no share is one of steps alone."""
    profile = recorded(PROGRAM, tmp_path)
    took = json.loads((tmp_path / "took.json").read_text())
    phases = {each.name: each.time_ns / 1e9 for each in Program(profile).phases}
    for name, seconds in took.items():
        assert phases[name] == pytest.approx(seconds, rel=0.25, abs=0.015), (phases, took)
    titles = [each.title for each in found(profile, "hotspot")]
    assert titles
    assert all("of the host's time after set-up" in each for each in titles)
    text = render_reports({"a": analyze(profile)}, ReportOptions())
    # PyTorch was imported before the recording began; what it imports later takes some ms.
    said = " ".join(text.split())
    assert re.search(r"Phases of the host's time(?: without imports)? \(", said), said


def test_training_alone_has_time_in_its_steps() -> None:
    """Nothing else was recorded after set-up: shares stay those of steps, and no phase is told."""
    step = Step()
    step.op(step.top, "aten::mm", cpu_time=9 * MS)
    profile = step.profile()
    assert "in its steps" in found(profile, "hotspot")[0].title
    assert Program(profile).phases == ()


def test_generation_of_a_model_that_was_read_from_a_file() -> None:
    """A program without an optimizer: what reads the model is loading, at the user's line."""
    builder = TreeBuilder()
    for line, function, file, seconds in (
        (3, "GPT2LMHeadModel.from_pretrained", f"{LIBRARY}transformers/modeling_utils.py", 3),
        (4, "GenerationMixin.generate", f"{LIBRARY}transformers/generation/utils.py", 6),
        (5, "sort", "/home/me/other.py", 1),
    ):
        at = builder.child(-1, "frame", "<module>", Location("/home/me/run.py", line))
        inner = builder.child(at, "frame", function, Location(file, 9, function=function))
        builder.add(inner, "cpu_time", seconds * 1e9)
    phases = Program(builder.snapshot()).phases
    assert [(each.name, each.time_ns / 1e9) for each in phases] == [
        ("generation", 6), ("loading", 3), ("other", 1)
    ]  # fmt: skip
    places = [each.location.line for each in phases[:2] if each.location is not None]
    assert places == [4, 3]


def line_of(file: str, seconds: float = 1.0) -> TreeBuilder:
    """A program that spends its time in a library that one line calls."""
    builder = TreeBuilder()
    at = builder.child(-1, "frame", "main", Location("/home/me/run.py", 4, function="main"))
    inner = builder.child(at, "frame", "f", Location(file, 9, function="f"))
    builder.add(inner, "cpu_time", seconds * 1e9)
    return builder


@pytest.mark.parametrize(("library", "runs"), [("numpy/linalg.py", 0), ("jax/_src/core.py", 1)])
def test_a_run_on_a_gpu_is_no_advice_without_a_library_for_gpus(library: str, runs: int) -> None:
    """Nothing that runs on a GPU is in a NumPy program; and a GPU confirms no line of the host."""
    made = analyze(line_of(LIBRARY + library).snapshot())
    assert [each.rule for each in made.findings] == ["hotspot"]
    assert len(made.runs) == runs
    assert not any("hotspot" in rules for _, _, rules in made.runs)


def test_evidence_of_the_hosts_time_is_recorded() -> None:
    """The mark beside a fact is a kind of evidence that there was: no launch was timed."""
    made = analyze(line_of(LIBRARY + "numpy/linalg.py").snapshot())
    assert made.tiers == ("host",)
    for finding in made.findings:
        assert {each.tier for each in finding.evidence} <= set(made.tiers)
    header = report_data.header_of(made)
    chips = {name: on for name, on, _ in header["tiers"]}
    assert chips["host"]
    assert not chips["activities"]
    with_devices = Step()
    with_devices.launch(with_devices.op(with_devices.top, "aten::mm"), "gemm", 5 * MS)
    chips = {
        name: on for name, on, _ in report_data.header_of(analyze(with_devices.profile()))["tiers"]
    }
    assert "host" not in chips


ROLLOUTS = """\
def main():
    for update in range(9):
        for step in range(8):
            action = agent(obs)
        for batch in batches:
            loss = agent(batch).sum()
            loss.backward()
            optimizer.step()
        estimate(agent)
        run_eval(agent)

def estimate(agent):
    agent.eval()
    return agent(obs)

def run_eval(agent):
    return agent(obs)
"""


def test_only_forward_passes_of_evaluations_are_called_evaluation() -> None:
    """Rollouts run the model without a backward pass, too. A function evaluates by its name, or
    where it has called `eval()`; the place is the line that calls the model, not one in it."""
    builder = TreeBuilder()

    def line(above: int, number: int, function: str, file: str = "/home/me/ppo.py") -> int:
        name = "<module>" if function == "" else function
        return builder.child(above, "frame", name, Location(file, number, function=function))

    def model(above: int, seconds: float) -> int:
        forward = line(above, 0, "Agent.forward", "/home/me/agent.py")
        builder.add(line(forward, 12, "Agent.forward", "/home/me/agent.py"), "cpu_time", seconds)
        return forward

    model(line(-1, 4, "main"), 5e9)
    trained = model(line(-1, 6, "main"), 1e9)
    for name, phase in (("aten::mm", ""), ("MmBackward0", "backward")):
        op = builder.child(trained, "op", name, phase=phase)
        builder.add(op, "cpu_time", 1e9)
        builder.add(op, "count", 9)
    step = builder.child(line(-1, 8, "main"), "scope", "Optimizer.step#Adam.step")
    builder.add(step, "cpu_time", 1e9)
    builder.add(step, "count", 9)
    model(line(line(-1, 9, "main"), 14, "estimate"), 2e9)
    model(line(line(-1, 10, "main"), 17, "run_eval"), 1e9)
    profile = builder.snapshot(Tables(sources={"/home/me/ppo.py": ROLLOUTS}))
    found = {each.name: each for each in phases(HostTime(profile))}
    times = {name: each.time_ns / 1e9 for name, each in found.items()}
    assert times == {"training": 4, "evaluation": 3, "inference": 5}
    assert found["evaluation"].location == Location("/home/me/ppo.py", 14, function="estimate")
    assert found["inference"].location == Location("/home/me/ppo.py", 4, function="main")
