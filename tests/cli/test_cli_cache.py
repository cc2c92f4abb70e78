"""`tileprof cache`: where compiled kernels are, how much they take, and removing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one entry of 1,500 bytes, and something else."""
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    (made / f"k-{'0' * 24}.so").write_bytes(b"x" * 1500)
    (made / "mine.txt").touch()
    monkeypatch.setenv("TILEPROF_CACHE", str(made))
    monkeypatch.setenv("TILEPROF_CACHE_LIMIT", "500MB")
    return made


def test_the_size_the_place_and_removing(cli: Any, folder: Path) -> None:
    """As text."""
    assert cli("cache", "path").out == f"{folder}\n"
    assert cli("cache", "size").out == f"1 entry, 1.5 kB (limit 500.0 MB) in {folder}\n"
    assert cli("cache", "clear").out == f"removed 1 entry (1.5 kB) from {folder}\n"
    assert cli("cache", "size").out == f"0 entries, 0 B (limit 500.0 MB) in {folder}\n"
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]


def test_the_same_as_json(cli: Any, folder: Path) -> None:
    """With numbers in bytes."""
    assert json.loads(cli("cache", "size", "--json").out) == {
        "schema": 1, "path": str(folder), "entries": 1, "bytes": 1500, "limit_bytes": 500_000_000,
    }  # fmt: skip
    assert json.loads(cli("cache", "clear", "--json").out) == {
        "schema": 1, "path": str(folder), "removed_entries": 1, "removed_bytes": 1500,
    }  # fmt: skip


def test_a_cache_of_others_is_not_cleared(cli: Any, folder: Path) -> None:
    """It is refused as for a build."""
    folder.chmod(0o777)
    found = cli("cache", "clear")
    assert found.code == 2
    assert "the cache of compiled kernels is not safe" in found.err


def test_another_word_is_wrong_use(cli: Any, folder: Path) -> None:
    """The sentence names the words."""
    found = cli("cache", "remove")
    assert found.code == 2
    assert "invalid choice: 'remove' (choose size, clear or path)" in found.err
