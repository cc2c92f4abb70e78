"""Parquet: every number and every table comes back, and the files of many ranks read as one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profile_samples import full_profile
from tests.strategies_profile import profiles
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.errors import UsageError
from tileprof.profile import KernelInfo, Metric, Profile, Tables, load, prune, rank_of, save
from tileprof.viewer import FOLDER_EXPORTS, export, export_folder

KINDS = [
    "nodes", "kernels", "sites", "remarks", "pc_samples", "instruction_counts", "counter_series",
    "sources", "provenance",
]  # fmt: skip


def tables(**named: Profile) -> dict[str, Any]:
    """The tables of an export by `kind/name`."""
    files = export_folder(named, "parquet")
    return {
        path.removesuffix(".parquet"): pq.read_table(io.BytesIO(content))
        for path, content in files.items()
    }


def rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table without the values that are null."""
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def test_a_folder_a_kind_and_a_file_a_profile() -> None:
    """Every kind of row has its file, with its columns even where it has no rows."""
    assert list(FOLDER_EXPORTS) == ["parquet"]
    found = tables(a=profile_of(), b=full_profile())
    assert list(found) == [f"{kind}/{name}" for kind in KINDS for name in "ab"]
    for kind in KINDS:
        empty, full = found[f"{kind}/a"], found[f"{kind}/b"]
        assert (len(empty), len(full) > 0) == (0, True)
        assert empty.schema.equals(full.schema, check_metadata=True)


def test_nodes() -> None:
    """A row a node: where it hangs, what it is, its own values and those with its subtree."""
    frame, kernel, site = rows(tables(m=full_profile())["nodes/m"])
    assert frame == {
        "profile": "m", "id": 0, "depth": 0, "kind": "frame", "name": "main", "file": "m.py",
        "line": 20, "function": "main", "path": ["main"], "time": 0, "time_total": 1500,
        "time_min_total": 700.5, "count": 0, "count_total": 4, "flops": 0.0, "flops_total": 0.5,
    }  # fmt: skip
    assert (kernel["parent"], kernel["kernel"], kernel["time_min"]) == (0, 0, 700.5)
    assert (site["phase"], site["path"]) == ("forward", ["main", "matmul", "load"])
    assert "time_min" not in site, "there is none, which is not 0"


def test_what_is_known_about_kernels() -> None:
    """Attributes that at least half of the kernels have are columns; the map has all of them."""
    found = tables(m=full_profile())
    known, unused = rows(found["kernels/m"])
    (info, _) = full_profile().tables.kernels
    assert known == {
        "profile": "m", "kernel": 0, "name": "matmul", "device": "cpu", "ir": info.ir,
        "source": info.source, "source_file": "m.py", "source_line": 8, "code": info.code,
        "code_language": "cpp", "threads": 128, "occupancy": 0.5, "target": "x86-64",
        "hash": str(2**64 - 1),
        "attributes": [
            ("hash", str(2**64 - 1)), ("occupancy", "0.5"), ("target", "x86-64"),
            ("threads", "128"),
        ],
    }  # fmt: skip
    assert (unused["name"], unused["attributes"]) == ("unused", [])
    kernels = (info, KernelInfo("b", "cpu"), KernelInfo("c", "cpu"))
    rare = tables(m=profile_of(tables=Tables(kernels)))["kernels/m"]
    assert "threads" not in rare.column_names
    assert dict(rows(rare)[0]["attributes"])["threads"] == "128"


