"""The thread that answers `tileprof ctl`: requests, refusals, sockets, forks."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tileprof
from tileprof.errors import OutputError, UsageError
from tileprof.profile import load
from tileprof.profiler import Session
from tileprof.profiler.control import addresses, client, server
from tileprof.profiler.control.client import ask, programs
from tileprof.profiler.control.messages import MOST_BYTES, Request
from tileprof.profiler.control.server import Server

pytestmark = pytest.mark.skipif(not addresses.SUPPORTED, reason="needs a system with users")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sockets for this test alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "tileprof"


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    """A session that is paused and under control."""
    session = tileprof.start()
    session.deactivate()
    listening = Server(session)
    yield session
    listening.close()
    session.finalize()


def visits(file: Path) -> float:
    """Visits of the scope in a file."""
    profile = load(file)
    return sum(profile.node(node).own("count") for node in profile.find("request", "scope"))


def requests(count: int) -> None:
    """Visit the scope so often."""
    for _ in range(count):
        with tileprof.scope("request"):
            pass


def said(line: bytes) -> dict[str, object]:
    """Answer to a line as it stands."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(addresses.socket_path(os.getpid())))
        connection.sendall(line)
        return dict(json.loads(connection.makefile().readline()))


@pytest.mark.usefixtures("session")
def test_only_what_comes_between_start_and_stop_is_recorded(tmp_path: Path) -> None:
    """The second recording forgets the first where it is told to."""
    requests(3)
    assert not ask(os.getpid(), Request("status")).recording
    assert ask(os.getpid(), Request("start")).recording
    requests(5)
    assert not ask(os.getpid(), Request("stop")).recording
    requests(7)
    ask(os.getpid(), Request("snapshot", file=str(tmp_path / "a.tprof")))
    ask(os.getpid(), Request("start"))
    requests(11)
    ask(os.getpid(), Request("snapshot", file=str(tmp_path / "b.tprof")))
    ask(os.getpid(), Request("stop"))
    before = ask(os.getpid(), Request("status")).recorded_s
    ask(os.getpid(), Request("start", clear=True))
    requests(13)
    after = ask(os.getpid(), Request("stop")).recorded_s
    ask(os.getpid(), Request("snapshot", file=str(tmp_path / "c.tprof")))
    assert [visits(tmp_path / f"{name}.tprof") for name in "abc"] == [5, 16, 13]
    assert 0 < after < before + 1


def test_a_recording_stops_by_itself(session: Session) -> None:
    """Also where who asked for it has gone; a start that has no end goes on."""
    ask(os.getpid(), Request("start", seconds=0.1))
    assert session.active
    deadline = time.monotonic() + 30
    while session.active:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ask(os.getpid(), Request("status")).recorded_s >= 0.1
    ask(os.getpid(), Request("start"))
    time.sleep(0.2)
    assert ask(os.getpid(), Request("status")).recording


@pytest.mark.usefixtures("session")
def test_what_is_recorded_is_not_forgotten_while_it_goes_on() -> None:
    """Starting twice changes nothing, for a while or anew is refused; stopping twice is none."""
    ask(os.getpid(), Request("start"))
    assert ask(os.getpid(), Request("start")).recording
    for request in (Request("start", clear=True), Request("start", seconds=1)):
        with pytest.raises(UsageError, match="recording already"):
            ask(os.getpid(), request)
    ask(os.getpid(), Request("stop"))
    assert not ask(os.getpid(), Request("stop")).recording


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"{}\n",
        b'{"command": "exec"}\n',
        b'{"command": "start", "clear": 1}\n',
        b'{"command": "start", "seconds": -1}\n',
        b'{"command": "start", "seconds": NaN}\n',
        b'{"command": "snapshot", "file": "relative"}\n',
        b'{"command": "snapshot", "file": 3}\n',
        b'{"command": "status", "more": ""}\n',
        b"[" * (MOST_BYTES - 1) + b"\n",
        b"x" * (MOST_BYTES + 4096),
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_request_is_refused(line: bytes) -> None:
    """With a sentence; the next one is answered."""
    assert said(line)["error"]
    assert not ask(os.getpid(), Request("status")).recording


