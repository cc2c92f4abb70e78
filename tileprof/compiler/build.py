"""Kernels in C++ to shared libraries, with the flags that keep their meaning.

In: text, headers of the prelude.  Out: the path of a shared library, in the cache.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tileprof.native import building
from tileprof.native.building import Compiler, Order, build_library, cache_folder, load_library

from .codegen import prelude

__all__ = ["Compiler", "build", "cache_folder", "find_compiler", "load"]

# Values are IEEE's: no option here changes a result, NaN and infinities included.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-g1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    # Redundancies between the two sides of a select are worth less than a loop without branches.
    "-fno-tree-pre",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
)


def find_compiler() -> Compiler | None:
    """The system's compiler with the flags for kernels on this machine; None without one."""
    found = building.find_compiler()
    return found and replace(found, flags=(*_FLAGS, *_machine_flags()))


def _machine_flags() -> tuple[str, ...]:
    if platform.machine() in ("x86_64", "AMD64", "i686"):
        # Compilers prefer half vectors where full ones once cost clock speed.
        return ("-march=native", "-mprefer-vector-width=512")
    return ("-mcpu=native",)


def build(
    text: str,
    headers: Sequence[str],
    compiler: Compiler,
    *,
    name: str,
    libraries: Sequence[str] = ("-lm",),
) -> Path:
    """The library made of `text`, from the cache where it is there and whole.

    BuildError with the compiler's first message at the Python line it belongs to; OutputError where
    the cache cannot be written.
    """
    return build_library(_order(text, headers, compiler, name, libraries))


def load(
    text: str,
    headers: Sequence[str],
    compiler: Compiler,
    *,
    name: str,
    libraries: Sequence[str] = ("-lm",),
) -> tuple[Path, ctypes.CDLL]:
    """Build as `build` and load the library; returns where it lies as well."""
    order = _order(text, headers, compiler, name, libraries)
    return load_library(order, lambda path: (Path(path), ctypes.CDLL(path)))


def _order(
    text: str, headers: Sequence[str], compiler: Compiler, name: str, libraries: Sequence[str]
) -> Order:
    return Order(
        name,
        text,
        compiler,
        parts=tuple(prelude.text(header) for header in headers),
        options=(f"-I{prelude.FOLDER}",),
        libraries=tuple(libraries),
    )
