"""Hand-written CUDA texts for the emulator, and whether mistakes in them show."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec, TensorMapSpec
from tileprof.emulator import EmulationError, Printed, emulate
from tileprof.emulator.building import together
from tileprof.native.building import extra_flags

__all__ = [
    "SEEDS",
    "Array",
    "Joined",
    "Program",
    "fails_for_some_seed",
    "join",
    "run_together",
    "spec_of",
]

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
        self.joined: Joined | None = None

    def run(self, arrays: Sequence[Array], seed: int = 0) -> list[Printed]:
        """Run on arrays, in place."""
        run = emulate if self.joined is None else self.joined.emulate
        return run(self.source, self.kernel, arrays, seed=seed)


class Joined:
    """Texts that are compiled for the emulator as one, in a fraction of the time that they take one
    by one."""

    def __init__(self, sources: Iterable[CudaSource]) -> None:
        self._given = {id(source): source for source in sources}
        renamed = [_renamed(source, at) for at, source in enumerate(self._given.values())]
        self._renamed = dict(zip(self._given, renamed))
        with tempfile.TemporaryDirectory() as folder:
            self._library = together(renamed, Path(folder), extra_flags() or ("-O1",))

    def emulate(
        self, source: CudaSource, kernel: ir.Kernel, arrays: Sequence[Any],
        symbols: Mapping[str, int] | None = None, **options: Any,
    ) -> list[Printed]:  # fmt: skip
        """Run one of the texts as `tileprof.emulator.emulate` does."""
        own = self._renamed[id(source)]
        return emulate(own, kernel, arrays, symbols, compiled=self._library, **options)


def join(programs: Sequence[Program]) -> None:
    """Compile programs as one text."""
    joined = Joined(program.source for program in programs)
    for program in programs:
        program.joined = joined


def run_together(runs: Sequence[tuple[CudaProgram, Sequence[Any]]], seed: int = 0) -> None:
    """Run programs from one text, each on its arrays, in place."""
    joined = Joined(program.source for program, _ in runs)
    for program, arrays in runs:
        joined.emulate(program.source, program.kernel, arrays, seed=seed)


def _renamed(source: CudaSource, at: int) -> CudaSource:
    """Return a source whose functions have names that no other source has."""
    text, launches = source.text, []
    for spec in source.launches:
        name = f"{spec.function}_of_{at}"
        text = re.sub(rf"\b{spec.function}\b", name, text)
        launches.append(replace(spec, function=name))
    return replace(source, text=text, launches=tuple(launches))


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
