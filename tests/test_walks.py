"""The two walks of docs/architecture.md: a call enters the modules in the order of the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof.native.building import find_compiler
from tileprof.viewer.findings import ReportOptions, render_reports

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

ROOT = Path(__file__).parents[1]
PACKAGE = f"{ROOT}/tileprof/"
ELSEWHERE = {
    "compiler/cuda/pipeline.py",
    "runtime/cuda/executable.py",
    "lang/warm.py",
    "analyzer/estimates.py",
}
"""Modules that the page names for a GPU, or for samples, which a run on the processor has not."""


@tileprof.jit
def doubled(X):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Twice the input, in a scope that is measured."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)  # type: ignore[valid-type,no-redef]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx, T.scope("double"):
        for i in T.Parallel(64):
            Y[bx * 64 + i] = X[bx * 64 + i] * 2
    return Y


def entered(run: Callable[[], object]) -> list[str]:
    """The modules of tileprof whose functions `run` calls, by their first call."""
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        # Bodies of modules and classes run when they are imported.
        if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED and name.startswith(PACKAGE):
            found.setdefault(name.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(found)


def named(title: str) -> list[str]:
    """The modules that the page names in a walk, by their first mention."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    walk = page.partition(f"**{title}**")[2].partition("\n**")[0].partition("\n## ")[0]
    return list(dict.fromkeys(re.findall(r"`([\w/]+\.py)`", walk)))


def check(title: str, order: list[str]) -> None:
    """The named modules are entered in the order of the page."""
    expected = [name for name in named(title) if name not in ELSEWHERE]
    assert len(expected) >= 8
    assert [name for name in order if name in expected] == expected


def test_from_a_kernels_source_to_a_finding(tmp_path: Path, monkeypatch: Any) -> None:
    """Compilation, a run, the file, the analysis, its text."""
    monkeypatch.setenv("TILEPROF_DEVICE", "cpu")
    place, x = tmp_path / "walk.tprof", np.ones(256, np.float32)

    def walk() -> None:
        with tileprof.profile(place):
            doubled(x)
        report = tileprof.analyze(tileprof.load(place))
        render_reports({"walk.tprof": report}, ReportOptions())

    check("From a kernel's source to a finding", entered(walk))


def test_from_a_launch_to_the_tree(tmp_path: Path, monkeypatch: Any) -> None:
    """A kernel that is loaded already."""
    monkeypatch.setenv("TILEPROF_DEVICE", "cpu")
    place, x = tmp_path / "walk.tprof", np.ones(256, np.float32)
    doubled(x)

    recording = tileprof.profile(place)
    recording.__enter__()

    def walk() -> None:
        doubled(x)
        recording.__exit__(None, None, None)

    check("From a launch to the tree", entered(walk))
