"""The cache: whose it is, what of it is believed, how large it grows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tileprof.errors import OutputError, UsageError
from tileprof.native import cache
from tileprof.native.building import (
    Compiler,
    Order,
    build_library,
    find_compiler,
    is_cached,
    load_library,
)

TINY = 'extern "C" int answer() { return 42; }\n'
OTHER = 'extern "C" int answer() { return 13; }\n'
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache with a key of its own."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEPROF_CACHE_KEY", str(tmp_path / "key" / "cache.key"))
    monkeypatch.setattr(cache, "_keys", {})
    return tmp_path / "cache"


@pytest.fixture
def order() -> Order:
    """A small library."""
    found = find_compiler()
    if found is None:
        pytest.skip("needs a C++ compiler")
    return Order("tiny", TINY, Compiler(found.path, found.version, ("-shared", "-fPIC")))


def entry(folder: Path, name: str, size: int, days: float) -> Path:
    """An entry that was used some days ago."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{'0' * 24}.so"
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - days * 86400,) * 2)
    return path


def test_a_library_that_another_key_sealed_is_compiled_again(
    folder: Path, order: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What somebody else put there under the right name is not run."""
    from dataclasses import replace

    path = build_library(order)
    good = path.read_bytes()
    monkeypatch.setenv("TILEPROF_CACHE_KEY", str(tmp_path / "other.key"))
    foreign = build_library(replace(order, text=OTHER))
    monkeypatch.setenv("TILEPROF_CACHE_KEY", str(tmp_path / "key" / "cache.key"))
    foreign.rename(path)
    assert not is_cached(order)
    assert build_library(order).read_bytes()[-32:] == good[-32:]


def test_an_entry_under_the_name_of_another_is_compiled_again(folder: Path, order: Order) -> None:
    """The seal holds for one name."""
    from dataclasses import replace

    path, other = build_library(order), build_library(replace(order, text=OTHER))
    other.rename(path)
    assert not is_cached(order)


def test_a_library_with_a_digest_of_its_own_is_compiled_again(folder: Path, order: Order) -> None:
    """A digest without a key can be made by everybody."""
    import hashlib

    path = build_library(order)
    held = path.read_bytes()[:-32] + b"\0"
    path.write_bytes(held + hashlib.sha256(held).digest())
    assert not is_cached(order)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(
    folder: Path, order: Order, mode: int
) -> None:
    """The sentence says why and what to do."""
    build_library(order)
    folder.chmod(mode)
    with pytest.raises(OutputError, match="can be written by others") as caught:
        build_library(order)
    assert f"chmod go-w {folder}" in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path, order: Order) -> None:
    """Even where its mode is right."""
    folder.mkdir(mode=0o700)
    os.chown(folder, 4711, 4711)
    with pytest.raises(OutputError, match="belongs to another user \\(number 4711\\)"):
        build_library(order)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_not_believed(folder: Path, order: Order) -> None:
    """Its owner could change it after the check."""
    os.chown(build_library(order), 4711, 4711)
    assert not is_cached(order)


def test_a_folder_in_one_that_everybody_may_rename_in_is_refused(
    tmp_path: Path, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another could be put in its place; a sticky one, such as /tmp, is fine."""
    (tmp_path / "open").mkdir()
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "open" / "cache"))
    (tmp_path / "open").chmod(0o1777)
    build_library(order)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(OutputError, match="everybody can write to"):
        build_library(order)


def test_new_folders_and_files_are_private_under_any_umask(folder: Path, order: Order) -> None:
    """The cache, its library and its key."""
    before = os.umask(0)
    try:
        library = build_library(order)
    finally:
        os.umask(before)
    key = Path(os.environ["TILEPROF_CACHE_KEY"])
    modes = [each.stat().st_mode & 0o777 for each in (folder, library, key, key.parent)]
    assert modes == [0o700, 0o700, 0o600, 0o700]