@pytest.mark.usefixtures("session")
def test_a_client_that_says_nothing_holds_up_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than its time; nor do clients that go at once."""
    monkeypatch.setattr(server, "PATIENCE_S", 0.1)
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(str(addresses.socket_path(os.getpid())))
    silent.sendall(b'{"command"')
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(str(addresses.socket_path(os.getpid())))
    assert not ask(os.getpid(), Request("status")).recording
    silent.close()


@pytest.mark.usefixtures("session")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The client hears why, and the program goes on."""
    with pytest.raises(UsageError, match="nowhere"):
        ask(os.getpid(), Request("snapshot", file=str(tmp_path / "nowhere" / "a.tprof")))
    assert ask(os.getpid(), Request("start")).recording


@pytest.mark.usefixtures("session")
def test_only_the_user_reaches_the_socket(folder: Path) -> None:
    """Folder and socket give no rights to others."""
    assert folder.stat().st_mode & 0o777 == 0o700
    assert addresses.socket_path(os.getpid()).stat().st_mode & 0o777 == 0o600


def test_another_user_is_refused(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one who could connect."""
    monkeypatch.setattr(server, "_is_own", lambda connection: False)
    with pytest.raises(UsageError, match="another user"):
        ask(os.getpid(), Request("start"))
    assert not session.active


def test_a_folder_that_others_can_write_to(folder: Path) -> None:
    """It is used by none, neither side."""
    folder.mkdir()
    folder.chmod(0o777)
    session = tileprof.start()
    try:
        with pytest.raises(UsageError, match="not safe"):
            Server(session)
        with pytest.raises(UsageError, match="not safe"):
            ask(os.getpid(), Request("status"))
    finally:
        session.finalize()


def test_a_path_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths of sockets have some hundred bytes."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    session = tileprof.start()
    try:
        with pytest.raises(OutputError, match="cannot listen") as error:
            Server(session)
        assert "XDG_RUNTIME_DIR" in error.value.hint
    finally:
        session.finalize()


@pytest.mark.usefixtures("session")
def test_programs_that_listen(folder: Path) -> None:
    """This one; the socket of a process that was killed goes."""
    dead = folder / "4194303.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    (found,) = programs()
    assert found.pid == os.getpid()
    assert not dead.exists()
    with pytest.raises(UsageError, match="there is no process 4194303"):
        ask(4194303, Request("status"))
    with pytest.raises(UsageError, match="does not listen"):
        ask(os.getppid(), Request("status"))


def test_nobody_listens_after_the_end(folder: Path) -> None:
    """The socket is gone, and its thread; a session that has ended refuses."""
    session = tileprof.start()
    listening = Server(session)
    session.finalize()
    with pytest.raises(UsageError, match="has ended"):
        ask(os.getpid(), Request("start"))
    listening.close()
    listening.join(10)
    assert not listening.is_alive()
    assert not [*folder.iterdir()]


def test_no_answer_in_time(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives up, as it does where an extension keeps Python's lock."""
    released = threading.Event()
    monkeypatch.setattr(session, "activate", lambda: released.wait(60))
    try:
        with pytest.raises(OutputError, match="did not answer"):
            ask(os.getpid(), Request("start"), patience_s=0.1)
        monkeypatch.setattr(client, "_SOON_S", 0.1)
        assert programs() == []
    finally:
        released.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_forked_in_a_recording_for_a_while_stops_too(session: Session) -> None:
    """When the time of its parent's recording is over; it would never stop else."""
    ask(os.getpid(), Request("start", seconds=0.5))
    child = os.fork()
    if child == 0:
        deadline = time.monotonic() + 60
        while session.active and time.monotonic() < deadline:
            time.sleep(0.01)
        os._exit(session.active)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_leaves_the_socket_to_its_parent(session: Session) -> None:
    """It has no thread that would answer: the parent does, also when the child has ended."""
    child = os.fork()
    if child == 0:
        time.sleep(0.3)
        os._exit(0)
    for _ in range(5):
        assert ask(os.getpid(), Request("status")).pid == os.getpid()
    os.waitpid(child, 0)
    assert ask(os.getpid(), Request("start")).recording
    assert session.active
