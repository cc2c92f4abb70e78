"""The functions that `tileprof` exports over sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from tileprof.profile import Profile
from tileprof.profiler.host.decorate import wrapped
from tileprof.profiler.options import parse_options
from tileprof.profiler.session.recording import open_sessions, start
from tileprof.profiler.session.session import Session

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Profiling:
    """`with` it or decorate with it: a session from enter to exit, one for each call."""

    def __init__(self, path: str | os.PathLike[str] | None, options: dict[str, Any]) -> None:
        parse_options(**options)
        self._path = path
        self._options = options
        self._sessions: list[Session] = []

    def __enter__(self) -> Session:
        self._sessions.append(start(self._path, **self._options))
        return self._sessions[-1]

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._sessions.pop().finalize()

    def __call__(self, function: _Function) -> _Function:
        """Profile each call of a function."""
        return wrapped(function, self)


def profile(path: str | os.PathLike[str] | None = None, **options: Any) -> Profiling:
    """Profile a `with` block, whose session is finalized at its end, or each call of a function.

    Options and errors as for `start`.
    """
    return Profiling(path, options)


def activate(session: Session | None = None) -> None:
    """Let a session record again; all of them unless one is given."""
    for each in _chosen(session):
        each.activate()


def deactivate(session: Session | None = None) -> None:
    """Let a session pause; all of them unless one is given."""
    for each in _chosen(session):
        each.deactivate()


def finalize(session: Session | None = None) -> Profile | None:
    """End a session, or all of them, and return the profile (of the last one started, or None)."""
    profiles = [each.finalize() for each in _chosen(session)]
    return profiles[-1] if profiles else None


def _chosen(session: Session | None) -> list[Session]:
    return [session] if session is not None else open_sessions()
