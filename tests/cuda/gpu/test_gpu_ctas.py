"""Timelines of single CTAs from a real GPU: what their warps did, and when on the host's time."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.profile import Profile
from tileprof.viewer import export, render_cta
from tileprof.viewer.ctas.axis import places
from tileprof.viewer.ctas.ctas import Ctas

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
kernels: Any = importlib.import_module("benchmarks.gpu_kernels")
SIZE = 2048


def profiled(launches: int = 4, **options: Any) -> Profile:
    """Some products after one that compiles the kernel."""
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with profiler.profile(instrument="ops"):
        kernels.matmul_nt(a, b)
        torch.cuda.synchronize()
    with profiler.profile(context="scopes", instrument="ops", **options) as session:
        for _ in range(launches):
            kernels.matmul_nt(a, b)
        torch.cuda.synchronize()
    assert session.profile is not None
    session.profile.check()
    session.profile.tables.ctas.check_columns()
    return session.profile


def test_what_warps_of_a_product_did() -> None:
    """A producer ahead of consumers, nearly all of whose time is at some site; loads are known to
    be there after they were issued, and before the products with them are over."""
    view = Ctas(profiled())
    (launch,) = view.held.launches
    assert (launch.number, launch.device) == (1, "cuda:0")
    assert 1 <= len(view.held.ctas) <= 4
    for cta, told in enumerate(view.held.ctas):
        warps = view.warps(cta)
        roles = [view.held.warps[warp].role for warp in warps]
        assert roles == ["producer", *["consumer"] * (len(roles) - 1)]
        assert len(roles) > 4
        for warp in warps:
            spans = list(view.innermost(warp))
            assert all(b <= c for (_, b, _), (c, _, _) in pairwise(spans))
            known = sum(end - begin for begin, end, _ in spans)
            assert known > 0.9 * (view.held.warps[warp].end - view.held.warps[warp].begin)
            assert view.held.warps[warp].end <= 1.001 * (told.end - told.begin) + 64
        names = {row.queue for row in view.flight_rows(cta)}
        assert "wgmma" in names
        assert any(name.startswith("ring") for name in names)
    flights = view.held.flights
    assert (flights.retired > flights.issued).all()
    assert "wait for gemm" in render_cta(view.profile, "matmul_nt", width=120)


def test_ctas_are_within_their_kernel() -> None:
    """On the timeline, to less than the kernel took."""
    profile = profiled(timeline=True)
    (placed,) = places(profile)
    assert placed is not None
    events, tracks = profile.tables.timeline.events, profile.tables.timeline.tracks
    spans = [
        (start, start + ns)
        for start, ns, track in zip(
            events.start.tolist(), events.duration.tolist(), events.track.tolist(), strict=True
        )
        if tracks[track].kind == "stream"
    ]
    slack = placed.error + 2_000
    for cta in profile.tables.ctas.ctas:
        begin, end = cta.begin - placed.ahead, cta.end - placed.ahead
        (around,) = [s for s in spans if s[0] - slack <= begin and end <= s[1] + slack]
        assert placed.error < around[1] - around[0]
    document = json.loads(export(profile, "chrome"))
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert any("placed within" in name for name in names)


def test_replays_have_timelines() -> None:
    """Of one of the first replays, on the device's own time."""
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with profiler.profile(context="scopes", instrument="ops") as session:
        kernels.matmul_nt(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernels.matmul_nt(a, b)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
    assert session.profile is not None
    held = session.profile.tables.ctas
    held.check_columns()
    assert len(held.launches) == 1
    assert held.ctas
