"""Solutions on a real GPU: `python -m pytest -m gpu tests/learn/gpu_exercises.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tileprof
from tileprof.learn.catalogue import COURSE
from tileprof.learn.exercise import Attempt
from tileprof.learn.judges import SEED, KernelJudge
from tileprof.learn.loading import load

pytestmark = pytest.mark.gpu
SOLUTIONS = Path(__file__).parent / "solutions"
JUDGES = [each.judge for each in COURSE if isinstance(each.judge, KernelJudge)]


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_solution_is_right_on_the_gpu(judge: KernelJudge) -> None:
    """All hidden cases, with arrays that are copied to the GPU and back."""
    attempt = load(SOLUTIONS / f"{judge.name}.py")
    assert isinstance(attempt, Attempt)
    for args in judge.cases(np.random.default_rng(SEED)):
        with tileprof.device("cuda"):
            result = attempt.members[judge.name](*args)
        np.testing.assert_allclose(result, judge.spec(*args), judge.rtol, judge.atol)
