"""What a mark costs on a real GPU, and whether times without it are those of the clean kernel."""

from __future__ import annotations

import importlib
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.instrument import calibration
from tileprof.profile import Profile
from tileprof.runtime.cuda.device import CudaDevice, find_device
from tileprof.runtime.cuda.records.calibration import Calibration, measure

torch: Any = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
kernels: Any = importlib.import_module("benchmarks.instrument_kernels")
delayed: Any = kernels.delayed
VISITS = 64
"""Of the scope `delay`, by each warp."""


@pytest.fixture
def device() -> CudaDevice:
    """The first GPU."""
    torch.cuda.init()
    return find_device(0)


def test_the_cost_of_a_record(device: CudaDevice) -> None:
    """Some cycles, on which warps agree."""
    cost = measure(device)
    assert cost is not None
    assert cost.warps == calibration.SLOTS
    assert 2 <= cost.cycles <= 100
    assert cost.spread <= 1


def test_two_measurements_agree(device: CudaDevice) -> None:
    """Within 20 %."""
    first, second = (measure(device) for _ in range(2))
    assert first is not None
    assert second is not None
    assert second.cycles == pytest.approx(first.cycles, rel=0.2)


def test_it_is_kept(device: CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later program measures nothing."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path))
    first = Calibration(device, measure).cost()
    assert first.cycles > 0

    def never(device: CudaDevice) -> None:
        raise AssertionError

    assert Calibration(device, never).cost() == first


def test_it_is_no_part_of_a_profile(
    device: CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its kernel nor what it copies, though it is measured meanwhile."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path))
    with profiler.profile() as session:
        assert Calibration(device, measure).cost().cycles > 0
    assert session.profile is not None
    assert not session.profile.find(kind="kernel")
    assert not session.profile.find(kind="memcpy")
    assert not session.profile.find(kind="memset")


def test_a_profile_tells_it() -> None:
    """Among the kernel's facts; beside times of sites stands what marks took of them."""
    x = torch.ones(64 * 128, device="cuda")
    profile = profiled(x, "scopes", inside=10)
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    assert 2 <= float(info.attributes["record_cycles"]) <= 100
    (site,) = [profile.node(at) for at in profile.find("delay", "site")]
    marks, visits = site.own("marks"), site.own("count")
    assert marks == visits
    # At 1 to 2 GHz.
    cycles = float(info.attributes["record_cycles"])
    assert cycles / 2.1 <= site.own("mark_time") / marks <= cycles
    assert not any(r.op == "measurement" for r in info.remarks)


@pytest.mark.parametrize("mode", ["scopes", "ops"])
def test_what_is_told_of_a_delay(mode: str) -> None:
    """Two lengths of it differ in its scope by what the clean kernel takes longer, within 2 %."""
    x = torch.rand(132 * 128, device="cuda")
    clean, told = [], []
    for inside in (250, 750):
        clean.append(launch_ns(x, inside))
        profile = profiled(x, mode, inside=inside)
        nodes = [profile.node(at) for at in profile.find("delay", "site")]
        visits = sum(node.own("count") for node in nodes)
        told.append(sum(node.total("block_time") for node in nodes) / visits)
    true = (clean[1] - clean[0]) / VISITS
    assert told[1] - told[0] == pytest.approx(true, rel=0.02)


def profiled(x: torch.Tensor, mode: str, **lengths: int) -> Profile:
    """Some launches of the kernel, after one that compiles it."""
    with profiler.profile(context="scopes", instrument=mode):
        delayed(x, **lengths)
        torch.cuda.synchronize()
    with profiler.profile(context="scopes", instrument=mode) as session:
        for _ in range(20):
            delayed(x, **lengths)
        torch.cuda.synchronize()
    assert session.profile is not None
    return session.profile


event: Any = partial(torch.cuda.Event, enable_timing=True)


def launch_ns(x: torch.Tensor, inside: int) -> float:
    """Time of a launch that nobody measures inside: the median of some batches."""
    delayed(x, inside=inside)
    found: list[float] = []
    for _ in range(7):
        begin, end = (event() for _ in range(2))
        begin.record()
        for _ in range(10):
            delayed(x, inside=inside)
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e5)
    return statistics.median(found)
