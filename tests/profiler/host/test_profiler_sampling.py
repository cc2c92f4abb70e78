"""What samples say: exact on a clock of the test's own, plausible on the real one."""

from __future__ import annotations

import gc
import multiprocessing.pool
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import tileprof.profiler as profiler
from tests.profiler_programs import Clock, FakeKernel, as_ours
from tileprof.profile import Profile
from tileprof.profiler.host import sampler as sampler_module
from tileprof.profiler.host.sampler import Sampler
from tileprof.profiler.worker import (
    LONGEST_S,
    PERIOD_S,
    PROMPT_S,
    SHARE,
    Worker,
    prompt_switches,
    wait_for_share,
)
from tileprof.runtime import hooks

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("no_other_threads")]


class Sampled:
    """A session on a fake clock; `at(ns)` lets time pass and takes a sample."""

    def __init__(self, frame: FrameType) -> None:
        self.clock = Clock()
        self.session = profiler.start(clock=self.clock)
        self.session.recording.recorder.set_base(frame)
        self.sampler = Sampler(self.session.recording.recorder)

    def at(self, ns: int) -> None:
        """Wait, and look from another thread."""
        self.clock.spend(ns)
        helper = threading.Thread(target=self.sampler.sample)
        helper.start()
        helper.join()

    def end(self) -> Profile:
        """Finalize and check."""
        self.sampler.finish()
        profile = self.session.finalize()
        profile.check()
        return profile


def _run(program: Callable[[Sampled], None]) -> Profile:
    sampled = Sampled(sys._getframe())
    try:
        program(sampled)
    finally:
        profile = sampled.end()
    return profile


