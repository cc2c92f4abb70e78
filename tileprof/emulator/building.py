"""Emulated texts as shared libraries in the cache of compiled code: the machine once, each text
once.

Every header is written into the text that is compiled, so that the text alone decides the result.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tileprof.compiler.codegen import prelude
from tileprof.compiler.cuda.emit.text import pinned
from tileprof.compiler.cuda.source import CudaSource
from tileprof.errors import BuildError, MissingDependencyError
from tileprof.native.building import (
    Compiler,
    Order,
    find_compiler,
    is_cached,
    load_library,
    one_at_a_time,
)
from tileprof.once import once

HERE = Path(__file__).parent
INCLUDE, RUNTIME = HERE / "include", HERE / "runtime"
_FLAGS = ("-std=c++17", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-w")
_TEXT_FLAGS = (
    "-O1",
    # Registers that nobody wrote hold a pattern, not what was there by chance.
    "-ftrivial-auto-var-init=pattern",
    # A call of the machine's, in place of an access whose address its type does not allow: there a
    # GPU ends a launch, and a processor does not.
    "-fsanitize=alignment",
    # Linking what compilers add by themselves takes longer than the rest of linking a text.
    "-nodefaultlibs",
)
_LIBRARIES = ("-lm", "-lgcc")
"""Besides functions of the machine and of the C library, which are there when a text is loaded: to
look into the C library takes a sixth of the time in which most texts are compiled."""
_WATCHED_FLAGS = (
    *_TEXT_FLAGS,
    "-g1",
    # In the line table of version 5, addr2line of binutils 2.40 confuses the first two files.
    "-gdwarf-4",
    # Where variables are is no part of a line table, and takes a third of the time to find out.
    "-fno-var-tracking",
    # A call before each access, to functions that the machine has and not the sanitizer's library,
    # which is not linked where nothing is linked by default.
    "-fsanitize=thread",
)
_LINE = re.compile(r"^#line .*$", re.MULTILINE)
_WGMMA = re.compile(
    r"\b(tp_wgmma_m64n(\d+)k(\d+)_([a-z0-9]+)_([a-z0-9]+)_(ss|rs)(_ta)?(_tb)?(_into_f16)?)\b"
)
_INCLUDE = re.compile(r'^#include "([\w./]+)"(?: *//.*)?$', re.MULTILINE)
_ONCE = re.compile(r"^#pragma once\n", re.MULTILINE)
_SUMS = {"s8": "int32_t", "u8": "int32_t"}


@dataclass(frozen=True, slots=True)
class Library:
    """A text that is compiled and loaded."""

    path: Path
    functions: ctypes.CDLL
    """Has `tp_entry_NAME` for each launch."""


def compiler() -> Compiler:
    """Return the system's C++ compiler; MissingDependencyError where there is none."""
    found = find_compiler()
    if found is None:
        raise MissingDependencyError(
            "the emulated GPU needs a C++ compiler, and none was found",
            hint="Install g++ or clang++, or name another one in the environment variable CXX.",
        )
    return found


@once
def machine() -> ctypes.CDLL:
    """Return the machine, whose functions every text that is loaded later may call."""
    sources = sorted(RUNTIME.glob("*.cpp"))
    # The headers that several sources include come in with the first one.
    text = _with_headers("".join(f'#include "{each.name}"\n' for each in sources), {})
    flags = (*_FLAGS, "-O2")
    order = Order("emulator", text, replace(compiler(), flags=flags), noun="the emulated GPU")
    # It takes 2 s to compile, and processes that start together all want it.
    with ExitStack() as held:
        if not is_cached(order):
            held.enter_context(one_at_a_time(order))
        return load_library(order, lambda path: ctypes.CDLL(path, ctypes.RTLD_GLOBAL))


