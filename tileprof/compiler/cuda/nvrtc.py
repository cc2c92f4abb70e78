"""NVRTC, NVIDIA's CUDA C++ compiler as a library: the border to its Python bindings.

In: text, headers in memory, options.  Out: what it made and what it and ptxas said.  Nothing here
needs a GPU; `build.py` decides about options, errors and the cache.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from tileprof.errors import InternalError, MissingDependencyError, extra_command
from tileprof.once import once
from tileprof.progress import working

_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_MINIMAL = "--minimal"
"""Option that leaves out types and functions of textures and of CUDA's runtime, none of which the
emitted text uses: 30 ms less for each kernel, and the same cubin."""
_MINIMAL_SINCE = (12, 4)
_HINT = f"Install it with: {extra_command('cuda')}. A GPU is not needed."


@dataclass(frozen=True, slots=True)
class Compiled:
    """Result of one run of NVRTC; `ok` says whether it went through."""

    ok: bool
    log: str
    """Messages of the C++ front end, then those of ptxas."""
    ptx: str
    """Also there when only ptxas failed."""
    cubin: bytes
    """Empty for a virtual architecture."""


@cache
def version() -> tuple[int, int]:
    """Major and minor version of NVRTC.

    Its PTX loads with drivers of at least this CUDA version; a cubin with all of its major version.
    MissingDependencyError where NVRTC or its bindings are not installed.
    """
    error, major, minor = _library().nvrtcVersion()
    _check(error, "nvrtcVersion")
    return major, minor


@cache
def identity() -> str:
    """Return what tells one NVRTC from another, in more detail than its version.

    Installed wheels say it; the library, which takes a while to load, is asked where there are
    none.  MissingDependencyError where there is no library either.
    """
    found = []
    for name in _WHEELS:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return ", ".join(found) or "{}.{}".format(*version())


def compile_text(
    text: str, headers: Sequence[tuple[str, str]], options: Sequence[str], *, name: str
) -> Compiled:
    """Compile `text`, which goes by `name` in messages; `headers` are (name, text)."""
    nvrtc = _library()
    names = [each.encode() for each, _ in headers]
    texts = [each.encode() for _, each in headers]
    error, program = nvrtc.nvrtcCreateProgram(
        text.encode(), name.encode(), len(headers), texts, names
    )
    _check(error, "nvrtcCreateProgram")
    try:
        options = (*options, _MINIMAL) if version() >= _MINIMAL_SINCE else options
        given = [each.encode() for each in options]
        with working(f"compiling {os.path.basename(name)} (NVRTC)"):
            (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _text(nvrtc, program, "ProgramLog")
        failed = result == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION
        if not failed:
            _check(result, f"nvrtcCompileProgram ({log.strip()})")
        cubin = b"" if failed else _read(nvrtc, program, "CUBIN")
        return Compiled(not failed, log, _text(nvrtc, program, "PTX"), cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(nvrtc: Any, program: Any, what: str) -> str:
    return _read(nvrtc, program, what).rstrip(b"\0").decode(errors="replace")


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    """Return what NVRTC holds of a program; empty where it made no such thing."""
    error, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    # Nothing but the final zero is nothing; Python also shares bytes of length 1 between all users.
    if error.value or size <= 1:
        return b""
    held = bytes(size)
    (error,) = getattr(nvrtc, f"nvrtcGet{what}")(program, held)
    _check(error, f"nvrtcGet{what}")
    return held


def _check(error: Any, call: str) -> None:
    if error.value:
        raise InternalError(
            f"{call} failed: {error.name}", hint="Please report it with the kernel and this line."
        )


@once
def _library() -> Any:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        what = "CUDA kernels are compiled by NVRTC, whose Python bindings (cuda-python) are missing"
        raise MissingDependencyError(what, hint=_HINT) from error
    if _works(nvrtc) or any(_preload(each) and _works(nvrtc) for each in _copies()):
        return nvrtc
    raise MissingDependencyError(
        "CUDA kernels are compiled by NVRTC, which is missing or does not fit cuda-python",
        hint=_HINT,
    )


def _works(nvrtc: Any) -> bool:
    # The bindings look for the library at the first call, and say in their own way that it is gone.
    try:
        error, *_ = nvrtc.nvrtcVersion()
    except (RuntimeError, OSError):
        return False
    return not error.value


def _copies() -> Iterator[Path]:
    """Copies of NVRTC in places where the bindings do not look: beside PyTorch's own libraries."""
    for package, pattern in (("torch", "lib/libnvrtc*.so*"), ("nvidia", "*/lib/libnvrtc.so*")):
        with suppress(ImportError, ValueError):
            found = importlib.util.find_spec(package)
            folders = (found and found.submodule_search_locations) or ()
            held = itertools.chain.from_iterable(Path(f).glob(pattern) for f in folders)
            yield from sorted(p for p in held if "builtins" not in p.name)


def _preload(path: Path) -> bool:
    """Load a library by its path: a later load by its name then finds it."""
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True
