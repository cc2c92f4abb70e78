"""When devices had nothing to do, and why: gaps between what ran, by the launch that ended them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.native.cupti_programs import (
    CTX_SYNC,
    DEVICE,
    DTOH,
    DTOH_ASYNC,
    GRAPH_LAUNCH,
    HTOD_ASYNC,
    LAUNCH,
    PINNED,
    STREAM_SYNC,
    Fake,
    gaps_of,
)

UNKNOWN, LATE, SYNC, COPY, QUEUE, WAITING_COPY = range(6)


class Clock:
    """Driver calls at times that the test sets."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake

    def call(self, at: int, number: int = LAUNCH, until: int = 0) -> int:
        """Make a driver call that lasts from one time to another."""
        self.fake.recorder.set_time(at)
        correlation = int(self.fake.c.fake_enter(number))
        self.fake.recorder.set_time(max(until, at))
        self.fake.c.fake_exit(number, correlation, 0)
        return correlation

    def kernel(self, at: int, start: int, end: int, **fields: int) -> None:
        """Launch at a time what runs from `start` to `end`."""
        self.fake.kernel("k", start, end, self.call(at), **fields)

    def copy(self, at: int, start: int, end: int, number: int = DTOH_ASYNC, **fields: int) -> None:
        """Copy from the device, or from the host."""
        source = PINNED if number == HTOD_ASYNC else DEVICE
        correlation = self.call(at, number)
        self.fake.copy(number, source, DEVICE, 8, start, end, correlation=correlation, **fields)

    def gaps(self) -> list[tuple[int, int, int]]:
        """(reason, count, ns) of the idle time, by path and reason."""
        return [(r.detail & 0xFFFF, r.count, r.sum) for r in self.fake.rows("idle")]


@pytest.fixture
def clock(fake: Fake) -> Iterator[Clock]:
    """The recorder with a clock of the test's own."""
    yield Clock(fake)
    fake.recorder.set_time(0)


def test_a_late_launch(clock: Clock) -> None:
    """The host was not there in time."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.kernel(at=1500, start=1600, end=1700)
    assert clock.gaps() == [(LATE, 1, 500)]


def test_a_launch_that_waited_in_the_queue(clock: Clock) -> None:
    """It was launched before the gap began."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.kernel(at=950, start=1130, end=1200)
    assert clock.gaps() == [(QUEUE, 1, 30)]


@pytest.mark.parametrize("number", [STREAM_SYNC, CTX_SYNC])
def test_a_launch_after_a_wait(clock: Clock, number: int) -> None:
    """The wait ended in the gap: nothing was queued behind what it waited for."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.call(950, number, until=1150)
    clock.kernel(at=1200, start=1300, end=1400)
    assert clock.gaps() == [(SYNC, 1, 200)]


def test_a_wait_that_ended_before_the_gap(clock: Clock) -> None:
    """It is not what delayed the launch."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.call(950, STREAM_SYNC, until=1050)
    clock.kernel(at=1200, start=1300, end=1400)
    assert clock.gaps() == [(LATE, 1, 200)]


def test_a_launch_after_a_copy_that_blocked(clock: Clock) -> None:
    """A copy without "Async" returns when it is done."""
    clock.kernel(at=900, start=1000, end=1100)
    correlation = clock.call(950, DTOH, until=1250)
    clock.fake.copy(DTOH, DEVICE, PINNED, 8, 1100, 1200, correlation=correlation)
    clock.kernel(at=1300, start=1400, end=1500)
    assert clock.gaps() == [(COPY, 1, 200), (WAITING_COPY, 1, 100)]


def test_a_copy_of_the_hosts_data(clock: Clock) -> None:
    """The device waited for data, then for their copy."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.copy(1400, 1500, 1800, HTOD_ASYNC)
    clock.kernel(at=1450, start=1820, end=1900)
    assert clock.gaps() == [(QUEUE, 1, 20), (WAITING_COPY, 1, 300), (COPY, 1, 400)]


def test_copies_beside_kernels_keep_no_device_idle(clock: Clock) -> None:
    """Only what no kernel covers is waiting for copies."""
    clock.kernel(at=100, start=1000, end=2000)
    clock.copy(at=100, start=1500, end=1800)
    clock.copy(at=100, start=1900, end=2600)
    clock.copy(at=100, start=2100, end=2300)
    clock.kernel(at=100, start=2500, end=2550)
    clock.kernel(at=100, start=2700, end=2800)
    assert clock.gaps() == [(QUEUE, 1, 100), (WAITING_COPY, 2, 500 + 50)]


def test_overlapping_kernels_are_one_busy_time(clock: Clock) -> None:
    """On whichever streams they run, in whichever order their records come."""
    for start, end in ((3000, 3100), (1000, 2000), (1200, 1300), (1900, 2500)):
        clock.kernel(at=100, start=start, end=end)
    assert clock.gaps() == [(QUEUE, 1, 500)]


def test_devices_have_gaps_of_their_own(clock: Clock) -> None:
    """Each is idle while the other works."""
    for device in (0, 1, 0, 1):
        clock.kernel(at=100, start=1000 + device, end=1010, device=device)
        clock.kernel(at=100, start=2000 + device, end=2010, device=device)
    rows = clock.fake.rows("idle")
    assert {(r.detail >> 16, r.detail & 15, r.count, r.sum) for r in rows} == {
        (0, QUEUE, 1, 990),
        (1, QUEUE, 1, 991),
    }


def test_gaps_are_at_the_launch_that_ended_them(clock: Clock) -> None:
    """In the epoch of that launch; within a graph, at the graph's launch."""
    fake = clock.fake
    clock.kernel(at=900, start=1000, end=1100)
    fake.recorder.set_epoch(2)
    with fake.range("replay"):
        launched = clock.call(1150, GRAPH_LAUNCH)
    fake.kernel(start=1200, end=1300, correlation=launched, node=1)
    fake.kernel(start=1350, end=1400, correlation=launched, node=2)
    fake.kernel(start=1500, end=1600, correlation=4_000_000_000)
    rows = [(r.path, r.epoch, r.detail, r.sum) for r in fake.rows("idle")]
    assert rows == [
        ("", 2, UNKNOWN, 100),
        ("replay cuGraphLaunch", 2, LATE, 100),
        ("replay cuGraphLaunch", 2, QUEUE, 50),
    ]


