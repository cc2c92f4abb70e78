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
    """Record a `with` block, or each call of a decorated function.

    `path` names the profile to write, by convention `NAME.tprof`; without it nothing is written.
    The `with` statement gives the `Session`, and its `profile` attribute is the result after the
    block. Several sessions may overlap.

        with tileprof.profile("step.tprof", pc_sampling=True) as session:
            step()
        print(session.profile.text())

        @tileprof.profile("train.tprof")
        def train(): ...

    Options, all optional, with details in `help(tileprof.start)`:

    - `context`: "scopes", "python", "full" (default) or "native": what a call path contains
    - `instrument`, `inside`: what to measure inside tile kernels, and how much of a launch
    - `warm_up`, `duty`, `every`: which steps of the program to record
    - `timeline`: also keep single events
    - `metrics`, `pm_sampling`, `pc_sampling`, `pc_sampling_exact`: hardware counters and samples
    - `memory`, `backward_ops`, `layers`: more about PyTorch
    - `flush_interval`: seconds between updates of the file (default 10)

    Raise `UsageError` for an unknown option or a wrong value, and `OutputError` for a path that
    cannot be written.
    """
    return Profiling(path, options)


def activate(session: Session | None = None) -> None:
    """Resume recording after `deactivate`: in one session, or without an argument in all."""
    for each in _chosen(session):
        each.activate()


def deactivate(session: Session | None = None) -> None:
    """Pause recording: in one session, or without an argument in all open ones."""
    for each in _chosen(session):
        each.deactivate()


def finalize(session: Session | None = None) -> Profile | None:
    """End a session, write its file if it has a path, and return its profile.

    Without an argument, end all open sessions and return the profile of the one started last, or
    None if no session is open.
    """
    profiles = [each.finalize() for each in _chosen(session)]
    return profiles[-1] if profiles else None


def _chosen(session: Session | None) -> list[Session]:
    return [session] if session is not None else open_sessions()
