"""Processes that the program starts with `multiprocessing`.

Forked children carry the recording with them (`recording`). A child that is spawned, or forked by a
fork server, is a Python that knows nothing of it: it starts a session when it reads what its parent
has prepared for it, before anything of the program runs there.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

from tileprof.errors import TileprofError
from tileprof.profiler.endings.termination import finalize_on_terminate
from tileprof.profiler.session.recording import finalize_with_process, start
from tileprof.profiler.session.session import Session

_ATTEND = """\
try:
    from tileprof.profiler.session.children import attend
except ImportError:
    pass
else:
    attend({path!r}, {options!r}, {paused!r})
    {more}
"""
_KEY = "tileprof"
"""Key of the request in what is prepared for a child; `multiprocessing` ignores it."""


class _Request:
    """Runs a text when it is unpickled, whether tileprof is installed there or not."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._text, {})


def follow_spawned(session: Session) -> None:
    """Let children that `multiprocessing` spawns, or has a fork server make, record too.

    Their files lie beside the session's.
    """
    from multiprocessing import spawn

    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, object]:
        prepared = dict(prepare(name))
        if session.profile is None and session.original is not None:
            prepared[_KEY] = _Request(_attended(session, session.original))
        return prepared

    spawn.get_preparation_data = get_preparation_data


def _attended(session: Session, path: Path) -> str:
    names = ("context", "instrument", "backward_ops", "layers", "flush_interval", "timeline",
             "duty", "every", "pc_sampling", "pc_sampling_exact", "metrics")  # fmt: skip
    chosen = {name: getattr(session.options, name) for name in names}
    chosen["inside"] = str(session.options.inside) or None
    # A child records, or does not, as this process does when it starts it.
    paused, more = not session.active, indent(session.in_spawned(), " " * 4).strip()
    return _ATTEND.format(path=str(path), options=chosen, paused=paused, more=more)


def attend(path: str, options: dict[str, Any], paused: bool = False) -> None:
    """Record a spawned child from its start; what goes wrong with that must not hurt it."""
    try:
        session = start(**options)
    except TileprofError:
        return
    session.become_child(Path(path))
    if paused:
        session.hold()
    session.recording.work()
    finalize_on_terminate(session)
    finalize_with_process(session.recording)
    follow_spawned(session)
