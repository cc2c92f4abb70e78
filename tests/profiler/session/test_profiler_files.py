"""The file while the program runs, and however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tileprof.errors import OutputError
from tileprof.profile import Profile, load
from tileprof.profiler import profile as profiling
from tileprof.profiler import scope, start

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[3]

PRELUDE = """
import os, sys, threading, time
import tileprof.profiler as p
from tileprof.profiler import ProgramTarget, run_program
"""


def _start(folder: Path, text: str) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(PRELUDE + dedent(text))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _end(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, _without_fork_warning(errors)


def _without_fork_warning(errors: str) -> str:
    # From 3.13 on Python counts threads so late that it sees the helping thread started anew.
    lines = errors.splitlines(keepends=True)
    warned = any("use of fork() may lead to deadlocks" in line for line in lines)
    return "".join(lines[2:]) if warned and sys.version_info >= (3, 13) else errors


def _load(path: Path) -> Profile:
    profile = load(path)
    profile.check()
    return profile


def _count(profile: Profile, name: str) -> int:
    return sum(int(profile.node(i).own("count")) for i in profile.find(name, "scope"))


def _flushed(path: Path, name: str) -> int:
    """How often a scope is in a file that is still being written: 0 where there is no file yet."""
    return _count(_load(path), name) if path.exists() else 0


def _wait_until(condition: Callable[[], bool]) -> None:
    """However slow the machine is just now."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


BUSY = """
    session = p.start("out.tprof", flush_interval=0.1, context="CONTEXT")
    with p.scope("outer"):
        for i in range(100_000):
            with p.scope("step"):
                time.sleep(0.001)
            if i == 20: print("going", flush=True)
"""


@pytest.mark.spread("python")
@pytest.mark.parametrize("context", ["scopes", "python"])
def test_kill_9_leaves_the_last_flushed_profile(tmp_path: Path, context: str) -> None:
    """A killed program leaves one valid file with what was flushed, and nothing beside it."""
    process = _start(tmp_path, BUSY.replace("CONTEXT", context))
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    _wait_until(lambda: _flushed(tmp_path / "out.tprof", "step") > 20)
    process.kill()
    assert _end(process)[0] == -signal.SIGKILL
    profile = _load(tmp_path / "out.tprof")
    assert _count(profile, "step") > 20
    (outer,) = profile.find("outer")
    assert profile.node(outer).total("cpu_time") > 20e6
    left = {path.name for path in tmp_path.iterdir()} - {"out.tprof.partial"}
    assert left == {"script.py", "out.tprof"}


