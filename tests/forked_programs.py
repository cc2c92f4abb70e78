"""Programs that begin with what they import, in processes forked from one that has imported it.

Most of a small program's time goes into imports, of PyTorch above all. `Forked` is a
`subprocess.Popen` that leaves them out, and the fixture `forked` puts it in that one's place. Tests
of how a program starts have processes of their own.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).parents[1]
Ended: TypeAlias = "subprocess.CompletedProcess[str]"

_SERVE = "import sys, tests.forking as forking; forking.run(*forking.serve(sys.argv[1:]))"
_PACKAGES = ("tileprof.cli", "tileprof.lang.public", "tileprof.profiler.public",
             "tileprof.profiler.session.recording")  # fmt: skip
_POPEN: Any = subprocess.Popen
_ONE_BY_ONE = threading.Lock()
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of `prctl`."""


@cache
def _server(*packages: str) -> socket.socket:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", _SERVE, str(theirs.fileno()), *packages, *_PACKAGES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    held = _POPEN(command, env=environment, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(_end, held, ours)
    return ours


def _end(held: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    held.wait(timeout=10)


class Forked(_POPEN):  # type: ignore[misc]
    """A child process that is forked for a script, a module or a text in Python.

    Other programs, and Python with other options, are started as ever.
    """

    imported: tuple[str, ...] = ()
    """Modules that are imported beside those of tileprof."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any,
                       pass_fds: Any, cwd: Any, env: Any, *rest: Any) -> None:  # fmt: skip
        words = [os.fsdecode(each) for each in args] if isinstance(args, (list, tuple)) else []
        usual = words[:1] == [sys.executable] and not (executable or preexec_fn)
        known = len(words) > 1 and (words[1] in ("-c", "-m") or not words[1].startswith("-"))
        if not (usual and known) or sys.platform != "linux":
            super()._execute_child(
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest
            )
            return
        ends = rest[3:9]
        streams = [end if end >= 0 else i for i, end in enumerate((ends[0], ends[3], ends[5]))]
        environment = os.environ if env is None else env
        order = {
            "words": words, "folder": os.fsdecode(cwd or os.getcwd()), "session": rest[14],
            "numbers": [0, 1, 2, *pass_fds],
            "environment": {os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()},
        }  # fmt: skip
        self.pid = _forked(
            _server(*self.imported), json.dumps(order).encode(), [*streams, *pass_fds]
        )
        self._child_created = True
        self._close_pipe_fds(*ends)


def _forked(server: socket.socket, order: bytes, streams: Sequence[int]) -> int:
    """Return the number of a new child of this process, which the server forks."""
    prctl = ctypes.CDLL(None).prctl
    with _ONE_BY_ONE:
        # The child comes to this process when the one that forks it ends.
        prctl(_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [b"!"], streams)
            server.sendall(struct.pack("!I", len(order)) + order)
            pid: int = struct.unpack("!I", server.recv(4, socket.MSG_WAITALL))[0]
        finally:
            prctl(_SUBREAPER, 0, 0, 0, 0)
    # Nobody could learn how another process's child ends.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return pid


class ForkedOfTorch(Forked):
    """The same for programs of PyTorch."""

    # An optimizer imports the compiler at its first step.
    imported = ("torch", "torch._dynamo", "torch.utils.checkpoint", "torch.utils.data")


def run(command: Sequence[str], kind: type[Forked] = Forked, **options: Any) -> Ended:
    """Run a program to its end as `subprocess.run` does, and take what it prints."""
    with kind(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    ) as process:
        try:
            output, errors = process.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def tileprof(folder: Path, words: Sequence[str]) -> Ended:
    """Run a command of `tileprof` in a folder, on a program of PyTorch; fails where it fails."""
    pytest.importorskip("torch")
    ended = run([sys.executable, "-m", "tileprof", *words], ForkedOfTorch, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended


def small_tileprof(folder: Path, words: Sequence[str]) -> Ended:
    """Run a command of `tileprof` in a folder, on a program without PyTorch."""
    return run([sys.executable, "-m", "tileprof", *words], cwd=folder)


def python(folder: Path, code: str, **environment: str) -> Ended:
    """Run code in a folder, as a program that has imported PyTorch, with more environment
    variables."""
    pytest.importorskip("torch")
    given = {**os.environ, **environment}
    return run([sys.executable, "-c", code], ForkedOfTorch, cwd=folder, env=given)
