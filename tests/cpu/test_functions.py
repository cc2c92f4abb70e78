"""Functions in float32 over the whole range of numbers, measured in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu.support import kernel, load
from tileprof.runtime.cpu.executable import CpuExecutable

Array = np.ndarray[Any, Any]
COUNT = 1 << 16
ULP: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "exp": (2, np.exp),
    "exp2": (2, np.exp2),
    "exp10": (2, lambda x: np.power(10.0, x)),
    "log": (2, np.log),
    "log2": (2, np.log2),
    "log10": (2, np.log10),
    "log1p": (2, np.log1p),
    "tanh": (2, np.tanh),
    "erf": (2, np.vectorize(math.erf, otypes=[float])),
    "rsqrt": (2, lambda x: 1 / np.sqrt(x)),
    "sqrt": (0.5, np.sqrt),
    "sigmoid": (3, lambda x: 1 / (1 + np.exp(-x))),
}


@pytest.fixture(scope="module")
def functions() -> CpuExecutable:
    """A kernel with one launch for each function."""
    params = [f"%x: global<{COUNT}, float32>"]
    params += [f"%{f}: global<{COUNT}, float32>" for f in ULP]
    launches = [
        f"""    %n = constant {COUNT} : index
    parallel [%n] body(%i: index) {{
      %a = load %x, [%i] : float32
      %r = {f} %a : float32
      store %r, %{f}, [%i]
    }}"""
        for f in ULP
    ]
    return load(kernel("functions", params, *launches))


def test_functions_are_accurate(functions: CpuExecutable) -> None:
    """Any bit pattern, dense ranges where functions bend, and the borders: infinities, NaN, zeros
    of both signs, denormals."""
    rng = np.random.default_rng(0)
    quarter = COUNT // 4
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.72, 88.73, -87.4, -103.9, 1e-45]
    ranges = [
        rng.uniform(-110, 110, quarter),
        rng.uniform(-2, 2, quarter),
        1 + rng.uniform(-0.01, 0.01, quarter - len(special)),
        np.array(special),
    ]
    patterns = rng.integers(0, 2**32, quarter, np.uint32).view(np.float32)
    x = np.concatenate([patterns, *(r.astype(np.float32) for r in ranges)])
    results = {f: np.zeros(COUNT, np.float32) for f in ULP}
    functions.run([x, *results.values()], [])
    with np.errstate(all="ignore"):
        for name, (most, function) in ULP.items():
            exact = np.asarray(function(x.astype(np.float64)), np.float64)
            near, found = exact.astype(np.float32), results[name]
            finite = np.isfinite(near)
            np.testing.assert_array_equal(found[~finite], near[~finite], name)
            unit = np.maximum(np.spacing(np.abs(near[finite])).astype(np.float64), 2.0**-149)
            error = np.abs(found[finite].astype(np.float64) - exact[finite]) / unit
            if name == "sigmoid":
                # 1 / (1 + exp(-x)) overflows inside where the result is a denormal.
                error = error[near[finite] > 2e-38]
            assert error.max() <= most + 1e-6, name
