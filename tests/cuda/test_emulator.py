"""The emulator runs right kernels right for every seed, and shows what is wrong in wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.emulator import EmulationError, Failure, Printed, emulate
from tileprof import ir
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec, TensorMapSpec

SEEDS = range(8)
Array = np.ndarray[Any, Any]


class Program:
    """A hand-written text with one launch.

    `arguments`: a pointer for each array, then a map for each spec.
    """

    def __init__(
        self, body: str, parameters: str, arrays: Sequence[Array], *, threads: int = 128,
        shared: int = 0, grid: int = 1, cluster: int = 1, maps: Sequence[TensorMapSpec] = (),
        report: bool = False, before: str = "",
    ) -> None:  # fmt: skip
        value = ir.Constant(grid, ir.dtype("index")).result
        arguments = [Argument("pointer", i) for i in range(len(arrays))]
        arguments += [Argument("map", i) for i in range(len(maps))]
        arguments += [Argument("report", 0)] * report
        headers = (
            "base", "numbers", "functions", "memory", "barriers", "async", "shuffle", "matrix",
            "wgmma", "atomics", "report",
        )  # fmt: skip
        texts = with_dependencies(f"{h}.cuh" for h in headers)
        includes = "".join(f'#include "{name}"\n' for name, _ in texts)
        launch = f'extern "C" __global__ void __launch_bounds__({threads}) kernel_0({parameters})'
        prologue = "TP_SHARED_MEMORY(shared);\nconst int t = threadIdx.x;\n"
        text = f"{includes}{before}\n{launch} {{\n{prologue}{body}\n}}\n"
        spec = LaunchSpec(
            "kernel_0", tuple(arguments), tuple(maps), (value,), threads, shared, cluster
        )
        self.source = CudaSource("kernel", text, texts, (spec,), ())
        params = tuple(
            ir.Param(f"p{i}", ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global"))
            for i, a in enumerate(arrays)
        )
        owner = value.owner
        assert owner is not None
        body_block = ir.Block([ir.Value(p.type) for p in params], [owner])
        self.kernel = ir.Kernel("kernel", params, (), body_block)

    def run(self, arrays: Sequence[Array], seed: int = 0) -> list[Printed]:
        """Run on arrays, in place."""
        return emulate(self.source, self.kernel, arrays, seed=seed)


def fails_for_some_seed(
    program: Program, arrays: Sequence[Array], want: Array, tolerance: float = 0
) -> bool:
    """Whether the last array comes out wrong, or the emulator complains, for one of the seeds."""
    for seed in SEEDS:
        fresh = [a.copy() for a in arrays]
        try:
            program.run(fresh, seed)
        except EmulationError:
            return True
        if not np.allclose(fresh[-1].astype(float), want, rtol=tolerance, atol=tolerance):
            return True
    return False


# -- shuffles, shared memory, barriers

REDUCTION = """
  float *const partial = (float *)shared;
  float sum = x[blockIdx.x * 128 + t];
  for (int by = 16; by; by /= 2) sum += tp_shuffle_xor(sum, by);
  if (t % 32 == 0) partial[t / 32] = sum;
  tp_barrier();
  if (t == 0) out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
"""


def reduction(body: str) -> tuple[Program, list[Array]]:
    arrays = [np.arange(384, dtype=np.float32), np.zeros(3, np.float32)]
    program = Program(body, "const float *x, float *out", arrays, shared=16, grid=3)
    return program, arrays


@pytest.mark.parametrize("seed", SEEDS)
def test_block_reduction(seed: int) -> None:
    program, (x, out) = reduction(REDUCTION)
    program.run([x, out], seed)
    assert (out == x.reshape(3, 128).sum(1)).all()


def test_a_missing_barrier_shows() -> None:
    program, arrays = reduction(REDUCTION.replace("tp_barrier();", ""))
    want = arrays[0].reshape(3, 128).sum(1)
    assert fails_for_some_seed(program, arrays, want)
