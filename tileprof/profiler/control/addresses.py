"""Places of the sockets of programs under control: one a process, in a folder of the user's.

In: the number of a process.  Out: the path of its socket; all such paths.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tileprof.errors import UsageError
from tileprof.files import folder_risk

_SUFFIX = ".sock"
SUPPORTED = hasattr(os, "geteuid")
"""Whether there are sockets in files that only one user can reach."""


def socket_folder() -> Path:
    """Return the folder of this user's sockets, which may not be there yet."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return Path(runtime) / "tileprof"
    return Path(tempfile.gettempdir()) / f"tileprof-{os.geteuid()}"


def checked_folder() -> Path:
    """Return the folder once it is safe to use; UsageError where others could change it, or where
    the system has no users."""
    if not SUPPORTED:
        raise UsageError(
            "`tileprof ctl` needs a system with users, as Linux and macOS are",
            hint="There, `tileprof.start` and `tileprof.activate` do the same in the program.",
        )
    folder = socket_folder()
    if why := folder_risk(folder):
        raise UsageError(
            f"the folder of control sockets is not safe: {why}",
            hint="Remove it, or set XDG_RUNTIME_DIR to a folder of your own.",
        )
    return folder


def socket_path(pid: int) -> Path:
    """Return the path of a process's socket."""
    return checked_folder() / f"{pid}{_SUFFIX}"


def listening() -> list[int]:
    """Return the processes that have a socket, whether they are alive or not."""
    folder = checked_folder()
    found = (each.stem for each in folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ()
    return sorted(int(stem) for stem in found if stem.isdecimal())


def remove_dead() -> None:
    """Remove the sockets of processes that were killed."""
    for pid in listening():
        if not is_alive(pid):
            with suppress(OSError):
                os.unlink(socket_path(pid))


def is_alive(pid: int) -> bool:
    """Return whether there is a process of that number, whoever's."""
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    return True
