"""What kernels write about their inside on a real GPU: `python -m pytest -m gpu tests/cuda/gpu`.

The kernel that most tests use spends a known share of its time in its one scope: 250 of 275
dependent operations of each turn.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileprof
import tileprof.profiler as profiler
from tests.cuda import runtime_kernels
from tileprof.profile import Node, Profile, load
from tileprof.runtime.cuda.records import recorder as cuda_records

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[3]
SHARE = 250 / 275
THREADS = 128
delayed: Any = importlib.import_module("benchmarks.instrument_kernels").delayed


def vector(blocks: int = 64) -> torch.Tensor:
    """So many blocks' elements, on the device."""
    return torch.ones(blocks * THREADS, device="cuda")


def profiled(work: Callable[[], object], **options: Any) -> Profile:
    """What is recorded of some work; checked."""
    with profiler.profile(**options):
        work()  # what is compiled and allocated once
        torch.cuda.synchronize()
    with profiler.profile(**options) as session:
        work()
    assert session.profile is not None
    session.profile.check()
    return session.profile


def of_kind(profile: Profile, kind: str, name: str = "") -> list[Node]:
    """The nodes of a kind."""
    return [profile.node(at) for at in profile.find(name or None, kind)]


def the_kernel(profile: Profile, name: str = "delayed") -> Node:
    """The one kernel node of that name that has time."""
    (found,) = [n for n in of_kind(profile, "kernel", name) if n.total("time")]
    return found


def share_of_scope(profile: Profile) -> float:
    """The time of the scope `delay` over its kernel's."""
    kernel = the_kernel(profile)
    (site,) = [child for child in kernel.children if child.kind == "site"]
    assert site.name == "delay"
    return float(site.total("time") / kernel.total("time"))


def test_the_share_of_a_scope() -> None:
    """Is what the code says, and visits are as many as its loop has."""
    x = vector()
    profile = profiled(lambda: delayed(x))
    assert share_of_scope(profile) == pytest.approx(SHARE, abs=0.02)
    (site,) = of_kind(profile, "site")
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    assert info.attributes["recorded_launches"] == 1
    assert info.attributes["recorded_warps"] == cuda_records.BLOCKS * THREADS // 32
    assert site.own("count") == 64 * int(info.attributes["recorded_warps"])
    assert "lost records" not in profile.tables.provenance


def test_results_are_those_of_the_clean_kernel() -> None:
    """Bit by bit; and what marks cost is among the kernel's facts."""
    x = vector() * 0.3
    clean = delayed(x)
    made: list[torch.Tensor] = []
    profile = profiled(lambda: made.append(delayed(x)))
    assert torch.equal(made[-1], clean)
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    assert int(info.attributes["clean_registers"]) > 0
    assert int(info.attributes["registers"]) >= int(info.attributes["clean_registers"])


@pytest.mark.alone
def test_the_kernel_is_hardly_slower() -> None:
    """Some thousand cycles a mark: nothing that shows."""
    x = vector()
    times = [
        the_kernel(profiled(lambda: delayed(x), instrument=mode)).total("time")
        for mode in ("off", "scopes")
    ]
    assert times[1] == pytest.approx(times[0], rel=0.05)


def test_kernels_without_scopes_take_no_memory() -> None:
    """They are the kernels that run unmeasured; in a process of its own."""
    body = """
import torch, tileprof.profiler as profiler
from tests.cuda import runtime_kernels
from tileprof.runtime.cuda.records.reader import reader
a = torch.ones(1000, device="cuda")
runtime_kernels.double(a)
with profiler.profile() as session:
    runtime_kernels.double(a)
print(not any(each.rooms for each in reader().devices.values()))
"""
    assert script(body).stdout.strip().splitlines()[-1] == "True"


def test_reading_leaves_no_trace() -> None:
    """Its copies, allocations and waits are none of the program's."""
    x = vector()

    def work() -> None:
        for _ in range(30):
            delayed(x)
            time.sleep(0.02)

    profile = profiled(work)
    assert not of_kind(profile, "memcpy")
    assert not of_kind(profile, "memset")
    assert not of_kind(profile, "sync")
    names = {n.name for n in of_kind(profile, "api")}
    assert not [n for n in names if n.startswith(("cuMem", "cuStreamSync", "cuCtxSync"))]
    assert share_of_scope(profile) == pytest.approx(SHARE, abs=0.02)


@pytest.mark.alone
def test_launches_do_not_wait() -> None:
    """All launches return while a kernel before them still runs, whoever reads what they write."""
    x = vector()
    waited: list[bool] = []

    def work() -> None:
        torch.cuda._sleep(1_000_000_000)  # half a second
        slept = torch.cuda.Event()
        slept.record()
        for _ in range(200):
            delayed(x)
        waited.append(slept.query())

    profiled(work)
    # The first launch of all compiles the kernel, which takes longer.
    assert waited[1:] == [False]


def test_more_launches_than_there_is_room_for() -> None:
    """Those beyond it are skipped, and told; the others are whole."""
    x = vector(512)
    profile = profiled(lambda: [delayed(x, visits=8) for _ in range(2000)])
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    recorded, skipped = (int(info.attributes[f"{n}_launches"]) for n in ("recorded", "skipped"))
    assert recorded + skipped == 2000
    assert skipped > 0
    assert info.attributes["recorded_warps"] == recorded * cuda_records.BLOCKS * THREADS // 32
    assert "lost_records" not in info.attributes
    assert "lost records" not in profile.tables.provenance
    assert share_of_scope(profile) == pytest.approx(SHARE, abs=0.02)


