"""What the machine finds, with the lines of the CUDA text and of the kernel's author."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tileprof.compiler.cuda.source import CudaSource
from tileprof.errors import Location

from .building import Library

Actor = Literal["thread", "cp.async", "TMA load", "bulk store", "wgmma"]
"""Who accesses shared memory: a thread, or what it started and does not wait for."""
Way = Literal["read", "write", "atomic"]
Fault = Literal["race", "missing-fence", "early-registers"]
"""Two accesses that nothing orders; an access of the async proxy that no fence separates from an
ordinary one before it; accumulators that are accessed before their product has ended."""
_ACTORS: tuple[Actor, ...] = get_args(Actor)
_WAYS: tuple[Way, ...] = get_args(Way)
_FAULTS: tuple[Fault, ...] = get_args(Fault)

MOST = 64
"""Faults of one launch that are kept, and places at which threads wait in a deadlock."""
_DIRECTIVE = re.compile(r'^#line (\d+)(?: (".*"))?$')
_BUFFER = re.compile(r"^ *[\w ]+\*const (\w+) = (?:\(\w+ \*\)\()?tp_shared \+ (\d+)\)?;$", re.M)
_NAMES = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two accesses of a fault."""

    actor: Actor
    way: Way
    block: int
    thread: int
    """The thread that made the access, or started it."""
    line: int
    """Line of the CUDA text, from 1; 0 where it is not known."""
    location: Location | None
    """Line of the kernel's author."""


@dataclass(frozen=True, slots=True)
class RaceFound:
    """Two accesses of shared memory, or of accumulators, in the wrong order."""

    fault: Fault
    buffer: str
    """Name in the CUDA text; '' for accumulators and where it is not known."""
    byte: int
    """Offset in the buffer, or in shared memory where that is not known."""
    first: Side
    second: Side


@dataclass(frozen=True, slots=True)
class Stuck:
    """Threads of one block that wait for ever at one place, or the thread that failed."""

    block: int
    first: int
    """Number of one of the threads."""
    threads: int
    what: str
    line: int
    location: Location | None


class _Site(ctypes.Structure):
    """`FoundSite` of `runtime/races.h`."""

    _fields_ = (
        ("block", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("actor", ctypes.c_int32),
        ("way", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("pad", ctypes.c_int32),
    )


class _Found(ctypes.Structure):
    """`Found` of `runtime/races.h`."""

    _fields_ = (
        ("fault", ctypes.c_int32),
        ("byte", ctypes.c_int32),
        ("first", _Site),
        ("second", _Site),
    )


class _Stuck(ctypes.Structure):
    """`Stuck` of `runtime/machine.h`."""

    _fields_ = (
        ("block", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("first", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("what", ctypes.c_char * 176),
    )


def read_races(machine: ctypes.CDLL, source: CudaSource, compiled: Library) -> list[RaceFound]:
    """Return the faults that the last run found, each pair of statements once."""
    held = (_Found * MOST)()
    found = held[: machine.tp_emulator_found(held, MOST)]
    sites = [site for each in found for site in (each.first, each.second)]
    lines = _lines(compiled.path, (site.offset for site in sites))
    text = _Text(source)
    made = []
    for each in found:
        sides = [_side(site, lines.get(site.offset, 0), text) for site in (each.first, each.second)]
        fault = _FAULTS[each.fault]
        buffer, start = "", 0
        if fault != "early-registers":
            buffer, start = text.buffer(each.byte, [side.line for side in sides])
        made.append(RaceFound(fault, buffer, each.byte - start, sides[0], sides[1]))
    return made


def read_stuck(machine: ctypes.CDLL, source: CudaSource, compiled: Library) -> list[Stuck]:
    """Return where threads of the last run wait for ever, or which one failed."""
    held = (_Stuck * MOST)()
    found = held[: machine.tp_emulator_stuck(held, MOST)]
    lines, text = _lines(compiled.path, (each.offset for each in found)), _Text(source)
    made = []
    for each in found:
        line = lines.get(each.offset, 0)
        what = each.what.decode(errors="replace")
        made.append(Stuck(each.block, each.first, each.threads, what, line, text.location(line)))
    return made


def _side(site: _Site, line: int, text: _Text) -> Side:
    actor, way = _ACTORS[site.actor], _WAYS[site.way]
    return Side(actor, way, site.block, site.thread, line, text.location(line))


class _Text:
    """The lines of a CUDA text."""

    def __init__(self, source: CudaSource) -> None:
        self._lines = source.text.splitlines()
        self._buffers = {name: int(at) for name, at in _BUFFER.findall(source.text)}
        self._locations: list[Location | None] = []
        here: Location | None = None
        file = ""
        for line in self._lines:
            if found := _DIRECTIVE.match(line):
                file = json.loads(found[2]) if found[2] else file
                here = Location(file, int(found[1]))
            self._locations.append(here)

    def location(self, line: int) -> Location | None:
        """Return the author's line of a line of the text."""
        return self._locations[line - 1] if 1 <= line <= len(self._locations) else None

    def buffer(self, byte: int, lines: Sequence[int]) -> tuple[str, int]:
        """Return the buffer, named in one of some lines if possible, that holds a byte, and where
        it starts; '' and 0 where there is none."""
        below = {name: at for name, at in self._buffers.items() if at <= byte}
        words = {
            word
            for line in lines
            if 1 <= line <= len(self._lines)
            for word in _NAMES.findall(self._lines[line - 1])
        }
        named = {name: at for name, at in below.items() if name in words} or below
        return max(named.items(), key=lambda item: item[1], default=("", 0))


def _lines(library: Path, offsets: Iterable[int]) -> Mapping[int, int]:
    """Return the line of the CUDA text of each offset in a library, where it is known."""
    wanted = sorted({offset for offset in offsets if offset > 0})
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not wanted or tool is None:
        return {}
    command = [tool, "-a", "-i", "-e", str(library), *map(hex, wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    made: dict[int, int] = {}
    offset = 0
    for line in done.stdout.splitlines():
        if line.startswith("0x"):
            offset = int(line, 16)
            continue
        file, _, rest = line.partition(":")
        number = re.match(r"\d+", rest)
        # The innermost function comes first, which may be one of a header.
        if file.endswith(".cu") and number and offset not in made:
            made[offset] = int(number[0])
    return made
