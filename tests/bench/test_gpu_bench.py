"""`bench` on a GPU: events against what is known of a copy, graphs, flushing, and the state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tileprof.bench import Side, measure, read_gpu
from tileprof.bench.timers import CudaTimer, torch_stream, torch_timer
from tileprof.cli import main
from tileprof.runtime.cuda.device import find_device

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

PROGRAM = """
import torch
x = torch.randn(1 << 26, device="cuda")
y = torch.empty_like(x)
small = torch.randn(1 << 20, device="cuda")
side = torch.cuda.Stream()

def copy():
    y.copy_(x)

def twice():
    y.copy_(x)
    y.copy_(x)

def tiny():
    small.add_(1)

def cached():
    return small.sum()

def elsewhere():
    with torch.cuda.stream(side):
        y.copy_(x)
        y.copy_(x)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the functions, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.py").write_text(PROGRAM)


def timed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Run `bench --json` and return its result."""
    assert main(["bench", *arguments, "--json", "--seconds", "3"]) == 0
    form: dict[str, Any] = json.loads(capsys.readouterr().out)
    return form


@pytest.mark.usefixtures("program")
def test_two_copies_take_twice_the_time_of_one(capsys: Any) -> None:
    """512 MB move at 1 to 5 TB/s, by events; the ratio is known to a few percent."""
    form = timed(capsys, "f.py:twice", "--against", "f.py:copy")
    assert form["clock"] == "gpu"
    assert 1.9 < form["ratio"]["low"] <= form["ratio"]["high"] < 2.1
    assert 100_000 < form["baseline"]["median_ns"] < 512_000
    assert "launch_bound" not in {each["code"] for each in form["doubts"]}
    assert form["gpu"]["states"][0]["sm_mhz"] > 300


@pytest.mark.usefixtures("program")
def test_tiny_kernel_is_launch_bound_and_a_graph_is_not(capsys: Any) -> None:
    """The host needs longer for PyTorch's call than the GPU for its kernel."""
    plain, graph = timed(capsys, "f.py:tiny"), timed(capsys, "f.py:tiny", "--graph")
    assert "launch_bound" in {each["code"] for each in plain["doubts"]}
    assert "launch_bound" not in {each["code"] for each in graph["doubts"]}
    assert graph["time"]["median_ns"] < 0.8 * plain["time"]["median_ns"]


@pytest.mark.usefixtures("program")
def test_flushing_makes_a_cached_sum_slower(capsys: Any) -> None:
    """4 MB come from L2 without the flush, from memory with it."""
    warm = timed(capsys, "f.py:cached", "--graph")
    cold = timed(capsys, "f.py:cached", "--graph", "--flush-l2")
    assert cold["flushed_l2"]
    assert cold["time"]["median_ns"] > warm["time"]["median_ns"]


@pytest.mark.usefixtures("program")
def test_work_on_another_stream_is_noticed(capsys: Any) -> None:
    """Events on the current stream do not see it, the host's clock does."""
    form = timed(capsys, "f.py:elsewhere")
    assert "other_streams" in {each["code"] for each in form["doubts"]}
    host = timed(capsys, "f.py:elsewhere", "--clock", "host")
    assert host["time"]["median_ns"] > 200_000


def test_timer_agrees_with_pytorchs_events(torch: Any) -> None:
    """The same batch, timed by PyTorch's events and by ours, within 5 %."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    found = measure([Side("mm", lambda: a @ a)], torch_timer()).timed.time.value
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(50):
        a @ a
    end.record()
    end.synchronize()
    assert found == pytest.approx(begin.elapsed_time(end) * 1e6 / 50, rel=0.05)


def test_kernel_of_ours_runs_on_the_gpu(capsys: Any, tmp_path: Path) -> None:
    """Arrays are made on the GPU, so no copy is in the time."""
    from tests.cli.test_cli_run import KERNEL

    (tmp_path / "k.py").write_text(KERNEL.lstrip())
    form = timed(
        capsys, f"{tmp_path}/k.py:row_sums", "--device", "cuda", "--set", "M=4096", "--set", "N=64"
    )
    assert form["clock"] == "gpu"
    assert form["time"]["median_ns"] < 200_000


@pytest.mark.alone
def test_empty_pair_of_events_is_short(torch: Any) -> None:
    """Two events in a row are a few µs apart at most."""
    torch.zeros(1, device="cuda")
    assert CudaTimer(find_device(0), torch_stream).empty_ns() < 20_000


def test_state_is_read() -> None:
    """NVML knows the clocks of the first GPU."""
    state = read_gpu()
    assert state is not None
    assert state.sm_mhz
    assert state.most_sm_mhz
    assert state.most_sm_mhz >= 500
