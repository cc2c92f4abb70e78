"""The recorder of GPUs under ThreadSanitizer: eight threads launch while all else goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.cupti_programs import build_fake
from tests.native.sanitized_programs import build_races

LAUNCHES, LEAST = 2000, 200
"""Launches that are enough; ranges or samples that are. `benchmarks/reliability/sanitizers.py` asks
for five times as many."""
FLAGS = ("-O0", "-fsanitize=thread")
# The sanitizer does not see how the C library hands the thread-local memory of an ended thread on.
SUPPRESSIONS = "race:_dl_deallocate_tls\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program under the sanitizer, and the played CUPTI as other tests have it.

    The played CUPTI keeps to its own locks: `benchmarks/reliability/sanitizers.py` looks at it too.
    """
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    folder = tmp_path_factory.mktemp("races")
    build_races(folder, *FLAGS)
    (folder / "libfake.so").symlink_to(build_fake())
    (folder / "suppressions").write_text(SUPPRESSIONS)
    return folder


def numbers(built: Path, name: str, least: int) -> list[int]:
    """Return what a program prints, once it has done enough without a report of the sanitizer."""
    command = [str(built / "races"), name, str(built / "libfake.so"), "0", str(least)]
    options = f"suppressions={built / 'suppressions'} print_suppressions=0"
    done = subprocess.run(
        command, env={**os.environ, "TSAN_OPTIONS": options}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:10_000]
    assert done.stderr == ""
    return [int(number) for number in done.stdout.split()]


@pytest.mark.sweep
def test_threads_do_not_race(built: Path) -> None:
    """No report of the sanitizer; every launch and every sample is counted once."""
    launched, counted, lost, status, taken, sampled = numbers(built, "races", LAUNCHES)
    assert launched == counted >= LAUNCHES
    assert (lost, status) == (0, 0)
    assert taken == sampled >= LEAST


@pytest.mark.sweep
def test_counters_do_not_race(built: Path) -> None:
    """No report of the sanitizer; each range has the function of its launch, or it shows that the
    numbers do not fit, as after some interruptions."""
    launched, taken, unfit, wrong, lost, code, misuses = numbers(built, "counter_races", LEAST)
    assert launched >= taken >= LEAST
    assert unfit < taken / 2
    assert (wrong, lost, code, misuses) == (0, 0, 0, 0)


@pytest.mark.sweep
def test_counters_over_time_do_not_race(built: Path) -> None:
    """No report of the sanitizer; each sample that the device made is read once."""
    made, read, missed, code, misuses = numbers(built, "pm_races", LEAST)
    assert made == read >= LEAST
    assert (missed, code, misuses) == (0, 0, 0)
