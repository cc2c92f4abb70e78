"""Sessions: what they are given, how they share a recorder, what they refuse."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import tileprof.profiler as profiler
from tests.profiler_programs import Clock, expect, tree
from tileprof.errors import UsageError
from tileprof.profile import Profile, grouped
from tileprof.profiler import scope
from tileprof.profiler.host import entries
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.session import snapshot
from tileprof.profiler.session.provenance import git_state
from tileprof.profiler.tree.sources import MAX_BYTES, MAX_FILES, Sources

pytestmark = pytest.mark.usefixtures("forked")

SUB_INTERPRETER = """\
import importlib
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        pass
else:
    raise SystemExit(77)
code = '''
import tileprof
for name in ("start", "scope", "profile"):
    try:
        getattr(tileprof, name)
    except tileprof.TileprofError as error:
        print(error)
'''
made = interpreters.create()
interpreters.run_string(made, code)
import tileprof
with tileprof.profile(context="scopes"):
    print("recorded")
"""


def test_a_sub_interpreter_is_refused() -> None:
    """With a sentence, before anything is imported that could not be; the main one goes on."""
    done = subprocess.run([sys.executable, "-c", SUB_INTERPRETER], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("this Python lets nobody make sub-interpreters")
    assert done.returncode == 0, done.stderr
    *refused, recorded = done.stdout.splitlines()
    assert refused[::2] == ["tileprof does not record in a sub-interpreter"] * 3
    assert "main interpreter" in refused[1]
    assert recorded == "recorded"


def test_threads_of_a_recording() -> None:
    """Scopes that several threads visit are divided by their visits; in each session its own."""
    clock = Clock()

    def work(visits: int) -> None:
        for _ in range(visits):
            with scope("work"):
                clock.spend(1)

    def in_thread(name: str, visits: int) -> None:
        thread = threading.Thread(target=work, args=(visits,), name=name)
        thread.start()
        thread.join()

    def counts(profile: Profile) -> dict[str, int]:
        tree = grouped(profile, "thread")
        total = tree.total("count")
        return {tree.names[top]: int(total[top]) for top in tree.roots()}

    first = profiler.start(clock=clock, context="scopes")
    work(5)
    in_thread("a", 3)
    second = profiler.start(context="scopes")
    in_thread("b", 2)
    in_thread("a", 4)
    first.deactivate()
    work(1)
    first.activate()
    work(1)
    assert counts(first.finalize()) == {"MainThread": 6, "a": 7, "b": 2}
    assert counts(second.finalize()) == {"b": 2, "a": 4, "MainThread": 2}


def test_threads_after_the_first_ones_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that always makes new threads has a profile of one size; no visit is left out."""
    monkeypatch.setattr(entries, "MOST_THREADS", 3)
    session = profiler.start(clock=Clock(), context="scopes")

    def work() -> None:
        with scope("work"):
            pass

    for number in range(10):
        thread = threading.Thread(target=work, name=f"request {number}")
        thread.start()
        thread.join()
    tree = grouped(session.finalize(), "thread")
    count = {tree.names[top]: int(tree.total("count")[top]) for top in tree.roots()}
    assert sum(count.values()) == 10
    assert count["other threads"] >= 7
    assert len(count) <= 4


def test_each_session_gets_what_happened_while_it_was_active() -> None:
    """Sessions overlap and pause; scopes that are open when one starts are part of its paths."""
    clock = Clock()

    def spend(name: str, ns: int) -> None:
        with scope(name):
            clock.spend(ns)

    first = profiler.start(clock=clock, context="scopes")
    spend("a", 1)
    with scope("open"):
        clock.spend(10)
        second = profiler.start(context="scopes")
        clock.spend(100)
        spend("b", 1000)
        first.deactivate()
        clock.spend(5)
        spend("c", 7)
        first.activate()
        clock.spend(10_000)
    one = first.finalize()
    spend("d", 3)
    two = second.finalize()
    spend("e", 3)
    assert tree(one, "count", "cpu_time") == expect("""
        scope a count=1 cpu_time=1
        scope open count=1 cpu_time=10110
          scope b count=1 cpu_time=1000
    """)
    assert tree(two, "count", "cpu_time") == expect("""
        scope open cpu_time=10105
          scope b count=1 cpu_time=1000
          scope c count=1 cpu_time=7
        scope d count=1 cpu_time=3
    """)


