"""Hardware counters over time: rows of means, whatever came between samples and their reading."""

from __future__ import annotations

import ctypes as C
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.native.cupti_programs import LAUNCH, Fake, wait_until

CONTEXT, OTHER = 0x1000, 0x2000
METRICS = ["sm__cycles_active.avg.pct", "dram__bytes.sum"]
NS = 100_000


class Sampling:
    """The played library with counters over time asked for."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.recorder = fake, fake.recorder
        for name in ("misuses", "devices", "interval", "started", "samples"):
            getattr(fake.c, f"fake_pm_{name}").restype = C.c_uint64
        fake.c.fake_pms_reset()
        self.current(CONTEXT)

    def current(self, context: int) -> None:
        """The context of this thread's launches."""
        self.fake.c.fake_current(C.c_uint64(context))

    def begin(self, chip: str = "FAKE100", **more: Any) -> None:
        """Begin a recording; nothing but callbacks and samples, read every millisecond."""
        options = {"interval_ns": NS, "read_ms": 1, **more}
        self.recorder.pm_configure(chip, METRICS, [False, True], b"plan 1", **options)
        assert self.fake.start(()) == (0, "")

    def launch(self) -> None:
        """Launch something."""
        self.fake.call(LAUNCH)

    def samples(self, start: int, count: int, first: float = 10.0, step: float = 0.0,
                device: int = 0) -> int:  # fmt: skip
        """Samples one after the other, from the start-th interval on; how many were taken."""
        numbers = (start * NS, NS, count)
        taken = self.fake.c.fake_pm_samples(
            C.c_size_t(device), *map(C.c_uint64, numbers), *map(C.c_double, (first, step))
        )
        return int(taken)

    def status(self) -> dict[str, Any]:
        """What is told of it."""
        told: dict[str, Any] = self.recorder.pm_status()
        return told

    def read(self, samples: int) -> None:
        """Wait until so many samples have been read."""
        self.until(lambda: self.status()["samples"] >= samples)

    def overflown(self, times: int) -> None:
        """Wait until the buffer has been full so often."""
        self.until(lambda: self.status()["overflows"] >= times)

    def until(self, done: Callable[[], bool]) -> None:
        """Wait, but not for ever."""
        end = time.monotonic() + 10
        while not done():
            assert time.monotonic() < end, self.status()
            time.sleep(0.001)

    def rows(self) -> tuple[Any, Any, list[Any], int, int]:
        """Starts, ends, columns of values, samples of a row, rows given up; of the one device."""
        ((device, *rest),) = self.recorder.pm_rows()
        assert device == 0
        start, end, columns, held, given_up = rest
        return start, end, columns, held, given_up


@pytest.fixture
def sampling(stopped: Fake) -> Iterator[Sampling]:
    """Nothing may be called in a wrong order, and nothing is left behind."""
    made = Sampling(stopped)
    yield made
    stopped.option("pm_stop_ms", 0)
    if stopped.recorder.gpu_started():
        stopped.recorder.gpu_stop(0.2)  # there are no records to wait for
    if not made.status()["hung"]:
        stopped.recorder.pm_configure("", [], [], b"")
        assert stopped.c.fake_pm_misuses() == 0
        assert stopped.c.fake_pm_devices() == 0
    made.current(0)


def test_samples_become_rows(sampling: Sampling) -> None:
    """Read while the program runs; counts become rates, other values stay."""
    sampling.begin()
    assert sampling.fake.c.fake_pm_devices() == 0
    sampling.launch()
    assert sampling.fake.c.fake_pm_interval(0) == NS
    assert sampling.samples(1, 4, 10, 1) == 4
    sampling.read(4)
    start, end, (share, rate), held, given_up = sampling.rows()
    assert start.tolist() == [NS, 2 * NS, 3 * NS, 4 * NS]
    assert (end - start).tolist() == [NS] * 4
    assert share.tolist() == [10, 11, 12, 13]
    assert rate.tolist() == pytest.approx([20e4, 22e4, 24e4, 26e4])
    assert (held, given_up) == (1, 0)
    assert sampling.status() == {
        "code": 0, "text": "", "sampled": 1, "samples": 4, "missed": 0, "overflows": 0,
        "hung": False,
    }  # fmt: skip


