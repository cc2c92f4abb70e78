"""The campaign that compares devices: its short form, and that it sees a difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.reliability import devices
from tileprof.compiler.build import find_compiler
from tileprof.runtime.device import RunResult
from tileprof.runtime.interpreter import InterpreterExecutable

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")


def test_devices_agree_on_drawn_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of a seed run alike on the interpreter, the cpu and the emulated GPU."""
    monkeypatch.setattr(devices, "BATCH", 3)
    found = devices.run_batch(seed=5, number=1)
    assert found.programs == 3
    assert found.failures == []


def test_difference_is_found_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the interpreter writes other numbers, cpu and GPU are told with what shows it again."""

    class Wrong(InterpreterExecutable):
        def run(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
            result = super().run(values, symbols)
            for array in values:
                if isinstance(array, np.ndarray):
                    array[...] = 3
            return result

    monkeypatch.setattr(devices, "InterpreterExecutable", Wrong)
    out = tmp_path / "out.json"
    assert devices.main(["--only", "5:1:1", "-o", str(out)]) == 1
    report = json.loads(out.read_text())
    assert (report["runs"], report["failures"]) == (1, 2)
    assert {d["id"] for d in report["details"]} == {"5:1:1"}