def test_long_gaps_are_told_one_by_one(clock: Clock) -> None:
    """From a millisecond on, those that the host made; a dependency's are in totals."""
    ms = 1_000_000
    clock.kernel(at=900, start=1000, end=1 * ms)
    clock.call(950, STREAM_SYNC, until=1 * ms + 20)
    clock.kernel(at=2 * ms - 50, start=2 * ms, end=3 * ms)
    clock.kernel(at=5 * ms, start=6 * ms, end=7 * ms)
    clock.kernel(at=6 * ms, start=9 * ms, end=10 * ms)
    assert clock.fake.recorder.gpu_flush() == (0, "")
    drained = clock.fake.recorder.gpu_drain()
    gaps = [(detail & 0xFFFF, start, end) for start, end, detail in gaps_of(drained)]
    assert gaps == [(SYNC, 1 * ms, 2 * ms), (LATE, 3 * ms, 6 * ms)]
    totals = [(r.detail & 0xFFFF, r.sum) for r in clock.fake.rows_of(drained, "idle")]
    assert totals == [(QUEUE, 2 * ms)]


def test_interruptions_are_no_gaps(clock: Clock) -> None:
    """What ran meanwhile is not known."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.kernel(at=910, start=1200, end=1300)
    clock.fake.recorder.gpu_pause()
    clock.fake.recorder.set_time(50_000)
    clock.fake.recorder.gpu_resume()
    clock.kernel(at=60_000, start=60_100, end=60_200)
    clock.kernel(at=60_150, start=60_300, end=60_400)
    assert clock.gaps() == [(QUEUE, 2, 200)]


def test_what_comes_too_late_is_told(clock: Clock) -> None:
    """What was counted as idle stays; from then on there is more room to put things in order."""
    clock.kernel(at=100, start=1000, end=1100)
    clock.kernel(at=100, start=2000, end=2100)
    assert clock.gaps() == [(QUEUE, 1, 900)]
    clock.kernel(at=100, start=1500, end=2500)
    clock.kernel(at=100, start=2600, end=2700)
    assert clock.gaps() == [(QUEUE, 1, 100)]
    assert clock.fake.counts()["late"] == 1


def covered(intervals: list[tuple[int, int]]) -> int:
    """The time that intervals cover together."""
    total, until = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_idle_and_busy_time_are_all_the_time(clock: Clock, seed: int) -> None:
    """Random kernels and copies in random order: both sums are those of their union."""
    chance = random.Random(seed)
    kernels, copies = [], []
    for _ in range(3000):
        start = chance.randrange(1000, 2_000_000)
        interval = (start, start + chance.randrange(0, 1200))
        if chance.random() < 0.6:
            kernels.append(interval)
            clock.kernel(500, *interval)
        else:
            copies.append(interval)
            clock.copy(500, *interval)
    gaps = clock.gaps()
    everything = sorted(kernels + copies)
    span = max(end for _, end in everything) - everything[0][0]
    assert sum(ns for reason, _, ns in gaps if reason == QUEUE) == span - covered(everything)

    # Copies before the first kernel and after the last wait for nothing that is known.
    first, last = min(kernels)[0], max(end for _, end in kernels)
    between = [(max(a, first), min(b, last)) for a, b in everything if a < last and b > first]
    waiting = sum(ns for reason, _, ns in gaps if reason == WAITING_COPY)
    assert waiting == covered(between) - covered(kernels)


@pytest.mark.parametrize("shuffle", [1, 50, 5000])
def test_order_makes_no_difference(clock: Clock, shuffle: int) -> None:
    """Within the window, the gaps are the same."""
    clock.fake.option("shuffle", shuffle)
    clock.fake.many(50_000, ns=700, step=1000)
    (gap,) = clock.gaps()
    assert gap[1:] == (49_999, 49_999 * 300)
    assert "late" not in clock.fake.counts()


def test_buffers_of_threads_come_one_after_the_other(clock: Clock) -> None:
    """Each holds a long time of one thread's work; together they leave the gaps that are there."""
    fake = clock.fake
    for turn in range(6):
        began = 10**6 + turn * 20_000_000
        for stretch in range(2):
            fake.many(10_000, "backward", start=began + stretch * 10_000_000, ns=300, step=1000)
            fake.deliver()
        fake.many(10_000, "forward", start=began + 400, ns=300, step=2000)
        fake.deliver()
    gaps = clock.gaps()
    assert "late" not in fake.counts()
    kernels = 6 * 20_000
    busy = kernels * 300 + 6 * 10_000 * 300
    assert sum(ns for _, _, ns in gaps) == (6 * 20_000_000 - 1000 + 300) - busy


