"""Reads of sampled program counters that were kept: their file, and what is in it.

In: a file that `keep_pc_samples.py` wrote on a GPU: pieces as `fake_cupti/pc_layout.h` has them,
compressed. Out: the pieces, and their samples, decoded without any of what the recorder does.
"""

from __future__ import annotations

import json
import lzma
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.profile import PcSamples, Profile, Tables, build
from tileprof.profiler.native import native_recorder, why_not
from tileprof.profiler.pcs.attribution import Modules, attribute
from tileprof.profiler.pcs.listings import with_code
from tileprof.profiler.pcs.raw import RawPcSamples

FACTS, STALLS, MODULE, READ, LAST = range(5)
_HEAD = struct.Struct("<IiQ")
_STALL_NAME = 128

_READ = np.dtype([(name, "<u8") for name in (
    "size", "room", "total", "dropped", "records", "remaining", "range", "pc", "non_user", "full"
)])  # fmt: skip
_RECORD = np.dtype([
    ("size", "<u8"), ("module", "<u8"), ("offset", "<u8"), ("function", "<u4"), ("pad", "<u4"),
    ("name", "<u8"), ("stalls", "<u8"), ("stall", "<u8"), ("correlation", "<u8"),
])  # fmt: skip
_PAIR = np.dtype([("reason", "<u4"), ("samples", "<u4")])

Key = tuple[str, int, str]
"""Function, offset, stall reason as the device names it."""


@dataclass(frozen=True)
class Piece:
    """One call's worth."""

    kind: int
    result: int
    data: bytes


@dataclass(frozen=True)
class Read:
    """What one call handed over."""

    total: int
    dropped: int
    remaining: int
    non_user: int
    full: bool
    records: npt.NDArray[np.void]
    data: bytes

    def name(self, record: np.void) -> str:
        """Of a record's function."""
        begin = int(record["name"])
        return self.data[begin : self.data.index(b"\0", begin)].decode()

    def stalls(self, record: np.void) -> npt.NDArray[np.void]:
        """Reasons and samples of a record."""
        return np.frombuffer(self.data, _PAIR, int(record["stalls"]), int(record["stall"]))


@dataclass(frozen=True)
class Kept:
    """All that a file holds."""

    pieces: tuple[Piece, ...]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Of the device and of what ran on it."""
        found: dict[str, Any] = json.loads(self._all(FACTS)[0])
        return found

    @cached_property
    def stalls(self) -> dict[int, str]:
        """The device's names of stall reasons by its numbers."""
        data = self._all(STALLS)[0]
        count = len(data) // (_STALL_NAME + 4)
        names = [data[i * _STALL_NAME : (i + 1) * _STALL_NAME] for i in range(count)]
        indices = np.frombuffer(data, "<u4", count, count * _STALL_NAME).tolist()
        return {index: n.partition(b"\0")[0].decode() for index, n in zip(indices, names)}

    @cached_property
    def modules(self) -> dict[int, bytes]:
        """Cubins by what records name their module."""
        return {int.from_bytes(data[:8], "little"): data[8:] for data in self._all(MODULE)}

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """In order, the last one when sampling was disabled."""
        return tuple(_read(each.data) for each in self.pieces if each.kind in (READ, LAST))

    def samples(self) -> Counter[Key]:
        """Samples by instruction and reason, those of `_not_issued` reasons too."""
        found: Counter[Key] = Counter()
        for read in self.reads:
            for record in read.records:
                name, offset = read.name(record), int(record["offset"])
                for reason, samples in read.stalls(record).tolist():
                    if samples:
                        found[name, offset, self.stalls[reason]] += samples
        return found

    def with_facts(self, facts: dict[str, Any]) -> Kept:
        """The same with facts before it."""
        first = Piece(FACTS, 0, json.dumps(facts, indent=1).encode())
        return Kept((first, *self.pieces))

    def raw_samples(self) -> RawPcSamples:
        """As the recorder hands over what it counted."""
        rows: Counter[tuple[int, int, int]] = Counter()
        functions: dict[tuple[int, str], int] = {}
        stalls = {reason: place for place, reason in enumerate(self.stalls)}
        modules = dict(enumerate(self.modules.values(), 1))
        number = {module: place for place, module in enumerate(self.modules, 1)}
        for read in self.reads:
            for record in read.records:
                key = (number[int(record["module"])], read.name(record))
                function = functions.setdefault(key, len(functions))
                for reason, samples in read.stalls(record).tolist():
                    if samples:
                        rows[function, int(record["offset"]), stalls[reason]] += samples
        function, offset, stall = np.array(list(rows)).T
        sums = {n: sum(getattr(r, n) for r in self.reads) for n in ("total", "dropped", "non_user")}
        return RawPcSamples(
            function.astype(np.uint32), offset.astype(np.uint32), stall.astype(np.uint16),
            np.zeros(len(rows), np.uint32), np.array(list(rows.values()), np.uint64),
            tuple(functions), modules, tuple(self.stalls.values()), int(self.facts["period"]),
            "continuous", overflows=0, **sums,
        )  # fmt: skip

    def raw(self) -> bytes:
        """As the library that is played takes it."""
        return b"".join(
            _HEAD.pack(each.kind, each.result, len(each.data))
            + each.data
            + bytes(-len(each.data) % 8)
            for each in self.pieces
        )

    def _all(self, kind: int) -> list[bytes]:
        return [each.data for each in self.pieces if each.kind == kind]


