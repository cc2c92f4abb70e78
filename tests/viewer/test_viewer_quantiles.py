"""Columns of quantiles: in trees the three ways round, in JSON, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tileprof.errors import UsageError
from tileprof.profile import Metric, Profile, Sketch, TreeBuilder
from tileprof.viewer import ViewOptions, export_folder, render_view, view_csv, view_json

Golden = Callable[..., None]


def steps() -> Profile:
    """A kernel in two scopes with a slow launch in a hundred, and one that was only summed up."""
    builder = TreeBuilder()
    for scope, fast in (("train", 1_000), ("eval", 100_000)):
        node = builder.child(builder.child(-1, "scope", scope), "kernel", "gemm")
        times = [fast] * 99 + [50 * fast]
        builder.add(node, "time", sum(times))
        builder.add(node, "count", len(times))
        builder.sketch(node, "time", Sketch.of(times))
    summed = builder.child(-1, "kernel", "summed")
    builder.add(summed, "time", 4_000_000)
    builder.add(summed, "count", 4)
    return builder.snapshot()


def shown(**options: Any) -> str:
    """The tree with the usual quantiles."""
    metrics = ("time", "time_p50", "time_p99.9")
    return render_view(steps(), ViewOptions(metrics=metrics, **options), width=90)


def test_the_tree(golden: Golden) -> None:
    """A node shows the quantiles of its own visits: scopes have none, nor has what was summed."""
    golden(shown())


def test_the_other_ways_round(golden: Golden) -> None:
    """Bottom-up a kernel shows those of all its callers, and each caller its part; flat too."""
    golden(shown(mode="bottom-up") + shown(mode="flat"))


def test_what_was_folded_is_left_out(golden: Golden) -> None:
    """As with mean times: launches of many kernels have no median that means anything."""
    golden(shown(depth=1) + shown(exclude="gemm", mode="bottom-up"))


def test_quantiles_alone(golden: Golden) -> None:
    """The text below says whose they are."""
    golden(render_view(steps(), ViewOptions(metrics=("time_p95",))))


def test_data() -> None:
    """JSON has them as derived columns, CSV as columns of totals."""
    options = ViewOptions(metrics=("time", "time_p50"))
    document = json.loads(view_json(steps(), options))
    assert document["metrics"] == {
        "time": {"unit": "ns", "adds": "sum"},
        "time_p50": {"unit": "ns", "adds": "quantile"},
    }
    values = [node["metrics"].get("time_p50") for node in document["nodes"]]
    assert values[0] is None
    assert values[1] == {"own": None, "total": pytest.approx(1_000, rel=1 / 64)}
    assert [values[2], values[4]] == [None, None]
    rows = list(csv.DictReader(io.StringIO(view_csv(steps(), options))))
    assert [bool(row["time_p50_total"]) for row in rows] == [False, True, False, True, False]


@pytest.mark.parametrize("name", ["time_p", "time_p101", "time_p-1", "speed_p50", "time_pp50"])
def test_names_that_are_no_quantiles(name: str) -> None:
    """The usual ones are among what exists."""
    with pytest.raises(UsageError, match=f"no metric `{name}`") as error:
        shown_alone(name)
    assert "time_p50, time_p95, time_p99" in str(error.value)


def test_sums_have_no_quantiles() -> None:
    """Where no visit was measured alone, that is said."""
    with pytest.raises(UsageError, match="has sums of `count`, but no quantiles"):
        shown_alone("count_p50")


def shown_alone(name: str) -> str:
    """The tree with one column."""
    return render_view(steps(), ViewOptions(metrics=(name,)))


def test_a_metric_of_that_name_goes_first() -> None:
    """A profile's own `time_p50` is shown, not the derived one."""
    builder = TreeBuilder()
    node = builder.child(-1, "kernel", "gemm")
    builder.add(node, "time", 10)
    builder.add(node, "count", 1)
    builder.sketch(node, "time", Sketch.of([10]))
    builder.declare(Metric("time_p50", "ns", "last"))
    builder.add(node, "time_p50", 77)
    assert "77.0 ns" in render_view(builder.snapshot(), ViewOptions(metrics=("time_p50",)))


def test_parquet() -> None:
    """Three columns where any profile has sketches; null where a node has none."""
    parquet = pytest.importorskip("pyarrow.parquet")
    plain = TreeBuilder()
    plain.add(plain.child(-1, "kernel", "gemm"), "time", 5)
    files = export_folder({"a": steps(), "b": plain.snapshot()}, "parquet")
    with_sketches, without = (
        parquet.read_table(io.BytesIO(files[f"nodes/{name}.parquet"])) for name in "ab"
    )
    assert with_sketches.schema == without.schema
    names = [name for name in without.column_names if "_p" in name]
    assert names == ["time_p50", "time_p95", "time_p99"]
    assert without["time_p99"].to_pylist() == [None]
    medians = with_sketches["time_p50"].to_pylist()
    assert medians == [None, pytest.approx(1_000, rel=1 / 64), None, medians[3], None]
    assert medians[3] == pytest.approx(100_000, rel=1 / 64)
    only = export_folder({"b": plain.snapshot()}, "parquet")["nodes/b.parquet"]
    assert "time_p50" not in parquet.read_table(io.BytesIO(only)).column_names
