"""The timeline of threads: what was open, when, on which thread; bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

_recorder: Any = pytest.importorskip("tileprof.native._recorder")


@pytest.fixture
def traced() -> Iterator[Any]:
    """The recorder with a clock of the test's own, and nobody else's events in it."""
    _recorder.set_frames(False)
    _recorder.set_epoch(7)
    yield _recorder
    _recorder.host_limit_timeline(0)
    _recorder.host_drain()
    _recorder.set_time(0)
    _recorder.set_epoch(0)
    _recorder.set_frames(True)


def _op(recorder: Any, start: int, end: int, name: str = "op") -> int:
    recorder.set_time(start)
    context: int = recorder.enter_op(name, -1, 0)
    recorder.set_time(end)
    recorder.leave(context)
    return context


def _rows(drained: dict[str, Any]) -> list[tuple[int, ...]]:
    columns = ("start", "end", "epoch", "context", "thread")
    return list(zip(*(drained[name].tolist() for name in columns)))


def test_entries_are_handed_over_once_in_order_of_their_ends(traced: Any) -> None:
    """With times, the thread and who listened; what is inside ends first."""
    traced.host_limit_timeline(10)
    traced.set_time(100)
    outer = traced.enter_op("outer", -1, 0)
    inner = _op(traced, 110, 120)
    traced.set_epoch(8)
    traced.set_time(150)
    traced.leave(outer)
    here = threading.get_ident()
    drained = traced.host_drain()
    assert _rows(drained) == [(110, 120, 7, inner, here), (100, 150, 8, outer, here)]
    assert drained["overwritten"] == 0
    assert _rows(traced.host_drain()) == []


def test_the_newest_stay(traced: Any) -> None:
    """A ring that is full begins from the front; what gave way is counted once."""
    traced.host_limit_timeline(3)
    for start in range(10, 80, 10):
        _op(traced, start, start + 5)
    drained = traced.host_drain()
    assert [row[0] for row in _rows(drained)] == [50, 60, 70]
    assert drained["overwritten"] == 4
    _op(traced, 90, 95)
    drained = traced.host_drain()
    assert ([row[0] for row in _rows(drained)], drained["overwritten"]) == ([90], 0)


@pytest.mark.parametrize(("most", "kept"), [(4_096, 4_096), (20_000, 8_192)])
def test_a_ring_leaves_half_of_the_room_to_others(traced: Any, most: int, kept: int) -> None:
    """It grows by 4,096 events at most to what is left; then it overwrites its oldest."""
    traced.host_limit_timeline(most)
    for start in range(1, 30_001):
        _op(traced, start, start + 1)
    drained = traced.host_drain()
    assert drained["start"].tolist() == list(range(30_001 - kept, 30_001))
    assert drained["overwritten"] == 30_000 - kept


def test_nothing_unless_asked_for(traced: Any) -> None:
    """Without a limit, or with nobody listening."""
    _op(traced, 10, 20)
    traced.host_limit_timeline(5)
    traced.set_epoch(0)
    traced.trace_scope(1, 10, 20)
    assert _rows(traced.host_drain()) == []


def test_scopes_of_python(traced: Any) -> None:
    """They are told with their times, and get the context that they have below operations."""
    traced.host_limit_timeline(5)
    traced.trace_scope(12, 10, 20)
    [(start, end, _, context, _)] = _rows(traced.host_drain())
    scope = 2
    parent, kind, node, apart = traced.contexts(context)[0]
    assert (start, end, parent, kind, node & 0xFFFFFFFF, apart) == (10, 20, 0, scope, 12, 0)


def test_state_of_a_thread_that_ended_serves_others(traced: Any) -> None:
    """What was told of the one stays its own, however many come after it."""
    traced.set_time(0)
    traced.host_limit_timeline(1_000_000)
    idents = []

    def work(number: int) -> None:
        # Others alive meanwhile, so that numbers of threads are not all the same.
        idents.append(threading.get_ident())
        traced.trace_scope(number, number, number + 1)
        if number % 2 == 0:
            other = threading.Thread(target=work, args=(number + 1,))
            other.start()
            other.join()

    for number in range(0, 100, 2):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
    drained = traced.host_drain()
    order = np.argsort(drained["start"])
    assert drained["thread"][order].tolist() == idents
    assert len(set(idents)) > 1


def test_threads_write_while_they_are_read(traced: Any) -> None:
    """No event is torn, told twice or lost uncounted, however the reader falls behind."""
    traced.set_time(0)
    traced.host_limit_timeline(5_000)
    each, writers = 40_000, 3
    # All at once: a thread may get the number of one that has ended.
    together = threading.Barrier(writers)

    def write() -> None:
        together.wait()
        for i in range(each):
            traced.trace_scope(i % 100, i, 3 * i)
        together.wait()

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    told = lost = 0
    last: dict[int, int] = {}
    while True:
        alive = any(thread.is_alive() for thread in threads)
        drained = traced.host_drain()
        assert (drained["end"] == 3 * drained["start"]).all()
        for ident in np.unique(drained["thread"]).tolist():
            starts = drained["start"][drained["thread"] == ident].astype(np.int64)
            assert (np.diff(starts) > 0).all()
            assert starts[0] > last.get(ident, -1)
            last[ident] = int(starts[-1])
        told += drained["start"].size
        lost += drained["overwritten"]
        if not alive:
            break
    assert told + lost == each * writers
    assert len(last) == writers
