"""Wall time that a change of a program's code can save, where several threads run side by side.

Times of threads add up to more than the wall time, so shares of their sum are no shares of the wall
time: 200 threads that sleep beside one that works have nearly all of the sum, and a program without
them would end no sooner. What is known of each thread bounds the wall time T' that is left where a
part of the code becomes k times as fast:

- T' is at least T - U (1 - 1 / k), with the wall time T as it is, and U the time of all threads in
  that part, T at most. Where one thread runs at a time this is Amdahl's law.
- T' is at least the processor time that each thread has left. No thread works faster because
  another one waits less.
- T' is at least the other time that each thread has left, waiting in files of libraries for other
  threads not included, less the processor time of all others: it may have waited for the
  interpreter's lock (GIL) while they ran, no longer.

In: a profile, and by node the host's time that counts, ns.  Out: `Threads`.
"""

from __future__ import annotations

import re

import numpy as np

from tileprof.analyzer.numbers.programs import THREADS_SEVERAL
from tileprof.analyzer.program.masks import Column, Mask, kind, nearest, where
from tileprof.once import cached_property
from tileprof.profile import Profile, Symbol, is_installed
from tileprof.profile.thread_times import OTHERS, Thread, thread_times

WAITS_FOR_THREADS = re.compile(r"(concurrent/futures/(_base|thread)|threading|queue)\.py$")
"""Files of libraries in which a thread waits for other threads."""


class Threads:
    """The host's time by thread; a single thread where a profile does not know them."""

    def __init__(self, profile: Profile, column: Column, everything: Column) -> None:
        """Take by node the time that counts, and all of the host's time, ns."""
        self._profile = profile
        self._names, self._node, self._thread, part = _rows(profile)
        self._time = column[self._node] * part
        self._all = everything[self._node] * part

    @cached_property
    def wall(self) -> float:
        """Wall time in ns: that of the thread with the most. The main thread counts always."""
        return float(self._by_thread(self._time).max(initial=0.0))

    @cached_property
    def several(self) -> bool:
        """Whether threads ran beside the one with the most time."""
        times = np.sort(self._by_thread(self._time))
        return bool(len(times) > 1 and times[-2] > THREADS_SEVERAL * times[-1])

    @cached_property
    def pooled(self) -> bool:
        """Whether threads of one identity after the other count as one in what is measured by
        identity: the system gives that of a thread that has ended to a new one."""
        # A thread that ended before its name was read is named after its identity.
        idents = [ident for ident, name in self._names if name != f"thread {ident:#x}"]
        return len(set(idents)) < len(idents)

    def in_part(self, part: Mask) -> tuple[float, int]:
        """Return the most time in ns that one thread has in a part, and how many threads are
        there for a time that counts."""
        times = self._by_thread(self._time * part[self._node])
        most = float(times.max(initial=0.0))
        return most, int((times > THREADS_SEVERAL * most).sum())

    def processor_share(self, part: Mask) -> float:
        """Return the largest share of their time in which the threads of a part can have used a
        processor, 0 to 1; NaN where that is not known. It is that of all their time, in this part
        or not. Threads that a profile does not tell apart may have had all that those used."""
        here = self._by_thread(self._time * part[self._node]) > 0
        used, whole = self._used[here], self._by_thread(self._time)[here]
        if not self._used.any():
            return float("nan")
        shared = self._known.get(OTHERS, 0) if (used == 0).any() else 0
        return min(1.0, float((np.minimum(used, whole).sum() + shared) / whole.sum()))

    def most(self, part: Mask) -> float:
        """Return the most wall time in ns in which any thread can be in a part."""
        return min(self.wall, float(self._time[part[self._node]].sum()))

    def left(self, part: Mask, times: float) -> float:
        """Return the least wall time in ns that is left where a part is so many times as fast."""
        gone = 1 - 1 / times
        left = self.wall - gone * self.most(part)
        if not self.several:
            return left
        whole, inside, waits = (
            self._by_thread(self._time * counted[self._node])
            for counted in (np.ones_like(part), part, self.waiting & ~part)
        )
        busy = self._processor
        others = busy.sum() - busy
        kept = whole - waits - gone * inside - others
        worked = busy - gone * np.minimum(busy, inside)
        return float(max(left, kept.max() if busy.any() else 0.0, worked.max()))

    def gain(self, part: Mask, times: float) -> float:
        """Return by how many times the wall time shrinks at most; 1 where nothing is gained."""
        left = self.left(part, times)
        return self.wall / left if left > 0 else float("inf")

    @cached_property
    def waiting(self) -> Mask:
        """Nodes in files of libraries that wait for other threads, as a user's line calls them."""
        profile = self._profile
        known = where(profile, _waits_for_threads)
        of_user = where(profile, _of_user)
        around = nearest(profile, (known | of_user) & kind(profile, "frame"))
        found: Mask = (around >= 0) & known[around]
        return found

    @cached_property
    def _processor(self) -> Column:
        """By thread, the least processor time in ns in what counts; 0 where it is not known."""
        whole, counted = self._by_thread(self._all), self._by_thread(self._time)
        return np.clip(self._used - (whole - counted), 0.0, counted)

    @cached_property
    def _known(self) -> dict[Thread, int]:
        return thread_times(self._profile.tables.provenance)

    @cached_property
    def _used(self) -> Column:
        """By thread, its processor time in ns; 0 where it is not known."""
        return np.array([self._known.get(name, 0) for name in self._names], np.float64)

    def _by_thread(self, time: Column) -> Column:
        return np.bincount(self._thread, time, max(len(self._names), 1)).astype(np.float64)


def _rows(
    profile: Profile,
) -> tuple[list[tuple[int, str]], np.ndarray, np.ndarray, Column]:
    """Return threads, and for each node and thread the part of the node's time that it has.

    Nodes of which no thread is known are the first thread's, which is the one with the most time.
    """
    totals = profile.tables.track_totals
    numbers = [n for n, track in enumerate(totals.tracks) if track.kind == "thread"]
    place = np.full(len(totals.tracks) + 1, -1, np.int64)
    place[numbers] = np.arange(len(numbers))
    thread = place[totals.sums.track]
    counts = thread >= 0
    node, thread = totals.sums.node[counts].astype(np.int64), thread[counts]
    time = totals.sums.time[counts].astype(np.float64)
    events = totals.sums.events[counts].astype(np.float64)
    names = [(totals.tracks[n].number, totals.tracks[n].name) for n in numbers]
    # By the number of events where no time was measured.
    timed = np.bincount(node, time, len(profile))[node] > 0
    weight = np.where(timed, time, events)
    whole = np.bincount(node, weight, len(profile))
    part = np.divide(weight, whole[node], np.zeros(len(node)), where=whole[node] > 0)
    most = int(np.bincount(thread, time, max(len(numbers), 1)).argmax())
    unknown = np.flatnonzero(whole == 0)
    return (
        names or [(0, "")],
        np.concatenate([node, unknown]),
        np.concatenate([thread, np.full(len(unknown), most, np.int64)]),
        np.concatenate([part, np.ones(len(unknown))]),
    )


def _waits_for_threads(symbol: Symbol) -> bool:
    place = symbol.location
    installed = place is not None and is_installed(place.file)
    return bool(installed and place and WAITS_FOR_THREADS.search(place.file))


def _of_user(symbol: Symbol) -> bool:
    return symbol.location is not None and not is_installed(symbol.location.file)
