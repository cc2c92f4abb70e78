"""The `.tprof` file: round trips, atomic writes, refusals, speed."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.profile_samples import full_profile
from tests.strategies_profile import profiles
from tileprof.errors import Location, OutputError, ProfileFileError
from tileprof.profile import (
    Profile,
    TreeBuilder,
    limit_depth,
    load,
    save,
)


def test_round_trip_of_everything(tmp_path: Path) -> None:
    """Each table comes back as it was; an integer that SQLite cannot hold comes back as text."""
    profile = full_profile()
    save(profile, tmp_path / "p.tprof")
    again = load(tmp_path / "p.tprof")
    assert again.tables.kernels[0].attributes["hash"] == str(2**64 - 1)
    assert isinstance(profile.tables.kernels[0].attributes, dict)
    profile.tables.kernels[0].attributes["hash"] = str(2**64 - 1)
    assert again == profile
    assert again.locations[2] == profile.locations[2]
    assert os.listdir(tmp_path) == ["p.tprof"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(profile=profiles())
def test_round_trip_of_any_tree(profile: Profile, tmp_path: Path) -> None:
    """`load(save(p)) == p`, after a cut too."""
    for tree in (profile, limit_depth(profile, 1)):
        save(tree, tmp_path / "p.tprof")
        again = load(tmp_path / "p.tprof")
        assert again == tree
        assert all(again.own[m].dtype == tree.own[m].dtype for m in tree.metrics)


def test_file_from_before_arguments_of_launches(tmp_path: Path) -> None:
    """It is read without them."""
    profile, path = full_profile(), tmp_path / "p.tprof"
    save(profile, path)
    assert load(path).tables.launches == profile.tables.launches != ()
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("DROP TABLE launch_arguments; DROP TABLE launch_variants")
    again = load(path)
    assert again == replace(profile, tables=replace(again.tables, launches=()))
    assert not again.tables.launches


def test_whole_numbers_are_small(tmp_path: Path) -> None:
    """Extremes that are all whole are stored as integers, others as reals; both load as reals."""
    builder = TreeBuilder()
    for name, shortest in (("a", 700), ("b", 2**40)):
        node = builder.child(-1, "kernel", name)
        builder.add(node, "time_min", shortest)
        builder.add(node, "time_max", shortest + 0.5)
    save(builder.snapshot(), tmp_path / "p.tprof")
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        question = "SELECT DISTINCT metric, typeof(own), typeof(total) FROM measurements"
        assert sorted(database.execute(question)) == [
            ("time_max", "real", "real"),
            ("time_min", "integer", "integer"),
        ]
    again = load(tmp_path / "p.tprof")
    assert again == builder.snapshot()
    assert again.own["time_min"].dtype == float


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """File names with bytes that are no UTF-8 are written escaped."""
    builder = TreeBuilder()
    builder.child(-1, "frame", "main", Location("a\udcff.py", 1, function="main"))
    save(builder.snapshot(), tmp_path / "p.tprof")
    place = load(tmp_path / "p.tprof").locations[0]
    assert place is not None
    assert place.file == "a\\udcff.py"


def test_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    """A reader that has the old file open keeps it whole; a link stays a link."""
    path, link = tmp_path / "p.tprof", tmp_path / "link.tprof"
    save(full_profile(), path)
    link.symlink_to(path)
    with open(path, "rb") as old:
        before = path.read_bytes()
        save(TreeBuilder().snapshot(), link)
        assert old.read() == before
    assert link.is_symlink()
    assert len(load(path)) == 0


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fails, the old profile stays and nothing lies beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError) as error:
        save(TreeBuilder().snapshot(), path)
    assert str(error.value) == (
        f"cannot write the profile {path}: No space left on device\n"
        "Choose another place with `-o FILE`."
    )
    assert os.listdir(tmp_path) == ["p.tprof"]
    assert load(path) == load(path)
    assert len(load(path)) == 3


@pytest.mark.parametrize("target", ["missing/p.tprof", "."])
def test_unwritable_destinations(tmp_path: Path, target: str) -> None:
    """A missing folder and a folder in the file's place are said, and nothing is left behind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OutputError, match="cannot write the profile"):
        save(full_profile(), folder / target)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(folder) == []


def refusal(path: Path) -> str:
    """Return the message with which a file is refused, the path shortened."""
    with pytest.raises(ProfileFileError) as error:
        load(path)
    return str(error.value).replace(str(path), "FILE")


