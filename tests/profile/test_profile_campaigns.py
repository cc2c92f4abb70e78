"""Short forms of the campaigns against profile files, and the inputs that fuzzing kept."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from benchmarks.reliability import profiles, savers, stated
from benchmarks.reliability.coverage import read_profile
from benchmarks.reliability.exercise import failure
from tests.profile_samples import full_profile
from tileprof.errors import ProfileFileError
from tileprof.profile import load, save

KEPT = sorted((Path(__file__).parents[1] / "data" / "fuzz" / "profiles").iterdir())
"""Files that together reach nearly every line of the readers."""


def test_savers_and_readers_of_one_path_do_not_meet() -> None:
    """Processes that save to one path all succeed, and every reader sees a whole profile."""
    found = savers.campaign(80, jobs=2, readers=1, seconds=30)
    assert found["details"] == []
    assert found["runs"] == 80
    assert found["loads"] > 0


def test_a_link_of_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    """A save writes through no file that somebody placed beside its target."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "p.tprof.partial").symlink_to(victim)
    save(full_profile(), tmp_path / "p.tprof")
    assert victim.read_text() == "mine"
    assert load(tmp_path / "p.tprof").names


def test_damaged_profiles_end_in_sentences_or_results() -> None:
    """Some damaged files pass through every view and export; the campaign does many."""
    found = profiles.campaign(12, jobs=2, seconds=30)
    assert found["details"] == []
    assert found["runs"] > 0


@pytest.mark.parametrize("kept", KEPT, ids=[path.name for path in KEPT])
def test_kept_files_end_in_sentences_or_results(kept: Path, tmp_path: Path) -> None:
    """What fuzzing found to reach new code is refused with a sentence or read."""
    save(full_profile(), tmp_path / "other.tprof")
    path = tmp_path / "p.tprof"
    path.write_bytes(zlib.decompress(kept.read_bytes()))
    assert not failure(str(path), load(tmp_path / "other.tprof"), lambda name: name == "view tree")


@pytest.mark.sweep
def test_profiles_with_a_stated_fault_end_in_a_sentence_or_are_read(tmp_path: Path) -> None:
    """Most of them are refused: a file that has become sound no longer tests a refusal."""
    refused, whole = 0, 0
    for content in stated.profiles():
        path = tmp_path / "p.tprof"
        path.write_bytes(content)
        whole += 1
        try:
            read_profile(str(path))
        except ProfileFileError:
            refused += 1
    assert refused > 0.6 * whole
