"""Data about single instructions of GPUs: samples of program counters, by instruction and
stall reason, and counts.

In: rows of counts, the functions that they are in, their code as far as it is known.  Out: the same
for another tree or for several runs.  A row whose stall ends in `_not_issued` counts a part of what
its namesake counts, so it is in no sum.

Laws: no operation changes a sum. Runs are put together by function (cubin and name) and offset; a
row's node moves with the nodes. Cubins and texts are united. Samples and counts are of different
runs, as a rule: one of the two may be missing.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError, Location
from tileprof.once import cached_property
from tileprof.profile.columns import Columns, within
from tileprof.profile.instruction_counts import EXECUTIONS, InstructionCounts
from tileprof.profile.metrics import Index
from tileprof.profile.storage.inflate import inflated

_Ints = npt.NDArray[np.int64]

NOT_ISSUED = "_not_issued"
"""Ends the names of stalls in cycles in which a scheduler issued nothing at all."""


@dataclass(frozen=True, slots=True)
class PcInstruction:
    """One instruction of a function."""

    offset: int
    """Bytes from the function's begin."""
    text: str
    place: Location | None = None
    """The innermost source line; its `caller`s lead out to the function."""
    depth: int = 0
    """Loops around it."""


@dataclass(frozen=True, slots=True)
class PcBlame:
    """Dependence on which a stalled instruction waits."""

    offset: int
    stall: str
    producer: int
    """Offset of the instruction that it waits for."""
    through: str
    """Registers and scoreboards between the two: `R4, scoreboard 0`."""


@dataclass(frozen=True, slots=True)
class PcFunction:
    """A function in which samples were taken, or whose instructions were counted."""

    name: str
    """Name in the compiler's spelling (mangled)."""
    title: str
    """Name as people read it."""
    module: str = ""
    """The SHA-256 of its cubin; empty where that is not known."""
    architecture: str = ""
    code: tuple[PcInstruction, ...] = ()
    """Instructions by offset, where they are known."""
    blames: tuple[PcBlame, ...] = ()
    note: str = ""
    """Why there is no code."""


@dataclass(frozen=True, slots=True)
class PcText:
    """Intermediate form of a kernel that another compiler made on the way to machine code."""

    content: bytes = b""
    """Compressed; empty where it is not kept."""
    note: str = ""
    """Why it is not kept."""

    @staticmethod
    def of(text: str) -> PcText:
        """Return the text as a profile keeps it."""
        return PcText(zlib.compress(text.encode("utf-8", "backslashreplace")))

    @property
    def text(self) -> str | None:
        """The text, None where it is not kept; `ProfileFileError` where it is damaged."""
        if not self.content:
            return None
        return inflated(self.content, "a kernel's text").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class PcRecording:
    """One recording, as the device counted it."""

    period: int
    """Cycles of a multiprocessor between two samples of it."""
    mode: str
    """`continuous` or `exact`."""
    total: int
    """Number of samples, including those of no function."""
    dropped: int = 0
    non_user: int = 0
    """Samples that the device tells no instruction of, as at the beginning of launches."""
    overflows: int = 0
    """Number of times that the device's buffer was full."""


@dataclass(frozen=True, slots=True, eq=False)
class PcRows(Columns):
    """Columns with one entry for a number of samples."""

    function: npt.NDArray[np.int32]
    """Place in `functions`."""
    offset: npt.NDArray[np.int64]
    stall: npt.NDArray[np.int32]
    """Place in `stalls`."""
    node: npt.NDArray[np.int32]
    """The kernel's node in the tree; -1 where it is not known."""
    samples: npt.NDArray[np.int64]

    @staticmethod
    def added(*columns: Any) -> PcRows:
        """Return the columns in order of their keys, those with one key added up."""
        *keys, samples = (np.asarray(each, np.int64) for each in columns)
        return PcRows.typed(*_added(keys, samples)) if len(samples) else PcRows.none()


def _added(keys: Sequence[_Ints], samples: _Ints) -> tuple[_Ints, ...]:
    """Return the distinct keys in order, and the samples of each."""
    lows = [int(key.min()) for key in keys]
    sizes = [int(key.max()) - low + 1 for key, low in zip(keys, lows)]
    room = math.prod(sizes)
    if room >= 1 << 63:
        order = np.lexsort(keys[::-1])
        changes = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
        return (*(key[order[starts]] for key in keys), np.add.reduceat(samples[order], starts))
    # As one number, keys sort several times as fast; a table of few of them needs no sorting.
    whole = np.zeros(len(samples), np.int64)
    for key, low, size in zip(keys, lows, sizes):
        whole *= size
        whole += key - low
    found, sums = (_tabled if room <= 4 * len(samples) else _sorted)(whole, samples, room)
    parts = []
    for low, size in zip(reversed(lows), reversed(sizes)):
        found, part = np.divmod(found, size)
        parts.append(part + low)
    return (*reversed(parts), sums)


def _tabled(whole: _Ints, samples: _Ints, room: int) -> tuple[_Ints, _Ints]:
    sums, present = np.zeros(room, np.int64), np.zeros(room, bool)
    np.add.at(sums, whole, samples)
    present[whole] = True
    found = np.flatnonzero(present)
    return found, sums[found]


def _sorted(whole: _Ints, samples: _Ints, _: int) -> tuple[_Ints, _Ints]:
    order = np.argsort(whole)
    whole = whole[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(whole)) + 1))
    return whole[starts], np.add.reduceat(samples[order], starts)


