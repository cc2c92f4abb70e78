"""Timelines of single CTAs beside a tree: in the file, and through operations on profiles."""

from __future__ import annotations

import contextlib
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.profile.cta_samples import KERNEL, ctas, profile
from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile import (
    CtaTimelines,
    KernelInfo,
    Profile,
    Tables,
    diff,
    filter_nodes,
    load,
    merge,
    save,
)


def _visits(made: Profile) -> list[tuple[str, int, int, str, int, int]]:
    """Kernel, block, warp, name of the site, begin and end of each visit."""
    held, kernels = made.tables.ctas, made.tables.kernels
    columns = (held.visits.warp, held.visits.site, held.visits.begin, held.visits.end)
    rows = []
    for number, site, begin, end in zip(*(column.tolist() for column in columns), strict=True):
        warp = held.warps[number]
        cta = held.ctas[warp.cta]
        kernel = kernels[held.launches[cta.launch].kernel]
        (name,) = [each.name for each in kernel.sites if each.id == site]
        rows.append((kernel.name, cta.block, warp.warp, name, begin, end))
    return rows


def test_a_file_holds_them(tmp_path: Path) -> None:
    """And equal profiles have equal ones; they travel to other processes."""
    made = profile()
    save(made, tmp_path / "a.tprof")
    read = load(tmp_path / "a.tprof")
    assert read == made
    assert read.tables.ctas.flights.retired.tolist() == [400, 900, 700]
    assert _visits(read)[:2] == [("gemm", 132, 4, "producer", 0, 900),
                                 ("gemm", 132, 4, "load a", 100, 200)]  # fmt: skip
    assert read != replace(made, tables=replace(made.tables, ctas=CtaTimelines()))
    assert pickle.loads(pickle.dumps(read.tables.ctas)) == made.tables.ctas
    assert len(load(tmp_path / "a.tprof").tables.ctas.visits) == len(made.tables.ctas.visits)


def test_an_older_file_has_none(tmp_path: Path) -> None:
    """Files from before there were any are read."""
    save(profile(), tmp_path / "a.tprof")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.tprof")) as database:
        for table in ("cta_launches", "ctas", "cta_warps", "cta_queues", "cta_columns"):
            database.execute(f"DROP TABLE {table}")
        database.commit()
    assert load(tmp_path / "a.tprof").tables.ctas == CtaTimelines()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE cta_columns SET content = x'00' WHERE name = 'visit_site'",
        "DELETE FROM cta_columns WHERE name = 'flight_queue'",
        "DELETE FROM cta_warps WHERE id = 5",
        "DELETE FROM cta_queues",
    ],
)
def test_damaged_columns_are_told_when_they_are_read(tmp_path: Path, change: str) -> None:
    """The rest of the profile can be read."""
    save(profile(), tmp_path / "a.tprof")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.tprof")) as database:
        database.execute(change)
        database.commit()
    read = load(tmp_path / "a.tprof")
    with pytest.raises(ProfileFileError, match="timelines of CTAs are damaged"):
        _ = read.tables.ctas.visits


@pytest.mark.parametrize("change", ["launch", "kernel", "cta"])
def test_what_refers_to_nothing_is_no_profile(change: str) -> None:
    """Rows are checked with the profile."""
    held = ctas()
    launches, blocks, warps = held.launches, held.ctas, held.warps
    match change:
        case "launch":
            blocks = (replace(blocks[0], launch=1), *blocks[1:])
        case "kernel":
            launches = (replace(launches[0], kernel=2),)
        case _:
            warps = (replace(warps[0], cta=-1), *warps[1:])
    made = profile(CtaTimelines(launches, blocks, warps))
    with pytest.raises(InternalError, match="refers to what does not exist"):
        made.check()


def test_profiles_that_are_added_up_keep_those_of_all() -> None:
    """Kernels, warps and queues are numbered anew; places on the host's time are gone."""
    one, other = profile(), profile(first=KernelInfo("other", "cuda:0"))
    both = merge([one, other])
    both.check()
    both.tables.ctas.check_columns()
    assert _visits(both) == 2 * _visits(one)
    assert [k.name for k in both.tables.kernels] == ["first", "gemm", "other"]
    assert [each.kernel for each in both.tables.ctas.launches] == [1, 1]
    assert [each.issued for each in both.tables.ctas.launches] == [-1, -1]
    assert both.tables.ctas.queues == one.tables.ctas.queues
    flights = both.tables.ctas.flights
    assert flights.issuer.tolist() == [0, 0, 1, 6, 6, 7]
    assert flights.queue.tolist() == [0, 0, 1, 0, 0, 1]
    assert merge([one]).tables.ctas == one.tables.ctas


def test_operations_keep_them() -> None:
    """What is cut off a tree is not cut off kernels; either side of a diff has its own."""
    made = profile()
    assert _visits(filter_nodes(made, exclude="gemm")) == _visits(made)
    changes = diff(made, profile(CtaTimelines()))
    assert changes.old.tables.ctas == made.tables.ctas
    assert changes.new.tables.ctas == CtaTimelines()
    assert Tables().ctas == CtaTimelines()
    assert KERNEL in made.tables.kernels


def test_a_clock_that_counts_from_1970_is_kept(tmp_path: Path) -> None:
    """A GPU's global timer gives nanoseconds since then, which a file must be able to hold."""
    now, held = 1_764_000_000_000_000_000, ctas()
    moved = [replace(each, begin=each.begin + now, end=each.end + now) for each in held.ctas]
    columns = held.visits, held.flights
    made = CtaTimelines(held.launches, moved, held.warps, held.queues, lambda: columns)
    save(profile(made), tmp_path / "a.tprof")
    assert list(load(tmp_path / "a.tprof").tables.ctas.ctas) == moved