def test_each_session_has_its_own_context() -> None:
    """One recorder takes what the more demanding session wants; the other gets its own view."""
    clock = Clock()
    scopes = profiler.start(clock=clock, context="scopes")
    python = profiler.start(context="python")
    python.recording.recorder.set_base(sys._getframe())

    def work() -> None:
        with scope("b"):
            clock.spend(2)

    with scope("a"):
        clock.spend(1)
        work()
    profiler.finalize()
    views = [tree(p, "cpu_time") for p in (scopes.finalize(), python.finalize())]
    line = work.__code__.co_firstlineno + 1
    name = "test_each_session_has_its_own_context.<locals>.work"
    assert views == [
        "scope a cpu_time=1\n  scope b cpu_time=2",
        f"scope a cpu_time=1\n  frame {name}:{line}\n    scope b cpu_time=2",
    ]


def test_the_module_functions_act_on_all_or_on_one() -> None:
    """`activate`, `deactivate` and `finalize` take a session, or mean all of them."""
    one, two = (profiler.start(context="scopes") for _ in range(2))
    profiler.deactivate(one)
    assert (one.active, two.active) == (False, True)
    profiler.deactivate()
    assert (one.active, two.active) == (False, False)
    profiler.activate()
    assert (one.active, two.active) == (True, True)
    with scope("a"):
        pass
    first = profiler.finalize(one)
    assert first is one.profile is one.finalize()
    with scope("b"):
        pass
    assert profiler.finalize() is two.profile
    assert first is not None
    assert two.profile is not None
    assert (first.names, two.profile.names) == (["a"], ["a", "b"])
    assert profiler.finalize() is None
    one.activate()
    with scope("c"):
        pass
    assert first.names == ["a"]


def test_profile_as_a_decorator(tmp_path: Path) -> None:
    """Each call of the function is a session of its own, and the file holds the last."""
    path = tmp_path / "out.tprof"

    @profiler.profile(path, context="scopes")
    def step(names: str) -> str:
        for name in names:
            with scope(name):
                pass
        return names

    assert (step("ab"), step("c")) == ("ab", "c")
    from tileprof.profile import load

    assert load(path).names == ["c"]


def test_the_body_of_profile_may_fail(tmp_path: Path) -> None:
    """An exception goes through, and what was recorded is written."""
    path = tmp_path / "out.tprof"
    with (
        pytest.raises(ZeroDivisionError),
        profiler.profile(path, context="scopes") as session,
        scope("a"),
    ):
        1 / 0  # noqa: B018 # it raises
    assert path.exists()
    assert session.profile is not None
    assert session.profile.names == ["a"]


def test_scopes_from_before_and_after() -> None:
    """A scope entered with no session around is unknown to one that starts inside, and harmless."""
    with scope("before"):
        session = profiler.start(context="scopes")
        with scope("inside"):
            pass
    with scope("at the end"):
        profile = session.finalize()
    assert tree(profile, "count") == "scope inside count=1\nscope at the end count=1"
    with profiler.profile(context="scopes") as after, scope("again"):
        pass
    assert after.profile is not None
    assert tree(after.profile, "count") == "scope again count=1"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: profiler.start(context="gpu"), "context 'gpu' is unknown"),
        (lambda: profiler.start(instrument="all"), "instrument 'all' is unknown"),
        (lambda: profiler.start(instrument="ops=5"), "instrument 'ops=5' is unknown"),
        (lambda: profiler.start(instrument=5), "instrument 5 is unknown"),
        (lambda: profiler.start(instrument="sample="), "instrument 'sample=' has no such period"),
        (lambda: profiler.start(duty=0.05, every=5), "duty and every exclude each other"),
        (lambda: profiler.start(duty=0), "duty cannot be 0"),
        (lambda: profiler.start(duty=1.5), "duty cannot be 1.5"),
        (lambda: profiler.start(duty=float("nan")), "duty cannot be nan"),
        (lambda: profiler.start(duty=True), "duty cannot be True"),
        (lambda: profiler.start(every=0), "every cannot be 0"),
        (lambda: profiler.start(every=2.5), "every cannot be 2.5"),
        (lambda: profiler.start(pc_sampling=10), "pc_sampling cannot be 10"),
        (lambda: profiler.start(pc_sampling="4us"), "pc_sampling cannot be '4us'"),
        (lambda: profiler.start(pc_sampling_exact=1), "pc_sampling_exact cannot be 1"),
        (lambda: profiler.profile(metrics="s m"), "'s m' is not the name of a metric"),
        (lambda: profiler.profile(every="5"), "every cannot be '5'"),
        (lambda: profiler.start(timeline=-1), "timeline is -1"),
        (lambda: profiler.start(timeline="all"), "timeline is 'all'"),
        (lambda: profiler.start(timeline=5, clock=int), "a timeline has the machine's clock"),
        (lambda: profiler.start(speed=1), "a profile has no option `speed`"),
        (lambda: profiler.start(flush_interval=0), "flush_interval is 0"),
        (lambda: profiler.start(clock=5), "clock is 5"),
        (lambda: scope(""), "a scope is named ''"),
        (lambda: scope("a", flops="many"), "not a number"),  # type: ignore[arg-type]
        (lambda: scope("a", bytes=float("inf")), "`bytes` is inf"),
        (lambda: scope("a", cpu_time=3), "`cpu_time`: it is measured"),
        (lambda: scope("a")(5), "5 cannot be decorated"),  # type: ignore[type-var]
    ],
)
def test_wrong_use(call: Callable[[], Any], message: str) -> None:
    """Each mistake gets one sentence, and nothing is left running."""
    with pytest.raises(UsageError) as caught:
        call()
    assert message in str(caught.value)
    assert profiler.finalize() is None


