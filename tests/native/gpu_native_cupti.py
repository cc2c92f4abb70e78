"""The recorder on a real GPU: `python -m pytest -m gpu tests/native/gpu_native_cupti.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "program",
    [
        "threads_and_streams",
        "clocks_agree",
        "copies_and_fills",
        "waits_and_idle_time",
        "graphs",
        "allocations",
        "interruptions",
        "another_subscriber",
        "costs",
        "runtime_calls",
    ],
)
def test_on_a_gpu(program: str) -> None:
    """Each in a process of its own; what it prints is shown with `-s`."""
    run("gpu_programs", program)


@pytest.mark.parametrize(
    "program",
    [
        "reads_while_running",
        "names",
        "small_reads",
        "overflow",
        "work_under_way",
        "enabling_under_way",
        "flushes_while_sampling",
        "forced_flushes",
        "modules_come_and_go",
        "modules_of_before",
        "two_contexts",
        "another_process",
        "call_costs",
    ],
)
def test_sampling_on_a_gpu(program: str) -> None:
    """The same, of samples of program counters."""
    run("gpu_pc_programs", program)


def run(module: str, program: str) -> None:
    """Run a program of a module."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.native.{module}", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(f"{program}: {done.stdout}")
    assert done.returncode == 0, done.stderr
