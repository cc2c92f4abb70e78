"""Bounds of what a change of a threaded program's code gains: by the wall time, not by the sum of
the times of its threads."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import tileprof
from tests.analyzer.made import found
from tests.repeated import in_one_of_five_runs
from tileprof.analyzer.findings import Finding
from tileprof.analyzer.program.host import HostTime
from tileprof.errors import Location
from tileprof.profile import Profile, Tables, Track, TrackTotals, TreeBuilder
from tileprof.profile.thread_times import OTHERS, thread_provenance, thread_times

SECOND = 1_000_000_000
THREADING = "/usr/lib/python3.12/threading.py"
Times = dict[str, dict[str, float]]


def made(
    lines: Times, processor: dict[str, float] | None = None, identities: int = 1_000
) -> Profile:
    """A program with the seconds of each thread at each line; `join` waits in a library.

    Processor times are those of threads by name, or of all `OTHERS` together. After so many
    `identities` the system gives the first ones again.
    """
    builder, tracks = TreeBuilder(), dict[str, int]()
    rows = list[tuple[int, int, int, int]]()
    for number, (line, threads) in enumerate(lines.items()):
        place = Location("/home/me/a.py", number + 1, function=line)
        node = builder.child(-1, "frame", line, place)
        if line == "join":
            node = builder.child(node, "frame", "join", Location(THREADING, 9, function="join"))
        for thread, seconds in threads.items():
            builder.add(node, "cpu_time", seconds * SECOND)
            track = tracks.setdefault(thread, len(tracks))
            rows.append((node, track, 1, round(seconds * SECOND)))
    table = np.array(rows, np.int64).T
    named = [Track("thread", name, number % identities) for name, number in tracks.items()]
    used = {
        OTHERS if name == OTHERS[1] else (tracks[name], name): round(each * SECOND)
        for name, each in (processor or {}).items()
    }
    totals = TrackTotals.of(named, *table)
    return builder.snapshot(Tables(track_totals=totals, provenance=thread_provenance(used)))


def finding_at(profile: Profile, line: str) -> Finding:
    """The one finding of a line."""
    (it,) = (each for each in found(profile, "hotspot") if each.place.path[-1:] == (line,))
    return it


SLEEPERS: Times = {
    "work": {"main": 1.0},
    "join": {"main": 0.5},
    "sleep": {f"t{number}": 1.5 for number in range(200)},
}


def test_threads_that_may_be_pooled_are_counted_at_least() -> None:
    """Operations are measured by the thread's identity, which the next short thread has again."""
    lines: Times = {"work": {"main": 0.1}, "serve": {f"t{number}": 0.5 for number in range(40)}}
    for identities, where in ((1_000, "in 40 threads"), (8, "in 40 or more threads")):
        assert where in finding_at(made(lines, identities=identities), "serve").title


def test_threads_that_sleep_beside_one_that_works_gain_no_more_than_it_leaves() -> None:
    """300 s of 301.5 s sleep, yet the main thread's second of work stays: 1.5 times at most."""
    profile = made(SLEEPERS, {"main": 1.0})
    sleep = finding_at(profile, "sleep")
    assert sleep.title.startswith("a.py:3 takes up to 100 % of the wall time, in 200 threads")
    assert "no time here, 1.50×" in sleep.evidence[1].text
    assert "2× faster here makes the program 1.50× faster" in sleep.evidence[1].text


def test_threads_that_follow_each_other_take_the_sum_of_their_times_at_most() -> None:
    """One for each request: title, evidence and gain agree, and what the profile counts as the
    processor time of other threads may be all theirs."""
    served = {f"request {number}": 0.1 for number in range(8)}
    profile = made({"join": {"main": 1.0}, "serve": served}, {"main": 0.01, OTHERS[1]: 0.2})
    serve = finding_at(profile, "serve")
    assert serve.title.startswith("a.py:2 takes 10 % to 80 % of the wall time, in 8 threads")
    assert serve.evidence[0].text.startswith("100 ms to 800 ms of the wall time (1 s)")
    assert "use a processor in at most 25 % of their time" in serve.evidence[0].text
    assert "no time here, 5.00×" in serve.evidence[1].text


def test_processor_time_without_a_thread_is_that_of_other_threads() -> None:
    """It is one entry, with that of the threads after the first ones."""
    used = {(number, f"t{number}"): 100 - number for number in range(18)}
    times = thread_times(thread_provenance({**used, OTHERS: 7}))
    assert times[OTHERS] == 84 + 83 + 7
    assert len(times) == 17