def test_the_default_folder_is_made_private(
    tmp_path: Path, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version made it under the umask."""
    monkeypatch.delenv("TILEPROF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tileprof").mkdir()
    (tmp_path / "tileprof").chmod(0o777)
    folder = build_library(order).parent
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_key_that_others_could_write_is_replaced(folder: Path) -> None:
    """Whoever knows it could seal."""
    seal = cache.seal("a", b"b")
    Path(os.environ["TILEPROF_CACHE_KEY"]).chmod(0o666)
    cache._keys.clear()
    assert cache.seal("a", b"b") != seal


def test_without_a_home_the_key_lies_in_the_cache(
    folder: Path, order: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container whose user has no home."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("TILEPROF_CACHE_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    build_library(order)
    assert (folder / ".key").stat().st_mode & 0o777 == 0o600
    assert is_cached(order)


def test_processes_that_make_a_key_at_once_get_the_same(folder: Path) -> None:
    """The first one's stays."""
    code = "from tileprof.native import cache; print(cache.seal('a', b'b').hex())"
    held = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert len({process.communicate(timeout=60)[0] for process in held}) == 1


def test_a_key_that_another_makes_meanwhile_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the look at a file that was not there yet."""
    place, theirs = folder.parent / "key" / "cache.key", b"k" * cache.SEAL_BYTES
    read = cache.read_private

    def late(path: Path) -> bytes | None:
        held = read(path)
        if held is None:
            place.parent.mkdir()
            cache.write_private(place, theirs)
        return held

    monkeypatch.setattr(cache, "read_private", late)
    assert cache._key() == theirs


def test_above_its_limit_what_was_not_used_for_longest_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down to nine tenths; what was used just now stays, as does what is no entry."""
    paths = [entry(folder, f"k{days}", 1000, days) for days in (3, 1, 2, 0)]
    (folder / "notes.txt").write_bytes(b"x" * 5000)
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", "3KB")
    cache.trim()
    assert [path.exists() for path in paths] == [False, True, False, True]
    assert (folder / "notes.txt").exists()
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", "1")
    cache.trim()
    assert [path.exists() for path in paths] == [False, False, False, True]


def test_a_build_keeps_the_cache_within_its_limit(
    folder: Path, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever adds an entry looks at the size."""
    old = entry(folder, "old", 10**6, 10)
    folder.chmod(0o700)
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", "0.5M")
    monkeypatch.setattr(cache, "_trimmed", -1e9)
    build_library(order)
    assert not old.exists()
    assert is_cached(order)


def test_a_use_is_noted(folder: Path, order: Order) -> None:
    """So that what is used every day is never the oldest."""
    path = build_library(order)
    long_ago = time.time() - 10 * 86400
    os.utime(path, (long_ago, long_ago))
    build_library(order)
    assert path.stat().st_mtime > long_ago + 86400


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "9" * 30])
def test_a_limit_that_is_no_size(
    folder: Path, order: Order, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """It is refused before anything is compiled."""
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", text)
    with pytest.raises(UsageError, match="which is not a size"):
        build_library(order)


@pytest.mark.parametrize(
    ("text", "size"), [("", 2 * 10**9), ("0", None), ("500MB", 5 * 10**8), ("1.5 G", 15 * 10**8)]
)
def test_sizes(monkeypatch: pytest.MonkeyPatch, text: str, size: int | None) -> None:
    """Units are powers of ten."""
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", text)
    assert cache.limit_bytes() == size


KILLED = """
import os, time
from tileprof.native import cache
with cache.building("tiny") as held:
    (held / "half.so").write_text("x")
    print(held, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_build_left_is_removed_and_what_runs_is_not(folder: Path) -> None:
    """A build holds a lock as long as its process lives."""
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        long_ago = time.time() - 3600
        os.utime(held, (long_ago, long_ago))
        cache.trim()
        assert held.exists()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    cache.trim()
    assert not held.exists()


def test_a_library_that_is_removed_before_it_is_loaded_is_made_again(
    folder: Path, order: Order
) -> None:
    """Another process may make room at any time."""
    seen: list[str] = []

    def load(path: str) -> bytes:
        seen.append(path)
        if len(seen) == 1:
            Path(path).unlink()
        with open(path, "rb") as file:
            return file.read(4)

    assert load_library(order, load) == b"\x7fELF"
    assert len(seen) == 2


def test_clear_removes_entries_and_nothing_else(folder: Path, order: Order) -> None:
    """Libraries with their texts, and folders of GPU code."""
    build_library(order)
    gpu = folder / f"k-{'1' * 24}"
    gpu.mkdir()
    (gpu / "k.cubin").write_bytes(b"x" * 100)
    (folder / "mine.txt").touch()
    removed, size = cache.clear()
    assert removed == 2
    assert size > 100
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]
