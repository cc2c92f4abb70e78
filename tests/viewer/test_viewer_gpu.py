"""A training run on a GPU in every view and export: steps, phases, copies, names in C++."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.viewer.gpu_samples import ADD, COPY, GEMM, training
from tileprof.profile import Profile, diff, from_literal
from tileprof.viewer import (
    DiffOptions,
    ViewOptions,
    export,
    export_folder,
    render_diff,
    render_view,
)

Golden = Callable[..., None]


def kernel_times(profile: Profile) -> Counter[str]:
    """Time of kernels by name, in ns."""
    found: Counter[str] = Counter()
    for node in profile.find(kind="kernel"):
        found[profile.names[node]] += int(profile.own["time"][node])
    return found


def test_the_sample_is_a_training_run() -> None:
    """Every kind of node that a GPU adds, both phases, three steps that cost the same."""
    profile = training()
    profile.check()
    kinds = {"frame", "scope", "op", "api", "kernel", "memcpy", "memset", "sync", "idle"}
    assert set(profile.kinds) == kinds
    assert set(profile.phases) == {"", "backward"}
    steps = [node for number in range(3) for node in profile.find(f"step {number}", "scope")]
    assert len({int(profile.total("time")[node]) for node in steps}) == 1
    assert kernel_times(profile) == {GEMM: 9 * 450_000, ADD: 3 * 100_000, COPY: 3 * 30_000}


def test_the_tree(golden: Golden) -> None:
    """Device time first, means and rates beside it, and room for the names of a deep path."""
    golden(render_view(training(), ViewOptions(include="step 1"), width=120))


def test_the_tree_in_80_columns(golden: Golden) -> None:
    """Rates give way to names; a phase is said where it begins."""
    golden(render_view(training(steps=1), ViewOptions()))


def test_flat(golden: Golden) -> None:
    """One line a kernel and phase; its rate for a copy."""
    golden(render_view(training(), ViewOptions(mode="flat"), width=100))


def test_bottom_up(golden: Golden) -> None:
    """What is hot, and who called it; visits of callers that were folded are counted."""
    golden(render_view(training(), ViewOptions(mode="bottom-up", depth=4), width=100))


def test_the_diff(golden: Golden) -> None:
    """A faster product shows in the phase in which it is faster."""
    found = diff(training(steps=1), training(gemm=400, steps=1))
    golden(render_diff(found, DiffOptions(), 100, color=False, unicode=True))


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 240])
def test_kernels_are_told_by_their_names(width: int, unicode: bool) -> None:
    """However narrow the terminal, the name of the function stays or its middle gives way."""
    text = render_view(training(steps=1), ViewOptions(mode="flat"), width=width, unicode=unicode)
    assert re.search(r"vectorized_elementwise_kernel|vector\w*[…~]\w*kernel", text)
    assert "at::native" not in text or width > 160
    assert "backward" in text


def test_copies_have_a_rate_and_what_is_above_them_has_none() -> None:
    """2 MB in 80 µs are 25 GB/s; the time of the kernels beside it is no time of the copy."""
    lines = render_view(training(), ViewOptions(include="HtoD"), width=160).splitlines()
    at = lines[1].index("gbyte/s")
    cells = {
        line.split("  ")[-2].lstrip("│├└─ "): line[at : at + 7].strip() for line in lines[2:-2]
    }
    copy = next(name for name in cells if name.endswith("HtoD pageable"))
    assert cells.pop(copy) == "25"
    assert set(cells.values()) == {""}


def test_data_has_the_whole_names() -> None:
    """Only what is drawn for people is shortened."""
    nodes = json.loads(render_view(training(), ViewOptions(), "json"))["nodes"]
    assert {ADD, COPY, GEMM} == {node["name"] for node in nodes if node["kind"] == "kernel"}
    assert render_view(training(), ViewOptions(), "csv").count(f'"{ADD}"') == 6


def test_chrome() -> None:
    """Events have whole names, kinds and phases, and kernels their time."""
    events = json.loads(export(training(), "chrome"))["traceEvents"]
    found: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "kernel":
            found[event["name"]] += round(event["dur"] * 1000)
    assert found == kernel_times(training())
    backward = [event for event in events if event.get("args", {}).get("phase") == "backward"]
    assert {event["cat"] for event in backward} == {"op", "api", "kernel"}


def test_collapsed() -> None:
    """Forward and backward work of one operation are stacks of their own."""
    stacks = dict(line.rsplit(" ", 1) for line in str(export(training(), "collapsed")).splitlines())
    ops = "main;step 0;forward;forward;aten::linear;aten::addmm"
    assert stacks[f"train.py;{ops};cudaLaunchKernel;{GEMM}"] == "450000"
    backward = "AddmmBackward0 (backward);cudaLaunchKernel"
    assert stacks[f"train.py;{ops};{backward};{GEMM}"] == "900000"
    assert sum(map(int, stacks.values())) == training().whole["time"]


def test_speedscope() -> None:
    """The first profile shown is device time; a phase is part of a frame's name."""
    document: Any = json.loads(export(training(), "speedscope"))
    shown = document["profiles"][document["activeProfileIndex"]]
    assert (shown["name"], shown["endValue"]) == ("time", training().whole["time"])
    names = {frame["name"] for frame in document["shared"]["frames"]}
    assert {"AddmmBackward0 (backward)", "cudaLaunchKernel (backward)", ADD} <= names


def test_hatchet() -> None:
    """The literal reads back with the same kernels and totals."""
    again = from_literal(json.loads(export(training(), "hatchet")))
    assert again.whole["time"] == training().whole["time"]
    assert {GEMM, ADD, COPY} <= set(again.names)


def test_parquet(tmp_path: Any) -> None:
    """Backward time by kernel is one question."""
    import io

    import pandas

    files = export_folder({"step.rank0": training()}, "parquet")
    nodes = pandas.read_parquet(io.BytesIO(files["nodes/step.rank0.parquet"]))
    backward = nodes[(nodes["kind"] == "kernel") & (nodes["phase"] == "backward")]
    assert backward.groupby("name")["time"].sum().to_dict() == {GEMM: 2_700_000, COPY: 90_000}
