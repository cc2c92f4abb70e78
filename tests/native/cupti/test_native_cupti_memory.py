"""What recording costs in memory; nanoseconds are measured by `benchmarks/costs.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reliability.heap import mallinfo
from tests.native.cupti_programs import Fake


def resident_bytes() -> int:
    """The memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def free_bytes() -> int:
    """Return the bytes that malloc keeps in all heaps and nobody uses."""
    found = mallinfo()
    assert found is not None
    return int(found.fordblks)


@pytest.mark.sweep
def test_threads_with_own_buffers_leave_no_holes_in_the_heaps(fake: Fake) -> None:
    """Buffers taken on eight threads and given back on another one are pages of their own."""
    for _ in range(2):
        fake.own_buffers(8, 50_000)
    before = free_bytes()
    for _ in range(4):
        fake.own_buffers(8, 50_000)
    assert free_bytes() - before < 8 * 2**20
    held = fake.recorder.gpu_held_bytes()
    assert held["buffers"] <= 24 * 2**19  # those that are kept: none is lost
    # As many kernels as wait to be put in order at most, twice: 2 * 2**18 of 56 bytes; and the
    # work since the last late launch, which is merged from 2**12 of 32 bytes on.
    assert 0 < held["waiting"] <= 2 * 2**19 * 56 + 2**12 * 32


@pytest.mark.sweep
def test_a_million_kernels_take_no_memory(fake: Fake) -> None:
    """Once the tables are there, nothing grows with launches."""
    fake.many(400_000, batch=20_000)
    fake.recorder.gpu_drain(False)
    before = resident_bytes()
    fake.many(1_000_000, start=10**9, batch=20_000)
    fake.deliver()
    assert resident_bytes() - before < 20 * 2**20


def test_ten_thousand_kernels_are_handed_over_in_one_call(fake: Fake) -> None:
    """Of ten thousand different names."""
    for i in range(10_000):
        fake.kernel(f"kernel {i}", start=1000 * i + 1, end=1000 * i + 900)
    fake.recorder.gpu_flush(True)
    drained = fake.recorder.gpu_drain()
    assert (drained["what"] == fake.recorder.WHATS["kernel"]).sum() == 10_000


def test_buffers_are_there_before_records_are_handed_over(fake: Fake) -> None:
    """Three times as many as CUPTI has then, so that the first time decides how many there are;
    what a burst took beyond those goes back."""
    first = fake.c.fake_take_buffers
    first(8)
    assert fake.recorder.gpu_flush(False) == (0, "")
    assert fake.recorder.gpu_held_bytes()["buffers"] == 24 * 2**19
    for burst in (16, 24, 40, 8):
        first(burst)
        assert fake.recorder.gpu_flush(False) == (0, "")
        fake.c.fake_give_buffers(burst)
    assert fake.recorder.gpu_held_bytes()["buffers"] == 24 * 2**19
    fake.c.fake_give_buffers(8)


def test_little_work_takes_few_buffers(fake: Fake) -> None:
    """One thread that launches now and then."""
    fake.kernel()
    for _ in range(3):
        fake.c.fake_take_buffers(1)
        assert fake.recorder.gpu_flush(False) == (0, "")
        fake.c.fake_give_buffers(1)
    assert fake.recorder.gpu_held_bytes()["buffers"] <= 3 * 2**19


def test_totals_use_memory_again(fake: Fake) -> None:
    """What was handed over is the next but one's, however often; and never another's numbers."""
    seen = []
    for turn in range(12):
        for context in range(40):
            with fake.range(f"r{context}"):
                for kernel in range(25):
                    at = 1 + turn * 10**8 + context * 10**6 + kernel * 1000
                    fake.kernel(f"k{kernel % 3}", at, at + 10 * (turn + 1) + kernel)
        rows = fake.rows("kernel")
        assert len(rows) == 40 * 3
        assert sum(row.sum for row in rows) == 40 * (250 * (turn + 1) + sum(range(25)))
        assert all(sum(row.sketch.values()) == row.count for row in rows)
        seen.append(fake.recorder.gpu_held_bytes()["totals"])
    assert seen[0] > 0
    assert seen[2:] == [seen[1]] * 10


def test_totals_have_room_for_more_buckets(fake: Fake) -> None:
    """Times reach more buckets in each period: of half as many more none takes memory; and a few
    totals take little."""
    fake.kernel()
    assert len(fake.rows("kernel")) == 1
    assert fake.recorder.gpu_held_bytes()["totals"] < 2**18
    seen = []
    for turn in range(12):
        buckets = 400 + 20 * max(turn - 2, 0)
        at = (1 + turn) * 10**12
        for context in range(20):
            with fake.range(f"r{context}"):
                for bucket in range(buckets):
                    fake.kernel("k", at, at + int(10_000 * 1.025**bucket))
                    at += 10**8
        # The one before has its slack now.
        assert {row.count for row in fake.rows("kernel")} - {0} == {buckets}
        seen.append(fake.recorder.gpu_held_bytes()["totals"])
    assert seen[2:] == [seen[1]] * 10