def test_the_other_tables() -> None:
    """Sites, remarks with what was rejected, sources and provenance, each row with its profile."""
    found = tables(m=full_profile())
    place = {"file": "m.py", "line": 2, "function": "helper"}
    assert rows(found["sites/m"]) == [
        {"profile": "m", "kernel": 0, "id": 0, "name": "load", "kind": "scope", **place},
        {"profile": "m", "kernel": 0, "id": 1, "parent": 0, "name": "mma", "kind": "op"},
    ]
    said = {"profile": "m", "kernel": 0}
    gemm, copy = rows(found["remarks/m"])
    rejected = gemm.pop("rejected")
    assert gemm == {
        **said, "op": "gemm", "name": "", **place, "severity": "missed",
        "chosen_code": "gemm-instruction", "chosen": "mma m16n8k16 warps=2x2, operands cut to tf32",
        "chosen_facts": '{"instruction": "mma", "form": "m16n8k16 warps=2x2", "tf32": true,'
        ' "columns": 0, "widths": []}',
    }  # fmt: skip
    assert rejected[0] == {
        "candidate_code": "instruction-candidate", "candidate": "wgmma",
        "candidate_facts": '{"instruction": "wgmma"}', "reason_code": "extent-multiple",
        "reason_facts": '{"dimension": "M", "extent": 32, "multiple": 64}',
        "reason": "M=32 is not a multiple of 64",
    }  # fmt: skip
    assert [each["reason_code"] for each in rejected] == ["extent-multiple", "several"]
    assert copy == {
        **said, "op": "copy", "name": "A → A_shared", "severity": "info", "chosen_code": "cp-async",
        "chosen_facts": '{"width": 16}', "chosen": "cp.async, 16 bytes per thread", "rejected": [],
    }  # fmt: skip
    assert rows(found["sources/m"])[1] == {"profile": "m", "file": "naïve.py", "text": "# ×\n"}
    assert rows(found["provenance/m"])[1] == {"profile": "m", "key": "git", "value": "abc (dirty)"}


@given(profiles(), st.booleans())
def test_numbers_are_those_of_the_frame(profile: Profile, cut: bool) -> None:
    """Own values and totals of every metric are the frame's, of the same type; null is no value."""
    if cut and "time" in profile.metrics:
        profile = prune(profile, "time", 0.3)
    table = tables(p=profile)["nodes/p"]
    frame = profile.frame()
    assert table["id"].to_pylist() == frame.index.tolist()
    for name in profile.metrics:
        for column, expected in ((name, frame[f"{name} own"]), (f"{name}_total", frame[name])):
            values = table[column].to_pandas()
            np.testing.assert_array_equal(values, expected)
            exact = profile.own[name].dtype == profile.absorbed[name].dtype == np.int64
            assert str(table.schema.field(column).type) == ("int64" if exact else "double")
            assert table[column].null_count == int(expected.isna().sum())
    names = [[profile.names[i] for i in profile.path(node)] for node in range(len(profile))]
    assert table["path"].to_pylist() == names


def test_what_was_folded_is_a_column_where_there_is_any() -> None:
    """In a pruned profile, own and absorbed values add up to the whole."""
    pruned = prune(matmul(), "time", 0.1)
    table = tables(p=pruned)["nodes/p"].to_pandas()
    assert table["time_absorbed"].sum() > 0
    assert table["time"].sum() + table["time_absorbed"].sum() == matmul().whole["time"]
    assert "time_absorbed" not in tables(p=matmul())["nodes/p"].column_names


def test_units_are_in_the_metadata_of_the_fields() -> None:
    """A column says its metric, unit, way of adding up, and which part of a node it is."""
    field = tables(m=full_profile())["nodes/m"].schema.field("time_min_total")
    said = {b"metric": b"time_min", b"unit": b"ns", b"adds": b"min", b"part": b"total"}
    assert said.items() <= field.metadata.items()


def test_strings_are_stored_once() -> None:
    """Every column of strings is encoded by a dictionary, paths included."""
    content = io.BytesIO(export_folder({"m": matmul()}, "parquet")["nodes/m.parquet"])
    group = pq.ParquetFile(content).metadata.row_group(0)
    texts = [
        column
        for column in map(group.column, range(group.num_columns))
        if column.physical_type == "BYTE_ARRAY"
    ]
    assert {"kind", "path.list.element"} <= {column.path_in_schema for column in texts}
    assert all("RLE_DICTIONARY" in column.encodings for column in texts)


def test_equal_profiles_give_equal_bytes(tmp_path: Path) -> None:
    """Whether recorded just now or read from its file."""
    save(full_profile(), tmp_path / "m.tprof")
    again = {"m": load(tmp_path / "m.tprof")}
    assert export_folder(again, "parquet") == export_folder({"m": full_profile()}, "parquet")


