"""What a mark costs: its kernel on the emulator, planted costs, what is kept for later programs; on
a driver whose memory is the host's."""

from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.recording import Recorder
from tests.cuda.test_cuda_records import LOAD, MATH, SMALL, Late, Warps, marked
from tests.cuda.test_runtime import KERNEL as SCALE
from tests.cuda.test_runtime import aligned
from tileprof import ir
from tileprof.compiler.build import cache_folder
from tileprof.emulator import emulate
from tileprof.instrument import calibration, slots
from tileprof.instrument.calibration import Cost, cost_of
from tileprof.instrument.slots import RECORD, SLOT, Slots
from tileprof.remarks.measured import IncludesMarks
from tileprof.runtime import hooks
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.cuda.records import calibration as cuda_calibration
from tileprof.runtime.cuda.records.calibration import Calibration, RecordCost, measure, source
from tileprof.runtime.cuda.records.recorder import Records

KERNEL = ir.Kernel("calibrate_marks", (), (), ir.Block([], []))
CHAIN = 4096
"""Cycles of the chain without marks."""
PER_REPEAT = len(calibration._PATTERN)
MARKS = PER_REPEAT - 3
REPEATS = calibration._REPEATS


def clocks(cost: int, begin: int = 2**32 - 70_000, first: int = 5000) -> list[int]:
    """Of one warp's records, whose marks take `cost`; the first repeat takes `first` longer."""
    made, now = [], begin
    for repeat in range(REPEATS):
        made.append(now)
        now += CHAIN + cost + (first if repeat == 0 else 0)
        made.append(now)
        now += cost
        for _ in range(MARKS):
            made.append(now + CHAIN // MARKS)
            now += CHAIN // MARKS + cost
        made.append(now)
        now += 50
    return [each % 2**32 for each in made]


def written(costs: list[int]) -> Slots:
    """What warps leave whose marks take so long."""
    heads = np.zeros(len(costs), SLOT)
    heads["wanted"] = heads["kept"] = REPEATS * PER_REPEAT
    states = calibration._PATTERN * REPEATS
    rows = [row for cost in costs for row in zip(clocks(cost), states, strict=True)]
    return Slots(heads, np.array(rows, RECORD))


def test_on_the_emulator() -> None:
    """Its clock counts marks: each takes one, whatever stands between them."""
    recorder = Recorder(slots=64, capacity=calibration.CAPACITY)
    argument = recorder.argument(warps=1)
    emulate(source(), KERNEL, [], recording=argument)
    held = recorder.slots()
    assert (np.diff(held.starts) == REPEATS * PER_REPEAT).all()
    assert cost_of(held) == Cost(1.0, 0.0, 1)


def test_planted_costs() -> None:
    """The median over warps, whatever the first repeat takes, and though clocks go round."""
    assert cost_of(written([9])) == Cost(9.0, 0.0, 1)
    cost = cost_of(written([12] * 5 + [40] * 2 + [11] * 2))
    assert cost == Cost(12.0, 0.0, 9)


def test_other_records_are_no_costs() -> None:
    """Those of a warp that lost some, or of another kernel."""
    held = written([9, 9, 20])
    held.heads["wanted"][2] += 1
    assert cost_of(held) == Cost(9.0, 0.0, 2)
    held.records["state"][5] = 0
    assert cost_of(held) == Cost(9.0, 0.0, 1)
    assert cost_of(held.take(np.array([0]))) is None


# -- on a driver whose device memory is the host's


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is known yet."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cuda_calibration, "image_of", lambda device, source: b"")
    return tmp_path / "cache"


def device(costs: list[int] | None = None, **more: Any) -> FakeDriver:
    """One on which marks of each warp take so long; without costs nothing is written."""
    fake = FakeDriver(**more)
    fake.sizes["calibrate_marks"] = (slots.RECORDING.itemsize,)

    def kernel(launched: Launched) -> int:
        given = np.frombuffer(launched.parameters[0], slots.RECORDING)[0]
        place = int(given["arena"])
        assert (launched.grid, launched.block) == ((calibration.BLOCKS, 1, 1), (128, 1, 1))
        head = view(place, 1, slots.ARENA)[0]
        held = written(costs or [])
        head["claimed"] = len(held)
        heads = view(place + 64, len(held), SLOT)
        heads[:] = held.heads
        heads["ready"] = np.arange(len(held)) + 1
        for number, rows in enumerate(np.split(held.records, len(held)) if len(held) else []):
            at = place + int(head["records_at"]) + 8 * number * int(head["capacity"])
            view(at, len(rows), RECORD)[:] = rows
        return 0

    fake.kernels["calibrate_marks"] = kernel
    return fake


def view(address: int, count: int, kind: np.dtype[Any]) -> Any:
    """Memory as an array."""
    held: Any = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(held, kind)


def test_it_is_measured_once_and_kept(empty_cache: Path) -> None:
    """For this program, and for later ones with such a device; its memory is given back."""
    fake = device([14] * 64)
    first = Calibration(fake.device, measure)
    assert first.cost() == first.cost() == RecordCost(14.0)
    assert len(fake.launches) == 1
    assert fake.launches[0].stream
    assert not fake.memory
    (kept,) = empty_cache.glob("record-cost-*.json")
    assert json.loads(kept.read_text()) == {
        "device": "Fake GPU", "driver": "13.0", "cycles": 14.0, "spread": 0.0, "warps": 64,
    }  # fmt: skip
    later = device([99])
    assert Calibration(later.device, measure).cost() == RecordCost(14.0)
    assert not later.launches
    kept.write_text('{"cycles": NaN}')
    assert Calibration(later.device, measure).cost() == RecordCost(99.0)
    other = device([7], capability=(8, 0))
    assert Calibration(other.device, measure).cost() == RecordCost(7.0)


@pytest.mark.usefixtures("empty_cache")
def test_what_warps_do_not_agree_on_is_not_kept() -> None:
    """As where other kernels ran meanwhile: the number serves this program, and the next one
    measures its own."""
    fake = device([10] * 8 + [20] * 9 + [30] * 8)
    assert Calibration(fake.device, measure).cost() == RecordCost(20.0)
    assert Calibration(device([7]).device, measure).cost() == RecordCost(7.0)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured by each program."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "file"))
    assert cache_folder().is_file()
    assert Calibration(device([5]).device, measure).cost() == RecordCost(5.0)


def test_where_it_cannot_be_measured() -> None:
    """The cost is 0, and a remark says so."""
    fake = device([5])
    fake.fails["cuMemAllocAsync"] = 2
    cost = Calibration(fake.device, measure).cost()
    assert (cost.cycles, cost.reason[:23]) == (0.0, "cuMemAllocAsync failed:")
    (remark,) = cost.remarks()
    assert (remark.op, remark.severity) == ("measurement", "missed")
    assert remark.decision == IncludesMarks()
    assert list(RecordCost(3.0).remarks()) == []
    nothing = Calibration(device().device, measure).cost()
    assert nothing == RecordCost(0.0, "the kernel that measures it wrote no records")


def test_a_device_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, but not for ever; the number is there once it has been measured."""
    monkeypatch.setattr(cuda_calibration, "PATIENCE_S", 0.02)
    free = threading.Event()
    threads: list[int] = []

    def slow(held: Any) -> Cost:
        threads.append(threading.get_ident())
        assert threading.get_ident() in hooks.own_threads
        free.wait(10)
        return Cost(8.0, 9.0, 64)

    made = Calibration(device().device, slow)
    assert made.cost() == made.cost() == RecordCost(0.0, "the device is busy")
    free.set()
    monkeypatch.setattr(cuda_calibration, "PATIENCE_S", 10)
    assert made.cost() == RecordCost(8.0)
    assert threads == [threads[0]]
    assert threads[0] != threading.get_ident()


def test_it_is_none_of_the_programs_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done unrecorded, while others may capture."""
    told: list[bool] = []
    monkeypatch.setattr(hooks, "set_unrecorded", told.append)
    fake = device([5])
    modes: list[int] = []
    before = fake.cuMemAllocAsync

    def watched(*given: Any) -> Any:
        modes.append(fake.capture_mode)
        assert told == [True]
        return before(*given)

    monkeypatch.setattr(fake, "cuMemAllocAsync", watched)
    assert Calibration(fake.device, measure).cost() == RecordCost(5.0)
    assert (told, modes, fake.capture_mode) == ([True, False], [2], 0)


def test_from_a_launch_to_times_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured behind the first launch, when its records are decoded, and not again."""
    fake, warps, late = device([20] * 64), Warps(), Late()
    fake.sizes["marked_0"] = (1, slots.RECORDING.itemsize)
    fake.kernels["marked_0"] = warps
    made = Records(fake.device, lambda soon: None)
    monkeypatch.setattr(hooks, "record_options", SMALL)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77)
    monkeypatch.setattr(cuda_module, "records_of", lambda device: made)
    kernel = CudaExecutable(SCALE, marked(), fake.device)
    for token in (7, 8):
        kernel.run([aligned((4, 64)), aligned((4, 64)), 0.5, 1], (4, 64), (late, token))
        made.read()
        assert [each.function for each in fake.launches][-1] == "marked_0"
        made.collect(final=True)
        assert late.times(token) == {0: (32, 32 * (LOAD - 20)), 1: (32, 32 * (MATH - 20))}
    names = [each.function for each in fake.launches]
    assert names == ["marked_0", "calibrate_marks", "marked_0"]
    assert kernel.record_cost() == RecordCost(20.0)
