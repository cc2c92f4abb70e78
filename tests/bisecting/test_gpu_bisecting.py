"""`tileprof bisect` on a GPU: no alarm without a change, and a change with its cost and level."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tileprof.native import building

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
ROOT = Path(building.__file__).parents[2]
PLACE = ROOT / "benchmarks" / "bisecting" / "kernels_launched.py"


def run(*words: str) -> Any:
    """Return the report of a comparison of kernels that a function launches."""
    command = [sys.executable, "-m", "tileprof", "bisect", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_same_code_on_both_sides_raises_no_alarm() -> None:
    """Kernels of both compilers, each timed in pairs of processes."""
    found = run("default", "default", f"{PLACE}:same")
    assert found["timed"]
    assert len(found["kernels"]) >= 8
    assert all(each["same_code"] for each in found["kernels"])
    assert {each["verdict"] for each in found["kernels"]} <= {"same", "undecided"}


def test_option_that_slows_a_product_down_is_named_with_its_cost() -> None:
    """One stage for three: the largest product is slower, and the option is what brings it."""
    found = run("default", "stages=1", f"{PLACE}:few")
    products = [each for each in found["kernels"] if each["kernel"].startswith("gemm")]
    largest = products[-1]
    assert (largest["verdict"], largest["difference"]["level"]) == ("slower", "options")
    assert largest["time"]["low"] > 1.02
    assert [each["name"] for each in largest["culprits"]] == ["stages"]
    softmaxes = [each for each in found["kernels"] if each["kernel"].startswith("softmax")]
    assert all(each["same_code"] for each in softmaxes)
