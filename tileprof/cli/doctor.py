"""`tileprof doctor`: what is there, what is missing, and the command that would get it."""

from __future__ import annotations

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
CUDA_EXTRA = 'pip install "tileprof[cuda]"'
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
    lacking = set(missing)
    if {"C++ compiler", "cache folder"} & lacking:
        return "Kernels run in the interpreter; profiles can be made, opened and compared."
    if not {"CUDA driver", "GPU", "NVRTC"} & lacking:
        return "Kernels run on the GPU; profiles can be made, opened and compared."
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
    yield _package("pyarrow", "export --to parquet", 'pip install "tileprof[parquet]"')
    yield from _cuda()


def _cuda() -> Iterator[Finding]:
    """The driver, its GPUs, what compiles for them, and what makes calls fast."""
    remedy = "install the NVIDIA driver for your GPU"
    driver, devices = _driver()
    yield Finding("CUDA driver", driver, GPU, remedy)
    yield Finding("GPU", devices, GPU, "see `nvidia-smi`; CUDA_VISIBLE_DEVICES may hide it")
    yield Finding("NVRTC", _nvrtc(), "kernels compiled for a GPU", CUDA_EXTRA)
    yield Finding("nvdisasm", _nvdisasm(), "machine code of kernels, by line", CUDA_EXTRA)
    yield _launcher()


def _driver() -> tuple[str, str]:
    """Versions of the driver, and its GPUs; '' for what is not there."""
    from tileprof.errors import TileprofError
    from tileprof.runtime.cuda_device import find_device
    from tileprof.runtime.cuda_driver import load_driver

    try:
        driver = load_driver()
        count = driver.number("cuDeviceGetCount")
    except TileprofError:
        return "", ""
    shown = []
    for number in range(count):
        try:
            device = find_device(number)
        except TileprofError as error:
            shown.append(f"cuda:{number} cannot be used: {error.message}")
        else:
            how = "PTX for " if device.from_ptx else ""
            shown.append(f"cuda:{number} {device.name} ({how}{device.target.name})")
    return f"CUDA {driver.version()}", ", ".join(shown)


def _nvrtc() -> str:
    from tileprof.compiler.cuda import nvrtc
    from tileprof.errors import TileprofError

    try:
        return ".".join(map(str, nvrtc.version()))
    except TileprofError:
        return ""


def _nvdisasm() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return ""
    return str(find_nvidia_binary_utility("nvdisasm") or "")


def _launcher() -> Finding:
    from tileprof.runtime.cuda_native import why_not

    why = why_not()
    purpose = f"calls on a GPU in a few microseconds; {why}" if why else ""
    found = "" if why else "compiled when it is first used"
    return Finding("native launcher", found, purpose, "see the lines above, or update PyTorch")


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
