"""The newest single events of a session, until they become a profile's timeline.

In: columns that the native recorder hands over, of devices and of the host.  Out: a `Timeline` at
nodes of a profile.  A session keeps as many events as it asked for of either; 40 bytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile import Timeline, TimelineEvents, Track
from tileprof.profiler.locks import new_lock
from tileprof.profiler.tree.contexts import Contexts

Rows: TypeAlias = npt.NDArray[np.void]
"""A structured array of `_HOST` or `_DEVICE`."""
_Ints: TypeAlias = npt.NDArray[np.int64]

_EVENT = [("start", "i8"), ("end", "i8"), ("node", "i4")]
_HOST = np.dtype([*_EVENT, ("context", "u4"), ("thread", "u8")])
_DEVICE = np.dtype(
    [*_EVENT, ("launch", "u4"), ("launched", "i8"), ("stream", "u4"), ("device", "u2")]
)


class Part(NamedTuple):
    """Events that were handed over at once."""

    rows: Rows
    epochs: npt.NDArray[np.uint32]
    """Epoch of each row, which says who listened."""
    overwritten: int
    """Events that gave way to these."""

    def by_epoch(self) -> Iterator[tuple[int, Rows]]:
        """Return the rows of each epoch."""
        for epoch in np.unique(self.epochs).tolist():
            yield epoch, self.rows[self.epochs == epoch]


NOTHING = Part(np.zeros(0, _DEVICE), np.zeros(0, np.uint32), 0)


def host_part(drained: Mapping[str, Any], contexts: Contexts) -> Part:
    """Return what threads were in, at the nodes of its contexts."""
    own, inverse = np.unique(drained["context"], return_inverse=True)
    nodes = np.array([contexts.node(context).index for context in own.tolist()], np.int32)
    return _part(_HOST, drained, nodes[inverse.reshape(-1)] if own.size else nodes)


def device_part(drained: Mapping[str, Any], nodes: Mapping[tuple[int, int, int], int]) -> Part:
    """Return what devices did, at the nodes of its totals by context, kind of work and detail."""
    if not drained["start"].size:
        return NOTHING
    keys = drained["context"].astype(np.uint64) << np.uint64(40)
    keys |= drained["what"].astype(np.uint64) << np.uint64(32) | drained["detail"]
    own, inverse = np.unique(keys, return_inverse=True)
    parts = ((key >> 40, key >> 32 & 0xFF, key & 0xFFFFFFFF) for key in own.tolist())
    at = np.array([nodes[part] for part in parts], np.int32)
    return _part(_DEVICE, drained, at[inverse.reshape(-1)])


def _part(
    kind: np.dtype[np.void], drained: Mapping[str, Any], nodes: npt.NDArray[np.int32]
) -> Part:
    rows = np.empty(len(nodes), kind)
    for name in kind.names or ():
        rows[name] = nodes if name == "node" else drained[name]
    return Part(rows, drained["epoch"], int(drained["overwritten"]))


class Newest:
    """The newest rows of one kind."""

    def __init__(self, kind: np.dtype[np.void], most: int) -> None:
        self._chunks = deque([np.zeros(0, kind)])
        self._most = most
        self._held = 0
        self.overwritten = 0

    def take(self, rows: Rows) -> None:
        """Add rows; the oldest give way."""
        self._chunks.append(rows)
        self._held += len(rows)
        while (excess := self._held - self._most) > 0:
            oldest = self._chunks.popleft()
            if len(oldest) > excess:
                self._chunks.appendleft(oldest[excess:])
            gone = min(len(oldest), excess)
            self._held -= gone
            self.overwritten += gone

    def rows(self) -> Rows:
        """Return all rows, in the order in which they came."""
        if len(self._chunks) > 1:
            self._chunks = deque([np.concatenate(self._chunks)])
        return self._chunks[0]


class TimelineStore:
    """The events of one session."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._newest = {kind: Newest(kind, most) for kind in (_HOST, _DEVICE)}
        self._names: dict[int, str] = {}
        # The helping thread takes events over while another one asks for the profile.
        self._lock = new_lock()

    def take(self, rows: Rows, threads: Mapping[int, str]) -> None:
        """Add events of the host or of devices; `threads` are names of threads as far as known."""
        with self._lock:
            self._newest[rows.dtype].take(rows)
        if rows.dtype == _HOST:
            for ident in np.unique(rows["thread"]).tolist():
                self._names.setdefault(ident, threads.get(ident, f"thread {ident:#x}"))

    def add_overwritten(self, rows: Rows, events: int) -> None:
        """Count events of the kind of these rows that were given up before they came here."""
        self._newest[rows.dtype].overwritten += events

    def facts(self) -> dict[str, str]:
        """Return what provenance tells of events that are not there."""
        gone = sum(newest.overwritten for newest in self._newest.values())
        if not gone:
            return {}
        return {"overwritten": f"{gone:,} events; the newest are there, {self.most:,} at most"}

    def timeline(self, made: Sequence[int]) -> Timeline:
        """Return the timeline; `made` is the profile's node for each of the recorder's, or -1."""
        to = np.array(made, np.int32)
        with self._lock:
            host, device = (_at_nodes(newest.rows(), to) for newest in self._newest.values())
        tracks, host_tracks, device_tracks = self._tracks(host, device)
        start, end, node = (
            np.concatenate([_column(host, name), _column(device, name)])
            for name in ("start", "end", "node")
        )
        events = TimelineEvents.of(
            start,
            end - start,
            node,
            np.concatenate([host_tracks, device_tracks]),
            np.concatenate([np.full(len(host), -1), launches(host, device)]),
        )
        return Timeline.holding(tracks, events)

    def _tracks(self, host: Rows, device: Rows) -> tuple[list[Track], _Ints, _Ints]:
        """Return the tracks, and for each row its own: threads in first-seen order, then
        streams."""
        of_threads: npt.NDArray[np.uint64] = host["thread"]
        idents, of_host = np.unique(of_threads, return_inverse=True)
        places = _column(device, "device") << 32 | _column(device, "stream")
        streams, of_device = np.unique(places, return_inverse=True)
        seen = list(self._names)
        order = sorted(range(len(idents)), key=lambda at: seen.index(int(idents[at])))
        rank = np.zeros(len(idents), np.int64)
        rank[order] = np.arange(len(idents))
        threads = [int(idents[at]) for at in order]
        tracks = [Track("thread", self._names[ident], ident) for ident in threads]
        for place in streams.tolist():
            number, on = place & 0xFFFFFFFF, place >> 32
            tracks.append(Track("stream", f"cuda:{on} stream {number}", number, on))
        return tracks, rank[of_host.reshape(-1)], of_device.reshape(-1) + len(idents)