def test_sigterm_writes_the_profile_and_still_kills(tmp_path: Path) -> None:
    """A program run by us that is terminated dies of the signal, its profile complete."""
    (tmp_path / "user.py").write_text(
        "import time\nimport tileprof.profiler as p\n"
        "for i in range(50):\n    with p.scope('step'): pass\n"
        "print('going', flush=True)\ntime.sleep(60)\n"
    )
    process = _start(
        tmp_path,
        """
        session = p.start("out.tprof", flush_interval=1000, context="scopes")
        sys.exit(run_program(ProgramTarget("script", "user.py"), [], session))
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    process.terminate()
    said = (
        "the program was ended by SIGTERM; wrote out.tprof; see it with `tileprof view out.tprof`"
    )
    assert _end(process) == (-signal.SIGTERM, f"tileprof: {said}\n")
    assert load(tmp_path / "out.tprof").tables.provenance["ended early"] == "by SIGTERM"
    assert _count(_load(tmp_path / "out.tprof"), "step") == 50


@pytest.mark.spread("sys.exit(3)-3")
@pytest.mark.parametrize(
    ("ending", "code"),
    [("pass", 0), ("sys.exit(3)", 3), ("raise KeyError('mine')", 1)],
)
def test_an_unfinished_session_is_finalized_at_exit(tmp_path: Path, ending: str, code: int) -> None:
    """However the interpreter ends, sessions that were left open write their file."""
    process = _start(
        tmp_path,
        f"""
        p.start("out.tprof", flush_interval=1000, context="scopes")
        with p.scope("a"):
            {ending}
        """,
    )
    found, errors = _end(process)
    assert found == code
    assert ("KeyError: 'mine'" in errors) == (code == 1)
    assert _count(_load(tmp_path / "out.tprof"), "a") == 1


def test_os_exit_leaves_the_last_flush(tmp_path: Path) -> None:
    """`os._exit` runs nothing of ours; the flush before it is what remains."""
    process = _start(
        tmp_path,
        """
        p.start("out.tprof", flush_interval=0.05, context="scopes")
        with p.scope("a"):
            pass
        while not os.path.exists("go"):
            time.sleep(0.01)
        os._exit(4)
        """,
    )
    _wait_until(lambda: _flushed(tmp_path / "out.tprof", "a") == 1)
    (tmp_path / "go").touch()
    assert _end(process) == (4, "")
    assert _count(_load(tmp_path / "out.tprof"), "a") == 1


def test_children_write_files_of_their_own(tmp_path: Path) -> None:
    """Forked children record into `STEM.pidP.tprof`; one that does nothing leaves no file."""
    process = _start(
        tmp_path,
        """
        import multiprocessing as mp
        def work(n):
            for _ in range(n):
                with p.scope("child"):
                    pass
        if __name__ == "__main__":
            p.start("out.tprof", context="scopes")
            with p.scope("before"):
                pass
            pid = os.fork()
            if pid == 0:
                work(3)
                sys.exit(0)
            os.waitpid(pid, 0)
            print("out.pid%d.tprof 3" % pid)
            for n in (5, 0):
                child = mp.get_context("fork").Process(target=work, args=(n,))
                child.start()
                child.join()
                assert child.exitcode == 0
                if n: print("out.pid%d.tprof 5" % child.pid)
            with p.scope("after"):
                pass
        """,
    )
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, _without_fork_warning(errors)) == (0, "")
    expected = dict(line.split() for line in output.splitlines())
    files = {path.name for path in tmp_path.glob("*.tprof")}
    assert files == {"out.tprof", *expected}
    for name, count in expected.items():
        child = _load(tmp_path / name)
        assert (_count(child, "child"), _count(child, "before")) == (int(count), 0)
    parent = _load(tmp_path / "out.tprof")
    assert [_count(parent, n) for n in ("before", "after", "child")] == [1, 1, 0]


def test_a_forked_child_is_sampled(tmp_path: Path) -> None:
    """The helping thread does not survive a fork; the child and the parent get new ones.

    One run of three has to show it: a busy machine may keep a thread from its samples.
    """
    found = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        times = _times_of_parent_and_child(folder)
        if min(times) > 100e6:
            return
        found.append(times)
    raise AssertionError(f"ns of 0.15 s that samples show: {found}")


def _times_of_parent_and_child(tmp_path: Path) -> list[float]:
    process = _start(
        tmp_path,
        """
        def spin():
            end = time.perf_counter() + 0.15
            while time.perf_counter() < end:
                pass
        p.start("out.tprof", context="python")
        pid = os.fork()
        spin()
        if pid:
            os.waitpid(pid, 0)
        """,
    )
    assert _end(process) == (0, "")
    files = sorted(tmp_path.glob("*.tprof"))
    assert len(files) == 2
    times = []
    for file in files:
        profile = _load(file)
        spins = profile.find("spin", "frame")
        times.append(sum(profile.node(i).total("cpu_time") for i in spins))
    return times


def test_one_file_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a launcher each rank has its file."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with profiling(tmp_path / "out.tprof", context="scopes"), scope("a"):
        pass
    monkeypatch.delenv("RANK")
    with profiling(tmp_path / "out.tprof", context="scopes"), scope("a"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.rank1.tprof",
        "out.rank3.tprof",
    ]


def test_flushes_come_only_with_news(tmp_path: Path) -> None:
    """Without anything new the file stays as it is."""
    path = tmp_path / "out.tprof"
    with profiling(path, context="scopes", flush_interval=0.1):
        with scope("a"):
            pass
        _wait_until(lambda: _flushed(path, "a") == 1)
        # What comes of the end of that flush settles, on a busy machine not at once.  From then on
        # nothing happens, for as long as four flushes take.
        for _ in range(20):
            before = path.stat().st_mtime_ns
            time.sleep(0.4)
            if path.stat().st_mtime_ns == before:
                break
        else:
            raise AssertionError("the file is written again and again")
        with scope("a"):
            pass
        _wait_until(lambda: _flushed(path, "a") == 2)


@pytest.mark.parametrize("interval", [0.1, 1000])
def test_the_first_flush_comes_early(tmp_path: Path, interval: float) -> None:
    """It comes long before a long interval has passed, the next one after the interval."""
    path = tmp_path / "out.tprof"
    with profiling(path, context="scopes", flush_interval=interval):
        with scope("a"):
            pass
        _wait_until(lambda: _flushed(path, "a") == 1)
        with scope("a"):
            pass
        if interval < 1:
            _wait_until(lambda: _flushed(path, "a") == 2)
        else:
            time.sleep(0.4)
            assert _flushed(path, "a") == 1


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """It is refused when the session starts, not after hours; a later loss is told at the end."""
    for path, sentence in (
        (tmp_path / "no" / "out.tprof", "there is no folder"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(OutputError, match=sentence):
            start(path)
    folder = tmp_path / "goes"
    folder.mkdir()
    session = start(folder / "out.tprof", context="scopes")
    folder.rmdir()
    with pytest.raises(OutputError, match="cannot write"):
        session.finalize()
    assert session.profile is not None
    with scope("nobody listens"):
        pass


def test_control_c_ends_the_program_with_130(tmp_path: Path) -> None:
    """An interrupted program prints its traceback, leaves its profile, and ends with 130."""
    (tmp_path / "user.py").write_text(
        "import time\nimport tileprof.profiler as p\n"
        "with p.scope('waiting'):\n    print('going', flush=True); time.sleep(60)\n"
    )
    process = _start(
        tmp_path,
        """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        session = p.start("out.tprof", context="scopes")
        code = run_program(ProgramTarget("script", "user.py"), [], session)
        session.finalize()
        sys.exit(code)
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    code, errors = _end(process)
    assert code == 130
    # Newer Pythons mark the place within the line.
    assert [line for line in errors.splitlines() if line.strip("~^ ")] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path}/user.py", line 4, in <module>',
        "    print('going', flush=True); time.sleep(60)",
        "KeyboardInterrupt",
    ]
    assert _count(_load(tmp_path / "out.tprof"), "waiting") == 1
