"""C++ text to a shared library: the system compiler and the cache on disk.

In: text, a compiler with its flags, what else decides the result.  Out: the path of a shared
library, or the library itself.  An entry of the cache is named by a hash of everything that decides
its bytes and sealed with the user's key (`cache`); it is written beside its place and renamed, so
that any number of processes may build the same at once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tileprof.errors import BuildError, Location, TileprofError
from tileprof.once import once, unforked
from tileprof.progress import working

from . import cache
from .cache import cache_folder

try:
    import fcntl
except ImportError:  # on Windows each process compiles for itself
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "Compiler",
    "Order",
    "build_library",
    "cache_folder",
    "extra_flags",
    "find_compiler",
    "is_cached",
    "load_library",
    "one_at_a_time",
]

_NAMES = ("g++", "clang++", "c++")
EXTRA_FLAGS = "TILEPROF_CXXFLAGS"
"""Environment variable: flags that are added to those of every library that is compiled."""
_FIRST_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.*)$", re.M
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: its path, what `--version` says, and flags."""

    path: str
    version: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """A library that is wanted."""

    name: str
    text: str
    compiler: Compiler
    parts: tuple[str, ...] = ()
    """What else decides the result: headers, versions of what they come from."""
    options: tuple[str, ...] = ()
    """Of the command, but without influence on the result: where headers and libraries are."""
    libraries: tuple[str, ...] = ()
    noun: str = "the kernel"
    """What an error calls the text."""


def find_compiler() -> Compiler | None:
    """Return `$CXX`, else g++, clang++ or c++ of the path; None where there is none that runs."""
    wanted = os.environ.get("CXX")
    return _find((wanted,) if wanted else _NAMES, os.environ.get("PATH", ""))


def extra_flags() -> tuple[str, ...]:
    """Return the flags of `TILEPROF_CXXFLAGS`, which end every command of the compiler.

    They are for sanitizers and debuggers, and a part of the key under which a result is kept.
    """
    return tuple(shlex.split(os.environ.get(EXTRA_FLAGS, "")))


@once
def _find(names: tuple[str, ...], path: str) -> Compiler | None:
    for name in names:
        found = shutil.which(name, path=path)
        version = found and _version(found)
        if found and version:
            return Compiler(found, version)
    return None


def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@functools.cache
def _processor() -> str:
    """What `native` stands for: a cache may be shared by machines of different kinds."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    lines = re.findall(r"^(?:flags|Features|model name|CPU part)\s*:.*$", text, re.M)
    return "\n".join(dict.fromkeys(lines))


def build_library(order: Order) -> Path:
    """The library, from the cache where it is there and whole.

    BuildError with the compiler's first message and its place; OutputError where the cache cannot
    be written, or where others could have written to it.
    """
    cache.check_folder()
    library = _place(order)
    if _is_whole(library):
        cache.touch(library)
        return library
    name = order.name
    with cache.building(name) as held:
        _compile(held, order, library.with_suffix(".log"))
        _seal(held / f"{name}.so", library.name)
        os.replace(held / f"{name}.cpp", library.with_suffix(".cpp"))
        os.replace(held / f"{name}.so", library)
    return library


def load_library(order: Order, load: Callable[[str], T]) -> T:
    """Build a library where it is not there and load it with `load`, which takes its path; errors
    as `build_library`, and OSError of `load`."""

    def loaded(path: str) -> T:
        with unforked():
            return load(path)

    return cache.with_retries(lambda: build_library(order), loaded)


def is_cached(order: Order) -> bool:
    """Whether the library is there already."""
    return _is_whole(_place(order))


@contextmanager
def one_at_a_time(order: Order) -> Iterator[None]:
    """Hold the right to build a library, so that of many processes one compiles and others wait.

    Without it, where the cache has no locks, each compiles for itself.
    """
    with ExitStack() as held:
        with suppress(OSError, TileprofError):
            place = cache.create_folder() / _place(order).with_suffix(".lock").name
            lock = held.enter_context(place.open("ab"))
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _seal(library: Path, name: str) -> None:
    """Append the seal of a library, which loaders pass over; `name` is that of its entry."""
    held = library.read_bytes()
    cache.write_private(library, held + cache.seal(name, held), 0o700)


def _is_whole(library: Path) -> bool:
    """Whether a library is there as this user sealed it: it will be run, and loading a truncated
    one kills the process."""
    held = cache.read_private(library)
    if held is None:
        return False
    size = len(held) - cache.SEAL_BYTES
    return size >= 0 and cache.is_sealed(held[size:], library.name, held[:size])


def _place(order: Order) -> Path:
    compiler = order.compiler
    parts = [order.text, *order.parts, *order.libraries]
    parts += [compiler.path, compiler.version, *compiler.flags, *extra_flags()]
    if any("native" in flag for flag in compiler.flags):
        parts.append(_processor())
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return cache_folder() / f"{order.name}-{digest.hexdigest()[:24]}.so"


def _compile(folder: Path, order: Order, log: Path) -> None:
    source = folder / f"{order.name}.cpp"
    source.write_text(order.text)
    command = [order.compiler.path, *order.compiler.flags, *extra_flags(), *order.options]
    command += [str(source), "-o", str(folder / f"{order.name}.so"), *order.libraries]
    with working(f"compiling {order.name} (C++)"):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return
    log.write_text(f"$ {' '.join(command)}\n{done.stderr}\n{order.text}")
    raise _refused(done.stderr, order, log)


def _refused(stderr: str, order: Order, log: Path) -> BuildError:
    hint = f"The command, all messages and the source are in {log}"
    found = _FIRST_ERROR.search(stderr)
    if found is None:
        lines = stderr.strip().splitlines()
        what = lines[-1] if lines else "it gave no reason"
        return BuildError(f"{order.compiler.path} failed: {what}", hint=hint)
    location = Location(found["file"], int(found["line"]))
    message = f"the C++ compiler refused {order.noun}: {found['what']}"
    return BuildError(message, location=location, hint=hint)