def ranks(folder: Path) -> Path:
    """A folder with the export of two ranks whose metrics differ in presence and in type."""
    named = {
        "step.rank0": profile_of(with_children(node("frame", "main"), node("kernel", "k", time=3))),
        "step.rank11": profile_of(node("kernel", "k", time=0.5, bytes=8, time_min=0.5)),
    }
    for path, content in export_folder(named, "parquet").items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_ranks_read_as_one(tmp_path: Path) -> None:
    """The files of a folder are one table: a metric that a rank lacks is 0, or null for minima."""
    table = pandas.read_parquet(ranks(tmp_path) / "nodes")
    assert table.groupby("rank")["time"].sum().to_dict() == {0: 3.0, 11: 0.5}
    assert table["bytes"].tolist() == [0, 0, 8]
    assert table["time_min"].isna().tolist() == [True, True, False]
    assert set(table["profile"]) == {"step.rank0", "step.rank11"}


def test_duckdb_reads_them(tmp_path: Path) -> None:
    """Where it is installed: a glob of files is a table, a path is a list of text."""
    duckdb: Any = pytest.importorskip("duckdb")
    question = f"select rank, path[-1], time from '{ranks(tmp_path)}/nodes/*.parquet' order by id"
    assert sorted(duckdb.sql(question).fetchall()) == [
        (0, "k", 3.0),
        (0, "main", 0.0),
        (11, "k", 0.5),
    ]


@pytest.mark.parametrize(
    ("name", "said", "rank"),
    [
        ("step", "", None),
        ("step", "2", 2),
        ("step.rank3", "2", 3),
        ("step.rank10.pid77", "", 10),
        ("a.ranked5", "x", None),
    ],
)
def test_the_rank_of_a_profile(name: str, said: str, rank: int | None) -> None:
    """The file's name says it, else the environment that the program ran in."""
    assert rank_of(name, profile_of(tables=Tables(provenance={"rank": said}))) == rank


def test_metrics_called_as_other_columns_step_aside() -> None:
    """An underscore tells them apart; the field's metadata has the true name."""
    metrics = {name: Metric(name, "1") for name in ("name", "Time", "time_total")}
    values = dict.fromkeys(metrics, 7)
    table = tables(m=profile_of(node("scope", "s", time=1, **values), metrics=metrics))["nodes/m"]
    called = {
        field.metadata[b"metric"].decode(): field.name
        for field in table.schema
        if field.metadata and field.metadata.get(b"part") == b"own"
    }
    assert called == {"time": "time", "name": "name_", "Time": "Time_", "time_total": "time_total_"}
    folded = [name.casefold() for name in table.column_names]
    assert len(set(folded)) == len(folded)


def test_names_that_are_no_text() -> None:
    """A file name may hold bytes that UTF-8 cannot."""
    (row,) = rows(tables(m=profile_of(node("scope", "a\udcff", "b\udcff.py:3", time=1)))["nodes/m"])
    assert (row["name"], row["file"], row["path"]) == ("a\\udcff", "b\\udcff.py", ["a\\udcff"])


def test_metrics_that_disagree() -> None:
    """Two profiles cannot be one table where a column would mean two things."""
    a, b = (
        profile_of(node("scope", "s", heat=1), metrics={"heat": Metric("heat", unit)})
        for unit in ("J", "cal")
    )
    with pytest.raises(UsageError, match="metric `heat` is declared as cal/sum"):
        export_folder({"a": a, "b": b}, "parquet")


def test_files_and_folders_are_not_mixed_up() -> None:
    """Each of the two functions names the other one."""
    with pytest.raises(UsageError, match=r"is a folder, not one file\nUse export_folder\("):
        export(matmul(), "parquet")
    with pytest.raises(UsageError, match=r"is one file, not a folder\nUse export\("):
        export_folder({"m": matmul()}, "chrome")
    with pytest.raises(UsageError, match="there is no export format `arrow`"):
        export_folder({}, "arrow")
