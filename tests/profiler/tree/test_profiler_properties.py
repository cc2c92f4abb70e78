"""Random programs against a model that is too simple to be wrong; and what must not grow."""

from __future__ import annotations

import gc
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileprof.profiler as profiler
from tests.profiler_programs import Clock, FakeKernel, launch, run
from tileprof.profile import FOLDED_NAME, MAX_SIBLINGS, Profile
from tileprof.profiler.host.sampler import Sampler

Steps = list[tuple[str, int]]
"""`("a", 0)` enters scope a, `("", n)` spends n ns, `(")", 0)` leaves, `("!", n)` launches.

`("|", 0)` calls `between`.
"""

steps = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "", "!", ")"]), st.integers(1, 1000)), max_size=60
)


def _play(
    program: Steps, clock: Clock, kernel: FakeKernel, between: Callable[[], object] = int
) -> dict[tuple[str, ...], list[int]]:
    """Run the steps; return count and inclusive time by path, worked out on the side."""
    open_: list[tuple[profiler.Scope, int]] = []
    expected: dict[tuple[str, ...], list[int]] = {}

    def leave() -> None:
        scope, since = open_[-1]
        path = tuple(s.name for s, _ in open_)
        scope.__exit__(None, None, None)
        open_.pop()
        counted = expected.setdefault(path, [0, 0])
        counted[0] += 1
        counted[1] += clock.now - since

    for what, amount in [*program, *[(")", 0)] * 60]:
        if what == ")":
            if open_:
                leave()
        elif what == "":
            clock.spend(amount)
        elif what == "|":
            between()
        elif what == "!":
            clock.spend(amount)
            launch(kernel, amount, amount)
            counted = expected.setdefault((*(s.name for s, _ in open_), "kernel"), [0, 0])
            counted[0] += 1
            counted[1] += amount
        else:
            scope = profiler.scope(what)
            scope.__enter__()
            open_.append((scope, clock.now))
    return expected


def _by_path(profile: Profile) -> dict[tuple[str, ...], list[int]]:
    return {
        tuple(profile.names[i] for i in profile.path(node)): [
            int(profile.node(node).own("count")) if "count" in profile.metrics else 0,
            int(profile.node(node).total("cpu_time")) if "cpu_time" in profile.metrics else 0,
        ]
        for node in range(len(profile))
    }


@given(steps)
def test_counts_and_wall_times_are_exact(program: Steps) -> None:
    """Every scope's total is the wall time between its ends, every launch is counted once."""
    clock, kernel = Clock(), FakeKernel("kernel")
    session = profiler.start(clock=clock, context="scopes")
    expected = _play(program, clock, kernel)
    profile = session.finalize()
    profile.check()
    assert _by_path(profile) == expected


@given(steps, st.integers(0, 60), st.integers(0, 60))
def test_a_pause_takes_out_exactly_what_happened_in_it(program: Steps, at: int, end: int) -> None:
    """What one session misses while it pauses, another one that never pauses has."""
    clock, kernel = Clock(), FakeKernel("kernel")
    always = profiler.start(clock=clock, context="scopes")
    sometimes = profiler.start(context="scopes")
    pausing = profiler.start(context="scopes")
    pausing.deactivate()
    _play(program[:at], clock, kernel)
    sometimes.deactivate()
    pausing.activate()
    _play(program[at : at + end], clock, kernel)
    pausing.deactivate()
    sometimes.activate()
    _play(program[at + end :], clock, kernel)
    whole, outside, inside = (_by_path(s.finalize()) for s in (always, sometimes, pausing))
    added: dict[tuple[str, ...], list[int]] = {}
    for part in (outside, inside):
        for path, values in part.items():
            added[path] = [x + y for x, y in zip(added.get(path, [0, 0]), values)]
    assert added == whole


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "", "!", ")", "|", "|"]), st.integers(1, 1000)),
        max_size=60,
    ),
    st.lists(st.sampled_from(["", "snapshot", "other"]), min_size=60, max_size=60),
)
def test_pauses_in_the_middle_of_anything(program: Steps, between: list[str]) -> None:
    """What is recorded and what is skipped add up, while others look or join and leave."""

    def recorded(changes: bool, active: bool) -> dict[tuple[str, ...], list[int]]:
        clock, todo = Clock(), between[:]
        session = profiler.start(clock=clock, context="scopes")
        other = profiler.start(context="scopes")
        other.deactivate()
        if not active:
            session.deactivate()

        def change() -> None:
            (session.deactivate if session.active else session.activate)()
            if (what := todo.pop()) == "snapshot":
                session.snapshot().check()
            elif what == "other":
                (other.deactivate if other.active else other.activate)()

        _play(program, clock, FakeKernel("kernel"), change if changes else int)
        profile = session.finalize()
        other.finalize()
        profile.check()
        return _by_path(profile)

    added = recorded(changes=True, active=True)
    for path, values in recorded(changes=True, active=False).items():
        added[path] = [x + y for x, y in zip(added.get(path, [0, 0]), values)]
    assert added == recorded(changes=False, active=True)


