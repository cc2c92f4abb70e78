"""Triton's autotuner on a GPU with the pruner: few are timed, and what is kept is compiled once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tileprof

pytestmark = pytest.mark.gpu
triton: Any = pytest.importorskip("triton", reason="Triton is not installed")

ROOT = Path(__file__).parents[2]
PROGRAM = """
import torch
from benchmarks.triton_pruning_cases import CASES, kernel_of, present
import triton
case = next(each for each in CASES if each.name == "gelu")
function, configs = kernel_of(case)
tuner = triton.autotune(configs=configs[:12], key=["n"])(function)
given = present(case, {"n": 1 << 20}, "cuda")
tuner[case.grid({"n": 1 << 20})](**given)
torch.cuda.synchronize()
print("timed", len(tuner.configs_timings))
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of Triton."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_autotuner_times_what_is_kept(cache: Path) -> None:
    """The result is right, two of twenty are timed, and at most four are ever compiled."""
    import torch

    from benchmarks.triton_pruning_cases import CASES, kernel_of, present

    case = next(each for each in CASES if each.name == "matmul")
    function, configs = kernel_of(case)
    wanted = tileprof.triton_pruner(keep=2)
    tuner = wanted(triton.autotune(configs=configs, key=["M", "N", "K"])(function))
    shape = {"M": 1024, "N": 1024, "K": 512}
    given = present(case, shape, "cuda")
    tuner[case.grid(shape)](**given)
    expected = given["a"].float() @ given["b"].float()
    torch.testing.assert_close(given["c"].float(), expected, rtol=1e-2, atol=1e-1)
    (outcome,) = wanted.outcomes
    assert outcome.why_all is None
    assert len(tuner.configs_timings) == 2
    assert outcome.compiled <= 4
    # What the tuner compiles to time it is in Triton's cache already.
    assert len(list(cache.rglob("*.cubin"))) == outcome.compiled


def test_run_prunes_while_it_records(cache: Path, tmp_path: Path) -> None:
    """`tileprof run --prune-triton=2` says how many are timed."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tileprof", "run", "--prune-triton=2", "-o", "p.tprof"]
    done = subprocess.run(
        [*command, str(program)], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "timed 2\n"
    assert "pruned a list of Triton's autotuner: 2 of 12 configurations are timed" in done.stderr
