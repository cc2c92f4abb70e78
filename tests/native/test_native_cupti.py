"""What GPUs do, by calling context, from a CUPTI that is played."""

from __future__ import annotations

import ctypes
import threading

import pytest

from tests.native.cupti_programs import (
    ALLOC,
    COOPERATIVE,
    CTX_SYNC,
    DEVICE,
    DTOH,
    EVENT_QUERY,
    GRAPH_LAUNCH,
    HOST_FUNC,
    HTOD_ASYNC,
    KERNEL,
    LAUNCH,
    LAUNCH_EX,
    LAUNCH_PTSZ,
    MEMCPY,
    MEMSET,
    NODE_CLONED,
    NODE_CREATED,
    PAGEABLE,
    PEER,
    PEER_ASYNC,
    PINNED,
    STREAM_SYNC,
    SYNC,
    Fake,
)
from tileprof.profile.sketch import bucket_of

# -- conservation


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
            if i % 8 == 0:
                fake.wait(STREAM_SYNC, 3, at, at + 7 * i)


@pytest.mark.parametrize("shuffle", [0, 64, 10_000])
def test_totals_are_the_sums_of_the_records(fake: Fake, shuffle: int) -> None:
    """In whatever order they come."""
    fake.option("shuffle", shuffle)
    launch_mixture(fake)
    rows = fake.rows()
    for kind, what in ((KERNEL, "kernel"), (MEMCPY, "memcpy"), (MEMSET, "memset"), (SYNC, "sync")):
        own = [r for r in rows if r.what == what]
        assert (sum(r.count for r in own), sum(r.sum for r in own)) == fake.delivered(kind)
    assert fake.delivered(KERNEL)[0] == 400
    assert sum(r.bytes for r in rows if r.what == "memcpy") == sum(64 + i for i in range(0, 400, 4))
    assert fake.counts() == {"records": 630, "kernels": 400, "launches": 400}


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


# -- where it was launched


def test_launches_are_told_by_the_drivers_call(fake: Fake) -> None:
    """Without what tells its versions apart."""
    for number in (LAUNCH, LAUNCH_PTSZ, LAUNCH_EX, COOPERATIVE):
        with fake.range("train"):
            fake.kernel(number=number)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [
        ("train cuLaunchCooperativeKernel", 1),
        ("train cuLaunchKernel", 2),
        ("train cuLaunchKernelEx", 1),
    ]


def test_calls_that_leave_no_records_are_not_listened_to(fake: Fake) -> None:
    """Host functions, and questions whether an event has come."""
    listened = fake.c.fake_listened
    assert [listened(1, n) for n in (LAUNCH, ALLOC, HOST_FUNC, EVENT_QUERY, 1)] == [1, 1, 0, 0, 0]


def test_what_breaks_samples_is_never_asked_for(fake: Fake) -> None:
    """Profiled modules and serialized kernels: with them, samples of program counters stay away."""
    assert [fake.c.fake_listened(3, n) for n in (8, NODE_CREATED, NODE_CLONED)] == [0, 1, 1]
    assert fake.c.fake_kinds() == sum(1 << k for k in (10, 1, 2, 22, 38, 17, 49))


def test_our_own_kernels_are_told_by_their_node(fake: Fake) -> None:
    """While the thread is launching one; copies and other threads stay the driver's."""
    entered = fake.recorder.enter_kernel(42)
    fake.kernel()
    fake.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 2000, 2100)
    thread = threading.Thread(target=fake.kernel)
    thread.start()
    thread.join()
    fake.recorder.leave(entered)
    fake.kernel()
    assert [(r.what, r.path, r.count) for r in fake.rows() if r.what != "idle"] == [
        ("kernel", "#42", 1),
        ("memcpy", "#42 cuMemcpyHtoDAsync", 1),
        ("kernel", "cuLaunchKernel", 2),
    ]


