"""Profile files that someone made to do harm: refused with a sentence, in bounded time and room."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.profile.cta_samples import on_a_timeline
from tests.profile_samples import full_profile
from tileprof.errors import Location, ProfileFileError, UsageError
from tileprof.profile import (
    KernelInfo,
    Metric,
    PcText,
    Profile,
    SiteInfo,
    Tables,
    TreeBuilder,
    build,
    load,
    save,
)
from tileprof.profile.storage import database, limits
from tileprof.profile.storage.limits import DEPTH, NESTING
from tileprof.profile.tree.symbol import Symbol
from tileprof.viewer import Mode, ViewOptions, export, render_view

LOOP = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"
"""A query without end."""


@cache
def bomb() -> bytes:
    """200 MB of zeros: more than any column may hold; not made by workers that only collect."""
    return zlib.compress(bytes(200_000_000), 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with something in every table."""
    save(full_profile(), tmp_path / "p.tprof")
    return tmp_path / "p.tprof"


def edited(path: Path, *statements: str, **values: object) -> Path:
    """Change a file behind SQLite's constraints."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') "
            "WHERE sql NOT LIKE '%WITHOUT ROWID%'"
        )
        database.commit()
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement, values)
        database.commit()
    return path


def reason(path: Path) -> str:
    """Return why a file is refused."""
    with pytest.raises(ProfileFileError) as error:
        load(path)
    return error.value.message.removeprefix(f"{path} is damaged: ")


def chain(nodes: int) -> Profile:
    """Return a tree in which each node has one child."""
    return build(
        [Symbol("scope", "a")],
        np.zeros(nodes),
        np.arange(nodes) - 1,
        {"time": Metric("time", "ns")},
        {"time": np.ones(nodes, np.int64)},
    )


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (
            ["DROP TABLE nodes", f"CREATE VIEW nodes (id, parent, symbol) AS {LOOP}"],
            "`nodes` is not a plain table",
        ),
        (
            ["DROP TABLE sources", f"CREATE VIEW sources (file, text) AS {LOOP}"],
            "`sources` is not a plain table",
        ),
        (
            [
                "ALTER TABLE files RENAME TO other",
                "CREATE TABLE files (id INTEGER PRIMARY KEY, name AS (hex(zeroblob(1000000))))",
                "INSERT INTO files (id) SELECT id FROM other",
            ],
            "`files` has computed columns",
        ),
        (["DROP TABLE files", "CREATE VIRTUAL TABLE files USING fts5(id, name)"], "not a plain"),
        (["ALTER TABLE nodes RENAME COLUMN symbol TO sign"], "`nodes` has no column `symbol`"),
    ],
)
def test_only_plain_tables_are_read(path: Path, statements: list[str], said: str) -> None:
    """Views, virtual tables and computed columns in a table's place are refused, not run."""
    statements = [each.format("x, NULL, 0" if "nodes" in each else "x, x") for each in statements]
    assert said in reason(edited(path, *statements))