def slack(clock: Clock) -> list[tuple[int, int]]:
    """(ns, part that is slack) of what ran, by path."""
    rows = clock.fake.rows()
    return [(r.sum, r.slack) for r in rows if r.what in ("kernel", "memcpy")]


def test_more_parts_out_of_order_than_are_kept_apart(fake: Fake) -> None:
    """Records of very many streams that come in no order are put in order in between."""
    count = 60_000
    fake.option("shuffle", count)
    fake.many(count, start=10**6, ns=100, step=1000)
    fake.deliver()
    fake.kernel("last", 10**6 + count * 1000, 10**6 + count * 1000 + 100)
    idle = fake.rows("idle")
    assert (sum(r.count for r in idle), sum(r.sum for r in idle)) == (count, count * 900)
    assert fake.counts().get("late", 0) == 0


def test_work_before_a_late_launch_is_slack(clock: Clock) -> None:
    """All since the last late launch; what ran after it may be what the program waits for."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.kernel(at=950, start=1130, end=1200)
    clock.kernel(at=1500, start=1600, end=1900)
    assert slack(clock) == [(470, 170)]


def test_work_that_the_host_waited_for_is_no_slack(clock: Clock) -> None:
    """Neither where the wait ended in the gap, nor where other work went on after it."""
    clock.kernel(at=900, start=1000, end=1100)
    clock.kernel(at=910, start=1100, end=1300)
    clock.call(920, CTX_SYNC, until=1310)
    clock.kernel(at=1500, start=1600, end=1700)
    assert slack(clock) == [(400, 0)]
    clock.kernel(at=1550, start=1700, end=1900)
    clock.call(1560, STREAM_SYNC, until=1710)
    clock.kernel(at=2000, start=2100, end=2200)
    assert slack(clock) == [(300, 200)]


def test_slack_of_copies_graphs_and_interruptions(clock: Clock) -> None:
    """A copy counts as a kernel does; what was before an interruption counts no more."""
    clock.copy(at=900, start=1000, end=1040)
    clock.kernel(at=1100, start=1200, end=1300)
    assert [row for row in slack(clock) if row[1]] == [(40, 40)]
    clock.fake.recorder.gpu_pause()
    clock.fake.recorder.set_time(50_000)
    clock.fake.recorder.gpu_resume()
    clock.kernel(at=60_000, start=60_100, end=60_200)
    clock.kernel(at=70_000, start=70_100, end=70_200)
    assert slack(clock) == [(200, 100)]


def test_slack_of_many_launches(clock: Clock) -> None:
    """Launches are merged by what they ran, ten times over; then one is late."""
    begin = 10**9
    clock.fake.many(20_000, "backward", start=begin, ns=300, step=300)
    clock.fake.many(20_000, "forward", start=begin + 20_000 * 300, ns=300, step=300)
    end = begin + 40_000 * 300
    clock.kernel(at=end + 500, start=end + 600, end=end + 700)
    assert sum(part for _, part in slack(clock)) == 40_000 * 300


def expected_slack(runs: list[tuple[int, int, int, int]]) -> int:
    """The slack of (launched, waited until, start, end), one after the other on a device."""
    total = until = busy = 0
    since: list[tuple[int, int]] = []
    for launched, waited, start, end in runs:
        until = max(until, waited)
        if busy and start > busy and launched > busy:
            total += sum(last - first for first, last in since if last > until)
            since = []
        since.append((start, end))
        busy = max(busy, end)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_slack_of_random_programs(clock: Clock, seed: int) -> None:
    """Launches ahead and behind, waits for some of them: as a plain reading of the definition."""
    chance, now, free, waited = random.Random(seed), 10**6, 0, 0
    runs = []
    for _ in range(2000):
        now += chance.randrange(1, 400)
        if chance.random() < 0.1 and free:
            until = max(now, free if chance.random() < 0.5 else free - chance.randrange(1, 300))
            clock.call(now, STREAM_SYNC, until=until)
            now = waited = until
            now += chance.randrange(1, 200)
        start = max(now + chance.randrange(1, 50), free + chance.choice((0, 0, 20)))
        end = start + chance.randrange(1, 600)
        clock.kernel(now, start, end)
        runs.append((now, waited, start, end))
        free = end
    ((total, part),) = slack(clock)
    assert total == sum(end - start for _, _, start, end in runs)
    assert part == expected_slack(runs)
    assert 0 < part < total
