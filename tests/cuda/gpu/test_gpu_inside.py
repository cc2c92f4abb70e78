"""How much of a launch is recorded on a real GPU, and that shares do not depend on it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.profile import KernelInfo, Profile

torch: Any = pytest.importorskip("torch")

# Kernels of other processes that take turns with these would be part of a scope, or of the rest.
pytestmark = [pytest.mark.gpu, pytest.mark.alone]
delayed: Any = importlib.import_module("benchmarks.instrument_kernels").delayed
THREADS = 128
WARPS = THREADS // 32
SHARE = 250 / 275
"""Of the scope in its kernel."""


def profiled(blocks: int, launches: int, **options: Any) -> tuple[Profile, KernelInfo]:
    """Some launches of the kernel after one that compiles it; and what is told of the kernel."""
    x = torch.ones(blocks * THREADS, device="cuda")
    delayed(x)
    with profiler.profile(context="scopes", **options) as session:
        for _ in range(launches):
            delayed(x)
        torch.cuda.synchronize()
    assert session.profile is not None
    session.profile.check()
    (info,) = [k for k in session.profile.tables.kernels if k.name == "delayed"]
    return session.profile, info


def share(profile: Profile) -> float:
    """Of the kernel's time, that of its scope."""
    (site,) = [profile.node(at) for at in profile.find("delay", "site")]
    (kernel,) = [profile.node(at) for at in profile.find("delayed", "kernel")]
    return float(site.total("time") / kernel.total("time"))


@pytest.mark.parametrize(
    ("inside", "warps"),
    [
        ({"blocks": "all"}, 32 * WARPS),
        ({"blocks": 16}, 16 * WARPS),
        ({"warps": "cta"}, 8),
        ({"warps": "roles"}, 8),
        ({"warps": [1, 3]}, 16),
        ({"blocks": 1, "warps": 2, "memory": "64MB"}, 1),
    ],
)
def test_so_much_is_recorded(inside: Any, warps: int) -> None:
    """Of blocks and of warps; what is told of the scope stays."""
    profile, info = profiled(32, 4, inside=inside)
    assert info.attributes["recorded_launches"] == 4
    assert info.attributes["recorded_warps"] == 4 * warps
    assert share(profile) == pytest.approx(SHARE, abs=0.02)
    assert "lost_records" not in info.attributes


@pytest.mark.parametrize("keep", ["first", "last", "both"])
def test_shares_where_records_are_lost(keep: str) -> None:
    """They are those of the part that was seen; it is told how much that is."""
    profile, info = profiled(64, 6, inside={"records": 64, "keep": keep})
    # 64 of the 128 records, and of the begin or the end of the kernel a little.
    assert float(info.attributes["recorded_share"]) == pytest.approx(0.5, abs=0.05)
    assert int(info.attributes["lost_records"]) > 0
    assert share(profile) == pytest.approx(SHARE, abs=0.02)


def test_a_large_product_fits() -> None:
    """All that warps of a persistent kernel make of their ops."""
    kernels: Any = importlib.import_module("benchmarks.gpu_kernels")
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    kernels.matmul_nt(a, b)
    with profiler.profile(context="scopes", instrument="ops") as session:
        for _ in range(4):
            kernels.matmul_nt(a, b)
        torch.cuda.synchronize()
    assert session.profile is not None
    (info,) = [k for k in session.profile.tables.kernels if "recorded_warps" in k.attributes]
    assert info.attributes["recorded_launches"] == 4
    assert "lost_records" not in info.attributes
