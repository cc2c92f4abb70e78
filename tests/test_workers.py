"""Workers that run files of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest
from tests import workers

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    workers.run(session, 2)
    return True
"""


def outcomes(folder: Path, **files: str) -> tuple[list[str], str, int]:
    """The reports of tests in files, all that pytest prints, and its exit code."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-rA", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(folder)], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, cwd=folder,
    )  # fmt: skip
    kinds = ("PASSED ", "FAILED ", "ERROR ")
    lines = [each.split(" - ")[0] for each in done.stdout.split("\n") if each.startswith(kinds)]
    return sorted(lines), done.stdout, done.returncode


def test_a_worker_that_ends_fails_its_test_alone(tmp_path: Path) -> None:
    """Tests behind it in its file run, and so do other files; what a test printed is shown."""
    lines, text, code = outcomes(
        tmp_path,
        test_one="import os\ndef test_a(): pass\ndef test_b(): os.abort()\ndef test_c(): pass\n",
        test_two="def test_d(): pass\ndef test_e():\n    print(43)\n    assert [1, 2] == [1, 3]\n",
    )
    failed = ["FAILED test_one.py::test_b", "FAILED test_two.py::test_e"]
    passed = [
        f"PASSED test_{each}" for each in ("one.py::test_a", "one.py::test_c", "two.py::test_d")
    ]
    assert lines == [*failed, *passed]
    assert code == 1
    assert "exit code -6" in text
    assert "\n43\n" in text
    assert "At index 1 diff: 2 != 3" in text


def test_fixtures_of_a_session_live_as_long_as_their_worker(tmp_path: Path) -> None:
    """One setup for each worker, whose teardown is reported with its last test."""
    text = """
import pytest

@pytest.fixture(scope="session")
def held():
    yield 1
    raise OSError("torn down")

def test_a(held): pass
def test_b(held): pass
"""
    lines, _, code = outcomes(tmp_path, test_one=text)
    assert lines == ["ERROR test_one.py::test_b", "PASSED test_one.py::test_a",
                     "PASSED test_one.py::test_b"]  # fmt: skip
    assert code == 1
