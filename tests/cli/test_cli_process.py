"""The command as a process: exit codes, signals, pipes, children, an empty machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests import forked_programs
from tests.cli.test_cli_run import KERNEL
from tileprof.profile import Profile, load

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """That of a fresh shell in which the package is found."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    own.pop("COVERAGE_PROCESS_START", None)
    return {**own, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more}


def python(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the current folder to its end; `-m` in a forked process."""
    command = [sys.executable, *arguments]
    if arguments[0] == "-m":
        return forked_programs.run(command, env=environment(**more))
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=60, check=False
    )


def started(*arguments: str, **pipes: Any) -> subprocess.Popen[bytes]:
    """Start Python in the current folder; `-m` in a forked process."""
    kind = forked_programs.Forked if arguments[0] == "-m" else subprocess.Popen
    running: subprocess.Popen[bytes] = kind(
        [sys.executable, *arguments], env=environment(), **pipes
    )
    return running


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that happens soon."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checked(name: str) -> Profile:
    """A profile that is whole."""
    profile = load(name)
    profile.check()
    return profile


@pytest.mark.spread(without=["sys.exit('no luck')-1", "os._exit(7)-7", "if x\\n    pass-1"])
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('no luck')", 1),
        ("def f():\n    return 1 / 0\nf()", 1),
        ("raise KeyboardInterrupt", 130),
        ("os._exit(7)", 7),
        ("os.abort()", -signal.SIGABRT),
        ("if x\n    pass", 1),
    ],
)
def test_a_program_ends_as_under_python(folder: Path, write: Any, ending: str, code: int) -> None:
    """Exit code, standard output and standard error are those of `python prog.py`."""
    write(prog=f"import os, sys\nprint('out', flush=True)\n{ending}\n")
    plain = python("prog.py")
    found = python("-m", "tileprof", "run", "--quiet", "prog.py")
    # Python itself dies of Ctrl-C by the signal, which a shell reports as 130.
    expected = 130 if plain.returncode == -signal.SIGINT else plain.returncode
    assert (found.returncode, found.stdout, found.stderr) == (expected, plain.stdout, plain.stderr)
    assert found.returncode == code


def test_a_kill_leaves_the_last_flushed_profile(folder: Path, write: Any) -> None:
    """After kill -9 the file of the last flush is whole, and no other file is left."""
    write(
        prog="""
        import tileprof, time
        while True:
            with tileprof.scope("step"):
                time.sleep(0.01)
        """
    )
    running = started("-m", "tileprof", "run", "prog.py")
    until((folder / "prog.tprof").exists)
    running.kill()
    assert running.wait() == -signal.SIGKILL
    profile = checked("prog.tprof")
    (step,) = profile.find(kind="scope", name="step")
    assert profile.node(step).own("count") > 0
    assert sorted(p.name for p in folder.iterdir()) == ["prog.py", "prog.tprof"]


@pytest.mark.spread("15--15")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_signals_that_ask_to_end(folder: Path, write: Any, number: int, code: int) -> None:
    """The profile is written, the end is the program's own."""
    write(
        prog="""
        import pathlib, tileprof, time
        with tileprof.scope("waits"):
            pathlib.Path("ready").touch()
            for _ in range(600):  # a signal just before a sleep is looked at after it
                time.sleep(0.1)
        """
    )
    running = started("-m", "tileprof", "run", "--quiet", "prog.py", stderr=subprocess.PIPE)
    until((folder / "ready").exists)
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert running.returncode == code
    assert b"tileprof" not in err
    assert checked("prog.tprof").find(kind="scope", name="waits")


@pytest.mark.sweep
def test_spawned_children_have_files_of_their_own(folder: Path, write: Any) -> None:
    """`multiprocessing` with spawn works, and each child that did something leaves a profile."""
    write(
        prog="""
        import multiprocessing, os, tileprof
        def work(number):
            with tileprof.scope(f"child {number}"):
                return os.getpid()
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pids = pool.map(work, [1, 2])
                pool.close()
                pool.join()
            print(*set(pids))
        """
    )
    found = python("-m", "tileprof", "run", "--quiet", "prog.py")
    assert (found.returncode, found.stderr) == (0, "")
    (pid,) = found.stdout.split()
    child = checked(f"prog.pid{pid}.tprof")
    scopes = {child.node(each).name for each in child.find(kind="scope")}
    assert scopes == {"child 1", "child 2"}
    assert sorted(p.name for p in folder.glob("*.tprof")) == [f"prog.pid{pid}.tprof", "prog.tprof"]


def test_a_reader_that_has_seen_enough(sample: str) -> None:
    """`tileprof view FILE | head -1` is quiet."""
    reading, writing = os.pipe()
    os.close(reading)
    running = started("-m", "tileprof", "view", sample, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (0, b"")


@pytest.mark.sweep
def test_a_reader_of_the_tree_that_is_gone(folder: Path, write: Any) -> None:
    """`tileprof run prog.py 2>&1 | head -1` keeps the program's exit code."""
    write(prog="raise SystemExit(4)")
    reading, writing = os.pipe()
    os.close(reading)
    running = started("-m", "tileprof", "run", "prog.py", stderr=writing)
    os.close(writing)
    assert running.wait(timeout=30) == 4
    assert checked("prog.tprof").find() == []


@pytest.mark.sweep
def test_a_program_whose_reader_is_gone(folder: Path, write: Any) -> None:
    """What a program prints into a broken pipe ends as under Python, at its exit too."""
    write(loud="print('x' * 100_000)", soft="print('x')")
    for name in ("loud", "soft"):
        ends = []
        for command in (["-m", "tileprof", "run", "--quiet"], []):
            reading, writing = os.pipe()
            os.close(reading)
            arguments = [*command, f"{name}.py"]
            running = started(*arguments, stdout=writing, stderr=subprocess.PIPE)
            os.close(writing)
            _, err = running.communicate(timeout=30)
            ends.append((running.returncode, err))
        assert ends[0] == ends[1]
        assert ends[0][0] != 0


def _without_compiler(folder: Path) -> Mapping[str, str]:
    return {"PATH": str(folder), "CXX": "", "TILEPROF_DEVICE": ""}


@pytest.mark.sweep
def test_a_machine_without_a_compiler(folder: Path, write: Any) -> None:
    """Kernels run in the interpreter, one line says so, and `doctor` says what to get."""
    write(prog=KERNEL)
    found = python("-m", "tileprof", "run", "--quiet", "prog.py", **_without_compiler(folder))
    assert (found.returncode, found.stdout) == (0, "")
    assert found.stderr == (
        "tileprof: no C++ compiler found; kernels run in the interpreter "
        "(install g++ or clang++, or set CXX)\n"
    )
    (kernel,) = checked("prog.tprof").tables.kernels
    assert kernel.device == "interpreter"
    found = python("-m", "tileprof", "doctor", **_without_compiler(folder))
    assert (found.returncode, found.stderr) == (0, "")
    assert "missing C++ compiler" in found.stdout
    assert "get it: apt install g++, or set CXX\n" in found.stdout
    assert found.stdout.splitlines()[-1].startswith("Kernels run in the interpreter;")


@pytest.mark.spread(
    "TILEPROF_DEVICE-TILEPROF_DEVICE: there is no device `abc`\\nDevices are: interpreter"
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("TILEPROF_NUM_THREADS", "TILEPROF_NUM_THREADS is `abc`\nGive it a number of threads.\n"),
        ("TILEPROF_DEVICE", "TILEPROF_DEVICE: there is no device `abc`\nDevices are: interpreter"),
    ],
)
def test_variables_that_are_wrong(folder: Path, write: Any, name: str, sentence: str) -> None:
    """A kernel under plain Python says what is wrong with which variable."""
    write(prog=KERNEL)
    found = python("prog.py", **{"TILEPROF_DEVICE": "cpu", name: "abc"})
    assert found.returncode == 1
    assert dedent(f"tileprof.errors.UsageError: {sentence}") in found.stderr
