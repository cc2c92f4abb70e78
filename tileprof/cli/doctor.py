"""`tileprof doctor`: what is there, what is missing, and the command that would get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Sequence

from tileprof.cli.doctor_gpu import Finding
from tileprof.errors import extra_command

from . import doctor_gpu, doctor_roofs, terminal
from .parsing import Command, Parser

_EXTRAS = (
    ("pandas", "Profile.frame()", "pandas"),
    ("plotly", "tileprof.figures", "plotly"),
    ("llnl-hatchet", "Profile.to_hatchet()", "hatchet"),
    ("pyarrow", "export --to parquet", "parquet"),
    ("textual", "view --interactive", "tui"),
)
_ROOFS = "measure the peak rates of each GPU, print and store them; takes a few seconds"


def _parser() -> Parser:
    description = "List what is installed, what is missing, and how to install it."
    parser = Parser("doctor", "[--roofs]", description)
    parser.add_argument("--roofs", action="store_true", help=_ROOFS)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print one line a thing, the missing ones with the command that would get them."""
    if _parser().parse_args(arguments).roofs:
        return doctor_roofs.measure()
    findings = list(examine())
    width = max(len(each.name) for each in findings)
    missing = [each.name for each in findings if not each.found]
    terminal.show("".join(_line(each, width) for each in findings) + _verdict(missing) + "\n")
    return 0


def _line(each: Finding, width: int) -> str:
    if each.found:
        return f"ok      {each.name:<{width}}  {each.found}\n"
    indent = " " * (width + 10)
    remedy = each.remedy.replace("\n", "\n" + indent)
    return f"missing {each.name:<{width}}  {each.purpose}\n{indent}get it: {remedy}\n"


def _verdict(missing: list[str]) -> str:
    if not missing:
        return "Everything is installed."
    lacking = set(missing)
    if {"C++ compiler", "cache folder"} & lacking:
        return "Kernels run in the interpreter; profiles can be made, opened and compared."
    if not {"CUDA driver", "GPU", "NVRTC"} & lacking:
        return "Kernels run on the GPU; profiles can be made, opened and compared."
    return "Kernels run on the CPU; profiles can be made, opened and compared."


def examine() -> Iterator[Finding]:
    """Everything that tileprof can use, in order of need."""
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})", "")
    for name in ("numpy", "ml_dtypes", "rich"):
        yield _package(name, "needed", f'pip install "{name}"')
    yield _compiler()
    yield _cache()
    yield _package("torch", "PyTorch tensors as arguments", extra_command("torch"))
    yield _observer()
    for name, purpose, extra in _EXTRAS:
        yield _package(name, purpose, extra_command(extra))
    yield from doctor_gpu.kernels()
    yield from doctor_roofs.findings()
    yield from doctor_gpu.recording()


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
    purpose = "kernels compiled to C++ (otherwise interpreted)"
    return Finding("C++ compiler", shown, purpose, "apt install g++, or set CXX")


def _observer() -> Finding:
    from tileprof.profiler.frameworks import observer

    why = observer.why_not()
    found = "" if why else "compiled when it is first used"
    purpose = f"PyTorch's operations in profiles; {why}"
    lacking = "compiler" in why
    remedy = "apt install g++, or set CXX" if lacking else extra_command("torch")
    return Finding("PyTorch observer", found, purpose, remedy)


def _cache() -> Finding:
    from tileprof.compiler.build import cache_folder

    folder = cache_folder()
    existing = folder
    while not existing.exists():
        existing = existing.parent
    found = str(folder) if os.access(existing, os.W_OK) else ""
    purpose = f"compiled kernels; {folder} is not writable"
    return Finding("cache folder", found, purpose, "set TILEPROF_CACHE")


COMMAND = Command("doctor", "list what is installed and what is missing", main, _parser)
