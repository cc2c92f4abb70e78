"""Processes that the program spawns.

Forked children carry the recording with them (`recording`). A spawned one begins as a new Python;
its command line is made to start a session first. A child of a fork server is not followed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tileprof.errors import TileprofError
from tileprof.profiler.recording import start
from tileprof.profiler.session import Session
from tileprof.profiler.termination import finalize_on_terminate

_ATTEND = """\
try:
    from tileprof.profiler.children import attend
except ImportError:
    pass
else:
    attend({path!r}, {context!r}, {instrument!r}, {interval!r}, {timeline!r})
"""


def follow_spawned(session: Session) -> None:
    """Let children that `multiprocessing` spawns record too, into files beside the session's."""
    from multiprocessing import spawn

    command_line = spawn.get_command_line

    def get_command_line(**options: Any) -> list[str]:
        command = command_line(**options)
        if session.profile is None and session.original is not None and "-c" in command:
            at = command.index("-c") + 1
            command[at] = _attended(session, session.original) + command[at]
        return command

    spawn.get_command_line = get_command_line


def _attended(session: Session, path: Path) -> str:
    chosen = session.options
    return _ATTEND.format(
        path=str(path),
        context=chosen.context,
        instrument=chosen.instrument,
        interval=chosen.flush_interval,
        timeline=chosen.timeline,
    )


def attend(path: str, context: str, instrument: str, interval: float, timeline: int) -> None:
    """Record a spawned child from its start; what goes wrong with that must not hurt it."""
    try:
        session = start(
            context=context, instrument=instrument, flush_interval=interval, timeline=timeline
        )
    except TileprofError:
        return
    session.become_child(Path(path))
    session.recording.work()
    finalize_on_terminate(session)
    follow_spawned(session)
