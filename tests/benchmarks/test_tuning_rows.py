"""The benchmark of the tuner, on a few configurations of small kernels: rows are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tuning
from benchmarks.tuning_cases import CASES
from tileprof.native.building import find_compiler


def rows(path: Path, *arguments: str) -> Any:
    """What a run of the benchmark writes."""
    tuning.main(["--small", "--no-cold", "--workers", "1", "-o", str(path), *arguments])
    return json.loads(path.read_text())


def test_rows_are_written_without_a_gpu(tmp_path: Path) -> None:
    """Compiling only, the model's best are named; a later run adds its rows to them."""
    path = tmp_path / "tuning.json"
    held = rows(path, "--compile-only", "--configurations", "2", "--only", "row-sums")
    (row,) = held["rows"]
    assert (row["kernel"], row["split"], row["configurations"]) == ("row-sums", "held-out", 2)
    assert row["model_best"][0]["ns"] <= row["model_best"][1]["ns"]
    only = "row-sums|row-scan"
    held = rows(path, "--compile-only", "--configurations", "1", "--only", only, "--add")
    assert [each["kernel"] for each in held["rows"]] == ["row-sums", "row-scan"]
    assert held["rows"][0] == row
    assert not held["failed"]


@pytest.mark.sweep
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_the_tuner_is_compared_with_all(tmp_path: Path) -> None:
    """On the processor: the best of all that were timed, and what the tuner chose among them."""
    held = rows(
        tmp_path / "tuning.json", "--device", "cpu", "--configurations", "3", "--only", "gemm-nn"
    )
    (row,) = held["rows"]
    times = [ns for _, _, ns in row["rows"]]
    assert row["timed"] == len(times) == 3
    assert times == sorted(times)
    assert 0 < row["tuner"]["share_of_best"] <= 1
    assert row["tuner"]["timed"] <= 3
    assert held["summary"]["held-out"]["rows"] == 1


def test_every_case_has_five_shapes_and_a_kernel() -> None:
    """Eight kernels at least are held out from the model."""
    assert all(len(case.shapes) == 5 for case in CASES)
    assert sum(not case.development for case in CASES) >= 8
    for case in CASES:
        for shape in (*case.shapes, case.small):
            assert all(
                extent > 0 for shape_, _ in case.tensors(shape).values() for extent in shape_
            )
