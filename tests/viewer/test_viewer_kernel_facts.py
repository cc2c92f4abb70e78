"""Numbers that describe kernels, as columns of a view: means by time, whatever the view does."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pytest

from tileprof.errors import UsageError
from tileprof.profile import KernelInfo, Metric, Profile, Tables, TreeBuilder
from tileprof.viewer import ViewOptions, available_metrics, render_view
from tileprof.viewer.columns import column
from tileprof.viewer.kernel_facts import with_facts

US = 1000


def _kernel(name: str, **attributes: str | float) -> KernelInfo:
    return KernelInfo(name, "cuda:0", attributes=attributes)


@pytest.fixture
def profile() -> Profile:
    """Two variants of `reduce` under two scopes, a `gemm`, and a kernel of the host."""
    builder = TreeBuilder()
    kernels = (
        _kernel("reduce", occupancy=1.0, registers=32, local_bytes=0, limited_by="threads"),
        _kernel("reduce", occupancy=0.25, registers=64, local_bytes=0, limited_by="registers"),
        _kernel("gemm", occupancy=0.125, registers=168, local_bytes=24, limited_by="registers"),
        _kernel("copy", instrument="off"),
    )
    forward, backward = (builder.child(-1, "scope", name) for name in ("forward", "backward"))
    node_kernels = {}
    for above, kernel, time in ((forward, 0, 10), (backward, 1, 30), (backward, 2, 60),
                                (forward, 3, 100)):  # fmt: skip
        node = builder.child(above, "kernel", kernels[kernel].name)
        builder.add(node, "time", time * US)
        builder.add(node, "count", 1)
        node_kernels[node] = kernel
    return builder.snapshot(Tables(kernels=kernels, node_kernels=node_kernels))


def _values(profile: Profile, name: str, **options: str) -> dict[str, float]:
    shown = ViewOptions(metrics=("time", name), **options)  # type: ignore[arg-type]
    rows = csv.DictReader(io.StringIO(render_view(profile, shown, "csv")))
    return {row["name"]: float(row[f"{name}_total"] or "nan") for row in rows}


def test_means_are_weighted_with_time(profile: Profile) -> None:
    """A kernel has its own number, a scope the mean of its kernels, what says nothing none."""
    found = with_facts(profile, ["occupancy"])
    shown = column(found, "occupancy")
    by_name = list(zip(profile.names, shown.total.tolist()))
    assert by_name[:2] == [("forward", 1.0), ("backward", pytest.approx((7.5 + 7.5) / 90))]
    assert by_name[2:5] == [("reduce", 1.0), ("reduce", 0.25), ("gemm", 0.125)]
    assert math.isnan(by_name[5][1])
    assert shown.whole == pytest.approx((10 + 7.5 + 7.5) / 100)
    found.check()


def test_variants_of_one_name_join(profile: Profile) -> None:
    """In a flat view and a bottom-up one: 10 µs at 100 % and 30 at 25 %."""
    for mode in ("flat", "bottom-up"):
        found = _values(profile, "occupancy", mode=mode)
        assert found["reduce"] == pytest.approx(17.5 / 40), mode
        assert found["gemm"] == 0.125, mode
    assert _values(profile, "registers", mode="flat")["reduce"] == pytest.approx(56)


def test_trees_show_them(profile: Profile) -> None:
    """Shares as percentages, bytes with units; a line says what is meant."""
    shown = ViewOptions(metrics=("time", "occupancy", "local_bytes"), mode="flat")
    text = render_view(profile, shown)
    (gemm,) = (line.split() for line in text.splitlines() if "gemm" in line)
    assert "12.5 % 24.0 B gemm" in " ".join(gemm)
    assert "occupancy, local_bytes: the mean over kernels, weighted with their time." in text
    first = render_view(profile, ViewOptions(metrics=("registers",)))
    assert "registers: the mean over kernels" in first
    assert "of kernels by" not in text + first


def test_data_of_views(profile: Profile) -> None:
    """JSON says that they are means; the parts that they are made of stay inside."""
    document = json.loads(render_view(profile, ViewOptions(metrics=("occupancy", "time")), "json"))
    assert document["metrics"] == {
        "time": {"unit": "ns", "adds": "sum"},
        "occupancy": {"unit": "1", "adds": "mean"},
    }
    gemm = next(node for node in document["nodes"] if node["name"] == "gemm")
    assert gemm["metrics"]["occupancy"] == {"own": None, "total": 0.125}


def test_names(profile: Profile) -> None:
    """Numbers alone are offered; asking for another lists them; lines have no use for means."""
    assert available_metrics(profile)[-3:] == ["local_bytes", "occupancy", "registers"]
    with pytest.raises(UsageError) as caught:
        render_view(profile, ViewOptions(metrics=("occupancy", "limited_by")))
    assert "limited_by" in str(caught.value)
    assert "occupancy" in caught.value.hint
    assert "of kernels by" not in caught.value.hint
    with pytest.raises(UsageError, match="does not add up"):
        render_view(profile, ViewOptions(metrics=("occupancy",)), "lines")


def test_a_metric_of_that_name_goes_before() -> None:
    """A profile that measured `occupancy` shows what was measured."""
    builder = TreeBuilder()
    builder.declare(Metric("occupancy", "1", "last"))
    node = builder.child(-1, "kernel", "k")
    builder.add(node, "time", 5)
    builder.add(node, "occupancy", 0.5)
    kernels = (_kernel("k", occupancy=1.0),)
    profile = builder.snapshot(Tables(kernels=kernels, node_kernels={node: 0}))
    assert with_facts(profile, ["occupancy"]) is profile
    assert column(profile, "occupancy").total.tolist() == [0.5]


def test_kernels_that_were_not_timed() -> None:
    """They have their numbers, and next to no weight."""
    builder = TreeBuilder()
    scope = builder.child(-1, "scope", "s")
    nodes = [builder.child(scope, "kernel", name) for name in "ab"]
    builder.add(nodes[0], "time", 10**6)
    builder.add(nodes[1], "count", 1)
    kernels = (_kernel("a", waves=2.0), _kernel("b", waves=4.0))
    profile = builder.snapshot(Tables(kernels=kernels, node_kernels={nodes[0]: 0, nodes[1]: 1}))
    found = column(with_facts(profile, ["waves"]), "waves").total.tolist()
    assert found == [pytest.approx(2.0, abs=1e-5), 2.0, 4.0]


def test_devices_have_names(profile: Profile) -> None:
    """A title says which GPU `cuda:0` was, where the profile knows."""
    facts = {
        "command": "train.py",
        "device": "cuda:0, cpu",
        "cuda:0": "NVIDIA H200, sm_90, 132 SMs",
        "cpu": "Processor 9000",
    }
    named = replace(profile, tables=replace(profile.tables, provenance=facts))
    title, *_ = render_view(named, ViewOptions()).splitlines()
    assert title == "train.py, cuda:0 (NVIDIA H200), cpu"
