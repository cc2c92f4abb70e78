"""Requests and answers of `tileprof ctl`: one line of JSON each.

A request is an object with a `command` and its arguments; an answer has the state of the recording,
or an `error` and a `hint`.
"""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from typing import Any, Literal

Command = Literal["status", "start", "stop", "snapshot"]
COMMANDS: tuple[Command, ...] = ("status", "start", "stop", "snapshot")
MOST_BYTES = 1 << 16
"""Length of a request or an answer, at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request to a process."""

    command: Command
    clear: bool = False
    """Whether `start` forgets what was recorded before."""
    seconds: float = 0.0
    """Time after which a recording that `start` begins stops by itself, in s; 0: it does not."""
    file: str = ""
    """Absolute path of the profile that `snapshot` writes."""


@dataclass(frozen=True, slots=True)
class State:
    """State of the recording of a process."""

    pid: int
    program: str
    recording: bool
    recorded_s: float
    """Time that was recorded, in s, since the begin or since it was cleared."""
    file: str
    """Path of the profile that is written at the end."""
    child: bool = False
    """Whether another process under control started it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason for which a request was not carried out."""

    error: str
    hint: str = ""


def parse_request(text: str) -> Request | Refusal:
    """Return what a line asks for, or why it is no request."""
    found = _object(text)
    if found is None or found.get("command") not in COMMANDS:
        return Refusal(f"this is not a request; known are {', '.join(COMMANDS)}")
    kinds: dict[str, tuple[type, ...]] = {
        "command": (str,), "clear": (bool,), "seconds": (int, float), "file": (str,),
    }  # fmt: skip
    for name, value in found.items():
        if name not in kinds or not isinstance(value, kinds[name]):
            return Refusal(f"a request has no `{name}` of {type(value).__name__}")
    request = Request(**found)
    if not 0 <= request.seconds < float("inf"):
        return Refusal("`seconds` is a number from 0 on")
    return request


def parse_answer(text: str) -> State | Refusal | None:
    """Return what a line says; None where it is no answer."""
    found = _object(text)
    for kind in (State, Refusal):
        try:
            return kind(**(found or {}))
        except TypeError:
            continue
    return None


def encoded(message: Request | State | Refusal) -> bytes:
    """Return a message as a line."""
    return json.dumps(asdict(message)).encode() + b"\n"


def read_line(connection: socket.socket) -> str:
    """Return the line that the other side sends; '' for none, or one that is too long.

    OSError where it does not come in the connection's time.
    """
    held = b""
    while not held.endswith(b"\n") and len(held) <= MOST_BYTES:
        part = connection.recv(4096)
        if not part:
            return ""
        held += part
    return held.decode(errors="replace") if len(held) <= MOST_BYTES else ""


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