def test_what_is_left_is_read_at_the_end(sampling: Sampling) -> None:
    """Of an end and of a pause, also where it takes several images; those of no length are none."""
    sampling.begin(read_ms=10_000, image_samples=8)
    sampling.launch()
    sampling.samples(1, 100)
    assert sampling.recorder.gpu_pause() == (0, "")
    assert sampling.status()["samples"] == 100
    assert sampling.samples(200, 5) == 0
    assert sampling.recorder.gpu_resume() == (0, "")
    assert sampling.samples(300, 5) == 5
    assert sampling.recorder.gpu_stop() == (0, "")
    start, *_ = sampling.rows()
    assert start.tolist() == [NS * n for n in [*range(1, 101), *range(300, 305)]]
    # A pause is no loss.
    assert sampling.status()["missed"] == 0


def test_rows_are_bounded_and_nothing_is_forgotten(sampling: Sampling) -> None:
    """Where there is no room neighbours become one, and means stay what they are."""
    sampling.begin(rows=64, read_ms=10_000)
    sampling.launch()
    sampling.samples(1, 1000, 0, 1)
    sampling.recorder.gpu_pause()
    start, end, (share, _), held, given_up = sampling.rows()
    assert 32 <= len(start) <= 64
    assert (held, given_up) == (16, 0)
    assert start[0] == NS
    assert end[-1] == 1001 * NS
    assert np.array_equal(start[1:], end[:-1])
    # Means of consecutive numbers, each weighted by its time, are the mean of all.
    assert np.average(share, weights=end - start) == pytest.approx(499.5)
    assert (np.diff(share) > 0).all()
    assert set((end - start)[:-1].tolist()) == {held * NS}


def test_gaps_stay_gaps(sampling: Sampling) -> None:
    """Neighbours with a gap between them stay apart, so no row tells of time without samples."""
    sampling.begin(rows=8, read_ms=10_000)
    sampling.launch()
    sampling.samples(1, 7, 1)
    sampling.samples(100, 9, 2)
    sampling.recorder.gpu_pause()
    start, end, (share, _), _, _ = sampling.rows()
    assert set(share.tolist()) == {1.0, 2.0}
    assert not ((start < 50 * NS) & (end > 50 * NS)).any()
    assert int((end - start).sum()) == 16 * NS
    assert sampling.status()["missed"] == 92


def test_gaps_everywhere(sampling: Sampling) -> None:
    """Where nothing can become one the oldest give way, and are counted."""
    sampling.begin(rows=16, read_ms=10_000)
    sampling.launch()
    for number in range(40):
        sampling.samples(1 + 10 * number, 1)
    sampling.recorder.gpu_pause()
    start, *_, given_up = sampling.rows()
    assert len(start) <= 16
    assert len(start) + given_up == 40
    assert start[-1] == 391 * NS


def test_values_that_are_none(sampling: Sampling) -> None:
    """A ratio of nothing has no part in means."""
    sampling.begin(rows=8, read_ms=10_000)
    sampling.launch()
    sampling.samples(1, 4, float("nan"))
    sampling.samples(5, 12, 3)
    sampling.recorder.gpu_pause()
    _, _, (share, _), _, _ = sampling.rows()
    assert np.isnan(share[0])
    assert share[-1] == 3


def test_a_full_buffer(sampling: Sampling) -> None:
    """It is counted, and sampling goes on after it has been set up anew."""
    sampling.begin(buffer_bytes=16 * 1024)
    sampling.launch()
    assert sampling.samples(1, 17) == 0
    sampling.overflown(1)
    sampling.until(lambda: bool(sampling.fake.c.fake_pm_started(0)))
    assert sampling.samples(50, 3) == 3
    sampling.read(3)
    assert sampling.rows()[0].tolist() == [50 * NS, 51 * NS, 52 * NS]
    assert sampling.status()["code"] == 0


def test_a_buffer_that_is_full_again_and_again(sampling: Sampling) -> None:
    """It is given up, with a reason."""
    sampling.begin(buffer_bytes=1024)
    sampling.launch()
    for number in range(1, 22):
        sampling.until(lambda: bool(sampling.fake.c.fake_pm_started(0)))
        sampling.samples(number * 100, 2)
        sampling.overflown(number)
    assert sampling.status()["code"] == 8
    assert "full again and again" in sampling.status()["text"]


