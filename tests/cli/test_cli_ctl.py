"""`tileprof ctl`: a program that runs, asked from another process."""

from __future__ import annotations

import io
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.test_cli_process import checked, python, started, until
from tileprof import cli
from tileprof.profile import Node
from tileprof.profiler.control import addresses
from tileprof.profiler.control.client import ask, programs
from tileprof.profiler.control.messages import Request

pytestmark = [
    pytest.mark.usefixtures("forked"),
    pytest.mark.skipif(not addresses.SUPPORTED, reason="needs a system with users"),
]

SERVES = """\
import os, time
import tileprof

open("began", "w").close()
while not os.path.exists("end"):
    with tileprof.scope("request"):
        time.sleep(0.002)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program that serves until it is told to end, and sockets of its own."""
    (tmp_path / "serve.py").write_text(dedent(SERVES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def paused(here: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Process that runs that program under `--paused`; it is ended with the test."""
    with (here / "said").open("wb") as said:
        process = started("-m", "tileprof", "run", "--paused", "serve.py", stderr=said)
    until((here / "began").exists)
    yield process
    (here / "end").touch()
    assert process.wait(60) == 0


def ctl(*words: object) -> str:
    """What `tileprof ctl` prints.  It runs in this process, as another than the one it asks."""
    with redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["ctl", *map(str, words)]) == 0
    return printed.getvalue()


def recorded(pid: int, seconds: float, name: str, least: int) -> Node:
    """The requests of a while, which is repeated until it has so many: a busy machine may keep the
    program from them."""
    for _ in range(10):
        ctl(pid, "record", seconds, name)
        profile = checked(name)
        found = [profile.node(each) for each in profile.find("request", "scope")]
        if found and found[0].own("count") >= least:
            return found[0]
    raise AssertionError(f"{seconds} s of the program never had {least} requests")


def test_a_while_of_a_program(here: Path, paused: subprocess.Popen[bytes]) -> None:
    """Its requests go on; two recordings have nothing of each other."""
    assert ctl(paused.pid, "status") == f"{paused.pid} is paused, 0.0 s recorded: serve.py\n"
    for name in ("one.tprof", "two.tprof"):
        found = recorded(paused.pid, 0.5, name, least=10)
        # 2 ms each, but for the first and the last, which the recording may cut.
        assert found.own("count") <= 260
        assert (found.own("count") - 2) * 2e6 <= found.total("cpu_time")
        assert found.total("cpu_time") <= checked(name).whole["cpu_time"]
    listed = json.loads(ctl("--json"))
    assert [each["pid"] for each in listed["programs"]] == [paused.pid]
    state = json.loads(ctl(paused.pid, "start", "--json"))
    assert (state["schema"], state["recording"], state["pid"]) == (1, True, paused.pid)
    ctl(paused.pid, "snapshot", "three.tprof")
    assert checked("three.tprof").find("request", "scope")
    (here / "end").touch()
    assert paused.wait(60) == 0
    assert f"tileprof ctl {paused.pid} record" in (here / "said").read_text()
    # All that was recorded and not forgotten: the second while, and from the start on.
    assert len(checked("serve.tprof").find("request", "scope")) == 1
    assert ctl() == (
        "No program listens. Start one with `tileprof run --control SCRIPT` or `--paused`.\n"
    )


def test_a_program_that_nobody_started_says_so(here: Path, paused: subprocess.Popen[bytes]) -> None:
    """There is no profile, and its last message says why."""
    time.sleep(1)  # a file is written early on
    (here / "end").touch()
    assert paused.wait(60) == 0
    assert (
        "nothing was recorded: the program was paused all the time" in (here / "said").read_text()
    )
    assert not (here / "serve.tprof").exists()


def test_control_of_a_program_that_records(here: Path) -> None:
    """From its begin on; it can be stopped."""
    process = started("-m", "tileprof", "run", "--quiet", "--control", "serve.py")
    until((here / "began").exists)
    assert " records, " in ctl(process.pid, "status")
    done = python("-m", "tileprof", "ctl", str(process.pid), "record", "1", "x.tprof")
    assert (done.returncode, "is recording already" in done.stderr) == (2, True)
    assert " is paused, " in ctl(process.pid, "stop")
    (here / "end").touch()
    assert process.wait(60) == 0
    assert checked("serve.tprof").find("request", "scope")


PREFORKS = """\
import multiprocessing, os, sys, time
import tileprof

def serve(number):
    open(f"began{number}", "w").write(str(os.getpid()))
    while not os.path.exists("end"):
        with tileprof.scope("request"):
            time.sleep(0.002)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=serve, args=(number,)) for number in range(2)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
"""


@pytest.mark.spread("fork")
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_of_a_server_listen_too(here: Path, how: str) -> None:
    """They are paused as their parent is, and each is recorded by itself."""
    (here / "workers.py").write_text(PREFORKS)
    parent = started("-m", "tileprof", "run", "--quiet", "--paused", "workers.py", how,
                     stderr=subprocess.DEVNULL)  # fmt: skip
    began = [here / f"began{number}" for number in range(2)]
    until(lambda: all(each.exists() and each.read_text() for each in began))
    first, second = (int(each.read_text()) for each in began)
    until(lambda: len(programs()) == 3)
    found = {each["pid"]: each for each in json.loads(ctl("--json"))["programs"]}
    assert {pid: each["child"] for pid, each in found.items()} == {
        parent.pid: False, first: True, second: True,
    }  # fmt: skip
    assert not any(each["recording"] for each in found.values())
    assert "(child process)" in ctl(first, "status")
    recorded(first, 0.3, "worker.tprof", least=5)
    assert not json.loads(ctl(second, "status", "--json"))["recorded_s"]
    (here / "end").touch()
    assert parent.wait(60) == 0
    # A worker that was recorded leaves its own file; those that were not leave none.
    assert [each.name for each in here.glob("workers*.tprof")] == [f"workers.pid{first}.tprof"]


SPAWNS_LATER = """\
import multiprocessing, os, time
import tileprof

def serve():
    open("child", "w").write(str(os.getpid()))
    while not os.path.exists("end"):
        with tileprof.scope("request"):
            time.sleep(0.002)

if __name__ == "__main__":
    open("began", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    child = multiprocessing.get_context("spawn").Process(target=serve)
    child.start()
    child.join()
"""


@pytest.mark.sweep
def test_a_child_spawned_in_a_recording_for_a_while_stops_too(here: Path) -> None:
    """With its parent's recording; it would record to its end else."""
    (here / "spawns.py").write_text(SPAWNS_LATER)
    parent = started("-m", "tileprof", "run", "--quiet", "--paused", "spawns.py",
                     stderr=subprocess.DEVNULL)  # fmt: skip
    until((here / "began").exists)
    ask(parent.pid, Request("start", seconds=4.0))
    (here / "go").touch()
    until(lambda: (here / "child").exists() and bool((here / "child").read_text()))
    child = int((here / "child").read_text())
    until(lambda: len(programs()) == 2)
    until(lambda: not ask(child, Request("status")).recording)
    assert 0 < json.loads(ctl(child, "status", "--json"))["recorded_s"] <= 4.5
    (here / "end").touch()
    assert parent.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "`x` is not a process id"),
        (["1"], "no command given"),
        (["1", "begin"], "`begin` is not a command of ctl"),
        (["1", "snapshot"], "`ctl PID snapshot` takes FILE"),
        (["1", "stop", "x"], "`ctl PID stop` takes nothing more"),
        (["1", "record", "x.tprof"], "`ctl PID record` takes SECONDS and FILE"),
        (["1", "record", "soon", "x.tprof"], "`soon` is no time in seconds"),
        (["1", "record", "nan", "x.tprof"], "`nan` is no time in seconds"),
        (["1", "stop", "--clear"], "`--clear` belongs to `start`"),
        (["4194303", "stop"], "there is no process 4194303"),
        (["99999999999999999999", "stop"], "there is no process 99999999999999999999"),
    ],
)
@pytest.mark.usefixtures("here")
def test_wrong_use(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, a way out, and exit code 2."""
    assert cli.main(["ctl", *words]) == 2
    first, *more = capsys.readouterr().err.splitlines()
    assert message in first
    assert more