def test_variants_differ_in_all_that_decides_occupancy(fake: Fake) -> None:
    """And in device and name; the grid is not part of them."""
    shapes: list[dict[str, object]] = [
        {},
        {"grid": (9, 1, 1)},
        {"block": (64, 2, 1)},
        {"cluster": (2, 1, 4)},
        {"registers": 255},
        {"static_shared": 1024},
        {"dynamic_shared": 232_448},
        {"local": 16},
        {"device": 1},
    ]
    for shape in shapes * 2:
        fake.kernel("_Z3addPf", **shape)  # type: ignore[arg-type]
    fake.kernel("mul")
    fake.kernel(None)
    rows = fake.rows("kernel")
    variants = fake.recorder.gpu_variants()
    assert sorted(r.count for r in rows) == [1, 1, 2, 2, 2, 2, 2, 2, 2, 4]
    assert [r.detail for r in rows] == list(range(10))
    assert variants == [
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (64, 2, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (2, 1, 4), 0, 0, 0),
        ("_Z3addPf", 0, 255, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 1024, 0, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 232_448, 0),
        ("_Z3addPf", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 16),
        ("_Z3addPf", 1, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("mul", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
        ("", 0, 0, (1, 1, 1), (0, 0, 0), 0, 0, 0),
    ]
    assert fake.recorder.gpu_variants(8) == variants[8:]
    assert fake.recorder.demangled("_Z3addPf") == "add(float*)"
    assert fake.recorder.demangled("plain") == "plain"


def test_more_kernels_than_are_remembered_at_once(fake: Fake) -> None:
    """Each keeps its number."""
    for _ in range(2):
        for i in range(6000):
            fake.kernel(f"kernel {i}", start=1000 + i, end=1001 + i)
    rows = fake.rows("kernel")
    assert len(rows) == len(fake.recorder.gpu_variants()) == 6000
    assert {r.count for r in rows} == {2}


def test_records_belong_to_those_who_recorded_at_the_launch(fake: Fake) -> None:
    """However late they come; what was launched while nobody recorded is in no total."""
    first = fake.call()
    fake.recorder.set_epoch(2)
    second = fake.call()
    fake.recorder.set_epoch(0)
    third = fake.call()
    fake.recorder.set_epoch(3)
    for correlation in (third, second, first):
        fake.kernel(correlation=correlation)
    assert sorted((r.epoch, r.count) for r in fake.rows("kernel")) == [(1, 1), (2, 1)]
    assert fake.counts()["outside"] == 1


def test_records_of_unknown_launches_are_under_the_root(fake: Fake) -> None:
    """They are part of what the device did."""
    fake.kernel(correlation=4_000_000_000)
    fake.kernel(correlation=0)
    assert [(r.path, r.epoch, r.count) for r in fake.rows("kernel")] == [("", 1, 2)]
    assert fake.counts()["unattributed"] == 2


def test_a_late_record_finds_its_launch(fake: Fake) -> None:
    """After more launches than there are slots for, in the slot's turn or long after."""
    with fake.range("early"):
        early = [fake.call() for _ in range(20)]
    fake.many(300_000, batch=10_000)
    fake.deliver()
    for correlation in early:
        fake.kernel("late", correlation=correlation)
    rows = fake.rows("kernel")
    assert [(r.path, r.count) for r in rows] == [
        ("cuLaunchKernel", 300_000),
        ("early cuLaunchKernel", 20),
    ]
    assert "evicted" not in fake.counts()


def test_launches_that_are_given_up_are_counted(fake: Fake) -> None:
    """Where records of very many launches never come, the oldest are forgotten."""
    early = fake.call()
    fake.time_calls(600_000)
    fake.kernel("late", correlation=early)
    assert fake.counts()["evicted"] > 100_000
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("", 1)]


def test_calls_without_records_do_not_crowd_out_launches(fake: Fake) -> None:
    """Allocations that a version of CUPTI does not record are no loss, however many."""
    early = fake.call()
    fake.time_calls(600_000, ALLOC)
    assert "evicted" not in fake.counts()
    fake.kernel("late", correlation=early)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("cuLaunchKernel", 1)]


