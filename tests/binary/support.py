"""Compiling CUDA C++ in the test, and instructions from their text."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.binary.kernels import SHARED, WGMMA
from tileprof.binary import Cubin, Function, Instruction, find_nvdisasm, read
from tileprof.binary.instructions import BYTES, split_operands
from tileprof.errors import MissingDependencyError

STORED = Path(__file__).parent / "data" / "spill.sm_90a.cubin"
"""`spill` and `inlined` of kernels.py, by ptxas 12.8, the compiler that Triton 3.6 ships."""


@functools.cache
def compile_cuda(name: str, arch: str) -> tuple[Cubin, str]:
    """The cubin that NVRTC makes of a kernel, with line information, and what ptxas says of it."""
    return _compile({**SHARED, "wgmma": WGMMA}[name], name, arch)


@functools.cache
def compile_shared(arch: str) -> Cubin:
    """One cubin of all shared kernels, each with the name and the lines of a file of its own: the
    disassembler takes as long for one kernel as for all."""
    parts = [f'#line 1 "{name}.cu"\n{text}' for name, text in SHARED.items()]
    return _compile("".join(parts), "shared", arch)[0]


def kernel(name: str, arch: str) -> Function:
    """A kernel of kernels.py, compiled."""
    cubin = compile_shared(arch) if name in SHARED else compile_cuda(name, arch)[0]
    return cubin.functions[name]


def _compile(text: str, name: str, arch: str) -> tuple[Cubin, str]:
    reason = "no NVRTC of 'cuda'"
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason=reason)
    try:
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, None, None)
    except RuntimeError as error:
        pytest.skip(f"{reason}: {error}")
    options = [f"-arch={arch}".encode(), b"-lineinfo", b"--ptxas-options=-v"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    data = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, data)
    nvrtc.nvrtcDestroyProgram(program)
    need_disassembler()
    return read(data), log.decode()


def need_disassembler() -> None:
    """Skip where there is no nvdisasm."""
    try:
        find_nvdisasm()
    except MissingDependencyError as error:
        pytest.skip(f"nvdisasm of 'cuda': {error.message}")


def parse(text: str) -> tuple[Instruction, ...]:
    """Instructions from lines such as `@!P0 BRA 0x20`, at offsets from 0."""
    found = []
    for i, line in enumerate(filter(None, map(str.strip, text.strip().splitlines()))):
        predicate, opcode, operands = re.fullmatch(r"(@\S+)? ?(\S+) ?(.*)", line).groups("")  # type: ignore[union-attr]
        found.append(Instruction(i * BYTES, predicate, opcode, split_operands(operands), 0))
    return tuple(found)
