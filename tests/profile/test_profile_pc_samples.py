"""Samples of program counters beside a tree: in the file, and through operations on profiles."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile_samples import full_profile
from tests.strategies_profile import operations, profiles
from tileprof.errors import InternalError, Location
from tileprof.profile import (
    PcBlame,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    PcText,
    Profile,
    Tables,
    diff,
    load,
    merge,
    save,
)

STALLS = ("selected", "wait", "wait_not_issued", "new")
_PLACES = st.sampled_from(
    [
        None,
        Location("a.cu", 3, function="f"),
        Location("h.cuh", 7, function="g", caller=Location("a.cu", 9, function="f")),
    ]
)
_BIG = st.integers(0, 2**40)
_TEXT_KEYS = st.tuples(st.sampled_from(["a" * 64, "b" * 64]), st.sampled_from(["ttgir", "ptx"]))
_LINES = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=5)
_TEXTS = st.text(max_size=5).map(PcText.of) | st.just(PcText(note="it is too long"))


@st.composite
def pc_samples(draw: st.DrawFn, nodes: int) -> PcSamples:
    """Return random samples for a tree of so many nodes."""
    functions = []
    for name in draw(st.lists(st.sampled_from(["f", "g", "h"]), unique=True, min_size=1)):
        count = draw(st.integers(0, 3))
        code = tuple(
            PcInstruction(16 * i, draw(_LINES), draw(_PLACES), draw(st.integers(0, 3)))
            for i in range(count)
        )
        blames = (PcBlame(16, "wait", 0, "R0"),) if count > 1 else ()
        module = draw(st.sampled_from(["", "a" * 64, "b" * 64]))
        functions.append(PcFunction(name, f"{name}()", module, "sm_90a", code, blames, "" * count))
    row = st.tuples(
        st.integers(0, len(functions) - 1),
        st.integers(0, 4).map(lambda n: 16 * n),
        st.integers(0, len(STALLS) - 1),
        st.integers(-1, nodes - 1),
        _BIG,
    )
    rows = draw(st.lists(row, max_size=20))
    return PcSamples(
        tuple(functions),
        STALLS,
        PcRows.typed(*zip(*rows)) if rows else PcRows.typed(*[()] * 5),
        (PcRecording(2 ** draw(st.integers(5, 31)), "exact", draw(_BIG), *draw(st.tuples(_BIG))),),
        {"a" * 64: b"content"},
        draw(st.dictionaries(_TEXT_KEYS, _TEXTS, max_size=3)),
    )


@st.composite
def sampled_profiles(draw: st.DrawFn) -> Profile:
    """Return a random tree with random samples."""
    profile = draw(profiles())
    return replace(profile, tables=Tables(pc=draw(pc_samples(len(profile)))))


def sums(held: PcSamples) -> dict[tuple[str, str, int, str], int]:
    """Samples by module, function, offset and stall."""
    found: dict[tuple[str, str, int, str], int] = {}
    columns = (column.tolist() for column in held.rows.columns())
    for function, offset, stall, _, samples in zip(*columns, strict=True):
        of = held.functions[function]
        key = (of.module, of.name, offset, held.stalls[stall])
        found[key] = found.get(key, 0) + samples
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(profile=sampled_profiles())
def test_a_file_holds_them(profile: Profile, tmp_path: Path) -> None:
    """`load(save(p)) == p`: rows, code with chains of lines, blame, cubins, texts."""
    profile.check()
    save(profile, tmp_path / "p.tprof")
    assert load(tmp_path / "p.tprof").tables.pc == profile.tables.pc


def test_a_file_without_any_has_no_room_for_them(tmp_path: Path) -> None:
    """Nor had files from before there were any."""
    profile = replace(full_profile(), tables=Tables())
    save(profile, tmp_path / "p.tprof")
    with contextlib.closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'pc_%'")
        assert names.fetchall() == []
    assert load(tmp_path / "p.tprof").tables.pc == PcSamples()


def test_a_file_from_before_there_were_texts(tmp_path: Path) -> None:
    """It has none, and all the rest."""
    profile = full_profile()
    save(profile, tmp_path / "p.tprof")
    with contextlib.closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        database.execute("DROP TABLE pc_texts")
        database.commit()
    assert load(tmp_path / "p.tprof").tables.pc == profile.tables.pc


@pytest.mark.parametrize("text", ["", ".version 8.4\n", "µ \udcff", "a\r\nb\0"])
def test_texts_are_kept_as_they_are(text: str) -> None:
    """Only what no UTF-8 can hold is escaped."""
    assert PcText.of(text).text == text.replace("\udcff", "\\udcff")
    assert PcText(note="too long").text is None


def test_hottest_lines_in_sql(tmp_path: Path) -> None:
    """Rows, code and lines can be joined."""
    save(full_profile(), tmp_path / "p.tprof")
    with contextlib.closing(sqlite3.connect(tmp_path / "p.tprof")) as database:
        found = database.execute(
            """SELECT places.file, places.line, sum(samples) FROM pc_samples
            JOIN pc_stalls ON pc_stalls.id = stall
            JOIN pc_instructions USING (function, "offset")
            JOIN places ON places.id = location
            WHERE pc_stalls.name NOT LIKE '%\\_not\\_issued' ESCAPE '\\'
            GROUP BY 1, 2 ORDER BY 3 DESC"""
        ).fetchall()
    assert found == [("m.py", 2, 93)]


@given(st.data())
def test_no_operation_loses_a_sample(data: st.DataObject) -> None:
    """Rows stay as they are; nodes are those of the tree that comes out."""
    profile = data.draw(sampled_profiles())
    changed = data.draw(operations(profile))
    changed.check()
    assert sums(changed.tables.pc) == sums(profile.tables.pc)
    assert changed.tables.pc.functions == profile.tables.pc.functions
    assert changed.tables.pc.texts == profile.tables.pc.texts


@given(sampled_profiles(), sampled_profiles())
def test_runs_are_put_together_by_function(one: Profile, other: Profile) -> None:
    """Sums by cubin, function, offset and stall add up; what one of them knows stays known."""
    both = merge([one, other])
    both.check()
    parts = sums(one.tables.pc), sums(other.tables.pc)
    added = {k: parts[0].get(k, 0) + parts[1].get(k, 0) for k in parts[0].keys() | parts[1].keys()}
    held = both.tables.pc
    assert sums(held) == added
    assert held.recordings == (*one.tables.pc.recordings, *other.tables.pc.recordings)
    keys = [(each.module, each.name) for each in held.functions]
    assert len(keys) == len(set(keys))
    for function in (*one.tables.pc.functions, *other.tables.pc.functions):
        known = held.functions[keys.index((function.module, function.name))]
        assert known.code or not function.code
    assert sums(merge([one]).tables.pc) == parts[0]
    kept = [profile.tables.pc.texts for profile in (one, other)]
    assert held.texts.keys() == kept[0].keys() | kept[1].keys()
    for key, text in held.texts.items():
        texts = [each[key] for each in kept if key in each]
        assert text == next((each for each in texts if each.content), texts[0])


def test_nodes_move_with_the_tree() -> None:
    """The kernel of the second of two runs, and of both sides of a comparison."""
    profile = full_profile()
    kernel = profile.find("matmul", "kernel")[0]
    both = merge([Profile.from_literal([{"frame": {"name": "x"}, "metrics": {}, "children": []}]),
                  profile])  # fmt: skip
    moved = both.find("matmul", "kernel")[0]
    assert moved != kernel
    assert sorted(both.tables.pc.rows.node.tolist()) == [-1, moved, moved, moved]
    compared = diff(profile, profile)
    assert compared.new.tables.pc.rows == profile.tables.pc.rows


def test_what_is_counted_twice_is_in_no_sum() -> None:
    """Rows of `_not_issued` are there, and in no total."""
    held = full_profile().tables.pc
    assert held.by_function.tolist() == [93, 7]
    assert held.counted.tolist() == [3, 90, 0, 7]
    assert held.cubin("ab" * 32) == b"ELF"


@pytest.mark.parametrize("column", ["function", "stall", "node", "samples"])
def test_what_refers_to_nothing_is_no_profile(column: str) -> None:
    """Rows are checked with the profile."""
    profile = full_profile()
    held = profile.tables.pc
    values = getattr(held.rows, column).copy()
    values[0] = -2 if column == "samples" else 99
    rows = replace(held.rows, **{column: values})
    made = replace(profile, tables=replace(profile.tables, pc=replace(held, rows=rows)))
    with pytest.raises(InternalError):
        made.check()


@given(
    st.lists(
        st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 2**31), st.integers(-1, 3), _BIG),
        max_size=30,
    ),
    st.sampled_from([1, 2**8, 2**20]),
)
def test_rows_with_one_key_are_added(rows: list[tuple[int, ...]], spread: int) -> None:
    """However far apart keys lie: in a table, as one number, or column by column."""
    wide = [(a * spread, c // spread, b * spread, d * spread, n) for a, b, c, d, n in rows]
    added = PcRows.added(*zip(*wide)) if wide else PcRows.added(*[()] * 5)
    expected: dict[tuple[int, ...], int] = {}
    for *key, samples in wide:
        expected[tuple(key)] = expected.get(tuple(key), 0) + samples
    columns = (column.tolist() for column in added.columns())
    assert [*zip(*columns, strict=True)] == [(*key, expected[key]) for key in sorted(expected)]