def test_failed_launches_are_not_waited_for(fake: Fake) -> None:
    """They leave no record, and are not taken for lost."""
    for _ in range(600_000 // 100):
        correlation = fake.c.fake_enter(LAUNCH)
        fake.c.fake_exit(LAUNCH, correlation, 700)
    fake.c.fake_time_calls(ctypes.c_uint64(300_000), EVENT_QUERY)  # numbers without callbacks
    fake.many(300_000, batch=10_000)
    assert "evicted" not in fake.counts()


def test_calls_within_calls_are_left_in_order(fake: Fake) -> None:
    """And callbacks whose counterpart is missing harm nothing."""
    fake.c.fake_exit(LAUNCH, 12345, 0)
    outer = fake.c.fake_enter(ALLOC)
    inner = fake.c.fake_enter(LAUNCH)
    fake.c.fake_exit(LAUNCH, inner, 0)
    fake.c.fake_exit(ALLOC, outer, 0)
    lost = fake.c.fake_enter(LAUNCH)
    outer = fake.c.fake_enter(ALLOC)
    fake.c.fake_exit(LAUNCH, lost, 0)
    for correlation in (inner, lost, fake.call()):
        fake.kernel(correlation=correlation)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [
        ("cuLaunchKernel", 2),
        ("cuMemAlloc cuLaunchKernel", 1),
    ]


# -- graphs


def test_replayed_kernels_have_the_paths_of_their_capture(fake: Fake) -> None:
    """Under that of the launch, each time; a copy of a node is the node."""
    for node, name in ((100, "forward"), (101, "backward")):
        with fake.range(name):
            captured = fake.c.fake_enter(LAUNCH)
            fake.node(NODE_CREATED, node)
            fake.c.fake_exit(LAUNCH, captured, 0)
    fake.node(NODE_CLONED, 200, 100)
    fake.node(NODE_CLONED, 201, 101)
    for step in range(3):
        with fake.range(f"replay{step % 2}"):
            launched = fake.call(GRAPH_LAUNCH)
        for node in (200, 201, 201):
            fake.kernel(f"k{node}", correlation=launched, node=node)
        fake.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 2000, 2100, correlation=launched, node=201)
    rows = [r for r in fake.rows() if r.what != "idle"]
    forward, backward = "[forward cuLaunchKernel]", "[backward cuLaunchKernel]"
    assert sorted((r.path, r.what, r.count) for r in rows) == [
        (f"replay0 cuGraphLaunch {backward}", "kernel", 4),
        (f"replay0 cuGraphLaunch {backward}", "memcpy", 2),
        (f"replay0 cuGraphLaunch {forward}", "kernel", 2),
        (f"replay1 cuGraphLaunch {backward}", "kernel", 2),
        (f"replay1 cuGraphLaunch {backward}", "memcpy", 1),
        (f"replay1 cuGraphLaunch {forward}", "kernel", 1),
    ]
    assert set(fake.counts()) == {"records", "kernels", "launches"}


def test_graphs_captured_before_the_start_are_under_their_launch(fake: Fake) -> None:
    """Which kernels these are is told."""
    with fake.range("replay"):
        launched = fake.call(GRAPH_LAUNCH)
    fake.node(NODE_CLONED, 301, 300)
    for node in (300, 301):
        fake.kernel(correlation=launched, node=node)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("replay cuGraphLaunch", 2)]
    assert fake.counts()["uncaptured"] == 2


def test_captures_during_an_interruption_are_known_after_it(fake: Fake) -> None:
    """Graphs are often captured once and replayed for hours."""
    fake.recorder.gpu_pause()
    with fake.range("capture"):
        fake.node(NODE_CREATED, 400)
    fake.recorder.gpu_resume()
    fake.kernel(correlation=fake.call(GRAPH_LAUNCH), node=400)
    assert [r.path for r in fake.rows("kernel")] == ["cuGraphLaunch [capture]"]


def test_a_long_replay_keeps_its_launch(fake: Fake) -> None:
    """Records of one launch may come in many parts, with many launches between."""
    with fake.range("replay"):
        launched = fake.call(GRAPH_LAUNCH)
    with fake.range("capture"):
        fake.node(NODE_CREATED, 500)
    for _ in range(3):
        fake.kernel("node", correlation=launched, node=500)
        fake.many(200_000, batch=10_000)
    rows = [r for r in fake.rows("kernel") if "Graph" in r.path]
    assert [(r.path, r.count) for r in rows] == [("replay cuGraphLaunch [capture]", 3)]


