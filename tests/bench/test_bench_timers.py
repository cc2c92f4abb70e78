"""Timers: what lies between two looks at the clock, and between two events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cuda.fake_driver import FakeDriver
from tileprof.bench import CudaTimer, HostTimer, gpu_state, read_gpu


def noted(steps: list[str], clock: Callable[[], int]) -> Callable[[], int]:
    """A clock whose looks are among the steps."""

    def look() -> int:
        steps.append("look")
        return clock()

    return look


def test_host_timer_waits_before_and_after(fake_clock: Callable[[], int]) -> None:
    """A batch begins when earlier work is over, and ends when its own is."""
    steps: list[str] = []
    timer = HostTimer(lambda: steps.append("wait"), noted(steps, fake_clock))
    batch = timer.batch(lambda: steps.append("call"), 2)
    assert steps == ["wait", "look", "call", "call", "look", "wait", "look"]
    assert (batch.ns, batch.issue_ns, batch.tail_ns) == (1000, 500, 1000)


def test_host_timer_flushes_outside_of_the_time(fake_clock: Callable[[], int]) -> None:
    """The flush is over before a call's time begins."""
    steps: list[str] = []
    timer = HostTimer(
        lambda: steps.append("wait"),
        noted(steps, fake_clock),
        lambda: steps.append("flush"),
    )
    timer.batch(lambda: steps.append("call"), 1)
    assert steps == ["flush", "wait", "look", "call", "look", "wait", "look"]


@pytest.fixture
def driver() -> FakeDriver:
    """A driver whose device is the thread's; two events are 0.0125 ms apart."""
    made = FakeDriver()
    made.context = made.device.context
    return made


def test_events_stand_around_all_calls_but_the_first(driver: FakeDriver) -> None:
    """Calls before the first event keep the GPU busy until the batch is queued."""
    timer = CudaTimer(driver.device, lambda: 7)
    batch = timer.batch(lambda: driver.calls.append(("call", ())), 40)
    names = [name for name in driver.names() if name in ("call", "cuEventRecord")]
    assert names == ["call"] * 2 + ["cuEventRecord"] + ["call"] * 40 + ["cuEventRecord"]
    assert batch.ns == 12_500 / 40
    assert {args[1] for name, args in driver.calls if name == "cuEventRecord"} == {7}


def test_flush_overwrites_more_than_l2_before_each_call(driver: FakeDriver) -> None:
    """Each call has two events of its own, behind the memory that was overwritten."""
    timer = CudaTimer(driver.device, flush=True)
    batch = timer.batch(lambda: driver.calls.append(("call", ())), 2)
    names = [n for n in driver.names() if n in ("call", "cuEventRecord", "cuMemsetD8Async")]
    assert names == ["cuMemsetD8Async", "cuEventRecord", "call", "cuEventRecord"] * 2
    assert batch.ns == 12_500
    sizes = {args[2] for name, args in driver.calls if name == "cuMemsetD8Async"}
    assert sizes == {2 * (50 << 20)}


def test_events_are_made_once(driver: FakeDriver) -> None:
    """Later batches reuse events of earlier ones."""
    timer = CudaTimer(driver.device)
    for _ in range(3):
        timer.batch(lambda: None, 2)
    assert timer.empty_ns() == 12_500
    assert driver.names().count("cuEventCreate") == 2


class Nvml:
    """NVML with one GPU, whose clock is held back by its power and its temperature."""

    def __init__(self, missing: str = "") -> None:
        self.missing = missing
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *arguments: self.answer(name, arguments)

    def answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        """Write a function's result where its last argument points to; 3 is "not supported"."""
        if name == self.missing:
            return 3
        if name.startswith("nvmlDeviceGetHandle"):
            self.asked.append(arguments[0])
            return 0
        texts = {
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlSystemGetDriverVersion": b"580.159",
            "nvmlDeviceGetUUID": f"GPU-{self.asked[-1] if self.asked else ''}".encode(),
        }
        if name in texts:
            arguments[-2].value = texts[name]
            return 0
        out = arguments[-1]._obj
        if name == "nvmlDeviceGetUtilizationRates":
            out.gpu = 37
            return 0
        out.value = {
            "nvmlDeviceGetCount_v2": 2,
            "nvmlDeviceGetClockInfo": 3201 if arguments[1:2] == (2,) else 1755,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetTemperature": 71,
            "nvmlDeviceGetPowerUsage": 698_500,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x25,
        }[name]
        return 0


def test_state_of_a_gpu_is_what_nvml_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idling is no reason to doubt; the power cap and the temperature are."""
    nvml = Nvml()
    monkeypatch.setattr(gpu_state, "_library", lambda: nvml)
    state = read_gpu("GPU-1")
    assert nvml.asked == [b"GPU-1"]
    assert state == gpu_state.GpuState(
        "NVIDIA H200", "580.159", 1755, 1980, 3201, 71, 698.5, 0.37,
        ("power cap", "temperature (software)"),
    )  # fmt: skip


def test_all_gpus_are_known_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their states before anything runs, without the driver; none where NVML is missing."""
    monkeypatch.setattr(gpu_state, "_library", lambda: Nvml())
    assert [*gpu_state.read_gpus()] == ["GPU-0", "GPU-1"]
    monkeypatch.setattr(gpu_state, "_library", lambda: Nvml("nvmlDeviceGetCount_v2"))
    assert gpu_state.read_gpus() == {}
    monkeypatch.setattr(gpu_state, "_library", lambda: None)
    assert gpu_state.read_gpus() == {}


def test_what_nvml_does_not_know_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that reports no power still has clocks; one that NVML does not know has no state."""
    monkeypatch.setattr(gpu_state, "_library", lambda: Nvml("nvmlDeviceGetPowerUsage"))
    state = read_gpu()
    assert state is not None
    assert (state.watts, state.sm_mhz) == (None, 1755)
    monkeypatch.setattr(gpu_state, "_library", lambda: Nvml("nvmlDeviceGetHandleByUUID"))
    assert read_gpu("MIG-1") is None
    monkeypatch.setattr(gpu_state, "_library", lambda: None)
    assert read_gpu() is None
