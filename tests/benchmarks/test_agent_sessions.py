"""Scripts of the slow kernels that a scripted client is given."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from benchmarks.agent_sessions.slow import SLOW, Slow


@pytest.mark.parametrize("slow", SLOW, ids=lambda slow: slow.kernel)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_scripts_launch_the_kernel_with_its_arguments(
    slow: Slow, device: str, tmp_path: Path
) -> None:
    """The first line is the configuration; it and the tensors are what the kernel takes."""
    slow.write(tmp_path, device)
    work = (tmp_path / "work.py").read_text()
    ast.parse(work)
    held = ast.literal_eval(work.partition("\n")[0].partition(" = ")[2])
    function = getattr(importlib.import_module(slow.module), slow.kernel)
    inspect.signature(function).bind(*slow.tensors, **held)
    assert set(held) == {*slow.configuration, *slow.static}
    assert slow.kernel in (tmp_path / "kernels.py").read_text()
