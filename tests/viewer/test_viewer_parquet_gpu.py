"""Parquet of what GPUs count: samples and counts of instructions, counters over time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from tests.profile_samples import full_profile, pc_samples
from tests.viewer.samples import node, profile_of
from tests.viewer.test_viewer_parquet import rows, tables
from tileprof.errors import UsageError
from tileprof.profile import (
    CounterSeries,
    InstructionCounts,
    Profile,
    SeriesMetric,
    Tables,
    merge,
)
from tileprof.viewer import export_folder


def test_samples_of_program_counters() -> None:
    """A row for an instruction, a reason and a node, with code and line where they are known."""
    found = rows(tables(m=full_profile())["pc_samples/m"])
    assert [each["samples"] for each in found] == [3, 90, 60, 7]
    assert [each["counted"] for each in found] == [True, True, False, True]
    assert found[1] == {
        "profile": "m", "kernel": "matmul(float*)", "mangled": "_Z6matmulPf", "module": "ab" * 32,
        "architecture": "sm_90a", "offset": 32, "sass": "FADD R4, R4, R4", "depth": 1,
        "file": "m.py", "line": 2, "function": "helper", "stall": "long_scoreboard",
        "counted": True, "node": 1, "samples": 90,
    }  # fmt: skip
    assert found[3] == {
        "profile": "m", "kernel": "gemm_kernel", "mangled": "gemm_kernel", "offset": 64,
        "stall": "long_scoreboard", "counted": True, "samples": 7,
    }  # fmt: skip


# -- counts of instructions


def counting(counts: dict[str, int]) -> Profile:
    """A profile in which the instruction at 32 has these counts."""
    metrics, n = tuple(counts), len(counts)
    held = InstructionCounts.added(
        metrics, [metrics], [0] * n, [32] * n, range(n), list(counts.values())
    )
    return profile_of(
        node("kernel", "k", time=1), tables=Tables(pc=replace(pc_samples(0), counts=held))
    )


def test_counts_of_instructions() -> None:
    """A row for an instruction with a column for each metric, exact, and 0 where nothing was."""
    table = tables(m=full_profile())["instruction_counts/m"]
    load, add, library = rows(table)
    assert add == {
        "profile": "m", "kernel": "matmul(float*)", "mangled": "_Z6matmulPf", "module": "ab" * 32,
        "architecture": "sm_90a", "offset": 32, "sass": "FADD R4, R4, R4", "depth": 1,
        "file": "m.py", "line": 2, "function": "helper", "executions": 2**40, "global_requests": 0,
    }  # fmt: skip
    assert (load["offset"], load["executions"], load["global_requests"]) == (16, 10, 10)
    assert library == {
        "profile": "m", "kernel": "gemm_kernel", "mangled": "gemm_kernel", "offset": 64,
        "executions": 5, "global_requests": 0,
    }  # fmt: skip
    said = {b"metric": b"executions", b"unit": b"1", b"adds": b"sum"}
    assert table.schema.field("executions").metadata == said


def test_what_a_profile_did_not_count_is_null() -> None:
    """The columns of one export are the same; runs that are one profile add up."""
    a, b = counting({"executions": 3}), counting({"global_requests": 4})
    found = tables(a=a, b=b, both=merge([a, a, b]))
    columns = [
        [row.get(name) for name in ("executions", "global_requests")]
        for kind in ("a", "b", "both")
        for row in rows(found[f"instruction_counts/{kind}"])
    ]
    assert columns == [[3, None], [None, 4], [6, 4]]


def test_counts_stand_beside_samples() -> None:
    """The two tables have the same instructions in the same words."""
    found = tables(m=full_profile())
    samples = found["pc_samples/m"].to_pandas()
    counts = found["instruction_counts/m"].to_pandas()
    key = ["profile", "mangled", "offset"]
    joined = samples[samples["counted"]].merge(counts, on=key, suffixes=("", "_again"))
    assert joined["samples"].tolist() == [3, 90, 7]
    assert joined["executions"].tolist() == [10, 2**40, 5]
    assert joined["sass"].equals(joined["sass_again"])


def test_a_metric_called_as_a_column_of_instructions() -> None:
    """It gets an underscore."""
    (row,) = rows(tables(m=counting({"Offset": 7}))["instruction_counts/m"])
    assert (row["offset"], row["Offset_"]) == (32, 7)


# -- counters over time


def sampled(device: str, start: list[int], unit: str = "share", /, **values: Any) -> Profile:
    """A profile with a series of 10 ns a row."""
    metrics = tuple(SeriesMetric(name, unit) for name in values)
    series = CounterSeries.of(
        device, 10, start, np.full(len(start), 10), metrics, list(values.values())
    )
    return profile_of(node("kernel", "k", time=1), tables=Tables(series=(series,)))


def test_counters_over_time() -> None:
    """A row for a stretch of time with a column for each counter; null is no value, not 0."""
    table = tables(m=full_profile())["counter_series/m"]
    common = {"profile": "m", "series": 0, "device": "cuda:0", "interval_ns": 200_000}
    fast, slow = (float(np.float32(rate)) for rate in (2e12, 1e12))
    assert rows(table) == [
        {**common, "start_ns": 1_000, "end_ns": 201_000, "dram_use": 0.5, "dram_read": fast},
        {**common, "start_ns": 201_000, "end_ns": 401_000, "dram_use": 0.25, "dram_read": slow},
        {**common, "start_ns": 900_000, "end_ns": 1_100_000, "dram_read": 0.0},
    ]
    field = table.schema.field("dram_read")
    assert str(field.type) == "float"
    assert field.metadata == {b"metric": b"dram_read", b"unit": b"bytes/s"}


def test_series_of_a_profile_are_told_apart() -> None:
    """Each device and run has its number; times of a clock do not lose a nanosecond."""
    late = 2**62 + 1
    merged = merge([sampled("cuda:0", [late], a=[1]), sampled("cuda:1", [5, 15], b=[2, 3])])
    table = tables(m=merged)["counter_series/m"]
    columns = ("series", "device", "start_ns", "end_ns", "a", "b")
    assert [tuple(row.get(name) for name in columns) for row in rows(table)] == [
        (0, "cuda:0", late, late + 10, 1, None),
        (1, "cuda:1", 5, 15, None, 2),
        (1, "cuda:1", 15, 25, None, 3),
    ]


def test_counters_of_ranks_read_as_one(tmp_path: Path) -> None:
    """A counter that a rank did not sample is null there, also where it sampled none at all."""
    named = {
        "step.rank0": sampled("cuda:0", [0, 10], dram_use=[0.5, 1]),
        "step.rank1": sampled("cuda:0", [0], sm_use=[0.25]),
        "step.rank2": profile_of(),
    }
    for path, content in export_folder(named, "parquet").items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    table = pandas.read_parquet(tmp_path / "counter_series")
    assert table["rank"].tolist() == [0, 0, 1]
    assert table.groupby("rank")["dram_use"].mean().fillna(-1).to_dict() == {0: 0.75, 1: -1}
    assert table["sm_use"].isna().tolist() == [True, True, False]


def test_a_counter_called_as_a_column() -> None:
    """It gets an underscore; the field's metadata have its name."""
    table = tables(m=sampled("cuda:0", [0], device=[0.5]))["counter_series/m"]
    (row,) = rows(table)
    assert (row["device"], row["device_"]) == ("cuda:0", 0.5)
    assert table.schema.field("device_").metadata[b"metric"] == b"device"


def test_counters_that_disagree() -> None:
    """One column cannot have two units."""
    a, b = (sampled("cuda:0", [0], unit, heat=[1]) for unit in ("J", "cal"))
    with pytest.raises(UsageError, match="counter `heat` over time is in cal here and in J there"):
        export_folder({"a": a, "b": b}, "parquet")