# -- copies, fills, waits, overheads, allocations


def test_copies_tell_direction_and_kind_of_memory(fake: Fake) -> None:
    """As (direction, source, target, asynchronous, device, other device)."""
    fake.copy(HTOD_ASYNC, PINNED, DEVICE, 100, 1000, 1010, kind=1, flags=1)
    fake.copy(HTOD_ASYNC, PAGEABLE, DEVICE, 200, 2000, 2010, kind=1, flags=1)
    fake.copy(DTOH, DEVICE, PAGEABLE, 300, 3000, 3030, kind=2, flags=0, device=3)
    fake.copy(PEER_ASYNC, DEVICE, DEVICE, 400, 4000, 4040, kind=10, flags=1, device=2, peer=5)

    def parts(detail: int) -> tuple[int, ...]:
        return (detail & 15, detail >> 4 & 15, detail >> 8 & 15, detail >> 12 & 1,
                detail >> 16 & 255, detail >> 24)  # fmt: skip

    rows = {parts(r.detail): (r.path, r.count, r.bytes, r.sum) for r in fake.rows("memcpy")}
    assert rows == {
        (1, PINNED, DEVICE, 1, 0, 0): ("cuMemcpyHtoDAsync", 1, 100, 10),
        (1, PAGEABLE, DEVICE, 1, 0, 0): ("cuMemcpyHtoDAsync", 1, 200, 10),
        (2, DEVICE, PAGEABLE, 0, 3, 0): ("cuMemcpyDtoH", 1, 300, 30),
        (10, DEVICE, DEVICE, 1, 2, 5): ("cuMemcpyPeerAsync", 1, 400, 40),
    }
    assert fake.delivered(PEER) == (1, 40)


def test_waits_have_their_call_and_type(fake: Fake) -> None:
    """Time of the host, in the context of the call that waited."""
    with fake.range("loss"):
        fake.wait(STREAM_SYNC, 3, 1000, 1500)
        fake.wait(CTX_SYNC, 4, 2000, 2700)
    assert [(r.path, r.detail, r.count, r.sum) for r in fake.rows("sync")] == [
        ("loss cuCtxSynchronize", 4, 1, 700),
        ("loss cuStreamSynchronize", 3, 1, 500),
    ]
    assert fake.rows("idle") == []


def test_overheads_are_under_the_call_they_delayed(fake: Fake) -> None:
    """Or under the root; their data is freed."""
    fake.c.fake_overhead(fake.call(), 5 << 16, *map(ctypes.c_uint64, (1000, 1400)), 0)
    fake.c.fake_overhead(0, 1 << 16, *map(ctypes.c_uint64, (2000, 2100)), 0)
    fake.c.fake_overhead(0, 6 << 16, *map(ctypes.c_uint64, (3000, 3200)), 1)
    assert [(r.path, r.detail >> 16, r.sum) for r in fake.rows("overhead")] == [
        ("", 1, 100),
        ("", 6, 200),
        ("cuLaunchKernel", 5, 400),
    ]
    assert "unattributed" not in fake.counts()


def test_allocations_are_live_until_they_are_released(fake: Fake) -> None:
    """By device and kind of memory; releases of what was there before are not counted."""
    with fake.range("load"):
        fake.memory(1, 0x1000, 500)
        fake.memory(1, 0x2000, 700)
    fake.memory(2, 0x1000, 500)
    fake.memory(2, 0x9000, 99)
    fake.memory(1, 0x1000, 100)
    fake.memory(1, 0x1000, 40, device=1, memory=PINNED)
    rows = [(r.path, r.detail & 15, r.detail >> 4 & 15, r.detail >> 16, r.count, r.bytes)
            for r in fake.rows("memory")]  # fmt: skip
    assert rows == [
        ("cuMemAlloc", DEVICE, 1, 0, 1, 100),
        ("cuMemAlloc", PINNED, 1, 1, 1, 40),
        ("cuMemFree", DEVICE, 2, 0, 2, 599),
        ("load cuMemAlloc", DEVICE, 1, 0, 2, 1200),
    ]
    assert fake.recorder.gpu_allocations() == [
        (0, DEVICE, 800, 1200, 1300, 500, 3, 1),
        (1, PINNED, 40, 40, 40, 0, 1, 0),
    ]


