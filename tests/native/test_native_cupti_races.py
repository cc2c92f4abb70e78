"""The recorder of GPUs under ThreadSanitizer: eight threads launch while all else goes on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.cupti_programs import FAKE, RECORDER, SOURCES, compile_cpp

RECORDER_OF_GPUS = (
    "activities", "buffers", "clock", "contexts", "correlations", "counters", "cupti_loading",
    "gpu", "graphs", "idle", "pc_context", "pc_counts", "pc_modules", "pc_sampling", "subscriber",
    "totals", "variants",
)  # fmt: skip
"""The recorder of GPUs, which needs no interpreter."""


def test_threads_do_not_race(tmp_path: Path) -> None:
    """No report of the sanitizer; every launch and every sample is counted once."""
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    flags = ("-O1", "-fsanitize=thread", f"-I{RECORDER}")
    sources = [RECORDER / f"{name}.cpp" for name in RECORDER_OF_GPUS]
    compile_cpp([FAKE / "races.cpp", *sources], tmp_path / "races", *flags, "-ldl")
    compile_cpp(SOURCES, tmp_path / "libfake.so", *flags, "-fPIC", "-shared")
    done = subprocess.run(
        [str(tmp_path / "races"), str(tmp_path / "libfake.so"), "3"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[:10_000]
    assert done.stderr == ""
    launched, counted, lost, status, taken, sampled = map(int, done.stdout.split())
    assert launched == counted > 10_000
    assert (lost, status) == (0, 0)
    assert taken == sampled > 1000


def test_counters_do_not_race(tmp_path: Path) -> None:
    """No report of the sanitizer; each range has the function of its launch, or it shows that the
    numbers do not fit, as after some interruptions."""
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    flags = ("-O1", "-fsanitize=thread", f"-I{RECORDER}")
    sources = [RECORDER / f"{name}.cpp" for name in RECORDER_OF_GPUS]
    compile_cpp([FAKE / "counter_races.cpp", *sources], tmp_path / "races", *flags, "-ldl")
    compile_cpp(SOURCES, tmp_path / "libfake.so", *flags, "-fPIC", "-shared")
    done = subprocess.run(
        [str(tmp_path / "races"), str(tmp_path / "libfake.so"), "3"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[:10_000]
    assert done.stderr == ""
    launched, taken, unfit, wrong, lost, code, misuses = map(int, done.stdout.split())
    assert launched >= taken > 1000
    assert unfit < taken / 2
    assert (wrong, lost, code, misuses) == (0, 0, 0, 0)
