"""Compiling the machine once and each text once; what was made before is found by its contents."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tileprof.compiler.codegen import prelude
from tileprof.compiler.cuda.source import CudaSource

__all__ = ["library", "machine", "together"]

HERE = Path(__file__).parent
INCLUDE, RUNTIME = HERE / "include", HERE / "runtime"
STORE = Path(tempfile.gettempdir()) / f"tileprof-emulator-{os.getuid()}"
# Registers that nobody wrote hold a pattern, not what was there by chance.
FLAGS = ("-std=c++17", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-w")
TEXT_FLAGS = ("-O1", "-ftrivial-auto-var-init=pattern")
_WGMMA = re.compile(
    r"\b(tp_wgmma_m64n(\d+)k(\d+)_([a-z0-9]+)_([a-z0-9]+)_(ss|rs)(_ta)?(_tb)?(_into_f16)?)\b"
)
_INCLUDE = re.compile(r'^#include "[\w.]+"$', re.MULTILINE)
_SUMS = {"s8": "int32_t", "u8": "int32_t"}


@cache
def machine() -> ctypes.CDLL:
    """The machine; its functions are there for every text that is loaded later."""
    sources = sorted(RUNTIME.glob("*.cpp"))
    path = _build(_digest(), ["-O2", *map(str, sources)], Path())
    return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


@cache
def library(source: CudaSource) -> ctypes.CDLL:
    """A text as functions `tp_entry_NAME`, one for each launch."""
    machine()
    files = _files([source], source.text)
    key = hashlib.sha256("\0".join([_digest(), *sorted(files), *files.values()]).encode())
    found = STORE / f"{key.hexdigest()}.so"
    if found.exists():
        return ctypes.CDLL(str(found))
    with tempfile.TemporaryDirectory() as folder:
        _write(files, Path(folder))
        path = _build(key.hexdigest(), [*TEXT_FLAGS, "kernel.cpp"], Path(folder))
    return ctypes.CDLL(str(path))


def together(sources: Sequence[CudaSource], folder: Path, flags: Sequence[str]) -> ctypes.CDLL:
    """Many texts as one library, which is not kept: functions of different names, each text in a
    namespace of its own."""
    machine()
    includes = dict.fromkeys(line for s in sources for line in _INCLUDE.findall(s.text))
    names = [f"text_{at}" for at in range(len(sources))]
    texts = [
        f"namespace {name} {{\n{_INCLUDE.sub('', source.text)}\n}}"
        for name, source in zip(names, sources)
    ]
    _write(_files(sources, "\n".join([*includes, *texts]), names), folder)
    _compile([*flags, *TEXT_FLAGS[1:], "kernel.cpp"], folder, folder / "kernels.so")
    return ctypes.CDLL(str(folder / "kernels.so"))


def _files(
    sources: Sequence[CudaSource], text: str, namespaces: Sequence[str] = ()
) -> dict[str, str]:
    """Files that are compiled for some sources; `text` holds theirs, each in its namespace."""
    uses = (f"using namespace {name};" for name in namespaces)
    headers = {name: header for source in sources for name, header in source.headers}
    names = dict.fromkeys(spec.function for source in sources for spec in source.launches)
    entries = (f"TP_ENTRY({name})" for name in names)
    files = {
        "generated_wgmma.h": _products(text),
        "generated_records.h": _records(headers.get("records.cuh", "")),
        "kernel.cpp": "\n".join([text, '#include "entry.h"', *uses, *entries, ""]),
    }
    # Headers without instructions are used as they are.
    return files | {n: t for n, t in headers.items() if not (INCLUDE / n).exists()}


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


@cache
def _digest() -> str:
    """What everything compiled depends on besides its own text."""
    files = sorted([*INCLUDE.iterdir(), *RUNTIME.iterdir(), *prelude.FOLDER.glob("*.h")])
    texts = [*FLAGS, *TEXT_FLAGS, *(f"{f.name}\0{f.read_text()}" for f in files)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _build(key: str, arguments: Sequence[str], folder: Path) -> Path:
    """The shared library of this key, compiled in `folder` unless it is in the store."""
    made = STORE / f"{key}.so"
    if made.exists():
        return made
    STORE.mkdir(parents=True, exist_ok=True)
    unfinished = STORE / f"{key}.{os.getpid()}"
    _compile(arguments, folder, unfinished)
    unfinished.rename(made)
    return made


def _compile(arguments: Sequence[str], folder: Path, made: Path) -> None:
    compiler = shutil.which("g++")
    assert compiler, "the emulator needs g++"
    command = [compiler, *FLAGS, "-I.", f"-I{INCLUDE}", f"-I{prelude.FOLDER}", *arguments]
    done = subprocess.run(
        [*command, "-o", str(made)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"the emulator's compiler refused the text:\n{done.stderr[:6000]}"


def _records(header: str) -> str:
    """The structs of the header `records.cuh`, whose functions have twins."""
    return "".join(re.findall(r"^struct Tp(?!Warp).*?^};\n", header, re.MULTILINE | re.DOTALL))


def _products(text: str) -> str:
    """A definition of each product of a warp group that a text names."""
    lines = []
    for name, n, k, a, b, way, ta, tb, half in sorted(set(_WGMMA.findall(text))):
        flags = ", ".join("true" if f else "false" for f in (way == "rs", ta, tb, half))
        sums = "uint32_t" if half else _SUMS.get(a, "float")
        start = f"TP_WGMMA_{way.upper()}({name}, {sums}, {int(n) // (4 if half else 2)}"
        lines.append(f"{start}, {n}, {k}, {a}, {b}, {flags})")
    return "\n".join([*lines, ""])
