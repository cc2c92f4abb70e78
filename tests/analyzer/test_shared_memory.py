"""Passes through shared memory, by addresses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analyzer.made import stored
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.shared_memory import bank_passes, passes_at


@pytest.mark.parametrize(
    ("step", "width", "passes", "ideal"),
    [
        (4, 4, 1, 1), (0, 4, 1, 1), (8, 4, 2, 1), (32, 4, 8, 1), (128, 4, 32, 1), (132, 4, 1, 1),
        (2, 2, 1, 1), (8, 8, 2, 2), (64, 8, 16, 2), (16, 16, 4, 4), (0, 16, 4, 4), (128, 16, 32, 4),
        (144, 16, 4, 4),
    ],
)  # fmt: skip
def test_lanes_that_are_so_many_bytes_apart(
    step: int, width: int, passes: int, ideal: int
) -> None:  # fmt: skip
    """32 banks of 4 bytes: lanes meet where their words are a multiple of 32 apart."""
    assert bank_passes(step * np.arange(32), width) == (passes, ideal)


def test_a_kernel_of_a_gpu() -> None:
    """Lanes that are 8 words apart; what was stored before is in order."""
    (case,) = (e for e in Program(stored("h200-stalls")).kernels if e.name == "bank_conflict")
    assert case.code is not None
    found = {case.code.instructions[i].name: passes for i, passes in passes_at(case).items()}
    assert found == {"STS": (1, 1), "LDS": (8, 1)}