def test_a_sample_under_way_sees_nothing_of_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are where they are after the pause began only in samples that do not count."""
    looking, paused = threading.Event(), threading.Event()
    look = sampler_module.frames_of_threads

    @contextmanager
    def slowly() -> Iterator[dict[int, FrameType]]:
        looking.set()
        # Until the pause is there, unless it waits for this sample.
        paused.wait(0.5)
        with look() as frames:
            yield frames

    def program(sampled: Sampled) -> None:
        sampled.at(100)
        monkeypatch.setattr(sampler_module, "frames_of_threads", slowly)
        helper = threading.Thread(target=sampled.sampler.sample)
        sampled.clock.spend(10)
        helper.start()
        assert looking.wait(10)
        sampled.session.deactivate()

        def meanwhile() -> None:
            paused.set()
            helper.join()

        with profiler.scope("paused"):
            meanwhile()
        sampled.session.activate()

    profile = _run(program)
    assert not profile.find("paused")


def test_outside_of_scopes_samples_are_wall_time() -> None:
    """Between samples all time goes to where the later sample finds the thread."""

    def program(sampled: Sampled) -> None:
        def slow() -> None:
            sampled.at(100)

        def slower() -> None:
            sampled.at(1000)
            sampled.clock.spend(10)

        slow()
        slower()
        slow()

    profile = _run(program)
    by_function: dict[str, float] = {}
    for index in range(len(profile)):
        path = {profile.names[i].rpartition(".")[2] for i in profile.path(index)}
        for name in ("slow", "slower"):
            if name in path:
                own = profile.node(index).own("cpu_time")
                by_function[name] = by_function.get(name, 0) + own
    assert by_function == {"slow": 210, "slower": 1000}
    assert profile.whole["cpu_time"] == 1210
    assert profile.whole["samples"] == 3


def test_inside_a_scope_samples_are_shares() -> None:
    """The measured own time of a scope is dealt out over what samples saw below it."""

    def program(sampled: Sampled) -> None:
        def often() -> None:
            sampled.at(2)
            sampled.at(1)

        def seldom() -> None:
            sampled.at(1)

        with profiler.scope("measured"):
            often()
            seldom()
            sampled.clock.spend(96)
        with profiler.scope("never sampled"):
            sampled.clock.spend(5)

    profile = _run(program)
    (scope,) = profile.find("measured")
    assert profile.node(scope).total("cpu_time") == 100
    shares = {
        profile.names[child].rpartition(".")[2]: profile.node(child).total("cpu_time")
        for child in profile.children(scope)
    }
    # Two lines of `often`, 2 and 1 ns of the 4 ns between samples, and `seldom` with 1.
    lines = sorted(profile.node(c).total("cpu_time") for c in profile.children(scope))
    assert lines == [25, 25, 50]
    assert shares["seldom"] == 25
    (other,) = profile.find("never sampled")
    assert profile.node(other).own("cpu_time") == 5


def test_launches_are_not_sampled_twice() -> None:
    """While a launch runs, its own clock covers the time; before and after, samples do."""

    def program(sampled: Sampled) -> None:
        kernel = FakeKernel("k")

        @as_ours
        def long_launch() -> None:
            listener = hooks.listener
            assert listener is not None
            token = listener.begin(kernel)
            sampled.at(500)
            sampled.at(500)
            listener.end(token, hooks.Launch(kernel, "cpu", (1,), 1, 900, 1000))

        @as_ours
        def failed_launch() -> None:
            assert hooks.listener is not None
            hooks.listener.begin(kernel)
            sampled.at(30)

        long_launch()
        sampled.at(7)
        failed_launch()
        sampled.at(20)

    profile = _run(program)
    kernels = profile.find("k")
    assert sum(profile.node(k).own("cpu_time") for k in kernels) == 1000
    assert profile.whole["cpu_time"] == 1057


def test_idle_workers_are_left_out() -> None:
    """A thread that waits in the standard library does not count; one that runs does."""

    def program(sampled: Sampled) -> None:
        tasks: queue.Queue[Callable[[], None] | None] = queue.Queue()
        running, done = threading.Event(), threading.Event()

        def busy() -> None:
            running.set()
            while not done.is_set():
                time.sleep(0.0005)

        def worker() -> None:
            while (task := tasks.get()) is not None:
                task()

        thread = threading.Thread(target=worker)
        thread.start()
        sampled.at(1)
        sampled.at(10)
        tasks.put(busy)
        running.wait()
        time.sleep(0.002)
        sampled.at(100)
        done.set()
        tasks.put(None)
        thread.join()

    profile = _run(program)
    workers = [i for i in profile.roots() if profile.names[i].endswith(".worker")]
    assert sum(profile.node(i).total("samples") for i in workers) == 1
    assert sum(profile.node(i).total("cpu_time") for i in workers) == 100


def test_threads_of_pools_count_while_they_work() -> None:
    """The threads that serve a pool wait in queues that C code reads; its workers run tasks."""

    def program(sampled: Sampled) -> None:
        running, done = threading.Event(), threading.Event()

        def busy(_: int) -> None:
            running.set()
            while not done.is_set():
                time.sleep(0.0005)

        with multiprocessing.pool.ThreadPool(2) as pool:
            time.sleep(0.05)
            sampled.at(1)
            sampled.at(10)
            tasks = pool.map_async(busy, [1])
            running.wait()
            time.sleep(0.002)
            sampled.at(100)
            done.set()
            tasks.wait()
        sampled.at(1000)

    profile = _run(program)
    busy = [at for at in range(len(profile)) if profile.names[at].endswith("busy")]
    assert sum(profile.node(at).total("cpu_time") for at in busy) == 100
    for name in ("worker", "Pool._handle_tasks", "Pool._handle_results", "Pool._handle_workers"):
        assert all(profile.node(each).own("cpu_time") == 0 for each in profile.find(name))


@pytest.mark.skipif(sys.platform != "linux", reason="no clock of another thread's processor time")
def test_threads_of_libraries_that_rest_are_left_out() -> None:
    """They wait in C code, as those of a notebook do; one that works counts, and the user's."""
    source = "def rest(fd, read):\n    read(fd, 1)\ndef work(over):\n    while not over(): pass\n"
    library: dict[str, Any] = {}
    exec(compile(source, "/x/site-packages/lib/watch.py", "exec"), library)
    inner, outer = os.pipe()
    over = threading.Event()

    def waits() -> None:
        library["rest"](inner, os.read)

    threads = [
        threading.Thread(target=library["rest"], args=(inner, os.read)),
        threading.Thread(target=library["work"], args=(over.is_set,)),
        threading.Thread(target=waits),
    ]
    with profiler.profile() as session:
        for each in threads:
            each.start()
        time.sleep(0.5)
        over.set()
        os.write(outer, b"12")
        for each in threads:
            each.join()
    for fd in (inner, outer):
        os.close(fd)
    profile = session.profile
    assert profile is not None
    at_top = {profile.names[top]: profile.node(top).total("cpu_time") for top in profile.roots()}
    assert at_top.get("rest", 0) < 0.3 * at_top["work"]
    assert any(name.endswith("waits") for name in at_top)