@given(st.lists(st.tuples(steps, st.integers(0, 3)), min_size=1, max_size=5))
def test_samples_never_change_a_scopes_total(parts: list[tuple[Steps, int]]) -> None:
    """However many samples hit whatever frames, the total of each scope is its wall time."""
    clock, kernel = Clock(), FakeKernel("kernel")
    session = profiler.start(clock=clock)
    sampler = Sampler(session.recording.recorder)
    expected: Counter[str] = Counter()

    def sample() -> None:
        helper = threading.Thread(target=sampler.sample)
        helper.start()
        helper.join()

    for program, samples in parts:
        with profiler.scope("part"):
            begin = clock.now
            for _ in range(samples):
                clock.spend(7)
                sample()
            _play(program, clock, kernel)
            clock.spend(1)
            expected["part"] += clock.now - begin
    profile = session.finalize()
    profile.check()
    found = [profile.node(i).total("cpu_time") for i in profile.find("part", "scope")]
    assert sum(found) == expected["part"]


def test_names_that_never_repeat_fold() -> None:
    """Beyond 1,000 names siblings share one node that says so; nothing is lost."""
    profile = run(
        """
        for i in range(3000):
            with scope(f"step{i}"):
                spend(1)
        """,
        context="scopes",
    )
    assert len(profile) == MAX_SIBLINGS + 1
    (folded,) = profile.find(FOLDED_NAME)
    assert profile.node(folded).own("count") == 3000 - MAX_SIBLINGS
    assert sum(profile.own["cpu_time"]) == 3000


@pytest.mark.sweep
def test_memory_does_not_grow_with_the_run() -> None:
    """After a first round, tens of thousands of scopes and launches keep nothing."""
    kernel = FakeKernel("kernel")
    with profiler.profile(context="python", clock=Clock()) as session:
        session.recording.recorder.set_base(sys._getframe())

        def rounds(count: int, first: int) -> None:
            for i in range(first, first + count):
                with profiler.scope("step"), profiler.scope("inner", flops=3):
                    launch(kernel, 5, 0)
                if i < 8000:
                    with profiler.scope(f"never {i}"):
                        pass

        sizes = []
        tracemalloc.start()
        # The first round fills the cache of scopes and has it resized, whatever ran before.
        for count, first in ((4000, 0), (5000, 4000)):
            rounds(count, first)
            # Garbage in cycles is not growth; with a large heap it may wait for long.
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        rounds(20_000, 9000)
    assert session.profile is not None
    assert sizes[1] - sizes[0] < 50_000
    assert len(session.profile) < MAX_SIBLINGS + 20
    (node,) = session.profile.find("kernel")
    assert session.profile.node(node).own("count") == 29_000
    assert kernel.described == 1


def test_threads_do_not_disturb_each_other() -> None:
    """Counts are exact when several threads enter scopes at once, flushes in between included."""
    with profiler.profile(context="python") as session:

        def work() -> None:
            for _ in range(3000):
                with profiler.scope("outer"), profiler.scope("inner"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            session.snapshot().check()
            time.sleep(0.01)
    profile = session.profile
    assert profile is not None
    counts = {name: profile.node(profile.find(name)[0]).own("count") for name in ("outer", "inner")}
    assert counts == {"outer": 12_000, "inner": 12_000}
