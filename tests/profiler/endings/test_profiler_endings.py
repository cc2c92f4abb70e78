"""Ends that come in the middle of something: of a finalisation, of a flush, of a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tileprof.profile import load

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.usefixtures("forked"),
    pytest.mark.skipif(sys.platform != "linux", reason="signals as on Linux"),
]

BEFORE = """
import os, signal, sys, threading, time
import tileprof.profiler as p
from tileprof.profiler import worker
from tileprof.profiler.session import recording
from tileprof.profiler.session import session as sessions
from tileprof.profiler.endings import termination
from tileprof.profiler.endings.termination import finalize_on_terminate

termination.SAVE_S = 90  # on a busy machine the file may take long
session = p.start("out.tprof", context="python", flush_interval=0.01)
for _ in range(10):
    with p.scope("work"):
        pass

def in_snapshot(act):
    # The helping thread wants to flush meanwhile, and waits for the lock that is held here.
    snapshot, parent = session.snapshot, os.getpid()
    def acting(*arguments, **options):
        if threading.current_thread() is threading.main_thread() and os.getpid() == parent:
            with p.scope("news"):
                pass
            time.sleep(0.1)
            act()
        return snapshot(*arguments, **options)
    session.snapshot = acting
"""


def _run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(BEFORE + dedent(program))
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def _visits(path: Path, name: str = "work") -> int:
    profile = load(path)
    return sum(int(profile.node(n).own("count")) for n in profile.find(name, "scope"))


@pytest.mark.spread("SIGTERM")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signal_during_finalisation_ends_process_with_whole_profile(
    tmp_path: Path, name: str
) -> None:
    """The handler waits for nothing that the interrupted finalisation holds."""
    ran = _run(
        tmp_path,
        f"""
        finalize_on_terminate(session)
        in_snapshot(lambda: [signal.raise_signal(signal.{name}) for _ in range(2)])
        session.finalize()
        time.sleep(20)
        """,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.Signals[name], "", "")
    assert _visits(tmp_path / "out.tprof") == 10


@pytest.mark.spread("replace")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_signal_while_another_thread_writes_the_file_leaves_all_that_ran(
    tmp_path: Path, step: str
) -> None:
    """SIGTERM comes in the middle of a flush of the helping thread, before or after the fsync."""
    ran = _run(
        tmp_path,
        f"""
        finalize_on_terminate(session)
        rounds, original = 10, os.{step}
        def ending(*arguments, **named):
            if threading.current_thread() is not threading.main_thread() and rounds > 100:
                os.{step} = original
                print(rounds, flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.1)
            return original(*arguments, **named)
        os.{step} = ending
        while True:
            with p.scope("work"):
                time.sleep(0.0005)
            rounds += 1
        """,
    )
    assert (ran.returncode, ran.stderr) == (-signal.SIGTERM, "")
    assert _visits(tmp_path / "out.tprof") >= int(ran.stdout) > 100
    assert [each.name for each in tmp_path.glob("*.tprof*")] == ["out.tprof"]


def test_handler_of_the_program_runs_after_finalisation(tmp_path: Path) -> None:
    """A program whose own handler finalizes and exits gets its profile and its exit code."""
    ran = _run(
        tmp_path,
        """
        signal.signal(signal.SIGTERM, lambda *_: (p.finalize(), sys.exit(3)))
        in_snapshot(lambda: signal.raise_signal(signal.SIGTERM))
        session.finalize()
        """,
    )
    assert (ran.returncode, ran.stderr) == (3, "")
    assert _visits(tmp_path / "out.tprof") == 10


@pytest.mark.sweep
def test_control_c_during_finalisation_waits_for_the_file(tmp_path: Path) -> None:
    """The profile is whole, and KeyboardInterrupt is raised after it is written."""
    ran = _run(
        tmp_path,
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        in_snapshot(lambda: signal.raise_signal(signal.SIGINT))
        try:
            session.finalize()
        except KeyboardInterrupt:
            print("interrupted", session.profile is not None)
        """,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted True\n", "")
    assert _visits(tmp_path / "out.tprof") == 10


