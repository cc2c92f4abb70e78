"""The cache on disk: whose it is, which of its files may be run, and how large it grows.

In: `TILEPROF_CACHE`, `TILEPROF_CACHE_KEY`, `TILEPROF_CACHE_LIMIT`.  Out: a folder that nobody else
can write to, and seals: what is in the cache is run, so a file counts only if it carries a code
that was made with a key of this user.  Entries that were not used for longest go first when the
cache is larger than its limit.

The folder belongs to the user (or root) and is writable by nobody else.  So a file that was checked
is the file that is loaded afterwards: only this user could change it in between.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tileprof.errors import OutputError, UsageError
from tileprof.files import TEMPORARY_SUFFIX, file_risk, folder_risk, is_own

try:
    import fcntl
except ImportError:  # on Windows nothing tells a build that runs from one that was killed
    fcntl = None  # type: ignore[assignment]

SEAL_BYTES = hashlib.sha256().digest_size
DEFAULT_LIMIT = 2 * 10**9
"""Bytes that a cache may hold where `TILEPROF_CACHE_LIMIT` says nothing.  A library of a kernel
takes about 0.1 MB, the observer of PyTorch 2 MB."""
_KEPT_SHARE = 0.9
"""Share of the limit that is left after removing entries, so that not every build removes some."""
_TOUCHED_S = 86400.0
"""Age in seconds of the last noted use from which a use is noted again."""
_YOUNG_S = 600.0
"""Entries used within so many seconds are never removed to make room: they may be about to be
loaded."""
_ABANDONED_S = 3600.0
"""Age in seconds of a temporary file or folder that no lock protects, from which it is removed."""
_TRIM_EVERY_S = 60.0
"""Seconds between two looks at the size of the cache by one process."""
_BUILDING = ".building-"
"""Beginning of the name of a folder in which a library is being made."""
_ENTRY = re.compile(r"(?P<stem>.+-[0-9a-f]{24})(?:\.(?:so|cpp|log|lock|json))?")
"""Names of entries; nothing else in the folder is ever removed but temporary files."""
_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

T = TypeVar("T")
_trimmed = 0.0


# -- the folder


def cache_folder() -> Path:
    """Return `TILEPROF_CACHE`, else `tileprof` in the user's cache folder; nothing is checked."""
    if chosen := os.environ.get("TILEPROF_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "tileprof"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else _home() / ".cache") / "tileprof"


def digest_of(parts: Iterable[str]) -> str:
    """Return the hexadecimal digits that name an entry after all that it depends on."""
    made = hashlib.sha256()
    for part in parts:
        made.update(f"{len(part)} {part}".encode())
    return made.hexdigest()[:24]


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise OutputError(
            "there is no home folder for the cache of compiled kernels",
            hint="Set TILEPROF_CACHE to a folder of your own.",
        ) from None


def check_folder() -> Path:
    """Return the cache's folder, which need not exist; OutputError where others could put files
    there, for these would be run."""
    folder = cache_folder()
    if not os.environ.get("TILEPROF_CACHE"):
        _make_private(folder)
    if why := folder_risk(folder):
        raise OutputError(
            f"the cache of compiled kernels is not safe: {why}",
            hint=f"Make it yours alone (`chmod go-w {folder}`), or set TILEPROF_CACHE to a folder "
            "of your own.",
        )
    return folder


def create_folder() -> Path:
    """Return the cache's folder, made where it is missing.

    OutputError where it is not safe, OSError where it cannot be made.
    """
    folder = check_folder()
    _create(folder)
    # Somebody else may have made it just now.
    return check_folder()


def _make_private(folder: Path) -> None:
    """Take the rights of others from the default folder, which earlier versions made under the
    umask."""
    with contextlib.suppress(OSError):
        found = os.lstat(folder)
        if stat.S_ISDIR(found.st_mode) and is_own(found) and found.st_mode & 0o022:
            os.chmod(folder, 0o700)


def _create(folder: Path) -> None:
    """Make a folder, and the missing ones above it, for this user alone."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            with contextlib.suppress(FileExistsError):
                each.mkdir(0o700)
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is not a folder", str(folder))


@contextlib.contextmanager
def building(name: str) -> Iterator[Path]:
    """Make a folder inside the cache in which an entry can be made, to be renamed out of it.

    It is locked as long as this process lives, so that others can tell what a killed process left.
    OutputError where the cache is not safe or cannot be written.
    """
    folder, lock = cache_folder(), -1
    limit_bytes()
    try:
        create_folder()
        held = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{name[:64]}-", dir=folder))
        try:
            lock = _locked(held)
            yield held
        finally:
            shutil.rmtree(held, ignore_errors=True)
            if lock >= 0:
                os.close(lock)
    except OSError as error:
        raise OutputError(
            f"compiled code cannot be kept in {folder}: {error.strerror or error}",
            hint="Set TILEPROF_CACHE to a folder that can be written.",
        ) from error
    if time.monotonic() - _trimmed > _TRIM_EVERY_S:
        trim()


def _locked(folder: Path) -> int:
    """Lock a folder; returns what to close, -1 where there are no locks."""
    if fcntl is None:
        return -1
    handle = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def with_retries(make: Callable[[], Path], load: Callable[[str], T]) -> T:
    """Load what `make` puts into the cache; made anew where another process removes it between."""
    for _ in range(4):
        path = make()
        try:
            return load(str(path))
        except OSError:
            if path.exists():
                raise
    return load(str(make()))


# -- which files count


def seal(name: str, *parts: bytes) -> bytes:
    """Return the code of an entry: HMAC-SHA256 of its name and its parts under the user's key."""
    code = hmac.new(_key(), digestmod=hashlib.sha256)
    for part in (b"tileprof cache 1", name.encode(), *parts):
        code.update(f"{len(part)} ".encode())
        code.update(part)
    return code.digest()


def is_sealed(code: bytes, name: str, *parts: bytes) -> bool:
    """Whether `code` is the seal of an entry; nothing is where no key can be read or made."""
    try:
        return hmac.compare_digest(code, seal(name, *parts))
    except OSError:
        return False


def read_private(path: Path) -> bytes | None:
    """Return the content of a file that only this user (or root) could have written, else None."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or file_risk(found):
                return None
            return file.read()
    except OSError:
        return None


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a new file that only this user can write, whatever the umask is."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
        file.write(content)


def touch(path: Path) -> None:
    """Note that an entry was used, at most once a day."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _TOUCHED_S:
            os.utime(path)


_keys: dict[Path, bytes] = {}


def _key() -> bytes:
    """Return the user's key, made when it is first wanted.

    It lies outside of the cache, so that a cache which came from elsewhere is not believed; inside
    of it only where there is no place of the user's own.
    """
    place = _key_place()
    known = _keys.get(place)
    if known is None:
        try:
            known = _read_or_make(place)
        except OSError as error:
            if os.environ.get("TILEPROF_CACHE_KEY"):
                raise OutputError(
                    f"the key of the cache cannot be kept in {place}: {error.strerror or error}",
                    hint="Set TILEPROF_CACHE_KEY to a file that can be written, or leave it out.",
                ) from error
            known = _read_or_make(create_folder() / ".key")
        # Threads that come here together have read the same file.
        known = _keys.setdefault(place, known)
    return known


def _key_place() -> Path:
    if chosen := os.environ.get("TILEPROF_CACHE_KEY"):
        return Path(chosen)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "tileprof" / "cache.key"
        base = os.environ.get("XDG_CONFIG_HOME")
        return (Path(base) if base else Path.home() / ".config") / "tileprof" / "cache.key"
    except RuntimeError:
        return cache_folder() / ".key"


def _read_or_make(place: Path) -> bytes:
    """Return the key in a file; of several processes that make one, all get the first one's."""
    for _ in range(2):
        # Looked for before it is read: another process may make it in between.
        was_there = os.path.lexists(place)
        held = read_private(place)
        if held is not None and len(held) == SEAL_BYTES:
            return held
        if held is None and not was_there:
            _make_key(place)
            continue
        # Others could have written it, or it is damaged: entries under it are made anew.
        place.unlink()
    held = read_private(place)
    if held is None or len(held) != SEAL_BYTES:
        raise OSError(f"{place} can be written by others")
    return held


def _make_key(place: Path) -> None:
    """Put a new key where there is none; of several processes that do so, the first one's stays."""
    _create(place.parent)
    new = place.with_name(f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    write_private(new, secrets.token_bytes(SEAL_BYTES))
    try:
        # Unlike a rename, a link leaves a file that is there as it is.
        os.link(new, place)
    except FileExistsError:
        pass
    except OSError:
        # Some file systems have no links. Should two processes come here at once, entries that the
        # first one seals meanwhile are made anew later.
        os.replace(new, place)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()


# -- how large it grows


@dataclass(slots=True)
class Entry:
    """One compiled thing: its files or its folder."""

    stem: str
    paths: list[Path] = field(default_factory=list)
    bytes: int = 0
    used: float = 0.0
    """When it was last used, to a day, in seconds since 1970."""


def limit_bytes() -> int | None:
    """Return how many bytes the cache may hold; None where `TILEPROF_CACHE_LIMIT` is 0."""
    text = os.environ.get("TILEPROF_CACHE_LIMIT", "").strip()
    if not text:
        return DEFAULT_LIMIT
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)I?B?", text.upper())
    if found is None:
        raise UsageError(
            f"TILEPROF_CACHE_LIMIT is `{text:.40}`, which is not a size",
            hint="Give it a size such as 500MB or 2GB, or 0 for no limit.",
        )
    return int(float(found[1]) * _UNITS[found[2]]) or None


def entries(folder: Path) -> list[Entry]:
    """Return the entries of a cache, the one used least recently first."""
    found: dict[str, Entry] = {}
    for item in _scan(folder):
        named = _ENTRY.fullmatch(item.name)
        if named is None:
            continue
        entry = found.setdefault(named["stem"], Entry(named["stem"]))
        entry.paths.append(Path(item.path))
        with contextlib.suppress(OSError):
            if item.is_dir(follow_symlinks=False):
                inside = [each.stat(follow_symlinks=False) for each in _scan(Path(item.path))]
            else:
                inside = [item.stat(follow_symlinks=False)]
            entry.bytes += sum(each.st_size for each in inside)
            entry.used = max([entry.used, *(each.st_mtime for each in inside)])
    return sorted(found.values(), key=lambda each: each.used)


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError:
        return []


def trim() -> None:
    """Remove what killed builds left and, above the limit, the entries not used for longest.

    Entries that were used within ten minutes stay, so a cache may be above its limit for a while.
    """
    global _trimmed
    _trimmed = time.monotonic()
    folder, limit = cache_folder(), limit_bytes()
    _remove_abandoned(folder)
    if limit is None:
        return
    found = entries(folder)
    total = sum(each.bytes for each in found)
    if total <= limit:
        return
    young = time.time() - _YOUNG_S
    for entry in found:
        if total <= limit * _KEPT_SHARE or entry.used > young:
            return
        _remove(entry.paths)
        total -= entry.bytes


def clear() -> tuple[int, int]:
    """Remove all entries, and what killed builds left; returns how many, and their bytes.

    What is no entry stays, as do builds that run.
    """
    folder = check_folder()
    found = entries(folder)
    for entry in found:
        _remove(entry.paths)
    _remove_abandoned(folder)
    return len(found), sum(each.bytes for each in found)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def _remove_abandoned(folder: Path) -> None:
    old = time.time() - _ABANDONED_S
    for item in _scan(folder):
        with contextlib.suppress(OSError):
            made = item.stat(follow_symlinks=False).st_mtime
            if item.name.startswith(_BUILDING):
                unused = _is_unlocked(item.path, made)
            else:
                unused = item.name.endswith(TEMPORARY_SUFFIX) and made < old
            if unused:
                _remove([Path(item.path)])


def _is_unlocked(path: str, made: float) -> bool:
    """Whether the process that made a folder is gone; where nothing can be locked, by its age."""
    if fcntl is None:
        return made < time.time() - _ABANDONED_S
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return made < time.time() - _ABANDONED_S
    finally:
        os.close(handle)
    # Its maker may be about to lock it.
    return made < time.time() - 60.0
