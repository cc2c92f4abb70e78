"""A `@once` function runs once in a process, whoever calls it."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tileprof
from tileprof.once import Guard, Kept, cached_property, once, unforked

IMPORTING, GO_ON = threading.Event(), threading.Event()
"""Of a module that takes long to import."""


def forks(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that forks."""
    quiet = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    only = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    marked: Callable[..., None] = only(quiet(test))
    return marked


def forked(check: Callable[[], bool]) -> int:
    """The exit code of a child: 0 where `check` is true in it; it is killed when it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_threads_that_call_together_share_one_run() -> None:
    """Twenty threads whose first call coincides get one result."""
    runs: list[int] = []

    @once
    def slow(number: int) -> list[int]:
        time.sleep(0.02)
        runs.append(number)
        return [number]

    start = threading.Barrier(20)
    results: list[list[int]] = []

    def call() -> None:
        start.wait()
        results.append(slow(3))

    threads = [threading.Thread(target=call) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert runs == [3]
    assert all(each is results[0] for each in results)


def test_a_failed_run_is_tried_again() -> None:
    """An exception is not remembered."""
    calls = 0

    @once
    def flaky() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("not yet")
        return "done"

    with pytest.raises(OSError, match="not yet"):
        flaky()
    assert flaky() == flaky() == "done"
    assert calls == 2


def test_arguments_by_keyword_and_clearing() -> None:
    """Each combination of arguments has a result of its own."""
    runs: list[str] = []

    @once
    def named(name: str, end: str = "") -> str:
        runs.append(name)
        return name + end

    assert (named("a"), named("a", end="b"), named("a", end="b")) == ("a", "ab", "ab")
    assert runs == ["a", "a"]
    named.cache_clear()
    assert named("a") == "a"
    assert runs == ["a", "a", "a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_while_another_thread_initialises_does_not_hang() -> None:
    """A fork inside the first call leaves no lock held in the child."""
    entered, leave = threading.Event(), threading.Event()

    @once
    def slow() -> int:
        entered.set()
        leave.wait(30)
        return os.getpid()

    thread = threading.Thread(target=slow)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        leave.set()
        os._exit(0 if slow() == os.getpid() else 1)
    deadline = time.monotonic() + 30
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    leave.set()
    thread.join()
    assert done, "the child waits for a lock that nobody in it holds"
    assert os.waitstatus_to_exitcode(status) == 0


def test_values_of_other_keys_are_made_meanwhile() -> None:
    """`Kept` makes each value once; two keys do not wait for each other."""
    kept: Kept[str, list[str]] = Kept()
    inside = threading.Barrier(2)

    def make(key: str) -> list[str]:
        inside.wait(60)  # both are being made now
        return [key]

    made: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda k=key: made.append(kept.made(k, lambda: make(k))))
        for key in "aabb"
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(made) == [["a"], ["a"], ["b"], ["b"]]
    assert all(each is kept[each[0]] for each in made)


def test_a_value_that_cannot_be_made_is_tried_again() -> None:
    """An exception of `make` goes to the caller and leaves nothing behind."""
    kept: Kept[int, int] = Kept()
    with pytest.raises(ZeroDivisionError):
        kept.made(1, lambda: 1 // 0)
    assert not kept
    assert kept.made(1, lambda: 5) == kept.made(1, lambda: 6) == 5


class Slow:
    """An object with a property that waits while it is computed."""

    entered, leave = threading.Event(), threading.Event()

    def __init__(self, waits: bool) -> None:
        self.waits = waits

    @cached_property
    def value(self) -> list[int]:
        """Something that takes a while."""
        if self.waits:
            self.entered.set()
            self.leave.wait(60)
        return [1]


@forks
def test_a_child_computes_a_property_that_another_thread_was_computing_at_the_fork() -> None:
    """Also that of another object: properties hold no lock."""
    one, other = Slow(waits=True), Slow(waits=False)
    thread = threading.Thread(target=lambda: one.value)
    thread.start()
    Slow.entered.wait(60)
    assert forked(lambda: other.value == [1]) == 0
    Slow.leave.set()
    thread.join(60)


def test_threads_that_compute_a_property_together_get_one_value() -> None:
    """The value that was stored first, whoever computed it."""
    both = threading.Barrier(2)

    class Made:
        @cached_property
        def value(self) -> list[int]:
            both.wait(60)
            return []

    held = Made()
    values: list[list[int]] = []
    threads = [threading.Thread(target=lambda: values.append(held.value)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert values[0] is values[1] is held.value


@forks
def test_a_guard_that_the_forking_thread_is_in_stays_its_own() -> None:
    """The child leaves it as the parent does; one that another thread holds is new in the child."""
    mine, theirs = Guard(), Guard()
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs:
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(60)

    def child() -> bool:
        with mine, theirs:
            return True

    with mine:
        assert forked(child) == 0
    leave.set()
    thread.join(60)


@forks
def test_a_child_imports_what_another_thread_was_importing_at_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of tileprof, and what it imports, although the wait for the import was in vain."""
    (tmp_path / "outer_slow.py").write_text("import inner_slow\n")
    (tmp_path / "inner_slow.py").write_text(
        "import threading\n"
        "if threading.current_thread() is not threading.main_thread():\n"
        "    from tests import test_once\n"
        "    test_once.IMPORTING.set()\n"
        "    test_once.GO_ON.wait(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tileprof, "__path__", [*tileprof.__path__, str(tmp_path)])
    monkeypatch.setattr(tileprof.once, "_PATIENCE_S", 0.05)
    sys.modules.setdefault("tests.test_once", sys.modules[__name__])
    thread = threading.Thread(target=importlib.import_module, args=("tileprof.outer_slow",))
    thread.start()
    assert IMPORTING.wait(60)
    assert forked(lambda: importlib.import_module("tileprof.outer_slow") is not None) == 0
    GO_ON.set()
    thread.join(60)
    for name in ("tileprof.outer_slow", "inner_slow"):
        sys.modules.pop(name)


@forks
def test_a_fork_waits_for_work_that_must_be_whole() -> None:
    """No child is made while another thread is `unforked`."""
    entered = threading.Event()
    state: list[str] = []

    def work() -> None:
        with unforked():
            state.append("half")
            entered.set()
            time.sleep(0.05)
            state.append("whole")

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(60)
    assert forked(lambda: state == ["half", "whole"]) == 0
    thread.join(60)


def test_values_may_be_cleared_while_others_are_made() -> None:
    """`made` gives its value although the table was emptied right after it was stored."""

    class Emptied(Kept[str, int]):
        def __setitem__(self, key: str, value: int) -> None:
            super().__setitem__(key, value)
            self.clear()

    assert Emptied().made("a", lambda: 1) == 1