def test_a_thread_that_goes_on_meanwhile_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its frames would be a path that never was; the next sample has the time."""
    first, second, over = threading.Lock(), threading.Lock(), threading.Lock()
    locks, reached, gone = (first, second, over), threading.Event(), list[int]()

    def returns() -> None:
        first.acquire()

    def work() -> None:
        returns()
        reached.set()
        second.acquire()
        over.acquire()

    def program(sampled: Sampled) -> None:
        for lock in locks:
            lock.acquire()
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.05)
        sampled.at(10)
        find = Sampler._node_of

        def goes_on(self: Sampler, entry: Any, ident: int, frame: FrameType) -> Any:
            if ident == thread.ident and not gone:
                gone.append(ident)
                first.release()
                assert reached.wait(10)
            return find(self, entry, ident, frame)

        monkeypatch.setattr(Sampler, "_node_of", goes_on)
        sampled.at(100)
        sampled.at(1000)
        second.release()
        over.release()
        thread.join()

    profile = _run(program)
    found = {
        profile.node(each).location: profile.node(each).own("cpu_time")
        for each in profile.find(kind="frame")
        if profile.node(each).own("cpu_time") and "test_a_thread_that" in profile.names[each]
    }
    line = work.__code__.co_firstlineno
    assert {place.line - line: time for place, time in found.items() if place} == {3: 1100}


RUNS = 5
"""Runs of which one has to be as expected: a busy machine may keep the thread that takes samples
from them."""


def test_a_real_program_shows_where_time_went() -> None:
    """Of two functions, one ten times as long, the tree tells which; all time is accounted for."""
    wrong = []
    for _ in range(RUNS):
        times = _times_of_a_real_program()
        long, short, whole = times
        if long > 0.8 and short < 0.25 and 0.9 < whole < 1.1:
            return
        wrong.append(times)
    raise AssertionError(f"shares of the wall time in no run as expected: {wrong}")


def _times_of_a_real_program() -> tuple[float, float, float]:
    """Parts of the wall time that samples give to the long function, the short one and all."""

    def spin(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    def long() -> None:
        spin(0.2)

    def short() -> None:
        spin(0.02)

    with profiler.profile() as session:
        begin = time.perf_counter_ns()
        long()
        short()
        with profiler.scope("measured"):
            long()
        wall = time.perf_counter_ns() - begin
    profile = session.profile
    assert profile is not None
    total = {
        name: sum(
            profile.node(i).total("cpu_time")
            for i in range(len(profile))
            if profile.names[i].endswith(f".{name}")
        )
        for name in ("long", "short")
    }
    assert "spin" in {name.rpartition(".")[2] for name in profile.names}
    assert __file__ in profile.tables.sources
    assert not any("site-packages" in file for file in profile.tables.sources)
    return total["long"] / wall, total["short"] / wall, profile.whole["cpu_time"] / wall


@pytest.mark.usefixtures("no_other_threads")
def test_short_work_between_calls_that_give_the_gil_away_is_seen() -> None:
    """Python code that never runs as long as the switch interval is not left out of a tree.

    A busy machine lets other threads run when one sleeps, so its part is too small there.
    """
    parts = []
    for _ in range(RUNS):
        parts.append(_part_of_short_work_that_is_seen())
        if parts[-1] > 0.05:
            return
    raise AssertionError(f"parts of the time that are seen, in no run as expected: {parts}")


def _part_of_short_work_that_is_seen() -> float:
    spent = 0

    def work() -> None:
        nonlocal spent
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < 500_000:
            pass
        spent += time.perf_counter_ns() - begin

    interval = sys.getswitchinterval()
    with profiler.profile() as session:
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < 1_000_000_000:
            work()
            time.sleep(0.0005)
    assert sys.getswitchinterval() == interval
    profile = session.profile
    assert profile is not None
    seen = sum(
        profile.node(i).own("cpu_time")
        for i in range(len(profile))
        if profile.names[i].endswith(".work")
    )
    return seen / spent


def test_the_switch_interval_is_short_beside_one_running_thread_only() -> None:
    """Turns of a program's own threads stay as long as they were, and what it sets stays."""
    before = sys.getswitchinterval()
    with prompt_switches(False):
        assert sys.getswitchinterval() == before
    with prompt_switches(True):
        assert sys.getswitchinterval() == pytest.approx(PROMPT_S)
    assert sys.getswitchinterval() == before
    with prompt_switches(True):
        sys.setswitchinterval(0.003)
    assert sys.getswitchinterval() == pytest.approx(0.003)
    sys.setswitchinterval(before)

    def program(sampled: Sampled) -> None:
        stop = threading.Event()
        sampled.at(100)
        assert sampled.sampler.alone
        idle = threading.Thread(target=stop.wait)
        idle.start()
        sampled.at(100)
        assert sampled.sampler.alone

        def work() -> None:
            while not stop.is_set():
                time.sleep(0.001)

        busy = threading.Thread(target=work)
        busy.start()
        sampled.at(100)
        assert not sampled.sampler.alone
        stop.set()
        idle.join()
        busy.join()

    _run(program)