def test_process_that_cannot_save_says_so_and_dies_of_the_signal(tmp_path: Path) -> None:
    """Another thread keeps a lock for ever: the end is bounded in time and has a sentence."""
    ran = _run(
        tmp_path,
        """
        finalize_on_terminate(session)
        termination.SAVE_S = 0.5
        held = threading.Event()
        def keep():
            with session._saving:
                held.set()
                time.sleep(60)
        threading.Thread(target=keep, daemon=True).start()
        held.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        """,
    )
    assert ran.returncode == -signal.SIGTERM
    assert "out.tprof could be written: that took longer than 0.5 s" in ran.stderr


def test_fork_while_locks_are_held_gives_a_child_that_ends(tmp_path: Path) -> None:
    """The child has the locks of the thread that forked only, and writes a file of its own."""
    ran = _run(
        tmp_path,
        """
        recording.FORK_S = worker.STOP_S = 0.2
        def fork():
            pid = os.fork()
            if pid == 0:
                with p.scope("child"):
                    pass
                p.finalize()
                os._exit(7)
            print(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        def fork_in_thread():
            with session.recording.recorder._lock, recording._lock:
                thread = threading.Thread(target=fork)
                thread.start()
                thread.join(20)
        in_snapshot(fork_in_thread)
        session.snapshot()
        del session.snapshot
        session.finalize()
        """,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    pid, code = ran.stdout.split()
    assert code == "7"
    assert _visits(tmp_path / f"out.pid{pid}.tprof", "child") == 1
    assert _visits(tmp_path / "out.tprof") == 10


@pytest.mark.spread("abort", "null pointer")
@pytest.mark.parametrize(
    ("crash", "number"),
    [
        ("os.abort()", signal.SIGABRT),
        ("import ctypes; ctypes.string_at(0)", signal.SIGSEGV),
        ("import faulthandler; faulthandler.enable(); faulthandler._sigsegv()", signal.SIGSEGV),
        ("import faulthandler; faulthandler._stack_overflow()", signal.SIGSEGV),
    ],
    ids=["abort", "null pointer", "faulthandler", "stack overflow"],
)
def test_crash_leaves_profile_and_is_a_crash(tmp_path: Path, crash: str, number: int) -> None:
    """The process dies of its signal, after a thread has written what was recorded."""
    pytest.importorskip("tileprof.native._recorder")
    ran = _run(
        tmp_path,
        f"""
        session.finalize()
        session = p.start("late.tprof", context="python", flush_interval=1000)
        finalize_on_terminate(session)
        with p.scope("work"):
            pass
        {crash}
        """,
    )
    assert ran.returncode == -number
    assert ("Fatal Python error" in ran.stderr) == ("enable()" in crash)
    assert _visits(tmp_path / "late.tprof") == 1


def test_child_of_fork_server_writes_a_file(tmp_path: Path) -> None:
    """It knows nothing of the recording until its parent tells it, and records then."""
    (tmp_path / "user.py").write_text(
        dedent("""
        import multiprocessing, os, tileprof
        def work(n):
            with tileprof.scope("child"):
                return os.getpid()
        if __name__ == "__main__":
            workers = multiprocessing.get_context("forkserver")
            child = workers.Process(target=work, args=(1,))
            child.start()
            child.join()
            print(child.pid, child.exitcode)
        """)
    )
    ran = subprocess.run(
        [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", "out.tprof", "user.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    pid, code = ran.stdout.split()
    assert code == "0"
    assert _visits(tmp_path / f"out.pid{pid}.tprof", "child") == 1


@pytest.mark.sweep
def test_interrupted_and_forked_at_drawn_lines() -> None:
    """A few runs of the campaign that interrupts finalisation at every line: nothing fails."""
    arguments = ["--runs", "14", "--jobs", "2", "--seconds", "10"]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.reliability.signals", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
