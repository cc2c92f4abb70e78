"""CUDA C++ text to a cubin: the options of NVRTC, its errors in the author's terms, and the cache.

In: a `CudaSource`, a target, controls.  Out: a `Cubin`, with what ptxas said about it.  No GPU is
needed.  An entry of the cache is a folder named by a hash of everything that decides its bytes; it
holds the text, the headers, the PTX, the cubin and the messages, and is put in place by one rename,
so that any number of processes may build the same kernel at once.  Its seal is made with the user's
key (`native/cache.py`).

A multiplication and an addition become one fma where they can (NVRTC's default, as is expected on a
GPU); nothing else here changes a result.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tileprof import binary
from tileprof.native import cache
from tileprof.once import cached_property

from . import nvrtc
from .controls import Controls
from .emit.text import pinned
from .ptxas import Locate, Note, Resources, locator, read_notes, read_resources
from .refusals import refused
from .source import CudaSource
from .target import Target

_VERBOSE = "--ptxas-options=-v"
_FLAGS = (
    "--std=c++17",
    "-lineinfo",
    # A quotient within 2 ulp, as Triton has it: exact rounding takes a branch and a call.
    "--prec-div=false",
    # Functions of the prelude and values that this kernel has no use for. Switching all warnings
    # off would silence ptxas as well.
    "--diag-suppress=177,550",
    # Nothing is included from disk: what is in the hash is all that there is.
    "--no-source-include",
    _VERBOSE,
    "--ptxas-options=-warn-spills",
    "--ptxas-options=-warn-lmem-usage",
)
_TIME = re.compile(r"^ptxas info *: Compile time = .*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Cubin:
    """A kernel as GPU machine code."""

    bytes: builtins.bytes
    path: Path
    """Path in the cache; beside it lie the text, the headers, the PTX and the messages."""
    log: str
    """Messages of ptxas."""
    ptx: str
    """The PTX that it was made from."""

    @cached_property
    def resources(self) -> dict[str, Resources]:
        """Registers and memory of each function: from ptxas' messages, else from the machine code,
        which does not say how much of its stack are spilled registers."""
        return read_resources(self.log) or _resources_of(self.bytes)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Return what ptxas said about lost speed."""
        return read_notes(self.log)

    @cached_property
    def locate(self) -> Locate:
        """The author's line of a line of the PTX."""
        return _locator(self.ptx, self.path.parent)


def compile_cubin(source: CudaSource, target: Target, controls: Controls) -> Cubin:
    """The cubin of a text, from the cache where it is there and whole.

    BuildError at the author's line where NVRTC or ptxas refuses the text; KernelError where the
    kernel asks for more registers or memory than there are; OutputError where the cache cannot be
    written; MissingDependencyError without NVRTC.
    """
    options = (f"--gpu-architecture={target.name}", *_FLAGS, *_limits(controls))
    entry = _entry(source, options)
    return Cubin(entry.cubin, entry.place / f"{source.name}.cubin", entry.log, entry.ptx)


def compile_ptx(source: CudaSource, target: Target, controls: Controls) -> str:
    """The PTX of a text, which the driver of a newer GPU can finish; errors as `compile_cubin`.

    A driver reads it when it supports at least the CUDA version `nvrtc.version()`.  That of a
    target whose name ends in `a` runs on this architecture alone.  It keeps no limit of registers.
    """
    virtual = target.name.replace("sm_", "compute_")
    front_end = (flag for flag in _FLAGS if "ptxas" not in flag)
    return _entry(source, (f"--gpu-architecture={virtual}", *front_end)).ptx


