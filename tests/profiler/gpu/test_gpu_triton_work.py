"""Work of plain Triton kernels on a real GPU: bytes and operations of each launch, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.gpu.running import nodes, profiled, python, succeeded
from tileprof.profiler.frameworks.triton_accesses import Work, work_of
from tileprof.profiler.frameworks.triton_ir import Unknown, parse

TEXTS = Path(__file__).parents[2] / "data" / "triton"

pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.gpu


def work(path: Path) -> Work | None:
    """The work of a stored program; None where it is not understood."""
    try:
        return work_of(parse(path.read_text()))
    except Unknown:
        return None


def test_work_of_each_launch(tmp_path: Path) -> None:
    """Kernels without a word of their authors, one that is not understood, and one with numbers."""
    ran = succeeded(profiled(tmp_path, "triton_launches"))
    profile = ran.profile
    for scope, expected in ran.told.items():
        assert expected["right"], scope
        (node,) = (each for each in nodes(profile, "kernel", scope))
        found = {metric: node.own(metric) for metric in ("count", "flops", "bytes")}
        assert (node.name, found) == (
            expected["kernel"],
            {metric: expected[metric] for metric in found},
        )


def test_work_of_compiled_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's compiler launches Triton in its own way: one tensor is read, one is written.

    Its static launcher, which passes Triton by, is off.
    """
    monkeypatch.setenv("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")
    profile = succeeded(profiled(tmp_path, "kernels", "compiled")).profile
    (node,) = nodes(profile, "kernel", "compiled")
    assert node.own("bytes") == 5 * 2 * 256 * 256 * 4


def test_stored_programs_are_those_of_this_triton(tmp_path: Path) -> None:
    """Stored programs have the same flops and bytes as those that Triton compiles now."""
    program = Path(__file__).parent / "programs" / "triton_kernels.py"
    ran = python(tmp_path, str(program), str(tmp_path))
    assert ran.code == 0, ran.errors
    stored = {path.name: work(path) for path in TEXTS.glob("*.ttir")}
    assert {path.name: work(path) for path in tmp_path.glob("*.ttir")} == stored
    assert len([each for each in stored.values() if each is not None]) > 10
