"""Files are replaced whole, whoever else writes or reads them."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tileprof.files import DATABASE, replace_bytes, replace_file


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    """An exception inside the block changes nothing in the folder."""
    target = tmp_path / "out"
    replace_bytes(target, b"old")
    with contextlib.suppress(ZeroDivisionError), replace_file(target) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_writers_of_one_path_never_fail_and_readers_see_whole_files(tmp_path: Path) -> None:
    """Four threads write one path 200 times while a fifth reads it."""
    target = tmp_path / "out"
    replace_bytes(target, b"0" * 10_000)
    seen: set[tuple[int, int]] = set()
    errors: list[Exception] = []
    done = threading.Event()

    def write(digit: bytes) -> None:
        try:
            for _ in range(50):
                replace_bytes(target, digit * 10_000)
        except Exception as error:
            errors.append(error)

    def read() -> None:
        while not done.is_set():
            content = target.read_bytes()
            seen.add((len(content), len(set(content))))

    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=write, args=(d,)) for d in (b"1", b"2", b"3", b"4")]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    done.set()
    reader.join()
    assert errors == []
    assert seen == {(10_000, 1)}
    assert os.listdir(tmp_path) == ["out"]


def test_a_planted_link_of_the_old_temporary_name_is_not_followed(tmp_path: Path) -> None:
    """A predictable temporary name let a link redirect the write."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "out.partial").symlink_to(victim)
    replace_bytes(tmp_path / "out", b"new")
    assert victim.read_bytes() == b"mine"


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    """Writing through a link replaces the file behind it and keeps its mode."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_bytes(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    """A file that did not exist gets the mode that `open` would give it."""
    code = (
        "import os, sys; os.umask(0o027)\n"
        "from tileprof.files import replace_bytes; replace_bytes(sys.argv[1], b'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=True)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A pipe receives the bytes and stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    replace_bytes(pipe, b"through")
    reader.join()
    assert got == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_profile_and_another_file_never_take_each_others_place(tmp_path: Path) -> None:
    """A wrong name would cost a script or a recording; an empty file is nobody's."""
    script, database = tmp_path / "train.py", tmp_path / "train.tprof"
    script.write_bytes(b"print()\n")
    database.write_bytes(DATABASE + b"rows")
    for path, content in ((script, DATABASE), (database, b"<html>")):
        before = path.read_bytes()
        with pytest.raises(FileExistsError, match="it is "):
            replace_bytes(path, content)
        assert path.read_bytes() == before
    for path, content in ((script, b"text"), (database, DATABASE), (tmp_path / "new", DATABASE)):
        replace_bytes(path, content)
        assert path.read_bytes() == content
    (tmp_path / "empty").touch()
    replace_bytes(tmp_path / "empty", DATABASE)
