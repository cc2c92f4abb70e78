"""`run --timeline`, and what the other commands make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_process import environment
from tests.cli.test_cli_run import KERNEL
from tests.viewer.traces import packets, told
from tileprof.profile import Profile, load

pytestmark = pytest.mark.usefixtures("forked")

pytest.importorskip("tileprof.native._recorder")

SCRIPT = """
import tileprof
for i in range(50):
    with tileprof.scope("step"):
        pass
"""


def _names(profile: Profile) -> list[str]:
    return [profile.names[node] for node in profile.tables.timeline.events.node.tolist()]


def test_a_program_has_its_scopes_and_launches(cli: Any, write: Any) -> None:
    """One inside the other, on the thread that ran them."""
    write(a=KERNEL)
    assert cli("run", "--timeline", "--quiet", "a.py").code == 0
    assert _names(load("a.tprof")) == ["outer", "row_sums"]
    assert cli("export", "a.tprof", "--to", "perfetto", "-o", "a.pftrace").code == 0
    lines = told(Path("a.pftrace").read_bytes())
    assert lines[:2] == [
        "process 'tileprof run --timeline --quiet a.py'",
        "track 'MainThread' in 'tileprof run --timeline --quiet a.py'",
    ]
    assert [line.partition(": ")[2].partition(",")[0] for line in lines[2:]] == [
        "scope outer", "kernel row_sums", "end", "end"]  # fmt: skip
    chrome = cli("export", "a.tprof", "--to", "chrome", "-o", "-").out
    assert [e["name"] for e in json.loads(chrome)["traceEvents"] if e["ph"] == "X"] == [
        "outer", "row_sums"]  # fmt: skip


def test_as_many_events_as_asked_for(cli: Any, write: Any) -> None:
    """The newest; every view says that the others are gone."""
    write(a=SCRIPT)
    found = cli("run", "--timeline=5", "a.py")
    note = "the timeline has lost 45 events; the newest are there, 5 at most\n"
    assert (found.code, found.err.count(note)) == (0, 1)
    assert _names(load("a.tprof")) == ["step"] * 5
    assert note in cli("view", "a.tprof").out


def test_no_timeline_unless_asked_for(cli: Any, write: Any) -> None:
    """And the way to one is told by the export that needs it."""
    write(a=SCRIPT)
    assert cli("run", "--quiet", "a.py").code == 0
    found = cli("export", "a.tprof", "--to", "perfetto", "-o", "a.pftrace")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "tileprof: the profile has no timeline\n"
        "Record one with `tileprof run --timeline`; `--to chrome` shows the tree without.\n"
    )
    assert not Path("a.pftrace").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [("--timeline=many", "`many` is not a whole number"), ("--timeline=-5", "timeline is -5")],
)
def test_wrong_numbers(cli: Any, write: Any, option: str, message: str) -> None:
    """They are refused before the program runs."""
    write(a="raise SystemExit(9)")
    found = cli("run", option, "a.py")
    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_bytes_go_to_standard_output_as_they_are(cli: Any, write: Any, folder: Path) -> None:
    """A trace is no text."""
    write(a=SCRIPT)
    assert cli("run", "--timeline", "--quiet", "a.py").code == 0
    command = [sys.executable, "-m", "tileprof", "export", "a.tprof", "--to", "perfetto", "-o", "-"]
    done = subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=True)
    assert sum(11 in packet for packet in packets(done.stdout)) == 100


def test_threads_have_their_time(cli: Any, write: Any) -> None:
    """A scope that two threads are in is divided as the samples of each, without a timeline."""
    write(
        a="""
        import threading, time, tileprof

        def work(seconds):
            with tileprof.scope("step"):
                time.sleep(seconds)

        threads = [
            threading.Thread(target=work, args=(seconds,), name=name)
            for name, seconds in (("short", 0.1), ("long", 0.3))
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        """
    )
    assert cli("run", "--quiet", "a.py").code == 0
    nodes = json.loads(cli("view", "a.tprof", "--group", "thread", "--json").out)["nodes"]
    tops = {each["name"]: each["metrics"] for each in nodes if each["parent"] is None}
    assert {"short", "long"} < set(tops)
    assert [tops[name]["count"]["total"] for name in ("short", "long")] == [1, 1]
    short, long = (tops[name]["cpu_time"]["total"] for name in ("short", "long"))
    assert 0.05e9 <= short < long
    whole = load("a.tprof").whole["cpu_time"]
    assert sum(each["cpu_time"]["total"] for each in tops.values()) == whole
    found = cli("view", "a.tprof", "--group", "stream")
    assert (found.code, "Nothing was recorded on a GPU's stream" in found.err) == (2, True)


@pytest.mark.sweep
def test_children_have_their_own(cli: Any, write: Any, folder: Path) -> None:
    """Forked and spawned ones, in files of their own."""
    write(
        a="""
        import multiprocessing, os, sys, tileprof

        def work(name):
            with tileprof.scope(name):
                pass

        if __name__ == "__main__":
            with tileprof.scope("parent"):
                pass
            for method in ("fork", "spawn"):
                child = multiprocessing.get_context(method).Process(target=work, args=(method,))
                child.start()
                child.join()
        """
    )
    command = [sys.executable, "-m", "tileprof", "run", "--quiet", "--timeline=7", "a.py"]
    subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=True)
    children = [load(path) for path in folder.glob("a.pid*.tprof")]
    assert sorted(_names(child) for child in children) == [["fork"], ["spawn"]]
    assert _names(load("a.tprof")) == ["parent"]
