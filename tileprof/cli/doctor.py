"""`tileprof doctor`: what is there, what is missing, and the command that would get it."""

from __future__ import annotations

import argparse
import ctypes.util
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["add"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: a thing, whether it is there, and what follows."""

    name: str
    found: str
    """Version or path; '' where it is missing."""
    purpose: str
    remedy: str = ""
    """The command that would get it."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("doctor", help="what is there, what is missing, how to get it")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Print one line a thing, the missing ones with the command that would get them."""
    findings = list(examine())
    width = max(len(f.name) for f in findings)
    for each in findings:
        mark = "ok     " if each.found else "missing"
        print(f"{mark} {each.name:<{width}}  {each.found or each.purpose}")
        if not each.found and each.remedy:
            print(f"{'':{width + 8}}  get it: {each.remedy}")
    missing = [f.name for f in findings if not f.found]
    print(_verdict(missing))
    return 0


def _verdict(missing: list[str]) -> str:
    if not missing:
        return "Everything is there."
    if "C++ compiler" in missing:
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
    yield Finding(
        "CUDA driver", driver or "", "kernels on a GPU", "install the NVIDIA driver for your GPU"
    )
    for name in ("cuda-python", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"):
        yield _package(name, "kernels on a GPU", 'pip install "tileprof[cuda]"')


def _package(name: str, purpose: str, remedy: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return Finding(name, version, purpose, remedy)


def _compiler() -> Finding:
    from tileprof.compiler.build import find_compiler

    found = find_compiler()
    shown = "" if found is None else f"{found.version} ({found.path})"
    purpose = "kernels at the speed of C++ (without: interpreter)"
    return Finding("C++ compiler", shown, purpose, "apt install g++, or set CXX")


def _cache() -> Finding:
    from tileprof.compiler.build import cache_folder

    folder = cache_folder()
    existing = folder
    while not existing.exists():
        existing = existing.parent
    found = str(folder) if os.access(existing, os.W_OK) else ""
    return Finding("cache folder", found, f"{folder} is not writable", "set TILEPROF_CACHE")