def test_the_same_device_in_two_contexts(sampling: Sampling) -> None:
    """It is sampled once."""
    sampling.begin()
    sampling.launch()
    sampling.current(OTHER)
    sampling.launch()
    assert sampling.status()["sampled"] == 1
    assert sampling.fake.c.fake_pm_devices() == 1


def test_devices(sampling: Sampling) -> None:
    """Each has rows of its own."""
    sampling.begin()
    sampling.launch()
    sampling.fake.option("device", 3)
    sampling.current(OTHER)
    sampling.launch()
    sampling.samples(1, 2)
    sampling.samples(1, 3, device=3)
    sampling.read(5)
    assert [(part[0], len(part[1])) for part in sampling.recorder.pm_rows()] == [(0, 2), (3, 3)]


@pytest.mark.parametrize(
    ("option", "value", "called"),
    [("pm_enable_result", 35, "cuptiPmSamplingEnable"),
     ("pm_config_result", 1, "cuptiPmSamplingSetConfig"),
     ("pm_size_result", 1, "cuptiPmSamplingGetCounterDataSize"),
     ("pm_start_result", 7, "cuptiPmSamplingStart"),
     ("initialize_result", 36, "cuptiProfilerInitialize")],
)  # fmt: skip
def test_what_fails(sampling: Sampling, option: str, value: int, called: str) -> None:
    """The program goes on, and the call is told with its code; it is not tried again."""
    sampling.fake.option(option, value)
    sampling.begin()
    sampling.launch()
    sampling.launch()
    status = sampling.status()
    assert (status["code"], status["text"], status["sampled"]) == (
        value, f"{called}: FAKE_ERROR", 0,
    )  # fmt: skip


def test_a_device_of_another_kind(sampling: Sampling) -> None:
    """Counters were chosen for another."""
    sampling.begin(chip="GH100")
    sampling.launch()
    assert sampling.status()["code"] == sampling.recorder.GPU_CODES["other_chip"]
    assert (
        "device 0 is a FAKE100, and counters were chosen for a GH100" in sampling.status()["text"]
    )


def test_reading_that_fails(sampling: Sampling) -> None:
    """What was read before stays."""
    sampling.begin()
    sampling.launch()
    sampling.samples(1, 3)
    sampling.read(3)
    sampling.fake.option("pm_decode_result", 999)
    sampling.until(lambda: sampling.status()["code"] == 999)
    sampling.fake.option("pm_decode_result", 0)
    assert len(sampling.rows()[0]) == 3


def test_a_library_that_hangs(sampling: Sampling) -> None:
    """Pausing gives up while the library's call has not returned; it is never called again."""
    # Long enough for another thread to begin the call, also on a busy machine.
    sampling.begin(patience_s=0.5)
    sampling.launch()
    sampling.fake.option("pm_stop_ms", 60_000)
    sampling.recorder.gpu_pause()
    assert sampling.status()["hung"]
    assert sampling.recorder.pm_rows() == []
    assert sampling.fake.option_now("pm_stops") == 0
    sampling.fake.option("pm_stop_ms", 0)
    wait_until(lambda: sampling.fake.option_now("pm_stops") == 1)


def test_a_stop_waits_for_launches(sampling: Sampling) -> None:
    """CUPTI is not told to stop while one is under way on another thread."""
    sampling.begin()
    sampling.launch()
    ends: list[float] = []
    under_way = threading.Event()

    def launch() -> None:
        sampling.current(CONTEXT)
        correlation = sampling.fake.c.fake_enter(LAUNCH)
        under_way.set()
        time.sleep(0.2)
        ends.append(time.monotonic())
        sampling.fake.c.fake_exit(LAUNCH, correlation, 0)

    thread = threading.Thread(target=launch)
    thread.start()
    under_way.wait(5)
    sampling.recorder.gpu_pause()
    assert ends
    assert ends[0] <= time.monotonic()
    thread.join()
    assert sampling.status()["code"] == 0


def test_nothing_is_sampled_unless_asked_for(sampling: Sampling) -> None:
    """No call at all."""
    assert sampling.fake.start(()) == (0, "")
    sampling.launch()
    assert sampling.fake.c.fake_pm_devices() == 0
    assert sampling.recorder.pm_rows() == []
