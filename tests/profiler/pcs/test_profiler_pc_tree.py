"""Samples of program counters at the kernels of a tree, and in what sessions write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pc_samples import raw
from tests.profiler_programs import expect, run, tree
from tileprof.profile import PcFunction as Function
from tileprof.profile import PcRecording, PcRows, PcSamples, Profile, TreeBuilder, load
from tileprof.profiler.pcs.kernel_samples import Period, add_pc_samples, below, shared_out
from tileprof.profiler.pcs.raw import RawPcSamples
from tileprof.profiler.pcs.sampling import PcSampling
from tileprof.profiler.tree.numbers import Numbers
from tileprof.profiler.tree.totals import DeviceTotals
from tileprof.profiler.tree.tree import Node, Tree

recorder = pytest.importorskip("tileprof.native._recorder")

_API = 6
"""The native recorder's number for contexts of calls."""


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_shares_add_up(count: int, weights: list[int]) -> None:
    """Whole numbers, each within one of its proportion; equal ones without any weight."""
    shares = shared_out(count, weights)
    assert sum(shares) == count
    known = weights if any(weights) else [1] * len(weights)
    for share, weight in zip(shares, known, strict=True):
        assert abs(share * sum(known) - count * weight) <= sum(known)


class Launches:
    """A tree of two launches of `a` and one of `b` with their times, in one or two periods."""

    def __init__(self) -> None:
        self.tree, self.names = Tree(), dict[int, str]()
        first, second = (self.launch(scope) for scope in ("first", "second"))
        self.a1, self.b = self.kernel(first, "a"), self.kernel(first, "b")
        self.a2 = self.kernel(second, "a")

    def launch(self, scope: str) -> Node:
        """The call in a scope."""
        around = self.tree.child(self.tree.root, "scope", scope, None)
        return self.tree.child(around, "api", "cuLaunchKernel", None)

    def kernel(self, above: Node, name: str) -> Node:
        """A kernel below it."""
        node = self.tree.child(above, "kernel", f"{name}()", None)
        self.names[node.index] = name
        return node

    def functions_of(self, node: Node) -> tuple[str, ...]:
        """The function at a kernel's node."""
        return (self.names[node.index],) if node.index in self.names else ()

    def period(self, builder: TreeBuilder, phase: str, **times: int) -> Period:
        """One in which kernels took so long; all of its nodes are in the tree."""
        count = len(self.tree.nodes)
        device: list[DeviceTotals | None] = [None] * count
        made = [-1] * count
        for node in self.tree.nodes[1:]:
            above = made[node.parent.index] if node.parent is not None else -1
            made[node.index] = builder.child(above, node.kind, node.name, None, phase)
        for name, time in times.items():
            totals = device[getattr(self, name).index] = DeviceTotals("kernel")
            totals.sum = time
        numbers = Numbers(self.tree.nodes, [None] * count, [None] * count, device, [None] * count)
        return Period(numbers, made)


def held(*rows: tuple[int, int, int]) -> PcSamples:
    """Rows of function (a, b, c), node and samples; as many are of a `_not_issued` reason."""
    functions = tuple(Function(name, f"{name}()") for name in "abc")
    columns = [(f, 16, stall, node, n) for f, node, n in rows for stall in (0, 1)]
    recording = PcRecording(4096, "exact", sum(n for _, _, n in rows))
    return PcSamples(
        functions, ("wait", "wait_not_issued"), PcRows.typed(*zip(*columns)), (recording,)
    )


def samples(profile: Profile) -> dict[str, int]:
    """By path, of names, what has samples of its own; with its phase."""
    own = profile.own["pc_samples"]
    return {
        ">".join([profile.phases[i], *(profile.names[n] for n in profile.path(i))]): int(own[i])
        for i in range(len(profile))
        if own[i]
    }


def test_without_call_paths_time_decides() -> None:
    """Functions are dealt out over their kernels; one that nobody launched is at the top."""
    launches, builder = Launches(), TreeBuilder()
    period = launches.period(builder, "", a1=300, a2=100, b=5)
    counted = held((0, -1, 1001), (1, -1, 7), (2, -1, 11))
    found = add_pc_samples(builder, counted, [period], launches.functions_of)
    profile = builder.snapshot()
    assert samples(profile) == {
        ">first>cuLaunchKernel>a()": 750,
        ">second>cuLaunchKernel>a()": 251,
        ">first>cuLaunchKernel>b()": 7,
        ">c()": 11,
    }
    assert profile.whole["pc_samples"] == counted.counted.sum() == 1019
    assert set(found.rows.node.tolist()) == {-1}


