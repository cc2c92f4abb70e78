"""What recording costs: nanoseconds a launch and a record, and memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.native.cupti_programs import Fake

pytestmark = pytest.mark.alone


def resident_bytes() -> int:
    """The memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_a_launch_costs_little(fake: Fake) -> None:
    """Both callbacks, the context and the host's time; nothing while paused."""
    assert min(fake.time_calls(100_000) for _ in range(5)) < 600
    fake.recorder.gpu_pause()
    assert min(fake.time_calls(100_000) for _ in range(5)) < 100
    fake.recorder.gpu_resume()


@pytest.mark.parametrize(("names", "streams"), [(1, 1), (100, 4)])
def test_a_record_is_read_fast(stopped: Fake, names: int, streams: int) -> None:
    """A million kernels are ready long before a second has passed."""
    assert stopped.start() == (0, "")
    assert stopped.time_reading(500_000, names, streams) < 200


def test_a_million_kernels_take_no_memory(fake: Fake) -> None:
    """Once the tables are there, nothing grows with launches."""
    fake.many(400_000, batch=20_000)
    fake.recorder.gpu_drain(False)
    before = resident_bytes()
    fake.many(1_000_000, start=10**9, batch=20_000)
    fake.deliver()
    assert resident_bytes() - before < 20 * 2**20


def test_ten_thousand_kernels_are_handed_over_at_once(fake: Fake) -> None:
    """Of ten thousand different names."""
    for i in range(10_000):
        fake.kernel(f"kernel {i}", start=1000 * i + 1, end=1000 * i + 900)
    fake.recorder.gpu_flush(True)
    began = time.perf_counter()
    drained = fake.recorder.gpu_drain()
    assert time.perf_counter() - began < 0.1
    assert (drained["what"] == fake.recorder.WHATS["kernel"]).sum() == 10_000
