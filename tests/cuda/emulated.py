"""Hand-written CUDA texts for the emulator, and whether mistakes in them show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec, TensorMapSpec
from tileprof.emulator import EmulationError, Printed, emulate

__all__ = ["SEEDS", "Array", "Program", "fails_for_some_seed", "spec_of"]

SEEDS = range(8)
Array = np.ndarray[Any, Any]


class Program:
    """A hand-written text with one launch.

    `arguments`: a pointer for each array, then a map for each spec.
    """

    def __init__(
        self, body: str, parameters: str, arrays: Sequence[Array], *, threads: int = 128,
        shared: int = 0, grid: int = 1, cluster: int = 1, maps: Sequence[TensorMapSpec] = (),
        report: bool = False,
    ) -> None:  # fmt: skip
        value = ir.Constant(grid, ir.dtype("index")).result
        arguments = [Argument("pointer", i) for i in range(len(arrays))]
        arguments += [Argument("map", i) for i in range(len(maps))]
        arguments += [Argument("report", 0)] * report
        headers = (
            "base", "numbers", "functions", "memory", "barriers", "async", "shuffle", "matrix",
            "wgmma", "atomics", "report", "elementwise",
        )  # fmt: skip
        texts = with_dependencies(f"{h}.cuh" for h in headers)
        includes = "".join(f'#include "{name}"\n' for name, _ in texts)
        launch = f'extern "C" __global__ void __launch_bounds__({threads}) kernel_0({parameters})'
        prologue = "TP_SHARED_MEMORY(shared);\nconst int t = threadIdx.x;\n"
        text = f"{includes}\n{launch} {{\n{prologue}{body}\n}}\n"
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


def spec_of(array: Array, param: int, box: tuple[int, ...], swizzle: Any = 0) -> TensorMapSpec:
    """The map of a contiguous array."""
    strides = tuple(s // array.itemsize for s in array.strides)
    dtype = ir.dtype(array.dtype.name)
    return TensorMapSpec(param, dtype, array.shape, strides, box, swizzle)