def test_one_busy_thread_of_a_pool_is_what_counts() -> None:
    """Its line has 3 % of the threads' time and all of the wall time; the others gain nothing."""
    idle = {f"t{number}": 2.0 for number in range(30)}
    lines: Times = {"join": {"main": 2.0}, "rest": idle, "work": {"busy": 2.0}}
    first, *others = found(made(lines, {"busy": 1.9}), "hotspot")
    assert first.title.startswith("a.py:3 takes up to 100 % of the wall time, in one thread")
    assert first.severity == "symptom"
    assert "2× faster here makes the program 2.00× faster" in first.evidence[1].text
    rest = next(each for each in others if each.place.path[-1] == "rest")
    assert rest.severity == "ignore"
    assert rest.author == "Leave it: first shorten what the other threads do meanwhile."


def test_threads_that_take_turns_are_no_bound_for_each_other() -> None:
    """Two share the interpreter's lock: each used a processor for half of its time."""
    lines: Times = {"join": {"main": 2.0}, "a": {"t1": 2.0}, "b": {"t2": 2.0}}
    in_turn = finding_at(made(lines, {"t1": 1.0, "t2": 1.0}), "a")
    assert "no time here, 2.00×" in in_turn.evidence[1].text
    assert "use a processor in at most 50 % of their time" in in_turn.evidence[0].text
    assert "interpreter's lock (GIL)" in in_turn.evidence[0].text
    beside = finding_at(made(lines, {"t1": 2.0, "t2": 2.0}), "a")
    assert beside.severity == "ignore"


def test_a_wait_for_threads_has_no_gain_of_its_own() -> None:
    """Nor does what the main thread waits keep others from gaining."""
    lines: Times = {"join": {"main": 2.0}, "work": {f"t{each}": 1.9 for each in range(4)}}
    profile = made(lines, {f"t{each}": 1.9 for each in range(4)})
    join, work = finding_at(profile, "join"), finding_at(profile, "work")
    assert "what it waits for takes the time" in join.evidence[1].text
    assert "2× faster here makes the program 2.00× faster" in work.evidence[1].text


def test_without_threads_it_is_amdahls_law() -> None:
    """1 / (1 - 0.75 / 2), as before."""
    profile = made({"a": {"main": 3.0}, "b": {"main": 1.0}}, {"main": 4.0})
    host = HostTime(profile)
    part = np.array([name == "a" for name in profile.names])
    assert not host.threads.several
    assert host.threads.gain(part, 2.0) == pytest.approx(1 / (1 - 0.75 / 2))


@pytest.mark.parametrize(("threads", "used"), [(1, None), (40, 2.0), (3, 0.0)])
def test_the_gain_is_never_more_than_the_wall_time_allows(threads: int, used: float | None) -> None:
    """A part that k times as fast leaves is no shorter than its longest thread's k-th part."""
    lines: Times = {"a": {f"t{each}": 1.0 for each in range(threads)}, "b": {"main": 1.0}}
    known = None if used is None else {"main": used}
    profile = made(lines, known)
    part = np.array([name == "a" for name in profile.names])
    for times in (1.2, 2.0, 100.0):
        assert 1 <= HostTime(profile).threads.gain(part, times) <= times * (1 + 1e-9)


def test_times_of_threads_are_read_as_they_were_written() -> None:
    """Names with any characters; those after the first are one; and a damaged text is nothing."""
    times = {(number, f'a "{number}"; é'): 100 - number for number in range(40)}
    read = thread_times(thread_provenance(times))
    assert read.pop(OTHERS) == sum(sorted(times.values())[:24])
    assert read == {key: each for key, each in times.items() if key[0] < 16}
    (key,) = thread_provenance(times)
    for text in ("[[1]]", "{}x", '"a"', json.dumps([["a", None, 3]])):
        assert thread_times({key: text}) == {}
    assert thread_times({}) == {}


# -- recordings


def recorded(program: Callable[[], None]) -> Profile:
    """A program of this process, recorded."""
    session = tileprof.start(context="python")
    # The frames of pytest above this one are left out of the recording.
    session.recording.recorder.set_base(sys._getframe())
    try:
        program()
    finally:
        profile = session.finalize()
    return profile