DAMAGE = {
    "UPDATE nodes SET symbol = 'x'": "`nodes.symbol` holds a value of another type",
    "UPDATE nodes SET symbol = NULL": "`nodes.symbol` holds a value of another type",
    "UPDATE nodes SET symbol = 0.5": "`nodes.symbol` holds a value of another type",
    "UPDATE nodes SET symbol = 9223372036854775807": "refers to no row of `symbols`",
    "UPDATE node_values SET node = -1 WHERE node = 1": "`node_values.node` refers to no row",
    "UPDATE node_values SET own = 9e999 WHERE node = 1": "`node_values.own` is outside",
    "UPDATE node_values SET own = 'x' WHERE node = 1": "`node_values.own` holds a value of another",
    "UPDATE metrics SET storage = 'x'": "`metrics.storage` holds an unknown word",
    "UPDATE symbols SET name = x'00'": "`symbols.name` holds a value of another type",
    "UPDATE symbols SET name = NULL": "`symbols.name` holds a value of another type",
    "UPDATE symbols SET name = printf('%.*c', 30000, 'a')": "holds more than 20,000 characters",
    "UPDATE locations SET line = -5": "`locations.line` is outside",
    "UPDATE locations SET caller = id": "refers to a row below its own",
    "UPDATE kernels SET ir = x'00'": "`kernels.ir` holds a value of another type",
    "UPDATE kernel_attributes SET value = 9e999": "`kernel_attributes.value` is beyond 1e+100",
    "UPDATE sites SET parent = id": "`sites.parent` refers to no site around its own",
    "UPDATE sites SET id = 0": "`sites.id` holds a number twice",
    "UPDATE device_peaks SET value = 'x'": "`device_peaks.value` holds a value of another type",
    "UPDATE pc_instructions SET depth = 1000000000": "`pc_instructions.depth` is outside",
    "UPDATE pc_samples SET samples = -1": "`pc_samples.samples` is outside",
    "UPDATE pc_recordings SET period = NULL": "`pc_recordings.period` holds a value of another",
    "UPDATE instruction_counts SET metric = 9 WHERE offset = 64": "refers to no row of `instr",
    "UPDATE counter_series SET start = x'00'": "`counter_series.start` cannot be decompressed",
    "UPDATE counter_series SET start = :bomb": "takes more than",
    "UPDATE counter_columns SET content = :bomb": "takes more than",
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_damaged_columns_are_named(path: Path, statement: str) -> None:
    """Whatever a column may not hold is refused with the table and the column."""
    bombs = {"bomb": bomb()} if ":bomb" in statement else {}
    assert DAMAGE[statement] in reason(edited(path, statement, **bombs))


def test_bombs_in_lazy_columns_are_refused(tmp_path: Path) -> None:
    """Columns that are read when asked for are not decompressed beyond their limit."""
    save(on_a_timeline(), tmp_path / "p.tprof")
    for table in ("timeline", "cta_columns"):
        edited(tmp_path / "p.tprof", f"UPDATE {table} SET content = :bomb", bomb=bomb())
    held = load(tmp_path / "p.tprof").tables
    with pytest.raises(ProfileFileError, match="timeline is damaged"):
        _ = held.timeline.events
    with pytest.raises(ProfileFileError, match="timelines of CTAs are damaged"):
        _ = held.ctas.visits
    with pytest.raises(ProfileFileError, match="a kernel's text takes more than"):
        _ = PcText(bomb()).text


def test_time_of_reading_is_limited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is interrupted when the time for a file is over."""
    monkeypatch.setattr(limits, "READ_SECONDS", -1.0)
    monkeypatch.setattr(database, "_STEPS", 1)
    assert reason(path) == "its tables take longer than -1 s to read"


def test_deep_trees_are_folded_when_they_are_saved(tmp_path: Path) -> None:
    """A recording deeper than readers take keeps its sums; a file that deep is refused."""
    save(chain(DEPTH + 5), tmp_path / "p.tprof")
    again = load(tmp_path / "p.tprof")
    assert int(again.depths.max()) == DEPTH - 1
    assert again.whole["time"] == DEPTH + 5
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        database.execute(f"INSERT INTO nodes VALUES ({DEPTH}, {DEPTH - 1}, 0)")
        database.commit()
    assert (
        reason(tmp_path / "p.tprof") == "its tree is 10,001 nodes deep, and at most 10,000 are read"
    )


@pytest.mark.parametrize("exported", ["chrome", "speedscope", "collapsed"])
def test_deep_trees_are_exported(exported: str) -> None:
    """No walk of a tree recurses."""
    assert export(chain(3_000), exported)


def test_hatchet_takes_trees_of_bounded_depth() -> None:
    """A tree that readers of the literal cannot take is refused with a way out."""
    assert export(chain(NESTING), "hatchet")
    with pytest.raises(UsageError, match="2,000 nodes deep"):
        export(chain(2_000), "hatchet")


def test_exports_that_repeat_paths_have_a_limit() -> None:
    """Stacks whose text grows with the square of the depth are refused before they fill memory."""
    tree = chain(9_000)
    long = build([Symbol("scope", "a" * 1_000)], tree.symbol, tree.parents, tree.metrics, tree.own)
    with pytest.raises(UsageError, match="the paths of the tree take"):
        export(long, "collapsed")


def test_many_inlined_callers_are_refused(tmp_path: Path) -> None:
    """A place is inlined through so many others at most: comparing two of them recurses."""
    place = Location("a.py", 1)
    for line in range(150):
        place = Location("a.py", line, caller=place)
    builder = TreeBuilder()
    builder.child(-1, "frame", "f", place)
    save(builder.snapshot(), tmp_path / "p.tprof")
    assert reason(tmp_path / "p.tprof") == "a place was inlined through more than 100 others"


def test_nested_sites_may_stand_in_any_order(tmp_path: Path) -> None:
    """A site may be written before the one around it."""
    sites = (SiteInfo(3, "a", "op", None, 1), SiteInfo(1, "b", "stage"))
    tables = Tables(kernels=(KernelInfo("k", "cpu", sites=sites),))
    save(TreeBuilder().snapshot(tables), tmp_path / "p.tprof")
    assert load(tmp_path / "p.tprof").tables.kernels[0].sites == sites


ESCAPE = "\x1b]0;owned\x07\x9b31m\u202e"


@pytest.mark.parametrize("make", [full_profile, on_a_timeline], ids=["full", "timelines"])
def test_escapes_do_not_leave_a_file(tmp_path: Path, make: Callable[[], Profile]) -> None:
    """No text of a file, wherever it stands, brings control characters to a view."""
    save(make(), tmp_path / "p.tprof")
    with closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN {}"
        # The names of packed columns are not shown, and those of words are refused.
        packed = ("timeline", "cta_columns")
        words = ("kind", "adds", "storage", "role", "missing", "severity")
        for (table,) in database.execute(named.format(packed)).fetchall():
            for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                if kind == "TEXT" and column not in words and not column.endswith("_facts"):
                    database.execute(f"UPDATE {table} SET {column} = ? || {column}", (ESCAPE,))
        database.commit()
    profile = load(tmp_path / "p.tprof")
    for view in ("tree", "lines", "sass", "counters", "csv"):
        try:
            text = render_view(profile, ViewOptions(), view)
        except UsageError as error:
            text = str(error)
        assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_csv_cells_are_no_formulas() -> None:
    """A text that a spreadsheet would compute has an apostrophe before it; numbers have none."""
    builder = TreeBuilder()
    for name in ("=1+1", "@SUM(A1)", "+1", "-1", "\tx", "plain"):
        builder.add(builder.child(-1, "scope", name), "time", 5)
    rows = render_view(builder.snapshot(), ViewOptions(), "csv").splitlines()[1:]
    assert [row.split(",")[4] for row in rows] == [
        "'=1+1", "'@SUM(A1)", "'+1", "'-1", "'\tx", "plain"
    ]  # fmt: skip
    assert all(row.endswith(",5,5") for row in rows)


@pytest.mark.parametrize("mode", ["top-down", "bottom-up", "flat"])
def test_trees_without_any_value_are_shown(mode: Mode) -> None:
    """A tree whose nodes hold nothing has no hot nodes; each view of it says so or is short."""
    nothing = build(
        [Symbol("scope", "a")], [0], [-1], {"time": Metric("time", "ns")}, {"time": [0]}
    )
    assert render_view(nothing, ViewOptions(mode=mode, threshold=0.0)).endswith("\n")