# -- the timeline


def test_the_timeline_keeps_the_newest_events(stopped: Fake) -> None:
    """As many as were asked for; how many gave way is told."""
    assert stopped.start(timeline=3) == (0, "")
    for i in range(4):
        stopped.kernel(f"k{i}", start=1000 * i + 1, end=1000 * i + 500, stream=i)
    stopped.copy(HTOD_ASYNC, PINNED, DEVICE, 8, 9000, 9100, device=1)
    stopped.recorder.gpu_flush(True)
    timeline = stopped.recorder.gpu_drain()["timeline"]
    names = stopped.recorder.gpu_variants()
    events = list(
        zip(*(timeline[c].tolist() for c in ("start", "end", "what", "device", "stream")))
    )
    assert events == [(2001, 2500, 1, 0, 2), (3001, 3500, 1, 0, 3), (9000, 9100, 2, 1, 7)]
    assert [names[d][0] for d in timeline["detail"][:2]] == ["k2", "k3"]
    assert [stopped.path_of(c) for c in timeline["context"].tolist()] == [
        "cuLaunchKernel", "cuLaunchKernel", "cuMemcpyHtoDAsync"]  # fmt: skip
    assert [stopped.path_of(c) for c in timeline["launch"].tolist()] == [
        "cuLaunchKernel", "cuLaunchKernel", "cuMemcpyHtoDAsync"]  # fmt: skip
    assert timeline["overwritten"] == stopped.counts()["overwritten"] == 2
    assert stopped.recorder.gpu_drain()["timeline"]["start"].size == 0


def test_device_events_name_the_call_that_launched_them(stopped: Fake) -> None:
    """By its context and the time when it began, which are those of the call on its thread."""
    stopped.recorder.host_limit_timeline(10)
    assert stopped.start(timeline=10) == (0, "")
    for start in (1000, 2000):
        stopped.kernel(start=start, end=start + 10)
    stopped.recorder.gpu_flush(True)
    device = stopped.recorder.gpu_drain()["timeline"]
    host = stopped.recorder.host_drain()
    stopped.recorder.host_limit_timeline(0)
    assert len(set(device["launched"].tolist())) == 2
    assert device["launched"].tolist() == host["start"].tolist()
    assert device["launch"].tolist() == host["context"].tolist()


def test_the_timeline_is_switched_while_recording(stopped: Fake) -> None:
    """More room keeps what is there, less room the newest of it, none nothing."""
    assert stopped.start(timeline=3) == (0, "")
    for start in (1000, 2000, 3000, 4000):
        stopped.kernel(start=start, end=start + 10)
    stopped.recorder.gpu_flush(True)
    stopped.recorder.gpu_limit_timeline(4)
    stopped.kernel(start=5000, end=5010)
    stopped.recorder.gpu_flush(True)
    stopped.recorder.gpu_limit_timeline(2)
    timeline = stopped.recorder.gpu_drain()["timeline"]
    assert (timeline["start"].tolist(), timeline["overwritten"]) == ([4000, 5000], 3)
    stopped.recorder.gpu_limit_timeline(0)
    stopped.kernel()
    stopped.recorder.gpu_flush(True)
    timeline = stopped.recorder.gpu_drain()["timeline"]
    assert (timeline["start"].size, timeline["overwritten"]) == (0, 0)


def test_without_being_asked_there_is_no_timeline(fake: Fake) -> None:
    """Its memory is not there either."""
    fake.kernel()
    fake.recorder.gpu_flush(True)
    assert fake.recorder.gpu_drain()["timeline"]["start"].size == 0


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
