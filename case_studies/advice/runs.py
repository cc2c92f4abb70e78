"""Programs on a GPU: recorded one version after the other, then timed in turns.

In: a story.  Out: profiles, times of batches, how far results are from the right ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import measuring
import torch

import tileprof

from .stories import ROOT, Story, module_of

__all__ = ["KernelRuns", "Runs", "TrainingRuns", "runs_of"]

Done: TypeAlias = tuple[str, ...]
"""The changes that were made, in their order."""
_LIMIT_S = 400
"""Of a recorded training script."""


class Runs(Protocol):
    """How a story's program is recorded and timed."""

    def record(self, done: Done, path: Path) -> None:
        """Write a profile of the program with these changes."""

    def times(self, states: Sequence[Done]) -> list[list[float]]:
        """By state, times in ms of batches in turns."""

    def apart(self) -> Mapping[str, float]:
        """By version, how far its results are from the right ones; above 1 is wrong."""


def runs_of(story: Story, quick: bool, device: str = "cuda") -> Runs:
    """Those of a story; on the `cpu` at small sizes."""
    kind = TrainingRuns if story.gain == "program" else KernelRuns
    return kind(story, quick, device)


class KernelRuns:
    """Kernels: sampled from their first launch on, as code is known of modules that are loaded
    while samples are taken."""

    def __init__(self, story: Story, quick: bool, device: str) -> None:
        self.module = module_of(story)
        self.rounds, self.sampled_ms = (5, 30.0) if quick else (15, 80.0)
        shape = self.module.SHAPE if device == "cuda" else self.module.SMALL
        self.given = self.module.inputs(shape, device)
        self.calls: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {}

    def record(self, done: Done, path: Path) -> None:
        version = done[-1] if done else "before"
        _wait()
        with tileprof.profile(path, context="scopes", instrument="off", pc_sampling=True):
            call = self.calls[version] = self.module.fresh(version, self.given)
            _waited_ms(call, 1)  # compiles
            once = _waited_ms(call, 3)
            _waited_ms(call, max(3, min(2000, round(self.sampled_ms / once))))

    def times(self, states: Sequence[Done]) -> list[list[float]]:
        calls = [self.calls[done[-1] if done else "before"] for done in states]
        batches = zip(calls, measuring.launches(calls))
        return measuring.times(
            [partial(measuring.batch_ms, *each) for each in batches], self.rounds
        )

    def apart(self) -> Mapping[str, float]:
        expected = self.module.reference(self.given)
        found = {}
        for version, call in self.calls.items():
            pairs = zip(call(), expected, strict=True)
            found[version] = max(difference(*pair) for pair in pairs) / self.module.LIMIT
        return found


class TrainingRuns:
    """The training script: recorded whole in a process of its own, timed in this one."""

    def __init__(self, story: Story, quick: bool, device: str) -> None:
        self.module, self.file, self.device = module_of(story), story.file, device
        self.size = "small" if device == "cuda" else "tiny"
        self.rounds, self.steps, self.batch = (5, 12, 3) if quick else (15, 30, 5)

    def record(self, done: Done, path: Path) -> None:
        script = f"case_studies/advice/{self.file}"
        command = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", str(path), script,
                   "--steps", str(self.steps), "--device", self.device, "--size", self.size,
                   "--fix", ",".join(done)]  # fmt: skip
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        ran = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_LIMIT_S
        )
        if ran.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}")

    def times(self, states: Sequence[Done]) -> list[list[float]]:
        size = self.module.SIZES[self.size]
        trainings = [self.module.Training(size, self.device, done) for done in states]
        for each in trainings:
            each.run(3)

        def batch(training: Any) -> float:
            return _waited_ms(lambda: training.run(self.batch), 1) / self.batch

        return measuring.times([partial(batch, each) for each in trainings], self.rounds)

    def apart(self) -> Mapping[str, float]:
        """Nothing: losses of the fixes are compared by a test."""
        return {}


def difference(result: torch.Tensor, expected: torch.Tensor) -> float:
    """The greatest one, by the greatest element; infinite where a number is none."""
    apart = (result.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return float(apart) if bool(torch.isfinite(apart)) else float("inf")


def _waited_ms(call: Callable[[], Any], times: int) -> float:
    """Time of a call, by the host's clock, until the device is through."""
    _wait()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    _wait()
    return max((time.perf_counter() - begin) * 1e3 / times, 1e-3)


def _wait() -> None:
    """For the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
