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
    attend({path!r}, {options!r})
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
    names = ("context", "instrument", "backward_ops", "flush_interval", "timeline", "duty", "every",
             "pc_sampling", "pc_sampling_exact", "metrics")  # fmt: skip
    chosen = {name: getattr(session.options, name) for name in names}
    chosen["inside"] = str(session.options.inside) or None
    return _ATTEND.format(path=str(path), options=chosen)


def attend(path: str, options: dict[str, Any]) -> None:
    """Record a spawned child from its start; what goes wrong with that must not hurt it."""
    try:
        session = start(**options)
    except TileprofError:
        return
    session.become_child(Path(path))
    session.recording.work()
    finalize_on_terminate(session)
    follow_spawned(session)
