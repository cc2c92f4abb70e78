"""Records of kernels on two devices, on a driver whose contexts must not be mixed up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import tileprof.profiler as profiler
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.test_cuda_records import (
    LOAD,
    ROWS,
    SMALL,
    WARPS,
    Late,
    Warps,
    marked,
    visits,
)
from tests.cuda.test_runtime import KERNEL, aligned
from tests.profiler_programs import Clock
from tileprof.compiler import Options, Program
from tileprof.instrument import slots
from tileprof.runtime import hooks
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.cuda.records import reader as cuda_reader
from tileprof.runtime.cuda.records import recorder as cuda_records
from tileprof.runtime.cuda.records.calibration import RecordCost
from tileprof.runtime.cuda.records.reader import Reader
from tileprof.runtime.cuda.records.recorder import Records
from tileprof.runtime.cuda.waiting import begin_waiting, wait_for
from tileprof.runtime.launch import LoadedKernel


@dataclass
class Two:
    """Two GPUs, their records, and the kernel with marks on each."""

    gpu: FakeDriver
    warps: Warps
    records: list[Records]
    kernels: list[CudaExecutable]
    late: Late

    def run(self, at: int, token: int, rows: int = ROWS) -> None:
        """Launch on one of them, heard."""
        values = [aligned((rows, 64)), aligned((rows, 64)), 0.5, 1]
        self.kernels[at].run(values, (rows, 64), (self.late, token))


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Two:
    """Whose records are read only when a test says so; a mark costs 10 cycles on the second."""
    fake, warps = FakeDriver(devices=2), Warps()
    fake.sizes = {"marked_0": (1, slots.RECORDING.itemsize)}
    fake.kernels["marked_0"] = warps
    costs = [RecordCost(0.0), RecordCost(10.0)]
    made = [
        Records(device, lambda soon: None, lambda cost=cost: cost)  # type: ignore[misc]
        for device, cost in zip(fake.devices, costs)
    ]
    monkeypatch.setattr(hooks, "record_options", SMALL)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77 + number)
    monkeypatch.setattr(cuda_module, "records_of", lambda device: made[device.number])
    kernels = [CudaExecutable(KERNEL, marked(), device) for device in fake.devices]
    return Two(fake, warps, made, kernels, Late())


def arena_of(argument: bytes) -> int:
    """Where a launch writes."""
    return int(np.frombuffer(argument, slots.RECORDING)["arena"][0])


def test_each_has_an_arena(two: Two) -> None:
    """Tokens, calibrations and numbers of launches are those of the device."""
    arenas = set()
    for at, token, rows in ((0, 7, 4), (1, 8, 2), (0, 7, 4), (1, 9, 1)):
        two.run(at, token, rows)
        arenas.add(arena_of(two.warps.last))
    assert len(arenas) == 2
    for each in two.records:
        each.collect(final=True)
    assert two.late.times(7) == visits(2 * 4 * WARPS)
    assert two.late.times(8)[0] == (16, 16 * (LOAD - 10))
    assert two.late.total(9) == {"launches": 1, "warps": WARPS}
    assert [each.record_cost() for each in two.kernels] == [RecordCost(0.0), RecordCost(10.0)]
    assert not two.late.losses


def test_graphs_on_both(two: Two) -> None:
    """Whose replays come in any order, beside launches of the other."""
    two.gpu.capturing = 1
    baked = []
    for at in range(2):
        two.run(at, 8 + at)
        baked.append(two.warps.last)
    two.gpu.capturing = 0
    before = len(two.warps.blocks)
    for number in (1, 0, 1, 1):
        two.warps.replay(baked[number], ROWS)
        two.run(1 - number, 20 + number)
    assert len(two.warps.blocks) > before
    for each in two.records:
        each.collect(final=False)
    of_one = cuda_records.BLOCKS_OF_REPLAYS * WARPS
    # What the fake kernel did while it was captured counts as a replay here.
    assert two.late.total(8) == {"warps": 2 * of_one}
    assert two.late.total(9) == {"warps": 4 * of_one}
    assert two.late.total(20) == {"launches": 1, "warps": 8 * WARPS}
    assert two.late.total(21) == {"launches": 3, "warps": 3 * 8 * WARPS}
    assert {replayed for token, _, replayed in two.late.told if token in (8, 9)} == {True}


def test_one_is_lost(two: Two) -> None:
    """What the other one recorded is read, and it goes on."""
    two.run(0, 7)
    two.run(1, 8)
    two.gpu.fails["cuMemcpyDtoHAsync_v2"] = 719
    two.records[0].collect(final=True)
    del two.gpu.fails["cuMemcpyDtoHAsync_v2"]
    two.run(1, 8)
    for each in two.records:
        each.collect(final=True)
    assert two.late.total(7) == {"unread": 1}
    assert two.late.total(8) == {"launches": 2, "warps": 2 * 8 * WARPS}
    assert [what.partition(" could")[0] for what, _ in two.late.losses] == ["records of cuda:0"]


@pytest.fixture
def read_meanwhile(two: Two, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A thread reads both."""
    monkeypatch.setattr(cuda_reader, "PERIOD_S", 0.001)
    made = Reader()
    for each in two.records:
        made.devices[each.device.number] = each
        each._notice = made.notice
    yield made
    hooks.collectors.remove(made)
    for each in two.records:
        each._failure = "the test is over"


