"""The thread of a recorded program that answers `tileprof ctl`.

In: a session, and requests from processes of the same user.  Out: a session that records or does
not, files, answers. The thread is none of the program's: it is not recorded.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

from tileprof.errors import OutputError, TileprofError, UsageError
from tileprof.profiler.session.recording import open_sessions
from tileprof.profiler.session.session import Session
from tileprof.runtime import hooks

from .addresses import checked_folder, remove_dead, socket_path
from .messages import Refusal, Request, State, encoded, parse_request, read_line

PATIENCE_S = 5.0
"""Seconds that a request may take to arrive."""
_LOOK_S = 0.05
"""Seconds between looks at whether a recording is due to stop."""
_WAITING = 8
"""Connections that wait for an answer, at most."""

_IN_SPAWNED = """\
from tileprof.profiler.control.server import follow
follow({due!r})
"""
_servers: weakref.WeakSet[Server] = weakref.WeakSet()


class Server(threading.Thread):
    """Answers requests until it is closed; a daemon, so that it never holds up an exit."""

    def __init__(self, session: Session, due: float | None = None) -> None:
        super().__init__(name="tileprof control", daemon=True)
        self._session = session
        self._since = time.monotonic() if session.active else None
        """Time at which the recording that goes on began, in s; None where none does."""
        self._recorded_s = 0.0
        self._due = due
        """Time at which it stops by itself, on the clock of `time.monotonic`."""
        self._over = False
        self.path, self._socket = _listening()
        self._inode = os.lstat(self.path).st_ino
        session.in_spawned = self._in_spawned
        _servers.add(self)
        self.start()

    def close(self) -> None:
        """Answer no further request."""
        self._over = True
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.setblocking(False)
            caller.connect(str(self.path))  # `accept` returns
        with suppress(OSError):
            # Another process may have the number meanwhile.
            if os.lstat(self.path).st_ino == self._inode:
                os.unlink(self.path)

    def _in_spawned(self) -> str:
        # The clock is the system's: a child's recording ends with this one.
        return _IN_SPAWNED.format(due=self._due)

    def after_fork(self) -> None:
        """Let a forked child listen by itself: this socket and its file are the parent's."""
        self._socket.close()
        _servers.discard(self)
        if not self._over and self._session.profile is None:
            # A failure must not hurt the child.
            with suppress(TileprofError, RuntimeError):
                Server(self._session, self._due)

    def run(self) -> None:
        """Answer one request after the other."""
        ident = threading.get_ident()
        hooks.own_threads.add(ident)
        try:
            while not self._over:
                self._answer_next()
        finally:
            self._socket.close()
            hooks.own_threads.discard(ident)

    def _answer_next(self) -> None:
        """Answer a request, if one comes soon."""
        try:
            self._socket.settimeout(None if self._due is None else _LOOK_S)
            connection, _ = self._socket.accept()
        except TimeoutError:
            self._pause_if_due()
            return
        except OSError:
            # As where the process has no files left.
            self._over = True
            return
        if self._over:
            connection.close()
            return
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE_S)
            # Read in any case: who still writes would not hear the answer.
            line = read_line(connection)
            refused = Refusal("this process belongs to another user")
            request = parse_request(line) if _is_own(connection) else refused
            connection.sendall(encoded(self._answer(request)))
        self._pause_if_due()

    def _answer(self, request: Request | Refusal) -> State | Refusal:
        if isinstance(request, Refusal):
            return request
        try:
            if self._session.profile is not None:
                raise UsageError("the recording of this process has ended")
            match request.command:
                case "start":
                    self._begin(request)
                case "stop":
                    self._pause()
                case "snapshot":
                    self._write(request.file)
                case "status":
                    pass
        except TileprofError as error:
            return Refusal(error.message, error.hint)
        except Exception as error:
            # The program goes on whatever happens in here.
            return Refusal(f"{type(error).__name__}: {error}"[:1000])
        return self._state()

    def _begin(self, request: Request) -> None:
        if self._since is not None:
            if request.clear or request.seconds:
                raise UsageError(
                    "it is recording already",
                    hint="`tileprof ctl PID stop` stops that; `snapshot FILE` writes what it has.",
                )
            return
        if request.clear:
            self._session.clear()
            self._recorded_s = 0.0
        self._session.activate()
        self._since = time.monotonic()
        self._due = self._since + request.seconds if request.seconds else None

    def _pause(self) -> None:
        if self._since is not None:
            self._session.stop()
            self._recorded_s += time.monotonic() - self._since
            self._since = self._due = None

    def _pause_if_due(self) -> None:
        if self._due is not None and time.monotonic() >= self._due:
            with suppress(TileprofError):
                self._pause()

    def _write(self, file: str) -> None:
        if not os.path.isabs(file):
            raise UsageError("`file` is not an absolute path")
        self._session.write_copy(Path(file))

    def _state(self) -> State:
        goes_on = time.monotonic() - self._since if self._since is not None else 0.0
        session = self._session
        return State(
            os.getpid(), " ".join(sys.argv)[:1000], self._since is not None,
            round(self._recorded_s + goes_on, 6), str(session.path or ""), session.child,
        )  # fmt: skip


def _listening() -> tuple[Path, socket.socket]:
    path = socket_path(os.getpid())
    remove_dead()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(0o700, exist_ok=True)
        checked_folder()
        with suppress(FileNotFoundError):
            os.unlink(path)  # of a process that had this number before
        listener.bind(str(path))
        os.chmod(path, 0o600)
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        raise OutputError(
            f"cannot listen at {path}: {error.strerror or error}",
            hint="Set XDG_RUNTIME_DIR to a folder of your own with a short path.",
        ) from None
    return path, listener


def _is_own(connection: socket.socket) -> bool:
    """Return whether this user, or root, is at the other end; True where the system does not say:
    the rights of folder and socket have to do then."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return user in (0, os.geteuid())


def follow(due: float | None = None) -> None:
    """Let a spawned child listen, whose parent does; `due` is when the parent stops recording."""
    for session in open_sessions():
        with suppress(TileprofError):
            Server(session, due)


def _after_fork() -> None:
    for server in list(_servers):
        server.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
