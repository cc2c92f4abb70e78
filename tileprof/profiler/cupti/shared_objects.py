"""Shared libraries of this process, and those that would come with others: without loading any.

In: the process's map and ELF files.  Out: paths, and where the dynamic linker would look.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAPS = "/proc/self/maps"

_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _STRINGS, _RPATH, _RUNPATH = 0, 1, 5, 15, 29
_LONGEST = 1 << 16


def mapped_libraries() -> list[Path]:
    """Return the files that are mapped executable into this process, in the order of addresses."""
    found: dict[str, None] = {}
    try:
        with open(MAPS, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(None, 5)
                if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                    found[fields[5]] = None
    except OSError:
        return []
    return [Path(each) for each in found]


@dataclass(frozen=True, slots=True)
class Needed:
    """Libraries that a library is linked to."""

    name: str
    path: Path | None
    """The file that the dynamic linker takes for it; its cache is not asked."""


def needed_by(library: Path, prefix: str) -> Needed | None:
    """Return what a library needs whose name begins so; None where there is no such thing."""
    try:
        with open(library, "rb") as file:
            linked = _read_dynamic(file)
    except (OSError, struct.error, ValueError):
        return None
    name = next((each for each in linked.needed if each.startswith(prefix)), None)
    if name is None:
        return None
    origin = str(library.resolve().parent)
    for folder in linked.folders():
        path = Path(folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)) / name
        if path.exists():
            return Needed(name, path.resolve())
    return Needed(name, None)


@dataclass(frozen=True, slots=True)
class _Linked:
    """Libraries that a library needs, and the folders that it names for them."""

    needed: list[str]
    rpath: str
    runpath: str

    def folders(self) -> Iterator[str]:
        """Yield folders in the order of the dynamic linker: RPATH counts only without RUNPATH."""
        lists = [os.environ.get("LD_LIBRARY_PATH", ""), self.runpath]
        if not self.runpath:
            lists.insert(0, self.rpath)
        for each in lists:
            yield from filter(None, each.split(":"))


def _read_dynamic(file: BinaryIO) -> _Linked:
    """Read the dynamic section of a 64-bit little-endian ELF file; `ValueError` for others."""
    header = file.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a library of this kind of machine")
    start, size, count = (
        *struct.unpack_from("<Q", header, 32),
        *struct.unpack_from("<HH", header, 54),
    )
    segments = [struct.unpack("<IIQQQQQQ", _at(file, start + size * i, 56)) for i in range(count)]
    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, length, *_ in segments:
        if kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<qQ", _at(file, offset, length)))
    address = next((value for tag, value in entries if tag == _STRINGS), None)
    if address is None:
        raise ValueError("nothing dynamic")
    strings = next(
        offset + address - base
        for kind, _, offset, base, _, length, *_ in segments
        if kind == _LOAD and base <= address < base + length
    )

    def texts(wanted: int) -> list[str]:
        return [_text(file, strings + at) for tag, at in entries if tag == wanted]

    return _Linked(texts(_NEEDED), ":".join(texts(_RPATH)), ":".join(texts(_RUNPATH)))


def _at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _text(file: BinaryIO, offset: int) -> str:
    return os.fsdecode(_at(file, offset, _LONGEST).partition(b"\0")[0])
