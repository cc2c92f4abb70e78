"""SIGTERM under the profiler: the process dies of it, soon, and its profile is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from tileprof.profile import load

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.usefixtures("forked"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who rang"),
]

DRIVER = """
import sys
from tileprof.profiler import ProgramTarget, run_program, start
session = start("out.tprof", flush_interval=1000)
code = run_program(ProgramTarget("script", "user.py"), [], session)
session.finalize()
sys.exit(code)
"""
BEFORE = """
import asyncio, ctypes, os, signal, sys, threading, time
import tileprof.profiler as p
libc = ctypes.CDLL(None)
for i in range(50):
    with p.scope("step"): pass
"""
STUCK = """
mutex = ctypes.create_string_buffer(256)
libc.pthread_mutex_lock(mutex)
print("going", flush=True)
libc.pthread_mutex_lock(mutex)
"""
"""Waits for itself, whatever signals come."""


SAID = (
    "tileprof: the program was ended by SIGTERM; wrote out.tprof; see it with"
    " `tileprof view out.tprof`\n"
)


def _start(folder: Path, program: str) -> subprocess.Popen[str]:
    (folder / "user.py").write_text(BEFORE + dedent(program))
    (folder / "driver.py").write_text(DRIVER)
    process = subprocess.Popen(
        [sys.executable, "driver.py"], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    return process


def _end(process: subprocess.Popen[str], seconds: float) -> tuple[int, str, str]:
    try:
        output, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, output, errors


def _steps(path: Path) -> int:
    profile = load(path)
    profile.check()
    return sum(int(profile.node(i).own("count")) for i in profile.find("step", "scope"))


@pytest.mark.sweep
def test_a_call_that_goes_on_after_signals(tmp_path: Path) -> None:
    """The main thread hangs in C, as in a wait for a GPU: the process dies all the same."""
    process = _start(tmp_path, STUCK)
    time.sleep(0.2)
    process.terminate()
    assert _end(process, 60) == (-signal.SIGTERM, "", SAID)
    assert _steps(tmp_path / "out.tprof") == 50


def test_a_signal_that_does_not_interrupt_the_main_thread(tmp_path: Path) -> None:
    """It comes right before the blocking call, which is as if another thread had got it."""
    process = _start(
        tmp_path,
        """
        def late():
            time.sleep(0.3)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Thread(target=late).start()
        print("going", flush=True)
        time.sleep(10_000)
        """,
    )
    assert _end(process, 60) == (-signal.SIGTERM, "", SAID)
    assert _steps(tmp_path / "out.tprof") == 50


@contextmanager
def _load_on_the_machine() -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.sweep
def test_signals_that_race_with_a_blocking_call(tmp_path: Path) -> None:
    """Children are ended just as they go to sleep, on a loaded machine; none sleeps on."""
    with _load_on_the_machine():
        process = _start(
            tmp_path,
            """
            print("going", flush=True)
            for _ in range(20):
                told, tell = os.pipe()
                if (pid := os.fork()) == 0:
                    with p.scope("step"): pass
                    threading.Thread(target=os.write, args=(tell, b"x")).start()
                    time.sleep(10_000)
                os.read(told, 1)
                os.kill(pid, signal.SIGTERM)
                _, status = os.waitpid(pid, 0)
                print(pid, os.waitstatus_to_exitcode(status))
            """,
        )
        code, output, errors = _end(process, 60)
    assert (code, errors) == (0, "")
    ended = [line.split() for line in output.splitlines()]
    assert [each[1:] for each in ended] == [["-15"]] * 20
    for pid, *_ in ended:
        assert _steps(tmp_path / f"out.pid{pid}.tprof") == 1
    assert _steps(tmp_path / "out.tprof") == 50


def test_a_handler_of_the_programs_own(tmp_path: Path) -> None:
    """A program that handles SIGTERM itself is left alone, however long it takes."""
    process = _start(
        tmp_path,
        """
        def mine(number, frame):
            print("mine", flush=True)
            time.sleep(1.5)
            sys.exit(7)
        signal.signal(signal.SIGTERM, mine)
        print("going", flush=True)
        time.sleep(10_000)
        """,
    )
    process.terminate()
    assert _end(process, 5) == (7, "mine\n", "")
    assert _steps(tmp_path / "out.tprof") == 50


@pytest.mark.sweep
def test_a_handler_in_an_event_loop(tmp_path: Path) -> None:
    """asyncio takes the wakeup descriptor for itself; its handlers run, and run on."""
    process = _start(
        tmp_path,
        """
        async def main():
            over = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
            print("going", flush=True)
            await over.wait()
            await asyncio.sleep(1.5)
        asyncio.run(main())
        print("over")
        """,
    )
    process.terminate()
    assert _end(process, 5) == (0, "over\n", "")
    assert _steps(tmp_path / "out.tprof") == 50


def test_a_forked_child_does_not_end_its_parent(tmp_path: Path) -> None:
    """Neither by a signal of its own nor as a fork made in C, which still has its parent's bell."""
    process = _start(
        tmp_path,
        """
        bell = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(bell)
        kept = os.dup(bell)
        print("going", flush=True)
        for rings in (False, True):
            if (pid := os.fork()) == 0:
                if rings:
                    os.write(kept, bytes([signal.SIGTERM]))
                    os._exit(9)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(20)
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status))
        time.sleep(1.5)
        """,
    )
    assert _end(process, 10) == (0, "-15\n9\n", "")
    assert _steps(tmp_path / "out.tprof") == 50


def test_what_was_there_is_restored(tmp_path: Path) -> None:
    """After the program neither handler nor descriptor of ours is left."""
    (tmp_path / "user.py").write_text("import signal\nprint('going')\n")
    ending = (
        "import signal\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
        "assert signal.set_wakeup_fd(-1) == -1\n"
    )
    (tmp_path / "driver.py").write_text(
        DRIVER.replace("session.finalize()", f"session.finalize()\n{ending}")
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "driver.py"], cwd=tmp_path, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "going\n", "")


def test_the_thread_that_hears_signals_is_no_part_of_the_program(tmp_path: Path) -> None:
    """Otherwise PyTorch's operations would be observed in all threads, in each recording."""
    program = """
    from tileprof.profiler.frameworks.observer_threads import others
    print("going", flush=True)
    names = [each.name for each in threading.enumerate()]
    print("tileprof signals" in names, others(), file=sys.stderr)
    """
    code, _, errors = _end(_start(tmp_path, program), 30)
    assert (code, errors) == (0, "True False\n")
