"""Programs that end with `os._exit`: their code is theirs, and the profile is complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.profiler.session.test_profiler_program import profiled
from tileprof.profile import Profile, load
from tileprof.profiler.endings.os_exit import writing_at_exit

pytestmark = pytest.mark.usefixtures("forked")

PROGRAM = """
import os, threading, tileprof
def work():
    for _ in range(100):
        with tileprof.scope("work"):
            pass
forever = threading.Event().wait
"""


def visits(path: Path) -> float:
    """How often `work` was done."""
    profile: Profile = load(path)
    profile.check()
    return sum(profile.node(n).own("count") for n in profile.find("work", "scope"))


@pytest.mark.spread(without=["another thread"])
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("work(); os._exit(7)", 7),
        ("work(); threading.Thread(target=os._exit, args=(8,)).start(); forever()", 8),
        ("work(); os._exit('wrong')", 1),
    ],
    ids=["main thread", "another thread", "not a code"],
)
def test_leaving(tmp_path: Path, end: str, code: int) -> None:
    """From any thread; a wrong argument is an error as ever, after which the program goes on."""
    (tmp_path / "leaves.py").write_text(PROGRAM + end)
    ran = profiled(tmp_path, "script", "leaves.py")
    assert ran.returncode == code, ran.stderr
    assert ran.stdout == ""
    assert visits(tmp_path / "out.tprof") == 100
    assert "the program ended by os._exit; wrote out.tprof" in ran.stderr


@pytest.mark.sweep
def test_children_of_a_fork_leave_by_it(tmp_path: Path) -> None:
    """Parent and child each write their own file."""
    child = "\nwork()\npid = os.fork()\nif pid == 0:\n    work()\n    os._exit(0)\n"
    (tmp_path / "leaves.py").write_text(f"{PROGRAM}{child}os.waitpid(pid, 0)\nprint(pid)\n")
    ran = profiled(tmp_path, "script", "leaves.py")
    assert ran.returncode == 0, ran.stderr
    assert visits(tmp_path / "out.tprof") == 100
    assert visits(tmp_path / f"out.pid{int(ran.stdout)}.tprof") == 100


@pytest.mark.spread("os.execle(sys.executable, sys.executable, '-c', NEW, dict(os.environ))")
@pytest.mark.parametrize(
    "become",
    [
        "os.execv(sys.executable, [sys.executable, '-c', NEW])",
        "os.execle(sys.executable, sys.executable, '-c', NEW, dict(os.environ))",
        "os.execvp(os.path.basename(sys.executable), ['python', '-c', NEW])",
    ],
)
def test_becoming_another_program(tmp_path: Path, become: str) -> None:
    """What was recorded is written, and that the rest is not is said; one that fails is no end."""
    fails = (
        "try: os.execv('/no/such/program', ['x'])\nexcept FileNotFoundError: work()\n"
        "NEW = 'import sys; sys.exit(9)'\n"
        "os.environ['PATH'] = os.pathsep.join(['/no', os.path.dirname(sys.executable)])\n"
    )
    (tmp_path / "leaves.py").write_text(f"import sys\n{PROGRAM}work()\n{fails}{become}")
    ran = profiled(tmp_path, "script", "leaves.py")
    assert ran.returncode == 9, ran.stderr
    assert visits(tmp_path / "out.tprof") == 200
    assert "which is not recorded; wrote out.tprof; see it with `tileprof view" in ran.stderr


def test_what_fails_does_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an error while writing, nor somebody who replaces the function later."""
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)

    def fails(_: str) -> None:
        raise ValueError

    with writing_at_exit(fails):
        os._exit(3)
        ours = os._exit
        monkeypatch.setattr(os, "_exit", lambda status: ours(status + 1))
        theirs = os._exit
    assert os._exit is theirs
    os._exit(4)
    assert left == [3, 5]
