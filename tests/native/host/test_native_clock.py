"""The recorder's clock: CLOCK_MONOTONIC, told by the processor's counter where there is one."""

from __future__ import annotations

import platform
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.native.cupti_programs import RECORDER, compile_cpp

_recorder: Any = pytest.importorskip("tileprof.native._recorder")

_PROGRAM = Path(__file__).parents[1] / "clock_program.cpp"
_CLOCKSOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_MS = 1_000_000
_BOUND = 1000
"""How far the clock may be off, in ns; what is measured is below 200."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clock on its own, with a CLOCK_MONOTONIC that it bends itself."""
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    built = tmp_path_factory.mktemp("clock") / "clock"
    flags = ("-O2", "-fvisibility=hidden", f"-I{RECORDER}", "-ldl")
    compile_cpp([_PROGRAM, RECORDER / "host" / "clock.cpp"], built, *flags)
    return built


def ask(program: Path, command: str, seconds: int = 0) -> list[float]:
    """The numbers that a command of the program prints."""
    arguments = [str(program), command, *([str(seconds)] if seconds else [])]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.sweep
def test_it_keeps_to_the_time_of_the_kernel(program: Path) -> None:
    """Over many lines, read at once and after it was left alone for a while."""
    (worst,) = ask(program, "error", 1)
    assert worst < _BOUND


@pytest.mark.spread("hand-over-bent")
@pytest.mark.parametrize("command", ["hand-over", "hand-over-bent"])
def test_no_thread_is_behind_what_another_told_it(program: Path, command: str) -> None:
    """Not by a nanosecond, also where one line gives way to another of another slope."""
    _no_thread_is_behind(program, command, 1)


def _no_thread_is_behind(program: Path, command: str, seconds: int = 0) -> None:
    """Repeat a command until threads have told each other enough: on a busy machine they may have
    to wait for a processor."""
    every = 0.0
    for _ in range(20):
        behind, told = ask(program, command, seconds)
        assert behind <= 0
        every += told
        if every > 100_000:
            return
    raise AssertionError(f"threads told each other {every:.0f} times only")


@pytest.mark.sweep
def test_no_thread_is_behind_while_who_renews_the_line_is_interrupted(program: Path) -> None:
    """For 3 ms at each of the next 400 instructions, under a time that changes its rate."""
    _need_counter()
    _no_thread_is_behind(program, "hand-over-interrupted")


@pytest.mark.alone
def test_it_follows_a_jump_at_once_and_a_step_gradually(program: Path) -> None:
    """As after a machine was suspended: the time that passed is there, and nothing goes back."""
    assert _follows(program, "jump", 105 * _MS)
    assert _follows(program, "step", 200.4 * _MS)


def _follows(program: Path, command: str, passed_ns: float) -> bool:
    """Whether it shows all time that passed, and is right at the end, in one run of three.

    It takes readings on the way, which a busy machine may keep it from. It goes back in none.
    """
    for _ in range(3):
        passed, back, off = ask(program, command)
        assert back == 0
        if passed > passed_ns and off < _BOUND:
            return True
    return False


def test_it_waits_for_a_time_that_stood_still(program: Path) -> None:
    """The counter of a machine that sleeps may go on; time does not go back to undo that."""
    _need_counter()
    _, back, off = ask(program, "stand-still")
    assert (back, off < _BOUND) == (0, True)


def test_who_renews_a_line_holds_nobody_up(program: Path) -> None:
    """Nor a child that was made meanwhile, which has a line of its own soon."""
    off, off_in_child, asked_in_child = ask(program, "stop-renewal")
    assert off < _BOUND
    assert off_in_child < _BOUND
    if _kernel_uses_counter():
        assert asked_in_child < 100


def test_the_kernel_is_asked_rarely(program: Path) -> None:
    """Once in many readings: a span of the line has a million of them."""
    _need_counter()
    asked, _, _ = ask(program, "speed")
    assert asked < 1000


def test_a_fixed_time_holds_everywhere(program: Path) -> None:
    """In all threads, until it is the real time again."""
    here, there, off = ask(program, "fix")
    assert (here, there) == (5, 5)
    assert off < _BOUND


def test_the_module_tells_the_time_of_python() -> None:
    """Beginnings and ends of operations are between times that Python was told around them."""
    _recorder.set_frames(False)
    _recorder.set_epoch(9)
    _recorder.host_limit_timeline(1 << 20)
    asked: list[tuple[int, int, int]] = []
    try:
        _timed_operations(asked, 1200)
        drained = _recorder.host_drain()
    finally:
        _recorder.host_limit_timeline(0)
        _recorder.set_epoch(0)
        _recorder.set_frames(True)
    mine = drained["thread"] == threading.get_ident()
    starts, ends = (drained[name][mine].tolist() for name in ("start", "end"))
    assert len(starts) == len(asked) > 1000
    for start, end, (before, between, after) in zip(starts, ends, asked):
        assert before - _BOUND < start < between + _BOUND
        assert between - _BOUND < end < after + _BOUND


def _timed_operations(asked: list[tuple[int, int, int]], count: int) -> None:
    for _ in range(count):
        before = time.perf_counter_ns()
        context = _recorder.enter_op("clock", -1, 0)
        between = time.perf_counter_ns()
        _recorder.leave(context)
        asked.append((before, between, time.perf_counter_ns()))
        time.sleep(0.0005)


def _need_counter() -> None:
    if not _kernel_uses_counter():
        pytest.skip("the kernel of this machine does not tell the time by a counter")


def _kernel_uses_counter() -> bool:
    is_x86 = platform.machine() == "x86_64"
    return is_x86 and _CLOCKSOURCE.exists() and _CLOCKSOURCE.read_text().strip() == "tsc"
