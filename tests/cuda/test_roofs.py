"""Roofs: on a driver whose kernels take planted times, what is measured, kept and read again."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver, Launched
from tileprof.errors import OutputError
from tileprof.runtime import hooks
from tileprof.runtime.cuda.driver import DriverFailure
from tileprof.runtime.roofs import Roof, Roofs, known_roofs, measured_roofs, measuring, texts
from tileprof.runtime.roofs.plans import Memory, plans

GIB = 1 << 30


class TimedDriver(FakeDriver):
    """One whose kernels take as long as their work takes at planted rates."""

    def __init__(self, most_memory: int = 8 * GIB, **more: Any) -> None:
        self.now = 0.0
        """Nanoseconds."""
        self.most_memory = most_memory
        self.slow_after = 1 << 60
        """Launches of a function from which on it takes a fourth longer: its clock is lower."""
        self.held_back = range(0)
        """Launches of a function that take twice as long."""
        self._at: dict[int, float] = {}
        self._counts: dict[str, int] = {}
        super().__init__(**more)
        self.allocated: list[int] = []
        for spec in texts.source(self.device.target).launches:
            self.sizes[spec.function] = (8,) * len(spec.arguments)
            self.kernels[spec.function] = self._run

    def _run(self, launched: Launched) -> int:
        name, words = launched.function.removeprefix("roof_"), launched.words()
        took = 1500.0 if name == "nothing" else 0.0
        if name in ("clock", "hold"):
            took = float(words[1])
        elif name != "nothing":
            count = self._counts[name] = self._counts.get(name, 0) + 1
            slower = 1.25 if count > self.slow_after else 2.0 if count in self.held_back else 1.0
            took = work(launched) / self.rate(launched) * 1e9 * slower
        self.now += took
        return 0

    def rate(self, launched: Launched) -> float:
        """Of a kernel: loops with eight vectors are best for copies, blocks of four for reads."""
        name = launched.function.removeprefix("roof_")
        if name.startswith("hbm"):
            loops = launched.words()[4] > 1
            preferred = loops == name.startswith("hbm_copy")
            return (4e12 if preferred else 3e12) + (1e11 if name.endswith("8") == loops else 0)
        return {"l2_read_4": 6e12, "l2_read_8": 5.5e12, "shared_read": 3.1e13,
                "tensor_bfloat16": 8e14, "exp2_float32": 4e12}.get(name, 5e13)  # fmt: skip

    def cuEventRecord(self, event: int, stream: int) -> None:
        self._at[event] = self.now

    def cuEventElapsedTime(self, out: int, start: int, stop: int) -> None:
        self._out(out, ctypes.c_float, (self._at[stop] - self._at[start]) / 1e6)

    def cuMemAllocAsync(self, out: int, size: int, stream: int) -> Any:
        if size > self.most_memory:
            return 2
        self.allocated.append(size)
        self._out(out, ctypes.c_void_p, 1 << 40)
        return 0

    def cuMemFreeAsync(self, place: int, stream: int) -> None:
        assert place == 1 << 40
        self.allocated.pop()

    def cuMemsetD8Async(self, place: int, value: int, size: int, stream: int) -> None: ...

    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        assert size == 16
        ctypes.memmove(to, np.array([88_500, 50_000], np.uint64).tobytes(), 16)


def work(launched: Launched) -> float:
    """Bytes or operations of a launch, by the geometry that the driver was given."""
    name, words = launched.function.removeprefix("roof_"), launched.words()
    blocks, threads = launched.grid[0], launched.block[0]
    if name.startswith(("hbm", "l2")):
        moved = blocks * threads * int(name[-1]) * 16 * words[4]
        return moved * (2.0 if "copy" in name else 1.0)
    turns = words[1]
    if name == "shared_read":
        return 1.0 * blocks * threads * texts.SHARED_READS * 16 * turns
    if name.startswith("tensor"):
        depth = {"bfloat16": 16, "float16": 16, "tf32": 8}.get(name.removeprefix("tensor_"), 32)
        return 2.0 * blocks * (threads // 128) * 16 * 64 * 256 * depth * turns
    each = texts.CHAINS * texts.LINKS * (1 if name.startswith("exp2") else 2)
    return 1.0 * blocks * threads * each * turns


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is known yet, and nothing is compiled."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measuring, "image_of", lambda device, source: b"")
    return tmp_path / "cache"


NAMES = ["hbm_read", "hbm_write", "hbm_copy", "l2_read", "shared_read", "tensor_bfloat16",
         "tensor_float16", "tensor_float8_e4m3", "tensor_tf32", "tensor_int8", "fma_float32",
         "fma_float64", "exp2_float32", "launch_gap", "launch_round_trip"]  # fmt: skip


def test_planted_rates_are_found() -> None:
    """Of several ways the best; each with unit, clock, repetitions and formula."""
    fake = TimedDriver()
    heard: list[str] = []
    roofs = measured_roofs(fake.device, progress=heard.append)
    assert [roof.name for roof in roofs] == NAMES
    assert heard == [*NAMES[:-2], "launch"]
    assert (roofs.device, roofs.multiprocessors, roofs.target) == ("Fake GPU", 132, "sm_90a")
    assert roofs.uuid == "GPU-abababab-abab-abab-abab-ababababab00"
    planted = {"hbm_read": 4.1e12, "hbm_write": 4.1e12, "hbm_copy": 4.1e12, "l2_read": 6e12,
               "shared_read": 3.1e13, "tensor_bfloat16": 8e14, "exp2_float32": 4e12}  # fmt: skip
    for name, rate in planted.items():
        assert roofs[name].value == pytest.approx(rate, rel=1e-3), name
        assert roofs[name].best == pytest.approx(rate, rel=1e-3), name
        assert roofs[name].spread < 1e-3
        assert (roofs[name].repetitions, roofs[name].clock_mhz) == (21, 1770.0)
    assert roofs["launch_gap"].value == pytest.approx(1500, rel=1e-3)
    assert roofs["launch_round_trip"].value > 0
    assert {roof.unit for roof in roofs} == {"bytes/s", "flop/s", "op/s", "ns"}
    assert roofs["tensor_int8"].unit == "op/s"
    assert "wgmma m64n256k16" in roofs["tensor_bfloat16"].formula
    assert "2 GiB to 2 GiB" in roofs["hbm_copy"].formula
    assert not fake.allocated


def test_what_is_not_kept_up_is_the_best_and_not_the_value() -> None:
    """A device that lowers its clock after a while: the value is of later repetitions."""
    fake = TimedDriver()
    fake.slow_after = 60
    roof = measured_roofs(fake.device)["tensor_bfloat16"]
    assert roof.best == pytest.approx(8e14, rel=1e-3)
    assert roof.value == pytest.approx(8e14 / 1.25, rel=1e-3)


def test_a_device_that_is_held_back_is_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first repetitions are of a moment in which others have the power."""
    monkeypatch.setattr("tileprof.runtime.roofs.measuring._PATIENCE_S", 0.0)
    fake = TimedDriver()
    fake.held_back = range(20, 60)
    roof = measured_roofs(fake.device)["exp2_float32"]
    assert roof.value == pytest.approx(4e12, rel=1e-3)
    assert roof.repetitions == 21
    fake.held_back = range(20, 1 << 40)
    always = measured_roofs(fake.device, again=True)["exp2_float32"]
    assert always.value == pytest.approx(2e12, rel=1e-3)