@dataclass(frozen=True, repr=False)
class PcSamples:
    """A profile's data about instructions; no recordings where no samples were asked for."""

    functions: tuple[PcFunction, ...] = ()
    stalls: tuple[str, ...] = ()
    """The device's names of stall reasons, without what all of them begin with."""
    rows: PcRows = field(default_factory=PcRows.none)
    recordings: tuple[PcRecording, ...] = ()
    cubins: Mapping[str, bytes] = field(default_factory=dict)
    """Compressed cubins by their SHA-256, as far as there is room for them."""
    texts: Mapping[tuple[str, str], PcText] = field(default_factory=dict)
    """Texts (`ttgir` and `ptx` of Triton), keyed by (SHA-256 of a cubin, form)."""
    counts: InstructionCounts = field(default_factory=InstructionCounts)

    __hash__ = None  # type: ignore[assignment] # holds arrays

    def __repr__(self) -> str:
        return f"PcSamples({len(self.functions)} functions, {len(self.recordings)} recordings)"

    def __bool__(self) -> bool:
        """Return whether anything of instructions was asked for."""
        return bool(self.recordings or self.counts.recordings)

    def cubin(self, module: str) -> bytes:
        """Return the cubin of a function's module; KeyError where the profile does not hold it.

        Raises `ProfileFileError` where its bytes are damaged.
        """
        return inflated(self.cubins[module], "a cubin")

    @cached_property
    def is_counted(self) -> npt.NDArray[np.bool_]:
        """Return, for each stall, whether its rows are included in sums."""
        return np.array([not name.endswith(NOT_ISSUED) for name in self.stalls], bool)

    @cached_property
    def counted(self) -> npt.NDArray[np.int64]:
        """Return, for each row, the samples included in sums: 0 for those of `_not_issued`."""
        if not len(self.rows):
            return np.zeros(0, np.int64)
        return np.where(self.is_counted[self.rows.stall], self.rows.samples, 0)

    @cached_property
    def by_function(self) -> npt.NDArray[np.int64]:
        """Samples of each function."""
        found = np.zeros(len(self.functions), np.int64)
        np.add.at(found, self.rows.function, self.counted)
        return found

    @cached_property
    def hottest(self) -> list[int]:
        """Places of functions, those with the most samples first, then those executed most."""
        counts = self.counts
        executed = counts.by_function(len(self.functions))
        first = executed[:, :1].sum(axis=1)
        if EXECUTIONS in counts.metrics:
            first = executed[:, counts.metrics.index(EXECUTIONS)]
        order: list[int] = np.lexsort((-first, -self.by_function)).tolist()
        return order

    @cached_property
    def by_instruction(self) -> PcRows:
        """Rows in order of function, offset and stall, those of all nodes added up."""
        rows = self.rows
        nowhere = np.full(len(rows), -1)
        return PcRows.added(rows.function, rows.offset, rows.stall, nowhere, rows.samples)

    def moved(self, to: Index) -> PcSamples:
        """Return the samples for another tree, where node `i` has become `to[i]`; -1: none."""
        if not (self.rows.node >= 0).any():
            return self
        node = np.append(np.asarray(to, np.int64), -1)[self.rows.node]
        return replace(self, rows=replace(self.rows, node=node.astype(np.int32)))

    def check(self, nodes: int) -> None:
        """Raise `InternalError` where a row refers to what does not exist."""
        rows = self.rows
        limits = (
            (rows.function, 0, len(self.functions)),
            (rows.stall, 0, len(self.stalls)),
            (rows.node, -1, nodes),
        )
        if not within(limits):
            raise InternalError("a sample of a program counter refers to what does not exist")
        if len(rows) and rows.samples.min() < 0:
            raise InternalError("there are fewer samples than none")
        self.counts.check(len(self.functions))

    @staticmethod
    def joined(parts: Sequence[PcSamples], starts: Sequence[int]) -> PcSamples:
        """Return those of several runs; the nodes of `parts[i]` move up by `starts[i]`."""
        if len(parts) == 1 and not starts[0]:
            return parts[0]
        held = [(part, start) for part, start in zip(parts, starts) if part]
        functions: dict[tuple[str, str], PcFunction] = {}
        stalls: dict[str, int] = {}
        columns: list[list[npt.NDArray[np.integer]]] = [[] for _ in range(5)]
        moved: list[list[int]] = []
        for part, start in held:
            for each in part.functions:
                known = functions.setdefault((each.module, each.name), each)
                if each.code and not known.code:
                    functions[each.module, each.name] = each
            places = {key: place for place, key in enumerate(functions)}
            function = [places[each.module, each.name] for each in part.functions]
            moved.append(function)
            stall = [stalls.setdefault(name, len(stalls)) for name in part.stalls]
            rows = part.rows
            columns[0].append(np.array(function, np.int64)[rows.function])
            columns[1].append(rows.offset)
            columns[2].append(np.array(stall, np.int64)[rows.stall])
            columns[3].append(np.where(rows.node < 0, -1, rows.node + start))
            columns[4].append(rows.samples)
        return PcSamples(
            tuple(functions.values()),
            tuple(stalls),
            PcRows.added(*map(np.concatenate, columns)) if held else PcRows.none(),
            tuple(each for part, _ in held for each in part.recordings),
            {key: cubin for part, _ in held for key, cubin in part.cubins.items()},
            _all_texts([part.texts for part, _ in held]),
            InstructionCounts.joined([part.counts for part, _ in held], moved),
        )


def _all_texts(parts: Sequence[Mapping[tuple[str, str], PcText]]) -> dict[tuple[str, str], PcText]:
    """The texts of several runs: what one of them kept is kept."""
    found: dict[tuple[str, str], PcText] = {}
    for key, text in (item for part in parts for item in part.items()):
        if key not in found or (text.content and not found[key].content):
            found[key] = text
    return found
