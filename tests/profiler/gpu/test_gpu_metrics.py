"""Hardware counters on a real GPU, of kernels whose counters are known beforehand.

Where one is wrong, `programs/probe_counters.py` is run, and its output shown: each call of CUPTI's
with its code, and what ranges are called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.profiler.gpu.running import PROGRAMS, Ran, python, succeeded
from tileprof.profile import Profile
from tileprof.profile.counters import RATES, SETS
from tileprof.viewer.columns import available, column

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

GIB = 1 << 30
PROBED = ("gpu__time_duration.sum", "sm__cycles_active.sum", "smsp__inst_executed_op_shared_ld.sum",
          "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum")  # fmt: skip


def counted(folder: Path, metrics: str, *kernels: str) -> Ran:
    """Run kernels under `tileprof run --metrics`."""
    run = ("-m", "tileprof", "run", "--quiet", "--metrics", metrics, "-o", "out.tprof")
    return python(folder, *run, str(PROGRAMS / "counted.py"), *kernels)


@pytest.fixture(autouse=True)
def explained(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Where a test fails, show what CUPTI does."""
    before = request.session.testsfailed
    yield
    if request.session.testsfailed == before:
        return
    probed = python(tmp_path, str(PROGRAMS / "probe_counters.py"), *PROBED)
    print(f"probe_counters.py: exit code {probed.code}\n{probed.output}{probed.errors}")


def values(profile: Profile, scope: str) -> dict[str, float]:
    """Every counter and every rate of what a scope launched."""
    print({key: fact for key, fact in profile.tables.provenance.items() if "counters" in key})
    (at,) = profile.find(scope, "scope")
    # A counter that is 0 everywhere is not among a profile's metrics.
    found = defaultdict(float, {n: float(profile.total(n)[at]) for n in profile.metrics})
    kernels = [profile.node(kernel) for kernel in profile.find(None, "kernel")]
    found["launches"] = sum(
        kernel.own("count") for kernel in kernels if at in profile.path(kernel.id)
    )
    known = RATES.keys() & available(profile)
    found |= {name: float(column(profile, name).total[at]) for name in known}
    print(scope, {name: f"{value:.6g}" for name, value in found.items()})
    return found


def read(ran: Ran) -> Profile:
    """The profile of a run whose counters were read."""
    print(ran.errors)
    profile = succeeded(ran).profile
    assert "counters not read" not in profile.tables.provenance, profile.tables.provenance
    assert "lost" not in profile.tables.provenance["counters"]
    return profile


def test_bytes_of_a_copy(tmp_path: Path) -> None:
    """What is read and written reaches the device's memory once, within 10 %."""
    ran = counted(tmp_path, "memory", "copy")
    assert "passes on" in ran.errors
    found = values(read(ran), "copy")
    assert found["launches"] == 1
    assert found["dram_read_bytes"] == pytest.approx(GIB, rel=0.1)
    assert found["dram_write_bytes"] == pytest.approx(GIB, rel=0.1)
    assert found["dram_bytes"] == found["dram_read_bytes"] + found["dram_write_bytes"]
    # Each request is a warp's, of 16 bytes a lane: 512 bytes.
    assert found["load_requests"] == GIB / 512
    assert found["sectors_per_load"] == pytest.approx(16, rel=0.01)
    assert found["local_bytes"] == 0
    assert 1.5 < found["dram_tbyte/s"] < 5


def test_bank_conflicts(tmp_path: Path) -> None:
    """None, and of eight ways: seven further passes for each request."""
    profile = read(counted(tmp_path, "memory", "conflicts"))
    assert values(profile, "ways 1")["conflicts_per_shared_load"] < 0.1
    assert values(profile, "ways 8")["conflicts_per_shared_load"] == pytest.approx(7, rel=0.1)


def test_sectors_of_a_request(tmp_path: Path) -> None:
    """Words side by side take 4 sectors a warp; with 32 bytes in between each has its own."""
    profile = read(counted(tmp_path, "memory", "gather"))
    assert values(profile, "stride 1")["sectors_per_load"] == pytest.approx(4, rel=0.01)
    assert values(profile, "stride 8")["sectors_per_load"] == pytest.approx(32, rel=0.01)


def test_local_memory(tmp_path: Path) -> None:
    """An array that registers cannot hold: each thread writes and reads its 64 words."""
    found = values(read(counted(tmp_path, "memory", "spill")), "spill")
    threads = 128 * torch.cuda.get_device_properties(0).multi_processor_count
    assert found["local_bytes"] >= 2 * threads * 64 * 4


def test_tensor_cores_of_a_product(tmp_path: Path) -> None:
    """A large product keeps them busy; a copy does not use them. One pass, so nothing is said."""
    ran = counted(tmp_path, "tensor", "gemm", "copy")
    assert "passes" not in ran.errors
    profile = read(ran)
    gemm = values(profile, "gemm")
    assert 0.5 < gemm["tensor_use"] <= 1.01
    assert gemm["tensor_instructions"] > 0
    assert values(profile, "copy")["tensor_use"] == 0


def test_occupancy(tmp_path: Path) -> None:
    """All warps, and a fourth of them."""
    profile = read(counted(tmp_path, "occupancy", "full", "quarter"))
    assert values(profile, "full")["achieved_occupancy"] == pytest.approx(1.0, abs=0.05)
    assert values(profile, "quarter")["achieved_occupancy"] == pytest.approx(0.25, abs=0.02)


def test_everything_at_once(tmp_path: Path) -> None:
    """All sets and metrics of CUPTI's own, by their names; rates of CUPTI's as well."""
    more = "lts__t_sector_hit_rate.pct,sm__inst_executed,sm__cycles_active.max"
    ran = counted(tmp_path, ",".join([*SETS, more]), "copy", "gemm")
    profile = read(ran)
    found = values(profile, "copy")
    assert found["sm__inst_executed.sum"] > GIB / 512
    (at,) = profile.find("copy", "scope")
    hits = float(column(profile, "lts__t_sector_hit_rate.pct").total[at])
    assert hits == pytest.approx(found["l2_hit_rate"], abs=0.05)
    assert found["sm__cycles_active.max"] > 0


def test_paths_and_graphs(tmp_path: Path) -> None:
    """A graph between two launches does not shift what belongs to whom."""
    profile = read(counted(tmp_path, "occupancy", "graph"))
    for scope in ("before", "after"):
        found = values(profile, scope)
        assert found["count"] >= 1
        assert found["time"] == pytest.approx(100_000 / 1.7, rel=0.5)
    found = values(profile, "graph")
    assert found["launches"] == 3
    assert found["time"] > 0


def test_the_program_is_what_it_was(tmp_path: Path) -> None:
    """Kernels run several times, and its results are the same: memory is put back."""
    script = tmp_path / "adds.py"
    script.write_text(
        "import torch\n"
        "x = torch.zeros(1 << 20, device='cuda')\n"
        "for _ in range(300):\n    x.add_(1)\n"
        "torch.cuda.synchronize()\n"
        "print(float(x.min()), float(x.max()))\n"
    )
    run = ("-m", "tileprof", "run", "--quiet", "--metrics", "memory", "-o", "out.tprof")
    ran = python(tmp_path, *run, str(script))
    profile = read(ran)
    assert ran.output.strip() == "300.0 300.0"
    adds = [profile.node(at) for at in profile.find(kind="kernel")]
    assert sum(node.own("count") for node in adds) >= 300
