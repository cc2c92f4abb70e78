"""Kernels lowered for a target, each once in a run of the tests: small ones for goldens, the case
studies, and those of the benchmarks.  Their cubins are made on demand and kept with the program."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from benchmarks.studies import study
from tileprof import binary, ir
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import MissingDependencyError
from tileprof.instrument import Mode
from tileprof.remarks import Remark

__all__ = [
    "STUDIES", "checked", "compile_together", "copies", "function", "kernel", "lowered",
    "need_machine_code", "opcodes", "product",
]  # fmt: skip

tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")
benchmarks: Any = importlib.import_module("benchmarks.gpu_kernels")
small: Any = importlib.import_module("tests.cuda.small_kernels")


def _study(name: str) -> Any:
    return getattr(study(name), name)


STUDIES: dict[str, Callable[[], Any]] = {
    "matmul": lambda: _study("matmul").compile(M=1000, N=1000, K=1000),
    "flash_attention": lambda: _study("flash_attention")(2, 4, 500, 64, False),
    "flash_attention causal": lambda: _study("flash_attention")(2, 4, 500, 64, True),
    "int4_matmul": lambda: _study("int4_matmul").compile(M=256, N=320, K=512),
    "softmax": lambda: _study("softmax").compile(M=2048, N=2048),
    "rms_norm": lambda: _study("rms_norm").compile(M=2048, N=2048),
    "vector_add": lambda: _study("vector_add").compile(N=1_000_000),
}
"""At the sizes that they run with."""
_OTHERS: dict[str, Callable[[], Any]] = {
    "small matmul": lambda: small.matmul.compile(M=128, N=128, K=256),
    "small softmax": lambda: small.softmax.compile(M=8, N=256),
    "small transpose": lambda: small.transpose.compile(M=64, N=128),
    "gemm": lambda: benchmarks.matmul.compile(M=4096, N=4096, K=4096),
    "gemm 128": lambda: benchmarks.matmul_nt.compile(M=1024, N=1024, K=1024, block_N=128, stages=3),
    "gemm 192": lambda: benchmarks.matmul_nt.compile(
        M=1536, N=1024, K=1024, block_M=192, block_N=128, threads=384
    ),
    "softmax bf16": lambda: benchmarks.softmax.compile(M=2048, N=2048),
    "transpose float32": lambda: tiles.turned.compile(M=1024, N=2048, dtype="float32"),
}


@cache
def kernel(name: str) -> ir.Kernel:
    """A kernel by its name, after the common passes."""
    made = {**STUDIES, **_OTHERS}[name]()
    found: ir.Kernel = made.program.kernel
    return found


def product(
    dtype: str = "bfloat16", ta: bool = False, tb: bool = False, k: int = 512, stages: int = 3
) -> ir.Kernel:
    """512 × 512 × k in tiles of 64, summed in float32 or int32."""
    return _product(dtype, ta, tb, k, stages)


@cache
def _product(dtype: str, ta: bool, tb: bool, k: int, stages: int) -> ir.Kernel:
    out = "int32" if dtype == "int8" else "float32"
    given = {"dtype": dtype, "out": out, "ta": ta, "tb": tb, "stages": stages}
    found: ir.Kernel = tiles.product.compile(M=512, N=512, K=k, **given).program.kernel
    return found


def lowered(
    given: ir.Kernel, target: str, controls: Controls | None = None, instrument: Mode = "off"
) -> CudaProgram:
    """The program for a target."""
    return _lowered(given, target, controls or Controls(), instrument)


@cache
def _lowered(given: ir.Kernel, target: str, controls: Controls, instrument: Mode) -> CudaProgram:
    return compile_cuda(given, find_target(target), controls, instrument=instrument)


@cache
def checked(given: ir.Kernel, **controls: Any) -> CudaProgram:
    """The program for a GPU with clusters, of which the IR is sound and its text is parsed back."""
    program = lowered(given, "sm_90a", Controls(**controls))
    ir.verify(program.kernel)
    text = ir.print_kernel(program.kernel)
    assert ir.print_kernel(ir.parse(text)) == text
    return program


def function(program: CudaProgram) -> binary.Function:
    """The one function of its cubin; a skip without NVRTC or nvdisasm."""
    need_machine_code()
    if id(program) in _JOINED:
        return _JOINED[id(program)][1]
    return _function(program.cubin.bytes)


def need_machine_code() -> None:
    """Skip without NVRTC or nvdisasm."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    try:
        binary.find_nvdisasm()
    except MissingDependencyError:
        pytest.skip("no nvdisasm of 'cuda'")


@cache
def _function(cubin: bytes) -> binary.Function:
    (found,) = binary.read(cubin).kernels
    return found


_INCLUDE = re.compile(r'^#include "[\w./]+"$', re.MULTILINE)
_JOINED: dict[int, tuple[CudaProgram, binary.Function]] = {}
"""Programs and their functions, by the program's identity, which no other has while it is kept."""


def compile_together(programs: Iterable[CudaProgram]) -> None:
    """Make the functions of programs for one target from one text: NVRTC and above all nvdisasm
    take hardly longer for it than for one program."""
    every = list({id(program): program for program in programs}.values())
    (target,) = {program.target for program in every}
    source, names = _one_text([program.source for program in every])
    functions = binary.read(compile_cubin(source, target, Controls()).bytes).functions
    _JOINED.update((id(each), (each, functions[name])) for each, name in zip(every, names))


def _one_text(sources: Sequence[CudaSource]) -> tuple[CudaSource, list[str]]:
    """The texts of programs of one launch, each in a namespace, and the names of their functions.

    A header that is not the same for all of them is in each namespace.
    """
    texts: dict[str, set[str]] = {}
    for name, text in (header for source in sources for header in source.headers):
        texts.setdefault(name, set()).add(text)
    headers = {name: text for name, (text, *others) in texts.items() if not others}
    lines = [f'#include "{name}"' for name in headers]
    names = []
    for at, source in enumerate(sources):
        (spec,) = source.launches
        names.append(f"{spec.function}_of_{at}")
        body = re.sub(rf"\b{spec.function}\b", names[-1], _INCLUDE.sub("", source.text))
        own = {f"{at}_{name}": text for name, text in source.headers if len(texts[name]) > 1}
        headers.update(own)
        included = (f'#include "{name}"' for name in own)
        lines += [f"namespace text_{at} {{", *included, body, "}"]
    return replace(sources[0], text="\n".join(lines), headers=tuple(headers.items())), names


def opcodes(program: CudaProgram) -> set[str]:
    """Names of the instructions that can be reached, and classes such as `LDG.128`."""
    classes = set(function(program).mix)
    return classes | {each.partition(".")[0] for each in classes}


def copies(program: CudaProgram) -> dict[str, Remark]:
    """Return the remarks about copies between memories, keyed by the op's kind and name."""
    return {r.subject: r for r in program.remarks if r.op == "copy"}
