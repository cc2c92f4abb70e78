"""`tileprof doctor`: what is there, what is missing, and the command that would get it."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import terminal
from .parsing import Command, Parser

__all__ = ["COMMAND", "Finding", "examine"]

GPU = "kernels on a GPU"
COMPILING = "CUDA, PTX and SASS of kernels, also without a GPU"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: a thing, whether it is there, and what follows."""

    name: str
    found: str
    """Version or path; '' where it is missing."""
    purpose: str
    remedy: str = ""
    """The command that would get it."""


def main(arguments: Sequence[str]) -> int:
    """Print one line a thing, the missing ones with the command that would get them."""
    description = "Say what is there, what is missing, and how to get it."
    Parser("doctor", "", description).parse_args(arguments)
    findings = list(examine())
    width = max(len(each.name) for each in findings)
    missing = [each.name for each in findings if not each.found]
    terminal.show("".join(_line(each, width) for each in findings) + _verdict(missing) + "\n")
    return 0


def _line(each: Finding, width: int) -> str:
    if each.found:
        return f"ok      {each.name:<{width}}  {each.found}\n"
    remedy = f"{'':{width + 10}}get it: {each.remedy}\n"
    return f"missing {each.name:<{width}}  {each.purpose}\n{remedy}"


def _verdict(missing: list[str]) -> str:
    if not missing:
        return "Everything is there."
    if {"C++ compiler", "cache folder"} & set(missing):
        return "Kernels run in the interpreter; profiles can be made, opened and compared."
    return "Kernels run on the CPU; profiles can be made, opened and compared."


def examine() -> Iterator[Finding]:
    """Everything that tileprof can use, in order of need."""
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})", "")
    for name in ("numpy", "ml_dtypes", "pandas", "rich", "plotly"):
        yield _package(name, "needed", f'pip install "{name}"')
    yield _compiler()
    yield _cache()
    yield _package("torch", "PyTorch tensors as arguments", 'pip install "tileprof[torch]"')
    yield _package("llnl-hatchet", "Profile.to_hatchet()", 'pip install "tileprof[hatchet]"')
    driver = ctypes.util.find_library("cuda")
    yield Finding("CUDA driver", driver or "", GPU, "install the NVIDIA driver for your GPU")
    for name in ("cuda-python", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"):
        yield _package(name, COMPILING, 'pip install "tileprof[cuda]"')


def _package(name: str, purpose: str, remedy: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return Finding(name, version, purpose, remedy)


def _compiler() -> Finding:
    from tileprof.compiler.build import find_compiler

    found = find_compiler()
    shown = "" if found is None else f"{found.version.splitlines()[0]} ({found.path})"
    purpose = "kernels at the speed of C++ (without: interpreter)"
    return Finding("C++ compiler", shown, purpose, "apt install g++, or set CXX")


def _cache() -> Finding:
    from tileprof.compiler.build import cache_folder

    folder = cache_folder()
    existing = folder
    while not existing.exists():
        existing = existing.parent
    found = str(folder) if os.access(existing, os.W_OK) else ""
    purpose = f"compiled kernels; {folder} is not writable"
    return Finding("cache folder", found, purpose, "set TILEPROF_CACHE")


COMMAND = Command("doctor", "what is there, what is missing, how to get it", main)
