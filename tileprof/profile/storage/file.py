"""The `.tprof` file: written in one piece, refused with a sentence where it is not whole."""

from __future__ import annotations

import os
import stat
from typing import Final

from tileprof.errors import OutputError, ProfileFileError, TileprofError
from tileprof.files import DATABASE, replace_bytes
from tileprof.profile.storage.database import opened
from tileprof.profile.storage.limits import DEPTH, FILE_BYTES
from tileprof.profile.storage.reading import from_database
from tileprof.profile.storage.schema import APPLICATION_ID, VERSION
from tileprof.profile.storage.writing import to_bytes
from tileprof.profile.transform.operations import limit_depth
from tileprof.profile.tree.model import Profile

_HEADER: Final = 100
_MAKE_ONE: Final = "`tileprof run SCRIPT` makes a profile."
_MAKE_ANEW: Final = "Make it again with `tileprof run`, or copy it again from where it was made."


def save(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile; whoever reads `path` meanwhile sees the old file or the new one, whole.

    Raises `OutputError` where the file cannot be written; nothing is left behind then.
    """
    if profile.depths.max(initial=0) >= DEPTH:
        # What no reader takes is folded, not lost: the last level has the sums of all below it.
        profile = limit_depth(profile, DEPTH)
    content = to_bytes(profile)
    try:
        replace_bytes(path, content)
    except OSError as error:
        raise OutputError(
            f"cannot write the profile {os.fspath(path)}: {error.strerror or error}",
            hint="Choose another place with `-o FILE`.",
        ) from None


def load(path: str | os.PathLike[str]) -> Profile:
    """Read a profile from a `.tprof` file.

    Raise `ProfileFileError` for a file that is missing, damaged, incomplete, or not a profile.
    """
    name = os.fspath(path)
    size = _check_header(name)
    try:
        with opened(os.path.abspath(name), size) as database:
            profile = from_database(database)
        profile.check()
    except TileprofError as error:
        raise ProfileFileError(f"{name} is damaged: {error.message}", hint=_MAKE_ANEW) from None
    return profile


def _check_header(name: str) -> int:
    """Refuse what is no whole profile of a known version; return the file's size in bytes."""
    # The offsets are SQLite's.
    header, size = _head(name)
    if not header:
        raise ProfileFileError(f"{name} is empty", hint=_MAKE_ONE)
    if not header.startswith(DATABASE[: len(header)]):
        raise ProfileFileError(f"{name} is not a tileprof profile", hint=_MAKE_ONE)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if len(header) < _HEADER or size < pages * (page if page > 1 else 65536):
        raise ProfileFileError(f"{name} is cut short", hint=_MAKE_ANEW)
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ProfileFileError(
            f"{name} is a SQLite database, but not a tileprof profile", hint=_MAKE_ONE
        )
    version = int.from_bytes(header[60:64], "big")
    if version > VERSION:
        raise ProfileFileError(
            f"{name} has version {version} of the profile format, "
            f"and this tileprof reads up to version {VERSION}",
            hint="Update tileprof: pip install --upgrade tileprof",
        )
    if version < 1:
        raise ProfileFileError(f"{name} does not say its format version", hint=_MAKE_ANEW)
    if size > FILE_BYTES:
        raise ProfileFileError(
            f"{name} has {size:,} bytes, and at most {FILE_BYTES:,} are read",
            hint="Record less: fewer steps, or without --timeline.",
        )
    return size


def _head(name: str) -> tuple[bytes, int]:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode) and not os.path.isdir(name):
            raise ProfileFileError(f"{name} is not a file", hint=_MAKE_ONE)
        with open(name, "rb") as file:
            return file.read(_HEADER), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise ProfileFileError(f"{name} does not exist", hint=_MAKE_ONE) from None
    except IsADirectoryError:
        raise ProfileFileError(f"{name} is a folder, not a profile", hint=_MAKE_ONE) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProfileFileError(
            f"{name} cannot be read: {reason}", hint="Check its path and permissions."
        ) from None