def test_sessions_share_one_clock() -> None:
    """A second session on another clock is refused; the first goes on."""
    with profiler.profile(clock=Clock(), context="scopes") as session:
        with pytest.raises(UsageError, match="another clock"):
            profiler.start(clock=Clock())
        with scope("a"):
            pass
    assert isinstance(session.profile, Profile)
    assert session.profile.names == ["a"]


def test_provenance(tmp_path: Path) -> None:
    """A profile says where it comes from."""
    with profiler.profile(instrument="off") as session:
        pass
    assert session.profile is not None
    known = session.profile.tables.provenance
    assert all(isinstance(value, str) and value for value in known.values())
    assert {"command", "cwd", "python", "numpy", "tileprof", "cpu", "platform"} <= known.keys()
    assert known["options"] == "context=full instrument=off"
    assert datetime.fromisoformat(known["start"]) <= datetime.fromisoformat(known["end"])
    assert git_state(str(tmp_path)) == {}


def test_sources_are_bounded(tmp_path: Path) -> None:
    """User files only, not too many, none too large, unreadable ones left out."""
    small, large, broken = (tmp_path / f"{name}.py" for name in ("small", "large", "broken"))
    small.write_text("x = 'é'\n", encoding="utf-8")
    large.write_text("#" * (MAX_BYTES + 1))
    broken.write_bytes(b"\xff\xfe\xff")
    sources = Sources()
    import json

    asked = [str(small), str(large), str(broken), json.__file__, "<string>", "", "no/such.py"]
    assert sources.texts(asked) == {str(small): "x = 'é'\n"}
    small.unlink()
    many = [tmp_path / f"m{i}.py" for i in range(MAX_FILES + 5)]
    for file in many:
        file.write_text("")
    assert len(sources.texts([str(small), *map(str, many)])) == MAX_FILES


def test_a_snapshot_is_whole_while_another_session_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause hands out what is in the tree: all of it before a snapshot is made, or after."""
    one, another = profiler.start(context="scopes"), profiler.start(context="scopes")
    for name in ("first", "work"):
        with profiler.scope(name):
            pass
    pauses: list[threading.Thread] = []
    add = snapshot._host_sum

    def slowly(*numbers: Any) -> Any:
        if not pauses:
            pauses.append(threading.Thread(target=another.deactivate))
            pauses[0].start()
            # Until it is over, unless it waits for this snapshot.
            pauses[0].join(0.5)
        return add(*numbers)

    monkeypatch.setattr(snapshot, "_host_sum", slowly)
    profile = one.snapshot()
    pauses[0].join()
    for session in (one, another):
        session.finalize()
    (work,) = profile.find("work")
    assert profile.node(work).own("count") == 1


def test_what_runs_while_another_session_ends_a_pause_is_not_the_paused_one_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scopes that are entered before and since the pause, while the recorder hands out."""
    paused = profiler.start(context="scopes")

    def again() -> None:
        for name in ("before", "since"):
            with profiler.scope(name):
                pass

    with profiler.scope("before"):
        pass
    paused.deactivate()
    again()
    take = Recorder._take_events

    def meanwhile(recorder: Recorder, *given: Any) -> None:
        again()
        take(recorder, *given)
        again()

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "_take_events", meanwhile)
        other = profiler.start(context="scopes")
    again()
    profiles = paused.finalize(), other.finalize()
    counts = [
        [sum(int(p.node(found).own("count")) for found in p.find(name)) for name in names]
        for p, names in zip(profiles, [("before", "since")] * 2)
    ]
    assert counts == [[1, 0], [1, 1]]
