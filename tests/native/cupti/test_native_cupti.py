"""What GPUs did, added up by calling context, from a CUPTI that is played."""

from __future__ import annotations

import pytest

from tests.native.cupti_programs import (
    DEVICE,
    HTOD_ASYNC,
    KERNEL,
    MEMCPY,
    MEMSET,
    PINNED,
    Fake,
)
from tileprof.profile.sketch import bucket_of


def launch_mixture(fake: Fake) -> None:
    """Work of all kinds, of several names and shapes, at several paths."""
    for i in range(400):
        at = 10_000 * (i + 1)
        with fake.range(f"step{i % 3}"):
            fake.kernel(f"k{i % 7}", at, at + 100 + i, registers=i % 5)
            if i % 4 == 0:
                fake.copy(HTOD_ASYNC, PINNED, DEVICE, 64 + i, at + 2000, at + 3000)
            if i % 5 == 0:
                fake.fill(i, at + 5000, at + 5100 + i)


@pytest.mark.parametrize("shuffle", [0, 64, 10_000])
def test_totals_are_the_sums_of_the_records(fake: Fake, shuffle: int) -> None:
    """In whatever order they come."""
    fake.option("shuffle", shuffle)
    launch_mixture(fake)
    rows = fake.rows()
    for kind, what in ((KERNEL, "kernel"), (MEMCPY, "memcpy"), (MEMSET, "memset")):
        own = [r for r in rows if r.what == what]
        assert (sum(r.count for r in own), sum(r.sum for r in own)) == fake.delivered(kind)
    assert fake.delivered(KERNEL)[0] == 400
    assert sum(r.bytes for r in rows if r.what == "memcpy") == sum(64 + i for i in range(0, 400, 4))
    assert fake.counts() == {"records": 580, "kernels": 400, "launches": 400}


def test_a_dropped_record_is_missed_and_counted(fake: Fake) -> None:
    """The totals are those of what came; what did not is told."""
    fake.option("drop", 3)
    launch_mixture(fake)
    kernels = fake.rows("kernel")
    assert sum(r.count for r in kernels) == fake.delivered(KERNEL)[0] == 397
    counts = fake.counts()
    assert (counts["dropped"], counts["launches"], counts["kernels"]) == (3, 400, 397)


def test_a_total_knows_extremes_and_quantiles(fake: Fake) -> None:
    """And the grid of the last launch, and all blocks."""
    times = [5, 63, 64, 1000, 1001, 40_000_000_000]
    for i, ns in enumerate(times):
        fake.kernel(start=10**12 * (i + 1), end=10**12 * (i + 1) + ns, grid=(i + 1, 2, 3))
    (row,) = fake.rows("kernel")
    assert (row.count, row.sum, row.min, row.max) == (6, sum(times), 5, 40_000_000_000)
    assert (row.blocks, row.grid) == (6 * 21, (6, 2, 3))
    expected: dict[int, int] = {}
    for bucket in bucket_of(times).tolist():
        expected[bucket] = expected.get(bucket, 0) + 1
    assert row.sketch == expected
    assert list(row.sketch) == sorted(row.sketch)


def test_handing_over_begins_anew(fake: Fake) -> None:
    """Nothing is handed over twice."""
    fake.kernel()
    assert [r.count for r in fake.rows("kernel")] == [1]
    assert fake.rows() == []
    fake.kernel(start=10_000, end=10_050)
    assert [(r.count, r.sum, r.min) for r in fake.rows("kernel")] == [(1, 50, 50)]


def test_kernels_without_times_count_but_take_none(fake: Fake) -> None:
    """As a forced flush hands them over."""
    fake.kernel(start=0, end=0)
    fake.kernel(start=5000, end=5100)
    (row,) = fake.rows("kernel")
    assert (row.count, row.untimed, row.sum, row.min) == (2, 1, 100, 100)
    assert fake.counts()["untimed"] == 1


# -- threads


@pytest.mark.parametrize("shuffle", [0, 1000])
def test_threads_launch_at_once(fake: Fake, shuffle: int) -> None:
    """Every kernel of each is counted once, in its context, while records come."""
    fake.option("shuffle", shuffle)
    fake.threads(8, 20_000, batch=5000)
    rows = fake.rows("kernel")
    names = [v[0] for v in fake.recorder.gpu_variants()]
    assert {names[r.detail]: (r.path, r.count, r.sum, r.min, r.max) for r in rows} == {
        f"kernel_{t}": ("cuLaunchKernel", 20_000, 20_000 * (101 + t), 101 + t, 101 + t)
        for t in range(8)
    }
    assert fake.delivered(KERNEL) == (160_000, sum(r.sum for r in rows))
    assert set(fake.counts()) <= {"records", "kernels", "launches", "late"}


def test_host_time_is_at_the_calls(fake: Fake) -> None:
    """Each is counted once where it was made."""
    with fake.range("timed"):
        for _ in range(5):
            fake.kernel()
    times = {fake.path_of(t[0]): t[1] for t in fake.recorder.host_times()}
    assert times["timed cuLaunchKernel"] == 5
