"""The thread pool, and what reads bytes in C++, under sanitizers; forks at awkward moments.

`benchmarks/reliability/sanitizers.py` runs the same for longer, and the tests of Python too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reliability.sanitizers import REPORT, ROOT, environment
from tests.native.sanitized_programs import ADDRESS, THREAD, UNDEFINED, build, run

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="could not import 'g++': no compiler"
)


@pytest.mark.parametrize("sanitizers", [THREAD, ADDRESS])
def test_launches_of_the_pool_are_clean(tmp_path: Path, sanitizers: str) -> None:
    """Eight threads launch at once and every launch gives the results that were asked for."""
    launched, wrong, _ = run(build("pool_stress", tmp_path, sanitizers), 0, 60, 0)
    assert (launched, wrong) == (8 * 60, 0)


def test_child_that_is_forked_while_others_fail_goes_on(tmp_path: Path) -> None:
    """A thread of the parent that notes a failure holds nothing that a child waits for."""
    assert run(build("fork_stress", tmp_path, UNDEFINED), 100) == [0]


def test_torn_and_foreign_records_are_not_read_beyond_their_end(tmp_path: Path) -> None:
    """Buffers of records that are cut, short or of unknown length are read within their bounds."""
    assert run(build("records_fuzz", tmp_path, "address", "-O0"), 500, 1) == [500]


def test_launcher_is_clean_under_address_sanitizer(tmp_path: Path) -> None:
    """Its tests of Python pass with C++ that is checked."""
    for needed in ("torch", "cuda.bindings.nvrtc"):
        pytest.importorskip(needed)
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider"]
    command += ["tests/cuda/test_launcher.py"]
    checked = environment("address", tmp_path)
    checked["TILEPROF_CXXFLAGS"] += " -O0"  # the compiler takes most of the time
    done = subprocess.run(
        command, cwd=ROOT, env=checked, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    reports = "".join(path.read_text() for path in tmp_path.glob("report.*"))
    assert done.returncode == 0, done.stdout[-3000:] + reports
    assert not REPORT.search(reports + done.stderr), reports
