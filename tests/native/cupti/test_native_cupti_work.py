"""Copies, fills, waits, overheads and allocations of GPUs, and their timeline."""

from __future__ import annotations

import ctypes

from tests.native.cupti_programs import (
    CTX_SYNC,
    DEVICE,
    DTOH,
    HTOD_ASYNC,
    PAGEABLE,
    PEER,
    PEER_ASYNC,
    PINNED,
    STREAM_SYNC,
    Fake,
)


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


def test_waits_have_their_call_and_kind(fake: Fake) -> None:
    """Time of the host, in the context of the call that waited."""
    with fake.range("loss"):
        fake.wait(STREAM_SYNC, 1000, 1500)
        fake.wait(CTX_SYNC, 2000, 2700)
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
    fake.recorder.gpu_flush(True)
    driver = fake.recorder.memory_state()[1]
    columns = ("context", "pool", "allocations", "allocated", "releases", "live", "peak")
    rows = [(fake.path_of(context), *numbers)
            for context, *numbers in zip(*(driver[name].tolist() for name in columns))]  # fmt: skip
    assert rows == [
        ("load cuMemAlloc", 0, 2, 1200, 1, 700, 1200),
        ("cuMemAlloc", 0, 1, 100, 0, 100, 0),
        ("cuMemAlloc", 1, 1, 40, 0, 40, 40),
    ]
    pools = [(p["device"], p["kind"], p["live"], p["peak"]) for p in driver["pools"]]
    assert pools == [(0, DEVICE, 800, 1200), (1, PINNED, 40, 40)]


def test_what_an_allocator_took_from_the_driver_is_its_own(fake: Fake) -> None:
    """Its segments are not counted beside what it hands out of them; others at the address are."""
    events = fake.recorder.MEMORY_EVENTS
    fake.recorder.memory_forget()
    fake.memory(1, 0x1000, 2 << 20)
    fake.recorder.memory_event(events["reserved"], 0, 0x1000, 2 << 20)
    fake.recorder.memory_event(events["allocated"], 0, 0x1000, 512)
    fake.memory(1, 0x9000, 64)
    fake.memory(2, 0x1000, 2 << 20)
    fake.memory(1, 0x1000, 128)
    fake.recorder.gpu_flush(True)
    framework, driver = fake.recorder.memory_state()
    assert driver["allocated"].tolist() == [64 + 128]
    assert (driver["pools"][0]["live"], framework["pools"][0]["live"]) == (192, 512)
    assert framework["pools"][0]["reserved"] == 2 << 20
    fake.recorder.memory_forget()


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
