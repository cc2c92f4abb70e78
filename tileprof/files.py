"""Writing files so that no reader sees half of one and no other writer can interfere, and telling
whose a file is.

In: a path and what to write.  Out: the file, whole, or the old file unchanged.  Everything in
tileprof that writes a file which another process may read goes through `replace_file`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import tarfile

DATABASE = b"SQLite format 3\0"
"""First bytes of a SQLite database, which a profile is."""
TEMPORARY_SUFFIX = ".tileprof-tmp"
"""Ending of the temporary files that `replace_file` makes beside its targets.  A process that is
killed between creating and renaming one leaves it behind; a cache may delete old ones by name."""


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes the place of `path` when the block ends.

    The content goes to an exclusively created file in the target's own folder, is flushed to the
    disk and renamed, so any number of writers and readers may work on one path: each reader sees
    one writer's file, whole.  When the block raises, `path` keeps its old content and nothing is
    left behind.  A symbolic link stays a link; the file behind it is replaced.  An existing file
    keeps its permission bits; a new one gets those of the umask.  A path that is no regular file
    (`/dev/stdout`, a pipe) is written to directly.

    Raises OSError where the folder or the file cannot be written.
    """
    target = os.path.realpath(path)
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    # The name is cut so that it fits beside names of the longest length that file systems allow.
    temporary = os.path.join(folder, f".{name[:64]}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(temporary, flags | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                with contextlib.suppress(OSError):
                    os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def replace_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path` as `replace_file` does.

    Raises FileExistsError where a database, such as a profile, would take the place of another kind
    of file, or the other way round: then a wrong name was given, of a script for example.
    """
    if reason := other_kind(path, content.startswith(DATABASE)):
        raise FileExistsError(errno.EEXIST, reason)
    with replace_file(path) as file:
        file.write(content)


def unpack(archive: tarfile.TarFile, folder: str | os.PathLike[str]) -> None:
    """Write the files of an archive below a folder, and none elsewhere.

    Python 3.11 before 3.11.4 writes them wherever their names say, so archives are one's own.
    """
    if hasattr(archive, "extraction_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def other_kind(path: str | os.PathLike[str], database: bool) -> str:
    """Return why a database, or what is none, must not take the place of a file; "" if it may."""
    try:
        with open(path, "rb") if os.path.isfile(path) else contextlib.nullcontext() as file:
            begin = file.read(len(DATABASE)) if file is not None else b""
    except OSError:
        return ""
    if not begin or begin.startswith(DATABASE) == database:
        return ""
    return "it is there, and is no profile" if database else "it is a profile or another database"


def _mode(target: str) -> int | None:
    """Type and permission bits of an existing file; None where there is none."""
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def folder_risk(folder: str | os.PathLike[str]) -> str:
    """Return why others could put files into a folder, as a clause; '' where they cannot.

    A folder above counts only where everybody may rename in it: its owner, and a group that may
    write to it, are trusted.  A folder that does not exist has only folders above.
    """
    with contextlib.suppress(OSError):
        for found in (os.lstat(folder), os.stat(folder)):
            if why := file_risk(found):
                return f"{os.fspath(folder)} {why}"
    # A link leads elsewhere: the way to it counts as well as the way to what it names.
    for way in (os.path.abspath(folder), os.path.realpath(folder)):
        while (above := os.path.dirname(way)) != way:
            with contextlib.suppress(OSError):
                mode = os.stat(above).st_mode
                if mode & 0o002 and not mode & stat.S_ISVTX:
                    return f"everybody can write to {above}"
            way = above
    return ""


def file_risk(found: os.stat_result) -> str:
    """Return why others could have written a file or folder, as the rest of a sentence; '' where
    they could not.  A group that has the number of its user is the user's own."""
    mode = stat.S_IMODE(found.st_mode)
    if not is_own(found):
        return f"belongs to another user (number {found.st_uid})"
    # Permission bits of a link say nothing; those of Windows neither.
    shared = mode & 0o002 or (mode & 0o020 and found.st_gid != found.st_uid)
    if shared and not stat.S_ISLNK(found.st_mode) and hasattr(os, "geteuid"):
        return f"can be written by others (its mode is {mode:o})"
    return ""


def is_own(found: os.stat_result) -> bool:
    """Whether a file belongs to this user or to root, or to nobody where files have no owners."""
    return not hasattr(os, "geteuid") or found.st_uid in (0, os.geteuid())
