"""Decoding of a launch's records into times of nesting paths, without a Python step per record.

Depth is a running sum over begins (+1) and ends (-1).  At one depth the begins and ends of whole
pairs alternate, so the k-th begin there belongs to the k-th end.  Records are worked through in
pieces of whole blocks that fit a cache.  Where all blocks of a piece wrote the same sequence, one
block is matched for all.  A piece in which something does not match is halved until it is a single
block, and only that one is walked record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tileprof.instrument.records import Bytes, Records, read, read_lost

from .buckets import PLACES, count_places, place_of
from .times import Counted, Ints, PathTimes, SiteTimes, combine

PIECE = 1 << 16
"""Records that are worked through at once."""
TABLE = 1 << 16
"""Keys below this are numbered through a table."""

Path = tuple[int, ...]


@dataclass(slots=True)
class _Totals:
    """Sums over the pieces so far."""

    entries: dict[Path, PathTimes] = field(default_factory=dict)
    block_ns: int = 0
    unmatched: int = 0

    def add(self, new: PathTimes) -> None:
        old = self.entries.get(new.path)
        self.entries[new.path] = new if old is None else combine([old, new])


def decode(buffers: Sequence[Bytes], *, block_ns: int | None = None) -> SiteTimes:
    """Return times by nesting path from the buffers of all workers of a launch.

    `block_ns` is the time of all blocks whose records were kept; None takes it from the records,
    which do not know what a block did before its first and after its last.  ProfileFileError where
    a buffer is cut short, went round, or is something else.
    """
    lost = sum(read_lost(b) for b in buffers)
    return decode_records([read(b) for b in buffers], lost=lost, block_ns=block_ns)


def decode_records(
    workers: Sequence[Records], *, lost: int = 0, block_ns: int | None = None
) -> SiteTimes:
    """Return times by nesting path from the records of each worker, in the order of writing.

    `block_ns` as in `decode`.  A begin or an end whose other half is missing is counted in
    `unmatched` and dropped.
    """
    totals = _Totals()
    for records in workers:
        for piece in _pieces(records):
            _Piece(piece).add_to(totals)
    return SiteTimes.collect(
        list(totals.entries.values()),
        block_ns=totals.block_ns if block_ns is None else block_ns,
        lost=lost,
        unmatched=totals.unmatched,
    )


def _pieces(records: Records) -> Iterator[Records]:
    """Yield parts of about `PIECE` records that never cut a block."""
    block = records["block"]
    start, total = 0, len(records)
    while start < total:
        stop = min(start + PIECE, total)
        while stop < total:
            # The block that is under way at `stop` ends at the first record of another one.
            other = np.flatnonzero(block[stop : stop + PIECE] != block[stop - 1])
            if len(other):
                stop += int(other[0])
                break
            stop = min(stop + PIECE, total)
        yield records[start:stop]
        start = stop


@dataclass(frozen=True, slots=True)
class _Level:
    """The pairs at one depth of nesting: positions of their records, and the path of each."""

    begin: Ints
    end: Ints
    which: Ints
    """Index into `paths`, for each pair."""
    paths: list[Path]


class _Piece:
    """Records of whole blocks."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.clock = records["clock"].astype(np.int64)
        self.tag = np.ascontiguousarray(records["tag"])
        block = records["block"]
        self.starts = np.append(0, np.flatnonzero(block[1:] != block[:-1]) + 1)

    def add_to(self, totals: _Totals) -> None:
        """Add the times of the piece, by the fastest method that its blocks allow."""
        if (length := self._common_length()) and (levels := _match(self.tag[:length])) is not None:
            # One row a record and one column a block: sums over visits run along contiguous memory.
            clock = np.ascontiguousarray(self.clock.reshape(-1, length).T)
            entries = [e for level in levels for e in self._equal_blocks(level, clock)]
        elif (levels := _match(self.tag, self.starts[1:])) is not None:
            run = np.repeat(np.arange(len(self.starts), dtype=np.int32), self._lengths())
            entries = [e for level in levels for e in self._any_blocks(level, run)]
        elif len(self.starts) > 1:
            middle = int(self.starts[len(self.starts) // 2])
            _Piece(self.records[:middle]).add_to(totals)
            _Piece(self.records[middle:]).add_to(totals)
            return
        else:
            entries, unmatched = _walk(self.tag.tolist(), self.clock.tolist())
            totals.unmatched += unmatched
        for each in entries:
            totals.add(each)
        last = np.append(self.starts[1:], len(self.records)) - 1
        totals.block_ns += int((self.clock[last] - self.clock[self.starts]).sum())

    def _common_length(self) -> int:
        """Return the records in a block where all wrote the same sequence of tags; else 0."""
        count = len(self.starts)
        length = len(self.tag) // count
        if (self._lengths() != length).any():
            return 0
        return length if (self.tag.reshape(count, length) == self.tag[:length]).all() else 0

    def _lengths(self) -> Ints:
        return np.diff(np.append(self.starts, len(self.tag)))

    def _equal_blocks(self, level: _Level, clock: Ints) -> Iterator[PathTimes]:
        """Yield the entries of a level of one block, where all other blocks are alike."""
        order, first = _by_path(level)
        time = clock[level.end[order]] - clock[level.begin[order]]
        spent = np.add.reduceat(time, first)
        blocks = clock.shape[1]
        counted = _counted(time, np.diff(np.append(first, len(order))))
        columns = (
            np.diff(np.append(first, len(order))) * blocks,
            spent.sum(1),
            np.minimum.reduceat(time, first).min(1),
            np.maximum.reduceat(time, first).max(1),
            np.full(len(first), blocks),
            spent.min(1),
            spent.max(1),
        )
        return _rows(level, order[first], columns, counted)

    def _any_blocks(self, level: _Level, run: NDArray[np.int32]) -> Iterator[PathTimes]:
        """Yield the entries of a level that describes the whole piece; `run` numbers blocks."""
        order, first = _by_path(level)
        time = (self.clock[level.end] - self.clock[level.begin])[order]
        # The sort by path keeps the order of blocks, so a block's visits of a path lie together.
        block = run[level.begin[order]]
        new = np.append(True, block[1:] != block[:-1])
        new[first] = True
        visit = np.flatnonzero(new)
        spent = np.add.reduceat(time, visit)
        by_path = np.searchsorted(visit, first)
        counted = _counted(time, np.diff(np.append(first, len(time))))
        columns = (
            np.diff(np.append(first, len(time))),
            np.add.reduceat(spent, by_path),
            np.minimum.reduceat(time, first),
            np.maximum.reduceat(time, first),
            np.diff(np.append(by_path, len(visit))),
            np.minimum.reduceat(spent, by_path),
            np.maximum.reduceat(spent, by_path),
        )
        return _rows(level, order[first], columns, counted)


def _by_path(level: _Level) -> tuple[Ints, Ints]:
    """Return the pairs sorted by path, and where each path starts among them."""
    # NumPy sorts small integers by radix: an order of magnitude faster than by comparison.
    small = np.uint8 if len(level.paths) < 256 else np.uint32
    order = np.argsort(level.which.astype(small), kind="stable")
    path = level.which[order]
    return order, np.flatnonzero(np.append(True, path[1:] != path[:-1]))


def _rows(
    level: _Level, pairs: Ints, columns: tuple[Ints, ...], counted: list[Counted]
) -> Iterator[PathTimes]:
    numbers = zip(*(c.tolist() for c in columns), counted, strict=True)
    for path, row in zip(level.which[pairs].tolist(), numbers, strict=True):
        yield PathTimes(level.paths[path], *row)


def _counted(time: Ints, rows: Ints) -> list[Counted]:
    """Return counts of times by place, for each path, which has the next `rows` rows of `time`."""
    keys = place_of(time)
    path = np.repeat(np.arange(len(rows)) * PLACES, rows)
    keys += path if time.ndim == 1 else path[:, None]
    distinct, counts = count_places(keys.ravel(), len(rows))
    bounds = np.searchsorted(distinct, np.arange(len(rows) + 1) * PLACES).tolist()
    place = distinct % PLACES
    return [((place[a:b], counts[a:b]),) for a, b in pairwise(bounds)]


def _match(tag: NDArray[np.uint32], cuts: Ints | None = None) -> list[_Level] | None:
    """Return the pairs, one level a depth; None where some record has no other end.

    `cuts` are the positions at which further blocks start.
    """
    edge = (tag & 1).astype(np.int32)
    depth = np.cumsum(1 - 2 * edge, dtype=np.int32)
    if depth[-1] != 0 or depth.min() < 0 or (cuts is not None and depth[cuts - 1].any()):
        return None
    # The depth at which the pair of a record lies, from 1; an end leaves one less open.
    at, deepest = depth + edge, int(depth.max())
    levels: list[_Level] = []
    paths: list[Path] = [()]
    opened: NDArray[np.int32] | None = None
    for level in range(1, deepest + 1):
        # Begins and ends of one depth alternate, or the depth would have left it in between.
        pairs = np.flatnonzero(at == level)
        begin, end = pairs[::2], pairs[1::2]
        site = tag[begin] >> 1
        if not np.array_equal(site, tag[end] >> 1):
            return None
        key, sites = site.astype(np.int64), int(site.max()) + 1
        if opened is not None:
            key += opened[begin].astype(np.int64) * sites
        codes, which = _number(key)
        paths = [(*paths[code // sites], code % sites) for code in codes]
        levels.append(_Level(begin, end, which, paths))
        if level < deepest:
            # For each record, the number of the path that is open there at this level.
            visit = np.zeros(len(tag), np.int32)
            visit[begin] = 1
            opened = which.astype(np.int32)[np.cumsum(visit, dtype=np.int32) - 1]
    return levels


def _number(keys: Ints) -> tuple[list[int], Ints]:
    """Return the distinct keys in the order first seen, and for each key its number."""
    size = int(keys.max()) + 1
    if size > TABLE:
        distinct, first, number = np.unique(keys, return_index=True, return_inverse=True)
    else:
        # A table in place of a sort; assigning backwards leaves each key's first position.
        seen = np.full(size, -1)
        seen[keys[::-1]] = np.arange(len(keys))[::-1]
        distinct = np.flatnonzero(seen >= 0)
        first = seen[distinct]
        rank = np.zeros(size, np.int64)
        rank[distinct] = np.arange(len(distinct))
        number = rank[keys]
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return distinct[order].tolist(), place[number]


def _walk(tags: list[int], clocks: list[int]) -> tuple[list[PathTimes], int]:
    """Return the entries of one block with records missing, and how many were left over.

    An end closes the innermost open begin of its site, and what was open inside that one has lost
    its end.  An end of a site that is not open has lost its begin.
    """
    unmatched = 0
    opened: list[tuple[int, int]] = []
    visits: dict[Path, list[int]] = {}
    for tag, clock in zip(tags, clocks, strict=True):
        site = tag >> 1
        if not tag & 1:
            opened.append((site, clock))
            continue
        at = next((i for i in range(len(opened) - 1, -1, -1) if opened[i][0] == site), None)
        if at is None:
            unmatched += 1
            continue
        unmatched += len(opened) - at - 1
        path = tuple(s for s, _ in opened[: at + 1])
        visits.setdefault(path, []).append(clock - opened[at][1])
        del opened[at:]
    entries = [
        PathTimes(
            path,
            *(len(times), sum(times), min(times), max(times)),
            *(1, sum(times), sum(times)),
            *_counted(np.array(times, np.int64), np.array([len(times)])),
        )
        for path, times in visits.items()
    ]
    return entries, unmatched + len(opened)