def together(*functions: Callable[[], None]) -> None:
    """Run functions in threads of their own until all have ended."""
    threads = [threading.Thread(target=each) for each in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


USED: dict[str, float] = {}
"""Processor time in seconds that threads measured themselves, by name."""


TOOK: dict[str, float] = {}
"""Wall time in seconds that functions measured themselves, by name."""


def measured(work: Callable[[], None]) -> Callable[[], None]:
    """The function, which leaves its thread's processor time."""

    def run() -> None:
        began = time.thread_time()
        work()
        USED[threading.current_thread().name] = time.thread_time() - began

    return run


def compute() -> None:
    """Work for half a second, with the interpreter's lock."""
    began = time.perf_counter()
    while time.perf_counter() < began + 0.5:
        sum(range(2000))
    TOOK["compute"] = time.perf_counter() - began


def rest() -> None:
    """Sleep for half a second, in short turns."""
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        time.sleep(0.02)


def hashes() -> None:
    """Work without the interpreter's lock."""
    data = b"x" * 8_000_000
    for _ in range(10):
        hashlib.sha256(data).digest()


def part(profile: Profile, function: str) -> npt.NDArray[np.bool_]:
    """The nodes in a function."""
    names = profile.names
    return np.array(
        [
            any(names[each].split(".")[-1] == function for each in profile.path(node))
            for node in range(len(profile))
        ]
    )


def at(profile: Profile, function: str) -> Finding:
    """The finding of a function's hottest line."""
    held = [each for each in found(profile, "hotspot") if function in each.place.path]
    assert held, [(each.title, each.place.path) for each in found(profile, "hotspot")]
    return held[0]


@in_one_of_five_runs
def test_recording_of_a_pool_with_one_busy_thread() -> None:
    """The resting ones are left alone, and processor times are those that threads measured."""
    USED.clear()

    def program() -> None:
        began = time.perf_counter()
        together(measured(compute), *[rest] * 20)
        TOOK["program"] = time.perf_counter() - began

    profile = recorded(program)
    assert at(profile, "compute").severity == "symptom"
    threads = HostTime(profile).threads
    whole, own = TOOK["program"], TOOK["compute"]
    assert threads.wall / 1e9 == pytest.approx(whole, rel=0.1, abs=0.05)
    # Even if other threads rest less, the busy thread's own wall time, which it measured, remains.
    resting, computing = (threads.gain(part(profile, of), 2.0) for of in ("rest", "compute"))
    assert resting <= 1.4 * whole / own
    assert computing == pytest.approx(whole / (whole - own / 2), rel=0.3)
    (name,) = USED
    times = {key[1]: each for key, each in thread_times(profile.tables.provenance).items()}
    assert times[name] / 1e9 == pytest.approx(USED[name], abs=0.03)


@pytest.mark.alone
@in_one_of_five_runs
def test_recording_of_four_busy_threads() -> None:
    """All hash at once, without the interpreter's lock: a faster hash is as much faster a whole."""
    profile = recorded(lambda: together(*[hashes] * 4))
    finding = at(profile, "hashes")
    assert "in 4 threads" in finding.title
    assert 1.6 < HostTime(profile).threads.gain(part(profile, "hashes"), 2.0) <= 2.0


@pytest.mark.alone
@in_one_of_five_runs
def test_recording_of_a_producer_and_a_consumer() -> None:
    """The consumer waits in a queue: that bounds nothing, and the producer's work is what counts.

    A faster producer is no faster than its consumer's own work.
    """
    items: queue.Queue[int | None] = queue.Queue(2)

    def produce() -> None:
        for _ in range(40):
            items.put(sum(range(600_000)))
        items.put(None)

    def consume() -> None:
        while items.get() is not None:
            sum(range(60_000))

    profile = recorded(lambda: together(produce, consume))
    finding = found(profile, "hotspot")[0]
    assert "produce" in finding.place.path[-1]
    threads = HostTime(profile).threads
    assert 2 < threads.gain(part(profile, "produce"), float("inf")) < 60


@pytest.mark.usefixtures("no_other_threads")
@in_one_of_five_runs
def test_recording_of_asyncio() -> None:
    """Many tasks wait at a time, in one thread: Amdahl's law over its wall time."""

    async def work() -> None:
        for _ in range(5):
            sum(range(20_000))
            await asyncio.sleep(0.05)

    async def everything() -> None:
        await asyncio.gather(*(work() for _ in range(20)))

    profile = recorded(lambda: asyncio.run(everything()))
    assert not HostTime(profile).threads.several
    finding = found(profile, "hotspot")[0]
    assert "sockets and timers" in finding.author
    assert finding.severity == "symptom"