def test_setup_and_steps_have_their_parts() -> None:
    """A node in two periods has the samples of both, in proportion to time."""
    launches, builder = Launches(), TreeBuilder()
    periods = [launches.period(builder, "setup", a1=100), launches.period(builder, "", a1=300)]
    index = launches.a1.index
    found = add_pc_samples(builder, held((0, index, 400)), periods, launches.functions_of)
    profile = builder.snapshot()
    assert samples(profile) == {
        "setup>first>cuLaunchKernel>a()": 100,
        ">first>cuLaunchKernel>a()": 300,
    }
    assert set(found.rows.node.tolist()) == {periods[1].made[index]}


def test_with_call_paths_nothing_is_dealt_out() -> None:
    """The kernel right below the launch; the launch itself until its record is there."""
    launches, builder = Launches(), TreeBuilder()
    launch = launches.a2.parent
    assert launch is not None
    assert below(launch, "a", launches.functions_of) is launches.a2
    assert below(launches.a2, "other", launches.functions_of) is launches.a2
    assert below(launch, "b", launches.functions_of) is launch
    period = launches.period(builder, "", a1=300, a2=100)
    counted = held((0, launches.a2.index, 10), (1, launch.index, 5))
    add_pc_samples(builder, counted, [period], launches.functions_of)
    assert samples(builder.snapshot()) == {
        ">second>cuLaunchKernel>a()": 10,
        ">second>cuLaunchKernel": 5,
    }


# -- in sessions


PROGRAM = """
    with scope("forward"):
        kernel("_Z4fillILi4EEvPf", 1000, 1600)
    with scope("backward"):
        kernel("_Z4fillILi4EEvPf", 2000, 2200)
        kernel("_Z4copyPf", 2300, 2400)
    deliver()
"""


def _giving(counts: RawPcSamples | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PcSampling, "samples", lambda self: counts)


def test_a_session_has_them(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Mangled names find kernels; the file has functions, notes and rows."""
    functions = [(1, "_Z4fillILi4EEvPf"), (1, "_Z4copyPf"), (2, "elsewhere")]
    rows = [(0, 0, "wait", 0, 300), (0, 16, "selected", 0, 100), (0, 16, "wait_not_issued", 0, 9),
            (1, 0, "barrier", 0, 20), (2, 32, "new_reason", 0, 3)]  # fmt: skip
    _giving(raw(rows, functions), monkeypatch)
    profile = run(PROGRAM, native=True, names=names, path=tmp_path / "p.tprof")
    assert tree(profile, "pc_samples") == expect("""
        frame <module>:1
          scope forward
            api cuLaunchKernel
              kernel void fill<4>(float*) pc_samples=300
        frame <module>:3
          scope backward
            api cuLaunchKernel
              kernel void fill<4>(float*) pc_samples=100
              kernel copy(float*) pc_samples=20
              idle between dependent work
        kernel elsewhere pc_samples=3
    """)
    found = load(tmp_path / "p.tprof").tables.pc
    assert found == profile.tables.pc
    assert [each.title for each in found.functions] == [
        "void fill<4>(float*)", "copy(float*)", "elsewhere",
    ]  # fmt: skip
    assert {each.note for each in found.functions} == {"its cubin is not known"}
    assert found.recordings[0].total == 432
    assert profile.whole["pc_samples"] == 423


def test_a_session_with_call_paths(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Contexts of launches lead to the kernels below them, in rows too."""
    functions = [(1, "_Z4fillILi4EEvPf"), (1, "_Z4copyPf")]

    def counted(_: PcSampling) -> RawPcSamples:
        known = [(0, 0, 0, 0), *recorder.contexts(1)]
        calls = [number for number, (_, kind, *_) in enumerate(known) if kind == _API]
        forward, backward = calls[-2:]
        rows = [(0, 0, "wait", forward, 10), (0, 0, "wait", backward, 20),
                (1, 0, "wait", backward, 40)]  # fmt: skip
        return raw(rows, functions, mode="exact")

    monkeypatch.setattr(PcSampling, "samples", counted)
    profile = run(PROGRAM, native=True, names=names, path=tmp_path / "p.tprof")
    assert [*samples(profile).values()] == [10, 20, 40]
    rows = profile.tables.pc.rows
    kernels = [profile.names[node] for node in rows.node.tolist()]
    assert kernels == ["void fill<4>(float*)", "void fill<4>(float*)", "copy(float*)"]
    scopes = [profile.names[profile.path(node)[1]] for node in rows.node.tolist()]
    assert scopes == ["forward", "backward", "backward"]
    assert load(tmp_path / "p.tprof").tables.pc == profile.tables.pc


def test_without_samples_there_are_none(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No metric and no tables."""
    _giving(None, monkeypatch)
    profile = run(PROGRAM, native=True, names=names)
    assert profile.tables.pc == PcSamples()
    assert "pc_samples" not in profile.metrics
