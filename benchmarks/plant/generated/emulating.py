"""Run tile kernels and their mutants on the emulated GPU, which ends where a real one would.

    python -m plant.generated.emulating [--only RE] [--mutants N] [--seconds S] [--seed N]
        in `benchmarks`

In: names of cases.  Out: for each, what ends its launch, if anything: a misaligned address, memory
of another block, threads that wait for ever.  Needs PyTorch and a C++ compiler.

Each kernel is compiled for an H200 at the extents that it has there, as slots, panels and blocks
follow from them, and its arrays begin at multiples of 16 bytes that are none of 32.  The first, the
middle and the last block of each launch run; persistent blocks take all of their tiles.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).parents[3]))

from .families import FAMILIES, Family
from .mutants import mutants_of

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.compiler.cuda.pipeline import CudaProgram

__all__ = ["arrays_of", "cases", "fault", "main", "program_of"]

MOST_BYTES = 3 << 29
"""Bytes of a kernel's arrays together, above which it is left out."""
STEPS = 2_000_000
"""Changes of thread after which a launch counts as run."""


Case = tuple[str, Family, str, Mapping[str, int]]
"""Name, family, source and extents."""


def cases(only: str, mutants: int, seed: int = 0) -> Iterator[Case]:
    """Yield clean kernels, and so many mutants of each."""
    draw = random.Random(seed)
    for family in FAMILIES.values():
        if family.language != "tile":
            continue
        made: list[Case] = [(f"{family.name}/clean/0", family, family.text, family.shape)]
        held = [(m.name, family, m.text, m.shape) for m in mutants_of(family)] if mutants else []
        made += draw.sample(held, min(mutants, len(held)))
        yield from (each for each in made if re.search(only, each[0]))


def program_of(family: Family, text: str, shape: Mapping[str, int], folder: Path) -> CudaProgram:
    """Return a kernel as an H200 would run it."""
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    from . import problems

    module = problems.imported(family, text, folder / f"{family.path.stem}.py")
    kernel = getattr(module, family.entry).compile(**shape).program.kernel
    return compile_cuda(kernel, find_target("sm_90a"))


def arrays_of(
    family: Family, shape: Mapping[str, int], kernel: ir.Kernel
) -> list[np.ndarray[Any, Any]] | None:
    """Return the arguments of a kernel, its results empty; None where they are too large."""
    from tileprof import ir

    from . import problems

    sizes = [
        int(np.prod(p.type.static_shape)) * p.type.dtype.bytes
        for p in kernel.params
        if isinstance(p.type, ir.BufferType)
    ]
    if sum(sizes) > MOST_BYTES:
        return None
    arrays = [_numpy(each) for each in problems.inputs_of(family, shape, "cpu")]
    for param in kernel.params[len(arrays) :]:
        assert isinstance(param.type, ir.BufferType)
        arrays.append(np.zeros(param.type.static_shape, param.type.dtype.to_numpy()))
    return arrays


def _numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor of PyTorch as an array, with the types that NumPy lacks."""
    import ml_dtypes
    import torch

    narrow: dict[Any, Any] = {
        torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
        torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
        torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    }
    if tensor.dtype in narrow:
        bits, kind = narrow[tensor.dtype]
        return np.asarray(tensor.view(bits).numpy().view(kind))
    return np.asarray(tensor.numpy())


def few(grid: int) -> Sequence[int]:
    """Return the first, the middle and the last block of a launch."""
    return sorted({0, grid // 2, grid - 1})


def fault(program: CudaProgram, arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    """Return what ends a launch on these arrays, an empty text for nothing."""
    from tileprof.emulator import EmulationError, emulate

    # A persistent launch has as many blocks as an H200 holds.
    residents = max((spec.persistent for spec in program.source.launches), default=0)
    clusters = max((spec.cluster for spec in program.source.launches), default=1)
    count = max(residents * program.target.sms // clusters, 1)
    try:
        emulate(
            program.source, program.kernel, list(arrays), blocks=few, steps=STEPS,
            resident=lambda tiles: min(count, -(-tiles // clusters)),
        )  # fmt: skip
    except EmulationError as error:
        return "" if error.end == "limit" else str(error).splitlines()[0]
    return ""


def main() -> int:
    """Run the command; 1 where a kernel has a fault."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="regular expression over names")
    parser.add_argument("--mutants", type=int, default=0, help="mutants of each family")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="longest time")
    parser.add_argument("--seed", type=int, default=0, help="draws mutants")
    asked = parser.parse_args()
    end, ran, left, wrong = time.monotonic() + asked.seconds, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, family, text, shape) in enumerate(
            cases(asked.only, asked.mutants, asked.seed)
        ):
            if time.monotonic() > end:
                break
            began = time.monotonic()
            try:
                program = program_of(family, text, shape, Path(folder) / str(number))
                arrays = arrays_of(family, shape, program.kernel)
                said = "" if arrays is None else fault(program, arrays)
            except Exception as error:
                arrays, said = [], f"{type(error).__name__}: {error}".splitlines()[0]
            ran, left = ran + (arrays is not None), left + (arrays is None)
            wrong += bool(said)
            print(f"{name:52} {time.monotonic() - began:5.1f} s  {said or '–'}", flush=True)
    print(f"{ran} ran, {left} too large, {wrong} with a fault")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