def test_samples_keep_nothing_alive() -> None:
    """What a sampled function held is freed when the function ends, as if nobody had looked."""

    class Held:
        pass

    def program(sampled: Sampled) -> weakref.ref[Held]:
        held = Held()
        sampled.at(1)
        with profiler.scope("a"):
            sampled.at(1)
        return weakref.ref(held)

    sampled = Sampled(sys._getframe())
    gc.disable()
    try:
        assert program(sampled)() is None
    finally:
        gc.enable()
        sampled.end()


def test_no_sampling_where_nobody_asked() -> None:
    """With context scopes, and with a clock of the caller's, there is no helping thread."""
    before = threading.active_count()
    with profiler.profile(context="scopes"):
        assert threading.active_count() == before
    with profiler.profile(clock=Clock()):
        assert threading.active_count() == before
    with profiler.profile():
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


@pytest.mark.alone
def test_the_helping_thread_looks_often_only_while_it_is_to() -> None:
    """Seldom with nothing to look at; and a new period begins at any phase."""
    found = []
    for _ in range(RUNS):
        seldom, often, early = _ticks_of_the_helping_thread()
        if often > 3 * seldom and 5 < early < 55:
            return
        found.append((seldom, often, early))
    raise AssertionError(f"ticks in no run as expected: {found}")