def with_pragma(path: Path, pragma: str) -> Path:
    """Change a header field of a profile."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA {pragma}")
        database.commit()
    return path


MAKE_ONE = "`tileprof run SCRIPT` makes a profile."
MAKE_ANEW = "Make it again with `tileprof run`, or copy it again from where it was made."


def test_refusals(tmp_path: Path) -> None:
    """Each thing that is no whole profile is refused with its own sentence and a way out."""
    path = tmp_path / "p.tprof"
    assert refusal(path) == f"FILE does not exist\n{MAKE_ONE}"
    assert refusal(tmp_path) == f"FILE is a folder, not a profile\n{MAKE_ONE}"
    path.write_bytes(b"")
    assert refusal(path) == f"FILE is empty\n{MAKE_ONE}"
    path.write_text("#!/bin/sh\n" * 100)
    assert refusal(path) == f"FILE is not a tileprof profile\n{MAKE_ONE}"
    path.unlink()
    save(full_profile(), path)
    assert refusal(with_pragma(path, "application_id = 7")) == (
        f"FILE is a SQLite database, but not a tileprof profile\n{MAKE_ONE}"
    )
    save(full_profile(), path)
    assert refusal(with_pragma(path, "user_version = 9")) == (
        "FILE has version 9 of the profile format, and this tileprof reads up to version 2\n"
        "Update tileprof: pip install --upgrade tileprof"
    )
    save(full_profile(), path)
    assert refusal(with_pragma(path, "user_version = 0")) == (
        f"FILE does not say its format version\n{MAKE_ANEW}"
    )


def test_truncated_at_any_length(tmp_path: Path) -> None:
    """A file cut short anywhere is refused as such."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    whole = path.read_bytes()
    for length in (1, 15, 16, 50, 99, 100, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refusal(path) == f"FILE is cut short\n{MAKE_ANEW}"


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    """Random damage never ends in anything but a profile or a refusal."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    whole = path.read_bytes()
    chance = random.Random(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(40):
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            load(path).check()
        except ProfileFileError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "UPDATE node_values SET own = own + 1 WHERE node = 1",
            "metric `time` is not conserved: the tree holds 1501, the program had 1500",
        ),
        (
            "UPDATE nodes SET parent = 2 WHERE id = 1",
            "`nodes.parent` refers to a row below its own",
        ),
        ("UPDATE nodes SET symbol = 99", "`nodes.symbol` refers to no row of `symbols`"),
        ("UPDATE symbols SET kind = 'thing'", "`symbols.kind` holds an unknown word"),
        (
            "UPDATE metrics SET adds = 'product'",
            "metric `time` adds up by 'product', which is unknown",
        ),
        ("DELETE FROM symbols WHERE id = 0", "`nodes.symbol` refers to no row of `symbols`"),
        ("DROP TABLE kernels", "it has no table `kernels`"),
    ],
)
def test_edited_files_are_refused(tmp_path: Path, statement: str, reason: str) -> None:
    """A file whose tables no longer fit, or whose sums are not conserved, is damaged."""
    path = tmp_path / "p.tprof"
    save(full_profile(), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()
    assert refusal(path) == f"FILE is damaged: {reason}\n{MAKE_ANEW}"


@pytest.mark.sweep
def test_loading_calls_few_functions_for_each_node(
    tmp_path: Path, calls: Callable[[Callable[[], object]], int]
) -> None:
    """A tree of 30,000 nodes and 90,000 values is read in columns, not node by node."""
    builder = TreeBuilder()
    places = [Location(f"m{i % 50}.py", i, function=f"f{i}") for i in range(2_000)]
    for i in range(30_000):
        parent = -1 if i < 100 else i // 4
        place = places[i % 2_000]
        node = builder.child(parent, "frame", place.function, place)
        builder.add(node, "time", i)
        builder.add(node, "count", 1)
        builder.add(node, "time_max", i / 2)
    profile = builder.snapshot()
    assert len(profile) == 30_000
    save(profile, tmp_path / "p.tprof")
    assert calls(lambda: load(tmp_path / "p.tprof")) < 50_000
    assert load(tmp_path / "p.tprof") == profile


def test_same_profile_same_bytes(tmp_path: Path) -> None:
    """A file depends on the profile alone."""
    for name in ("a", "b"):
        save(full_profile(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