@pytest.mark.sweep
def test_it_is_measured_once_and_kept(empty_cache: Path) -> None:
    """For all programs, by device and driver; what is damaged is measured again."""
    fake = TimedDriver()
    assert known_roofs(0, fake.driver) is None
    first = measured_roofs(fake.device)
    (kept,) = empty_cache.glob("roofs-*.json")
    assert json.loads(kept.read_text())["roofs"][2]["name"] == "hbm_copy"
    later = TimedDriver()
    assert measured_roofs(later.device) == first == known_roofs(0, later.driver)
    assert not later.launches
    assert measured_roofs(later.device, again=True).date >= first.date
    assert later.launches
    kept.write_text("{}")
    assert known_roofs(0, fake.driver) is None
    held = json.loads(json.dumps(first.as_json()))
    held["roofs"][0]["value"] = 0
    kept.write_text(json.dumps(held))
    assert known_roofs(0, fake.driver) is None
    assert known_roofs(1, TimedDriver(devices=2).driver) is None


def test_as_json_and_back() -> None:
    """Everything is there, in order."""
    roof = Roof("hbm_read", 4.2e12, "bytes/s", 4.3e12, 0.001, 21, 1755.0, "bytes / time")
    gap = Roof("launch_gap", 1200.0, "ns", 1100.0, 0.01, 21, 0.0, "time / launches")
    roofs = Roofs("GPU", "GPU-0", "sm_90a", 132, "13.0", "2026-11-20T10:00:00+00:00", "0.1",
                  {"hbm_read": roof, "launch_gap": gap})  # fmt: skip
    again = Roofs.from_json(json.loads(json.dumps(roofs.as_json())))
    assert again == roofs
    assert "hbm_read" in again
    assert "l2_read" not in again


def test_a_device_that_has_little_memory_left() -> None:
    """As much as there is room for; where there is next to none, that is the error."""
    roofs = measured_roofs(TimedDriver(most_memory=GIB).device)
    assert "256 MiB to 256 MiB" in roofs["hbm_copy"].formula
    with pytest.raises(DriverFailure, match="cuMemAllocAsync"):
        measured_roofs(TimedDriver(most_memory=1 << 20).device, again=True)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, with a way out."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="roofs cannot be kept"):
        measured_roofs(TimedDriver().device)


def test_it_is_none_of_the_programs_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done unrecorded, while others may capture."""
    told: list[bool] = []
    monkeypatch.setattr(hooks, "set_unrecorded", told.append)
    fake = TimedDriver()
    measured_roofs(fake.device)
    assert told == [True, False]
    assert {launch.stream for launch in fake.launches} != {0}
    assert fake.capture_mode == 0


def test_an_older_device() -> None:
    """It has no 8-bit floats, and products of warps."""
    roofs = measured_roofs(TimedDriverOfAmpere().device)
    assert "tensor_float8_e4m3" not in roofs
    assert "mma m16n8k16" in roofs["tensor_bfloat16"].formula


class TimedDriverOfAmpere(TimedDriver):
    def __init__(self) -> None:
        super().__init__(capability=(8, 0))


@pytest.mark.parametrize("capability", [(9, 0), (8, 0)])
def test_launches_stay_within_memory(capability: tuple[int, int]) -> None:
    """No piece of any attempt lies outside of its half, whatever the number of turns."""
    target = TimedDriver(capability=capability).device.target
    for size in (256 << 20, 4 * GIB):
        memory = Memory(1 << 40, size, (1 << 40) + size)
        for plan in plans(target, 132, memory):
            for attempt in plan.attempts:
                if len(attempt.addresses) == 3:
                    pieces, _ = attempt.symbols(3)
                    start, to, sink = attempt.addresses
                    room = (to if to > start else sink) - start
                    chunk = texts.MEMORY_THREADS * int(attempt.function[-1]) * 16
                    assert 0 < pieces * chunk <= room
                    assert attempt.work(3) % chunk == 0
                    assert attempt.blocks(3) < 1 << 31
