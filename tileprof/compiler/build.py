"""C++ text to a shared library: the system compiler, its flags, and the cache on disk.

In: text, headers of the prelude.  Out: the path of a shared library.  An entry of the cache is
named by a hash of everything that decides its bytes; it is written beside its place and renamed, so
that any number of processes may build the same kernel at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tileprof.errors import BuildError, Location, OutputError

from .codegen import prelude

__all__ = ["Compiler", "build", "cache_folder", "find_compiler"]

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
_SEAL = hashlib.sha256().digest_size
_NAMES = ("g++", "clang++", "c++")
_FIRST_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.*)$", re.M
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: its path, what `--version` says, and flags for this machine."""

    path: str
    version: str
    flags: tuple[str, ...]


def find_compiler() -> Compiler | None:
    """`$CXX`, else g++, clang++ or c++ of the path; None where there is none that runs."""
    wanted = os.environ.get("CXX")
    return _find((wanted,) if wanted else _NAMES, os.environ.get("PATH", ""))


@cache
def _find(names: tuple[str, ...], path: str) -> Compiler | None:
    for name in names:
        found = shutil.which(name, path=path)
        version = found and _version(found)
        if found and version:
            return Compiler(found, version, (*_FLAGS, *_machine_flags(version)))
    return None


def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _machine_flags(version: str) -> tuple[str, ...]:
    if platform.machine() in ("x86_64", "AMD64", "i686"):
        # Compilers prefer half vectors where full ones once cost clock speed.
        return ("-march=native", "-mprefer-vector-width=512")
    return ("-mcpu=native",)


@cache
def _processor() -> str:
    """What `native` stands for: a cache may be shared by machines of different kinds."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    lines = re.findall(r"^(?:flags|Features|model name|CPU part)\s*:.*$", text, re.M)
    return "\n".join(dict.fromkeys(lines))


def cache_folder() -> Path:
    """`TILEPROF_CACHE`, else `tileprof` in the user's cache folder."""
    if chosen := os.environ.get("TILEPROF_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tileprof"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tileprof"


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
    folder = cache_folder()
    key = _key(text, headers, compiler, libraries)
    library = folder / f"{name}-{key}.so"
    if _is_whole(library):
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder) as held:
            _compile(Path(held), text, compiler, name, libraries, folder / f"{name}-{key}.log")
            _seal(Path(held) / f"{name}.so")
            os.replace(Path(held) / f"{name}.cpp", folder / f"{name}-{key}.cpp")
            os.replace(Path(held) / f"{name}.so", library)
    except OSError as error:
        raise OutputError(
            f"compiled kernels cannot be kept in {folder}: {error.strerror or error}",
            hint="Set TILEPROF_CACHE to a folder that can be written.",
        ) from error
    return library


def _seal(library: Path) -> None:
    """Append the digest of a library, which loaders pass over."""
    held = library.read_bytes()
    library.write_bytes(held + hashlib.sha256(held).digest())


def _is_whole(library: Path) -> bool:
    """Whether a library is there as it was sealed: loading a truncated one kills the process."""
    try:
        held = library.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(held[:-_SEAL]).digest() == held[-_SEAL:]


def _key(text: str, headers: Sequence[str], compiler: Compiler, libraries: Sequence[str]) -> str:
    parts = [text, *(prelude.text(h) for h in headers), *libraries]
    parts += [compiler.path, compiler.version, *compiler.flags, _processor()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:24]


def _compile(
    folder: Path,
    text: str,
    compiler: Compiler,
    name: str,
    libraries: Sequence[str],
    log: Path,
) -> None:
    source = folder / f"{name}.cpp"
    source.write_text(text)
    command = [compiler.path, *compiler.flags, f"-I{prelude.FOLDER}"]
    command += [str(source), "-o", str(folder / f"{name}.so"), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return
    log.write_text(f"$ {' '.join(command)}\n{done.stderr}\n{text}")
    raise _refused(done.stderr, compiler, log)


def _refused(stderr: str, compiler: Compiler, log: Path) -> BuildError:
    hint = f"The command, all messages and the source are in {log}"
    found = _FIRST_ERROR.search(stderr)
    if found is None:
        lines = stderr.strip().splitlines()
        what = lines[-1] if lines else "it gave no reason"
        return BuildError(f"{compiler.path} failed: {what}", hint=hint)
    location = Location(found["file"], int(found["line"]))
    return BuildError(
        f"the C++ compiler refused the kernel: {found['what']}", location=location, hint=hint
    )