@once
def library(source: CudaSource) -> Library:
    """Return the functions `tp_entry_NAME` of a text, one for each launch."""
    machine()
    body = _file([source], pinned(source.text, f"{source.name}.cu"))
    text = _with_headers(body, _headers([source], source.text))
    flags = (*_FLAGS, *_TEXT_FLAGS)
    order = Order(
        f"{source.name}-emulated",
        text,
        replace(compiler(), flags=flags),
        libraries=_LIBRARIES,
    )
    return load_library(order, lambda path: Library(Path(path), ctypes.CDLL(path)))


@once
def watched_library(source: CudaSource) -> Library:
    """Return the functions of a text whose accesses the machine sees.

    Lines in its debug information are those of the text, in a file `NAME.cu`.
    """
    machine()
    lines = _LINE.sub("", source.text).split("\n")
    first = 1 + max((i for i, line in enumerate(lines) if _INCLUDE.match(line)), default=-1)
    lines.insert(first, f'#line {first + 1} "{source.name}.cu"')
    text = _with_headers(_file([source], "\n".join(lines)), _headers([source], source.text))
    flags = (*_FLAGS, *_WATCHED_FLAGS)
    order = Order(
        f"{source.name}-watched",
        text,
        replace(compiler(), flags=flags),
        libraries=_LIBRARIES,
    )
    return load_library(order, lambda path: Library(Path(path), ctypes.CDLL(path)))


def together(sources: Sequence[CudaSource], folder: Path, flags: Sequence[str]) -> ctypes.CDLL:
    """Return many texts as one library, which is not kept: functions of different names, each text
    in a namespace of its own."""
    machine()
    includes = dict.fromkeys(found[0] for s in sources for found in _INCLUDE.finditer(s.text))
    names = [f"text_{at}" for at in range(len(sources))]
    texts = [
        f"namespace {name} {{\n{_INCLUDE.sub('', source.text)}\n}}"
        for name, source in zip(names, sources)
    ]
    joined = "\n".join([*includes, *texts])
    headers = _headers(sources, joined)
    (folder / "kernel.cpp").write_text(_with_headers(_file(sources, joined, names), headers))
    command = [compiler().path, *_FLAGS, *flags, *_TEXT_FLAGS[1:], "kernel.cpp"]
    done = subprocess.run(
        [*command, "-o", "kernels.so", *_LIBRARIES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"the C++ compiler refused emulated texts:\n{done.stderr[:6000]}")
    return ctypes.CDLL(str(folder / "kernels.so"))


def _file(sources: Sequence[CudaSource], text: str, namespaces: Sequence[str] = ()) -> str:
    """Return `text`, which holds the sources' texts, each in its namespace, with its entries."""
    uses = (f"using namespace {name};" for name in namespaces)
    names = dict.fromkeys(spec.function for source in sources for spec in source.launches)
    entries = (f"TP_ENTRY({name})" for name in names)
    return "\n".join([text, '#include "entry.h"', *uses, *entries, ""])


def _headers(sources: Sequence[CudaSource], text: str) -> dict[str, str]:
    """Return the headers of some sources by name, and those made for them."""
    headers = {name: header for source in sources for name, header in source.headers}
    return headers | {
        "generated_wgmma.h": _products(text),
        "generated_records.h": _records(headers.get("records.cuh", "")),
    }


def _with_headers(text: str, made: Mapping[str, str]) -> str:
    """Return a text in which headers stand instead of their includes, each once.

    A header with instructions is replaced by its counterpart in `include/`; the others of `made`
    are used as they are.
    """
    done: set[str] = set()

    def body(found: re.Match[str]) -> str:
        name = found[1].rpartition("/")[2]
        if name in done:
            return ""
        done.add(name)
        for folder in (INCLUDE, RUNTIME):
            if (folder / name).exists():
                return _INCLUDE.sub(body, _ONCE.sub("", (folder / name).read_text()))
        held = made[name] if name in made else (prelude.FOLDER / name).read_text()
        return _INCLUDE.sub(body, _ONCE.sub("", held))

    return _INCLUDE.sub(body, text)


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
