"""`tune` without a GPU: what is ranked, timed and kept, what is explained, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.cli.conftest import Outcome
from tileprof.native.building import find_compiler
from tileprof.native.cache import cache_folder

KERNELS = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def added(X, Y, block: int = 512, threads: int = 128, factor: T.float32 = 1.0):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    Z = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i] * factor
    return Z


@tileprof.autotune(configs=[{"block": 64}, {"block": 512}], timed=2)
@tileprof.jit
def listed(X, block: int = 64):
    N = T.dynamic("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] + 1
    return Y


@tileprof.jit
def product(A, B, block: int = 128, stages: int = 3):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=256) as (bx, by):
        A_s = T.alloc_shared((block, 64), T.bfloat16)
        B_s = T.alloc_shared((64, block), T.bfloat16)
        C_l = T.alloc_fragment((block, block), T.float32)
        T.clear(C_l)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=stages):
            T.copy(A[by * block, k * 64], A_s)
            T.copy(B[k * 64, bx * block], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * block, bx * block])
    return C


@T.prim_func
def fixed(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=32):
        T.fill(A, 0)
"""
Cli = Callable[..., Outcome]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(autouse=True)
def kernels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with kernels; trials are made in this process."""
    (folder / "kernels.py").write_text(KERNELS)
    monkeypatch.setattr("tileprof.tuning.workers.default_workers", lambda: 1)


def found(cli: Cli, *arguments: str) -> dict[str, Any]:
    """The JSON that a command prints."""
    outcome = cli("tune", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    held: dict[str, Any] = json.loads(outcome.out)
    return held


@needs_compiler
def test_a_kernel_is_tuned_and_the_result_kept(cli: Cli, folder: Path) -> None:
    """On the processor, for real: at most two are timed, and every number is in the JSON."""
    table = folder / "table.json"
    held = found(
        cli, "kernels.py:added", "--set", "N=4096", "--set", "factor=2.0", "--device", "cpu",
        "--timed", "2", "--table", str(table),
    )  # fmt: skip
    assert (held["schema"], held["kernel"], held["device"]) == (1, "added", "cpu")
    assert [each["name"] for each in held["space"]["arguments"]] == ["block"]
    timed = [each for each in held["configurations"] if each["measured"]]
    assert 1 <= len(timed) <= 2
    assert {each["configuration"]["block"] for each in timed} & {512}
    assert held["configurations"][0]["verdict"] == "winner"
    assert all(each["model"]["ns"] > 0 for each in timed)
    assert sum(held["counts"].values()) == len(held["configurations"])
    (result,) = json.loads(table.read_text())["results"]
    assert result["configuration"] == held["configurations"][0]["configuration"]
    (kept,) = cache_folder().glob("tuned-added-*/*.json")
    assert json.loads(kept.read_text())["configuration"] == result["configuration"]


@needs_compiler
def test_what_is_tuned_serves_the_function(cli: Cli, folder: Path) -> None:
    """A function under `autotune` finds what the command kept, and times nothing itself."""
    held = found(cli, "kernels.py:listed", "--set", "N=5000", "--device", "cpu")
    assert held["space"]["size"] == 2
    names: dict[str, Any] = {}
    exec(compile(KERNELS, str(folder / "kernels.py"), "exec"), names)
    with tileprof.device("cpu"):
        x = np.arange(5000, dtype=np.float32)
        np.testing.assert_array_equal(names["listed"](x), x + 1)
    assert not names["listed"].outcomes


@pytest.mark.sweep
def test_a_gpu_that_is_not_there_is_ranked_for(cli: Cli) -> None:
    """By the model alone; refused configurations say why, and others what bounds them."""
    outcome = cli("tune", "kernels.py:product", "--set", "M=4096", "--set", "N=4096", "--set",
                  "K=4096", "--target", "sm_90a", "--explain", "--trials", "24")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "product for NVIDIA H200, nothing timed" in outcome.out
    assert "best by the model alone: block=" in outcome.out
    assert "bound by" in outcome.out
    assert "refused\n  the kernel needs" in outcome.out
    assert "ruled out\n  needs at least the shared memory of `block=" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kernels.py:added"], "--set N="),
        (["kernels.py:added", "--set", "N=64", "--set", "block=64", "--device", "cpu"],
         "no argument that could be tuned"),
        (["kernels.py:added", "--set", "N=64", "--device", "interpreter"], "its time says nothing"),
        (["kernels.py:added", "--set", "N=64", "--target", "sm_90a", "--device", "cpu"],
         "`--target` is for a GPU"),
        (["kernels.py:added", "--set", "N=64", "--target", "sm_90a", "--table", "t"],
         "`--table` needs times"),
        (["kernels.py:added", "--set", "N=64", "--target", "sm_91"], "no target `sm_91`"),
        (["kernels.py:added", "--set", "N=64", "--timed", "0"], "tries nothing"),
        (["kernels.py:fixed"], "has no arguments that could be tuned"),
        (["kernels.py:listed", "--set", "N=64", "--set", "block=7", "--device", "cpu"],
         "no configuration of the kernel has the values of --set"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(cli: Cli, arguments: list[str], said: str) -> None:
    """With exit code 2 and the way out."""
    outcome = cli("tune", *arguments)
    assert outcome.code == 2
    assert said in outcome.err


def test_autotuner_of_triton_is_told_from_a_kernel(
    cli: Callable[..., Outcome], folder: Path
) -> None:
    """It tunes itself; the message says what makes that faster."""
    text = "class Tuner:\n    def prune_configs(self): ...\n\nkernel = Tuner()\n"
    (folder / "program.py").write_text(text)
    outcome = cli("tune", "program.py:kernel")
    assert outcome.code == 2
    assert "is an autotuner of Triton" in outcome.err
    assert "@tileprof.triton_pruner()" in outcome.err
