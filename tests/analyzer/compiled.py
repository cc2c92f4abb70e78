"""Kernels that the compiler made, as a profile has them, with samples that a test puts there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.analyzer.made import FILE, Made
from tileprof import binary
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import Location, MissingDependencyError
from tileprof.profiler.pcs.listings import explaining
from tileprof.remarks import Remark

__all__ = ["compiled", "remarks_of", "with_code"]

Samples = Callable[[binary.Instruction, int], Mapping[str, int]]
"""Of an instruction in a line, by reason."""


def compiled(
    kernel: Any, target: str = "sm_90a", controls: Mapping[str, Any] | None = None
) -> CudaProgram:
    """A `prim_func` for a GPU."""
    return compile_cuda(
        kernel.compile().program.kernel, find_target(target), Controls(**(controls or {}))
    )


def remarks_of(program: CudaProgram) -> list[Remark]:
    """What its passes decided, in lines of `FILE`."""
    return [replace(each, location=_here(each.location)) for each in program.remarks]


def with_code(program: CudaProgram, samples: Samples, **given: Any) -> Made:
    """It with its machine code; a skip without NVRTC or nvdisasm."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    try:
        binary.find_nvdisasm()
    except MissingDependencyError:
        pytest.skip("no nvdisasm of 'cuda'")
    (function,) = binary.read(program.cubin.bytes).kernels
    code, blames = [], []
    for at, each in enumerate(function.instructions):
        line = _line(function, each.offset)
        held = dict(samples(each, line))
        code.append((each.text, held, function.depth(each.offset), line))
        waits = binary.waits(function, each.offset) if held else ()
        for reason in held:
            blames += [(at, reason, w.producer // 16) for w in explaining(reason, waits, function)]
    made = Made(remarks=remarks_of(program), code=code, blames=blames, ir="")
    return replace(made, **given)


def _line(function: binary.Function, offset: int) -> int:
    found = [each.line for each in function.chain(offset) if each.file.endswith(".py")]
    return found[-1] if found else 0


def _here(location: Location | None) -> Location | None:
    return location and Location(FILE, location.line)