def _limits(controls: Controls) -> tuple[str, ...]:
    if controls.registers is None:
        return ()
    # Without the second option, launch bounds in the text win silently.
    override = "--ptxas-options=-override-directive-values"
    return (f"--maxrregcount={controls.registers}", override)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Entry of the cache for a text."""

    place: Path
    cubin: bytes
    ptx: str
    log: str


def _entry(source: CudaSource, options: tuple[str, ...]) -> _Entry:
    place = cache.check_folder() / f"{source.name}-{_key(source, options)}"
    if found := _read(place, source.name):
        cache.touch(place / "seal")
        return found
    with cache.building(source.name) as held:
        made = _compile(source, options, place, held)
        _write(held / "entry", source, made, sealed=_is_reported(made.log, options))
        _put(held, place, source.name)
    # Another process may have been first, and NVRTC need not give the same bytes twice.
    return _read(place, source.name) or made


def _key(source: CudaSource, options: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    headers = (part for header in source.headers for part in header)
    text = pinned(source.text, source.file)
    for part in (text, *headers, "", *options, nvrtc.identity()):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:24]


def _read(place: Path, name: str) -> _Entry | None:
    """The entry if it is there as it was written: a damaged cubin may take the process with it."""
    parts = [cache.read_private(place / each) for each in ("seal", *_products(name))]
    seal, cubin, ptx, log = parts
    if seal is None or cubin is None or ptx is None or log is None:
        return None
    if not cache.is_sealed(seal, place.name, cubin, ptx, log):
        return None
    return _Entry(place, cubin, ptx.decode(), log.decode())


def _products(name: str) -> tuple[str, str, str]:
    return f"{name}.cubin", f"{name}.ptx", f"{name}.log"


def _write(folder: Path, source: CudaSource, made: _Entry, sealed: bool) -> None:
    """Write an entry's files; one without a seal is compiled anew by the next that wants it."""
    folder.mkdir(0o700)
    parts = made.cubin, made.ptx.encode(), made.log.encode()
    for name, part in zip(_products(source.name), parts, strict=True):
        cache.write_private(folder / name, part)
    _write_text(folder, source)
    if sealed:
        cache.write_private(folder / "seal", cache.seal(made.place.name, *parts))


def _write_text(folder: Path, source: CudaSource) -> None:
    for name, text in ((source.file, source.text), *source.headers):
        (folder / name).write_text(text)


def _put(held: Path, place: Path, name: str) -> None:
    """Move an entry to its place; a whole one that is there already stays."""
    for attempt in range(8):
        try:
            os.rename(held / "entry", place)
            return
        except OSError:
            if _read(place, name):
                return
        try:
            os.rename(place, held / f"damaged{attempt}")
        except FileNotFoundError:
            # Another process moved it away first.
            continue
    os.rename(held / "entry", place)


def _compile(source: CudaSource, options: tuple[str, ...], place: Path, held: Path) -> _Entry:
    # Lines that come from no Python line get the path where the text will lie, whatever the current
    # folder: tools that read the cubin can open it, and the same text gives the same bytes.
    text = pinned(source.text, source.file)
    text = text.replace(f' "{source.file}"', f' "{place / source.file}"')
    headers = [(name, f'#line 1 "{place / name}"\n{header}') for name, header in source.headers]
    # NVRTC 13.0 has left ptxas' messages out twice in some ten thousand compilations: in a process
    # of 20 threads that all compiled, and in three processes that compiled at the same moment.
    for _ in range(3):
        done = nvrtc.compile_text(text, headers, options, name=str(place / source.file))
        if not done.ok or _is_reported(done.log, options):
            break
    log = _TIME.sub("", done.log)
    if done.ok:
        return _Entry(place, done.cubin, done.ptx, log)
    kept = _keep_refused(source, options, place, held, done.ptx, log)
    raise refused(log, _locator(done.ptx, place), place, kept)


def _is_reported(log: str, options: tuple[str, ...]) -> bool:
    """Whether ptxas' messages are in the log, where they were asked for."""
    return _VERBOSE not in options or bool(read_resources(log))


def _resources_of(cubin: builtins.bytes) -> dict[str, Resources]:
    """Resources of each function of a cubin, from its ELF."""
    found = {}
    for name, function in binary.read(cubin).functions.items():
        held = function.resources
        found[name] = Resources(
            name, held.registers, held.barriers, held.shared_bytes, held.constant_bytes,
            held.local_bytes,
        )  # fmt: skip
    return found


def _keep_refused(
    source: CudaSource, options: tuple[str, ...], place: Path, held: Path, ptx: str, log: str
) -> Path:
    """Leave the text and all messages in place of the entry; it has no seal, so it is no entry."""
    folder = held / "entry"
    folder.mkdir(0o700)
    _write_text(folder, source)
    (folder / f"{source.name}.ptx").write_text(ptx)
    (folder / f"{source.name}.log").write_text(f"$ nvrtc {' '.join(options)}\n{log}")
    _put(held, place, source.name)
    return place / f"{source.name}.log"


def _locator(ptx: str, place: Path) -> Locate:
    return locator(ptx, lambda file: Path(file).parent == place)


def disassemble(cubin: Cubin) -> str:
    """The SASS of each function under the author's lines; MissingDependencyError without
    nvdisasm."""
    functions = binary.read(cubin.bytes).functions
    return "\n".join(f"{name}:\n{binary.listing(each)}" for name, each in functions.items())
