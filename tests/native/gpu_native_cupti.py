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
    done = subprocess.run(
        [sys.executable, "-m", "tests.native.gpu_programs", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    print(f"{program}: {done.stdout}")
    assert done.returncode == 0, done.stderr
