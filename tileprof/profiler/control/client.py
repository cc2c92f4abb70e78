"""Requests to programs that `tileprof run` made ready for control.

In: the number of a process and a request.  Out: the state of its recording, or an error with what
it said.
"""

from __future__ import annotations

import os
import socket

from tileprof.errors import OutputError, UsageError

from .addresses import SUPPORTED, is_alive, listening, remove_dead, socket_path
from .messages import Refusal, Request, State, encoded, parse_answer, read_line

PATIENCE_S = 120.0
"""Seconds that an answer may take: a large profile is written before it comes."""
_SOON_S = 2.0
"""The same where many are asked."""


def ask(pid: int, request: Request, patience_s: float = PATIENCE_S) -> State:
    """Have a process do something; returns the state of its recording after that.

    UsageError where it does not listen or refuses, OutputError where it does not answer in time.
    """
    path = str(socket_path(pid))
    if not os.path.exists(path):  # whose name may be longer than that of a socket can be
        raise _silent(pid)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience_s)
            connection.connect(path)
            connection.sendall(encoded(request))
            answer = parse_answer(read_line(connection))
    except (FileNotFoundError, ConnectionRefusedError):
        raise _silent(pid) from None
    except TimeoutError:
        raise OutputError(
            f"process {pid} did not answer within {patience_s:.0f} s",
            hint="It may be held up in an extension that keeps Python's lock; try again.",
        ) from None
    except OSError as error:
        raise OutputError(f"process {pid} cannot be asked: {error.strerror or error}") from None
    if answer is None:
        raise OutputError(f"process {pid} ended before it answered")
    if isinstance(answer, Refusal):
        raise UsageError(f"process {pid}: {answer.error}", hint=answer.hint)
    return answer


def programs() -> list[State]:
    """Return the state of all programs of this user that listen; removes sockets of dead ones."""
    if not SUPPORTED:
        return []
    remove_dead()
    found = []
    for pid in listening():
        try:
            found.append(ask(pid, Request("status"), _SOON_S))
        except (UsageError, OutputError):
            continue
    return found


def _silent(pid: int) -> UsageError:
    if not is_alive(pid):
        return UsageError(f"there is no process {pid}", hint="`tileprof ctl` lists those to ask.")
    return UsageError(
        f"process {pid} does not listen",
        hint="Start it with `tileprof run --control` or `--paused`; `tileprof ctl` lists those"
        " that listen.",
    )
