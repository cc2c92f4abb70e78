"""Solutions compiled for Hopper compute the specification on the emulated GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.learn.catalogue import COURSE
from tileprof.learn.exercise import Attempt
from tileprof.learn.judges import SEED, KernelJudge
from tileprof.learn.loading import load

SOLUTIONS = Path(__file__).parent / "solutions"
JUDGES = [each.judge for each in COURSE if isinstance(each.judge, KernelJudge)]


@pytest.mark.spread(without=["dequant", "attention", "causal"])
@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_solution_is_right_on_the_emulated_gpu(judge: KernelJudge) -> None:
    """The first hidden case, whose extents are no multiples of the tiles'."""
    attempt = load(SOLUTIONS / f"{judge.name}.py")
    assert isinstance(attempt, Attempt)
    args = next(judge.cases(np.random.default_rng(SEED)))
    kernel = attempt.members[judge.name].compile(*args)
    held: ir.Kernel = kernel.program.kernel
    given: dict[str, Any] = dict(zip(kernel.arguments, args))
    tensors = {p.name: given[p.name] if p.name in given else zeros(p) for p in held.params}
    source = compile_cuda(held, find_target("sm_90a")).source
    emulate(source, held, list(tensors.values()), {}, seed=1)
    (at,) = kernel.variant.traced.returned
    result = tensors[held.params[at].name].astype(np.float64)
    np.testing.assert_allclose(result, judge.spec(*args), judge.rtol, judge.atol)


def zeros(param: ir.Param) -> Any:
    """Return memory for a result or for what launches pass on."""
    assert isinstance(param.type, ir.BufferType)
    return np.zeros([int(extent) for extent in param.type.shape], param.type.dtype.to_numpy())