def _ticks_of_the_helping_thread() -> tuple[int, int, int]:
    """How often it looks in 0.3 s with nothing to look at and with something; and how many of 60
    periods begin in their first half."""
    ticks: list[float] = []
    worker = Worker(lambda: ticks.append(time.perf_counter()))
    worker.start()
    time.sleep(0.3)
    seldom = len(ticks)
    ticks.clear()
    worker.pace(often=True)
    time.sleep(0.3)
    often = len(ticks)
    waits = []
    for _ in range(60):
        worker.pace(often=False)
        time.sleep(0.002)
        ticks.clear()
        began = time.perf_counter()
        worker.pace(often=True)
        time.sleep(0.012)
        waits += [ticks[0] - began] if ticks else []
    worker.stop()
    assert not worker.is_alive()
    return seldom, often, sum(wait < PERIOD_S / 2 for wait in waits)


@pytest.mark.parametrize(
    ("own_ms", "used_ms", "elapsed_ms", "wait_ms"),
    [
        (0.1, 20.1, 20, 10),  # the program has a processor: rarer than that anyway
        (0.4, 2.9, 20, 200),  # it gets an eighth of one
        (0.1, 80.1, 20, 2.5),  # four threads of it have one each
        (0.1, 0.1, 20, 200),  # it waits
        (0, 0, 20, 200),
    ],
)
def test_ticks_take_a_hundredth_of_the_processor_time_that_a_program_gets(
    own_ms: float, used_ms: float, elapsed_ms: float, wait_ms: float
) -> None:
    """Unless that would make them rarer than five a second."""
    wait = wait_for_share(own_ms / 1e3, used_ms / 1e3, elapsed_ms / 1e3)
    assert wait == pytest.approx(wait_ms / 1e3)
    rate = (used_ms - own_ms) / elapsed_ms
    assert wait == LONGEST_S or own_ms / 1e3 == pytest.approx(SHARE * rate * wait)


@pytest.mark.alone
def test_a_program_that_waits_is_sampled_rarely_after_many_samples() -> None:
    """A tick takes a millisecond, and nothing else in the process uses a processor."""
    began: list[float] = []
    enough = threading.Event()

    def tick() -> None:
        began.append(time.monotonic())
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        if len(began) == 3:
            enough.set()

    worker = Worker(tick)
    worker._looks = 1001
    worker.pace(often=True)
    worker.start()
    assert enough.wait(30)
    worker.stop()
    assert began[2] - began[1] >= LONGEST_S / 2


COLLECTING = """
import gc, threading, time
from tileprof.profiler.host.sampler import frames_of_threads

class Cycle:
    def __init__(self):
        self.itself = self
        self.held = threading.local()
        self.held.value = 1

def deeper(levels):
    return time.sleep(0.0005) if levels == 0 else deeper(levels - 1)

def work():
    while True:
        deeper(10)

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
gc.set_threshold(5)
for _ in range(2000):
    Cycle()
    with frames_of_threads() as frames:
        assert threading.get_ident() in frames
print(gc.isenabled(), gc.get_count()[0] < 100)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="no collection begins in `f_back`")
def test_no_collection_begins_while_frames_of_other_threads_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finalizer would let them return, and Python writes into frames that are no more."""
    session = profiler.start(context="python")
    entered, leave = threading.Event(), threading.Event()
    sampler = Sampler(session.recording.recorder)

    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=deeper, args=(50,))
    thread.start()
    entered.wait(60)
    looking, look = [], sampler._look
    found: list[bool] = []

    def watched(*arguments: Any) -> None:
        looking.append(True)
        look(*arguments)
        looking.pop()

    monkeypatch.setattr(sampler, "_look", watched)
    before = gc.get_threshold()
    gc.callbacks.append(callback := lambda phase, info: found.append(bool(looking)))
    gc.set_threshold(1)
    try:
        sampler.sample()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)
        leave.set()
        thread.join(60)
        session.finalize()
    assert found
    assert not any(found)


def test_a_collection_does_not_stop_the_interpreter() -> None:
    """Looking at frames makes objects, and so may collect; what is freed may want what is looked
    at. Without care this stops for ever within a second."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