@pytest.mark.sweep
def test_a_profile_of_both(two: Two, read_meanwhile: Reader) -> None:
    """Launches on several streams and devices, read while they go on: each kernel has its sites,
    and nothing is lost or counted twice."""
    program = Program(KERNEL, KERNEL, Options(instrument="scopes"))
    loaded = [LoadedKernel(program, f"cuda:{at}", two.kernels[at]) for at in range(2)]
    with profiler.profile(clock=Clock(), context="scopes") as session:
        for number in range(60):
            for at, rows in enumerate((4, 2)):
                values = [aligned((rows, 64)), aligned((rows, 64)), 0.5, 1]
                # At one call path both would be one node.
                with profiler.scope(f"device {at}"):
                    loaded[at].launch(values, (rows, 64))
            if number % 20 == 0:
                time.sleep(0.005)
    profile = session.profile
    assert profile is not None
    profile.check()
    first, second = sorted(profile.tables.kernels, key=lambda kernel: kernel.device)
    assert (first.device, second.device) == ("cuda:0", "cuda:1")
    assert [len(kernel.sites) for kernel in (first, second)] == [2, 2]
    for kernel, warps in ((first, 4 * WARPS), (second, 2 * WARPS)):
        found = kernel.attributes
        recorded, skipped = found["recorded_launches"], found.get("skipped_launches", 0)
        assert int(recorded) + int(skipped) == 60
        assert found["recorded_warps"] == int(recorded) * warps
    assert "lost records" not in profile.tables.provenance
    assert first.attributes["record_cycles"] == 0
    assert second.attributes["record_cycles"] == 10


def test_both_at_one_call_path(two: Two) -> None:
    """One node holds what both did; the profile tells of both."""
    program = Program(KERNEL, KERNEL, Options(instrument="scopes"))
    loaded = [LoadedKernel(program, f"cuda:{at}", two.kernels[at]) for at in range(2)]
    hooks.collectors.extend(two.records)
    with profiler.profile(clock=Clock(), context="scopes") as session:
        for each in loaded:
            each.launch([aligned((4, 64)), aligned((4, 64)), 0.5, 1], (4, 64))
    for records in two.records:
        hooks.collectors.remove(records)
    profile = session.profile
    assert profile is not None
    (node,) = [profile.node(at) for at in profile.find("scale", "kernel")]
    assert node.own("count") == 2
    (load,) = [profile.node(at) for at in profile.find("load", "site")]
    assert load.own("count") == 2 * 4 * WARPS
    assert profile.tables.provenance["device"] == "cuda:0, cuda:1"


def test_both_hang(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a recording waits for both at once; a later one waits anew."""
    ended = threading.Event()
    waits: list[str] = []

    def begin(device: CudaDevice, seconds: float) -> None:
        waits.append("begin")
        begin_waiting(device, seconds)

    def wait(device: CudaDevice, seconds: float) -> bool:
        waits.append("wait")
        return wait_for(device, seconds)

    monkeypatch.setattr(two.gpu, "cuCtxSynchronize", ended.wait)
    monkeypatch.setattr(cuda_reader, "begin_waiting", begin)
    monkeypatch.setattr(cuda_records, "wait_for", wait)
    monkeypatch.setattr(cuda_reader, "PATIENCE_S", 0.3)
    made = Reader()
    made.devices = {each.device.number: each for each in two.records}
    two.warps.holds = True
    for number in range(2):
        two.run(number, 7)
    made.collect(final=True)
    assert waits == ["begin", "begin", "wait", "wait"]
    monkeypatch.setattr(cuda_reader, "PATIENCE_S", 60)
    assert [what for what, _ in two.late.losses] == [
        f"cuda:{number} was still at work at the end" for number in range(2)
    ]
    threading.Timer(0.05, ended.set).start()
    for number in range(2):
        two.run(number, 8)
    made.collect(final=True)
    assert len(two.late.losses) == 2
    hooks.collectors.remove(made)


def test_records_are_made_once_for_a_device(monkeypatch: pytest.MonkeyPatch, two: Two) -> None:
    """Whoever asks first, and however many at once."""
    made = Reader()
    monkeypatch.setattr(cuda_reader, "reader", lambda: made)
    found: list[Records] = []
    start = threading.Barrier(8)

    def ask(device: CudaDevice) -> Callable[[], None]:
        def asks() -> None:
            start.wait()
            found.append(cuda_reader.records_of(device))

        return asks

    threads = [threading.Thread(target=ask(two.gpu.devices[n % 2])) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    hooks.collectors.remove(made)
    assert len({id(each) for each in found}) == 2
    assert {each.device.number for each in found} == {0, 1}