def test_replays_of_a_graph() -> None:
    """Their sites are below the path of the capture, under the launch of the graph."""
    x = vector()
    graph = torch.cuda.CUDAGraph()

    def capture() -> None:
        delayed(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            delayed(x)

    with profiler.profile() as session:
        capture()
        with profiler.scope("replays"):
            for _ in range(10):
                graph.replay()
    profile = session.profile
    assert profile is not None
    profile.check()
    (top,) = of_kind(profile, "scope", "replays")
    inside = [n for n in of_kind(profile, "site") if top.symbol in [a.symbol for a in above(n)]]
    (site,) = [n for n in inside if n.name == "delay"]
    kernel = site.parent
    assert kernel is not None
    assert kernel.own("count") == 10
    assert site.total("time") / kernel.total("time") == pytest.approx(SHARE, abs=0.02)
    assert site.own("count") == 10 * cuda_records.BLOCKS_OF_REPLAYS * THREADS // 32 * 64


def above(node: Node) -> list[Node]:
    """The nodes around one."""
    found = []
    outer = node.parent
    while outer is not None:
        found.append(outer)
        outer = outer.parent
    return found


def test_replays_that_fill_the_memory() -> None:
    """What found no room is told as a number of warps."""
    x = vector(512)
    with profiler.profile() as session:
        graph = torch.cuda.CUDAGraph()
        delayed(x, visits=1, inside=1, before=1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(1000):
                delayed(x, visits=1, inside=1, before=1)
        for _ in range(20):
            graph.replay()
    assert session.profile is not None
    lost = session.profile.tables.provenance["lost records"]
    assert "warps found no room for records in the 512 MB of cuda:0" in lost


@pytest.mark.alone  # programs beside it would take part of a kernel's time
def test_several_streams() -> None:
    """Kernels that run at once keep their records apart."""
    x = vector(8)
    streams = [torch.cuda.Stream() for _ in range(4)]

    def work() -> None:
        for at, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                for _ in range(3):
                    delayed(x, inside=100 * (at + 1), before=100)
        torch.cuda.synchronize()

    profile = profiled(work)
    # All variants are one node: 100 to 400 operations in the scope, 100 outside.
    assert share_of_scope(profile) == pytest.approx(1000 / 1400, abs=0.03)
    attributes = [k.attributes for k in profile.tables.kernels if k.name == "delayed"]
    assert all(each["recorded_launches"] == 3 for each in attributes)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_short_kernels(device: str) -> None:
    """Of microseconds; also on host arrays, which are copied."""
    a = torch.ones(6400, device=device)

    def work() -> None:
        with tileprof.device("cuda:0"):
            for _ in range(20):
                runtime_kernels.sums_in_scopes(a)

    profile = profiled(work)
    assert {n.name for n in of_kind(profile, "site")} == {"load", "sum"}
    node = the_kernel(profile, "sums_in_scopes")
    inside = sum(n.total("time") for n in node.children)
    assert 0 < inside <= node.total("time")


# -- ends of programs


def script(body: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, under `tileprof run` where there is a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", body]
    if folder is not None:
        (folder / "prog.py").write_text(body)
        command = [
            sys.executable,
            "-m",
            "tileprof",
            "run",
            "--quiet",
            "-o",
            str(folder / "out.tprof"),
        ]
        command += ["-o", str(folder / "out.tprof"), str(folder / "prog.py")]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_program_that_ends_at_once(tmp_path: Path) -> None:
    """What its last launches write is read, though nobody waits for them."""
    done = script(
        """
import torch
from benchmarks.instrument_kernels import delayed
x = torch.ones(64 * 128, device="cuda")
for _ in range(5):
    delayed(x)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    profile = load(tmp_path / "out.tprof")
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    assert info.attributes["recorded_launches"] == 5
    assert share_of_scope(profile) == pytest.approx(SHARE, abs=0.02)


def test_a_device_that_is_lost(tmp_path: Path) -> None:
    """What was read before it stays; that the rest is missing is told."""
    done = script(
        """
import ctypes, time, torch
from benchmarks.instrument_kernels import delayed
x = torch.ones(64 * 128, device="cuda")
for _ in range(5):
    delayed(x)
torch.cuda.synchronize()
time.sleep(1)
delayed(x)
try:
    torch.zeros(4, device="cuda")[torch.tensor([1 << 40], device="cuda")]
    torch.cuda.synchronize()
except RuntimeError as error:
    print("lost:", str(error)[:60])
""",
        tmp_path,
    )
    assert "lost:" in done.stdout, done.stderr
    profile = load(tmp_path / "out.tprof")
    (info,) = [k for k in profile.tables.kernels if k.name == "delayed"]
    assert int(info.attributes["recorded_launches"]) >= 5
    assert of_kind(profile, "site", "delay")
    assert "records of cuda:0 could not be read" in profile.tables.provenance["lost records"]


def test_all_detail() -> None:
    """Stages and ops are measured as scopes are; nested times never exceed those around them."""
    kernels: Any = importlib.import_module("benchmarks.instrument_kernels")
    query = torch.randn(1, 1024, 8, 64, device="cuda", dtype=torch.bfloat16)
    kernel = kernels.attention(1, 8, 1024, 64, False)
    for mode in ("scopes", "stages", "ops"):
        profile = profiled(lambda: kernel(query, query, query), instrument=mode)
        names = {n.name for n in of_kind(profile, "site")}
        assert {"scores", "softmax", "values"} <= names, json.dumps(sorted(names))
        for node in [*of_kind(profile, "kernel", kernel.__name__), *of_kind(profile, "site")]:
            inside = sum(n.total("time") for n in node.children)
            assert inside <= node.total("time") * 1.001
