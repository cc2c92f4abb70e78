"""The texts of the user's own files that appear in a tree."""

from __future__ import annotations

import functools
import os
import sysconfig
import tokenize
from collections.abc import Iterable

from tileprof.profile.installed import is_generated

MAX_FILES = 200
MAX_BYTES = 1_000_000

_LIBRARIES = tuple(
    {
        os.path.join(sysconfig.get_path(name), "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


class Sources:
    """Reads each file once, as it was when its name was first seen."""

    def __init__(self) -> None:
        self._texts: dict[str, str | None] = {}

    def texts(self, files: Iterable[str]) -> dict[str, str]:
        """Return file name to text: at most `MAX_FILES`, none above `MAX_BYTES`, no libraries."""
        found: dict[str, str] = {}
        for file in files:
            if len(found) >= MAX_FILES:
                break
            if file not in self._texts:
                self._texts[file] = _read(file) if of_user(file) else None
            if (text := self._texts[file]) is not None:
                found[file] = text
        return found


@functools.lru_cache(maxsize=10_000)
def of_user(file: str) -> bool:
    """Tell whether a file is the program's own: no library's, and no text that was made up."""
    if not file or file.startswith(("<", *_LIBRARIES)):
        return False
    return not any(folder in file for folder in _INSTALLED) and not is_generated(file)


def _read(file: str) -> str | None:
    try:
        if os.path.getsize(file) > MAX_BYTES:
            return None
        with tokenize.open(file) as lines:
            return lines.read()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return None
