"""The suites of other libraries are counted test by test, and the page shows the kept results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import page_suites

ROOT = Path(__file__).parent.parent.parent
LIBRARY = """
import pytest
import tilelang
import torch
from tilelang import language as T


@tilelang.jit
def add(n: int, is_known: bool = True):
    m = T.dynamic("m")

    @T.prim_func
    def add_kernel(A: T.Tensor[(m, n), T.float32], B: T.Tensor[(m, n), T.float32]):
        with T.Kernel(m, threads=32) as b:
            for i in T.Parallel(n):
                B[b, i] = A[b, i] + 1
            if not is_known:
                T.no_such_operation(B)

    return add_kernel


@pytest.mark.parametrize("n", range(9))
def test_adds(n):
    a = torch.ones((3, n + 1), device="cuda")
    b = torch.empty_like(a)
    add(n + 1)(a, b)
    assert torch.equal(b, a + 1) and torch.cuda.get_device_capability() == (9, 0)


def test_wrong():
    assert 1 == 2


def test_refused():
    add(4, is_known=False)


def test_skipped():
    pytest.skip("not today")


def test_dies():
    import os

    os._exit(3)


def test_comes_after():
    pass
"""


def test_each_test_of_a_library_is_counted(tmp_path: Path) -> None:
    """Passed, refused by tileprof, wrong, skipped, and one that ends its process; with a kernel
    compiled and run on the emulated GPU."""
    pytest.importorskip("torch", reason="the stand-ins put tensors on the CPU")
    library = tmp_path / "library"
    (library / "tests").mkdir(parents=True)
    (library / "tests" / "test_add.py").write_text(LIBRARY)
    (library / "COMMIT").write_text("0123456789abcdef\n")
    output = tmp_path / "results.json"
    command = [sys.executable, "benchmarks/tilelang_suites.py", str(library), "--each", "2"]
    options = ["--device", "interpreter", "--compile", "sm_90a", "-o", str(output)]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    results = json.loads(output.read_text())
    assert results["commit"] == "0123456789ab"
    (file,) = results["files"].values()
    counts = {"passed": 3, "skipped": 1, "refused": 1, "too long": 0, "failed": 2}
    assert file["counts"] == counts
    assert (file["collected"], file["left_out"], file["run"]) == (14, 7, 6)
    reasons = " ".join(file["details"])
    assert "UnknownOperation: tileprof.lang has no operation `no_such_operation`" in reasons
    assert "the process ended with 3" in reasons
    kernel = file["kernels"]["add_kernel"]
    assert (kernel["ran"], kernel["passed"]) == (2, 2)
    assert {(v["status"], v["emulated"]) for v in kernel["targets"]["sm_90a"]} == {
        ("compiles", "agrees")
    }


def test_page_shows_the_results_that_are_kept() -> None:
    """A change of either without the other is noticed."""
    assert page_suites.OUTPUT.read_text() == page_suites.page(page_suites.results())