def attributed(raw: RawPcSamples) -> PcSamples:
    """Samples with the code of their functions, as a profile has them.

    Needs the native recorder, which demangles names.
    """
    modules, native = Modules(), native_recorder()
    assert native is not None, why_not()
    samples = attribute(raw, modules, native.demangled, lambda context, function: -1)
    return with_code(samples, modules.cubins(raw), native.demangled)


def profile_of(kept: Kept, samples: PcSamples) -> Profile:
    """A profile of nothing but the samples, with the texts of the program."""
    facts = {"cuda:0": kept.facts["device"]}
    tables = Tables(pc=samples, sources=kept.facts["sources"], provenance=facts)
    return build([], [], [], {}, {}, tables=tables)


def _read(data: bytes) -> Read:
    (head,) = np.frombuffer(data, _READ, 1)
    records = np.frombuffer(data, _RECORD, int(head["records"]), int(head["pc"]))
    total, dropped, remaining, non_user = (
        int(head[name]) for name in ("total", "dropped", "remaining", "non_user")
    )
    return Read(total, dropped, remaining, non_user, bool(head["full"] & 0xFF), records, data)


def pieces_of(raw: bytes) -> Iterator[Piece]:
    """The pieces of a file that the keeping library wrote."""
    at = 0
    while at < len(raw):
        kind, result, size = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        yield Piece(kind, result, raw[at : at + size])
        at += size + -size % 8


def small(pieces: Iterable[Piece]) -> Kept:
    """The same without modules of which there is no record, and without what is there twice."""
    held = list(pieces)
    reads = [_read(each.data) for each in held if each.kind in (READ, LAST)]
    used = {int(module) for read in reads for module in read.records["module"]}
    seen: set[bytes] = set()
    kept = []
    for each in held:
        unused = each.kind == MODULE and int.from_bytes(each.data[:8], "little") not in used
        if not unused and each.data not in seen:
            kept.append(each)
        if each.kind in (STALLS, MODULE):
            seen.add(each.data)
    return Kept(tuple(kept))


def save(kept: Kept, path: Path) -> None:
    """Write a file."""
    path.write_bytes(lzma.compress(kept.raw(), preset=9))


def load(path: Path) -> Kept:
    """Read a file."""
    return Kept(tuple(pieces_of(lzma.decompress(path.read_bytes()))))
