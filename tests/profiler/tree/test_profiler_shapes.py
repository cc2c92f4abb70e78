"""The tree of a program whose tree is known, on the CPU; `gpu/` has the same with kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.gpu.running import profiled, succeeded
from tests.profiler.gpu.shapes import EXPECTED, outlines

pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")


@pytest.mark.usefixtures("forked_of_torch")
def test_known_shape(tmp_path: Path) -> None:
    """Two threads of three steps, backward, 200 frames, recursion, generators, coroutines."""
    profile = succeeded(profiled(tmp_path, "shapes", "cpu")).profile
    assert outlines(profile, "op") == EXPECTED