def _column(rows: Rows, name: str) -> _Ints:
    found: npt.NDArray[np.integer] = rows[name]
    return found.astype(np.int64)


def _at_nodes(rows: Rows, to: npt.NDArray[np.int32]) -> Rows:
    """Rows at a profile's nodes, without those that have none."""
    # An event may have come after the tree was copied.
    rows = rows[rows["node"] < len(to)]
    node = to[_column(rows, "node")]
    rows = rows[node >= 0]
    rows["node"] = node[node >= 0]
    return rows


def launches(host: Rows, device: Rows) -> _Ints:
    """Return for each row of a device the host's row that launched it, -1 where there is none.

    That is the one of the launch's context in which the time of the launch is.
    """
    launch, launched = _column(device, "launch"), _column(device, "launched")
    contexts = np.concatenate([_column(host, "context"), launch])
    times = np.concatenate([_column(host, "start"), launched])
    is_device = np.arange(len(times)) >= len(host)
    order = np.lexsort((is_device, times, contexts))
    last = np.maximum.accumulate(np.where(is_device[order], -1, np.arange(len(order))))
    before = np.full(len(order), -1, np.int64)
    before[order] = np.where(last >= 0, order[last], -1)
    found = before[len(host) :]
    held = found >= 0
    launcher = host[found[held]]
    held[held] = (_column(launcher, "context") == launch[held]) & (
        launched[held] <= _column(launcher, "end")
    )
    return np.where(held, found, -1)
