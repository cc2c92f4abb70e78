"""Device memory by place: sums, lifetimes, what is alive now and at the peak, growth by steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

recorder = pytest.importorskip("tileprof.native._recorder")
EVENTS = recorder.MEMORY_EVENTS
COLUMNS = ("allocations", "allocated", "releases", "live", "peak")


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Nothing is alive, somebody listens, and contexts are without Python's frames."""
    _listen()
    yield
    recorder.memory_forget()
    recorder.set_epoch(0)
    recorder.set_frames(True)
    recorder.set_time(0)


def _listen() -> None:
    recorder.memory_forget()
    recorder.set_frames(False)
    recorder.set_epoch(1)
    recorder.set_time(1000)


def allocate(place: str, address: int, size: int, device: int = 0, at: int = 1000) -> None:
    """Hand out memory in an operation."""
    recorder.set_time(at)
    context = recorder.enter_op(place, -1, 0)
    recorder.memory_event(EVENTS["allocated"], device, address, size)
    recorder.leave(context)


def release(address: int, size: int = 0, device: int = 0, at: int = 1000) -> None:
    """Take memory back, which happens anywhere."""
    recorder.set_time(at)
    recorder.memory_event(EVENTS["released"], device, address, size)


def places(*columns: str) -> dict[str, tuple[int, ...]]:
    """Return the numbers of each operation; '' stands for memory that nobody's path allocated."""
    framework = recorder.memory_state()[0]
    contexts = recorder.contexts(0)
    found = {}
    for row, context in enumerate(framework["context"].tolist()):
        name = recorder.name(contexts[context][2]) if context else ""
        found[name] = tuple(int(framework[column][row]) for column in columns or COLUMNS)
    return found


def pool(device: int = 0) -> dict[str, Any]:
    """Return what is known of a device's memory."""
    (found,) = (each for each in recorder.memory_state()[0]["pools"] if each["device"] == device)
    return dict(found)


def test_peak_is_dealt_out_to_what_was_alive_then() -> None:
    """Blocks that came later or were released before the peak have no part in it."""
    allocate("early", 1, 100)
    release(1)
    allocate("weights", 2, 400)
    allocate("forward", 3, 300)
    allocate("forward", 4, 200, at=5000)
    release(4)
    allocate("backward", 5, 150)
    release(2)
    assert places() == {
        "early": (1, 100, 1, 0, 0),
        "weights": (1, 400, 1, 0, 400),
        "forward": (2, 500, 1, 300, 500),
        "backward": (1, 150, 0, 150, 0),
    }
    assert {key: pool()[key] for key in ("live", "peak", "peak_ns")} == {
        "live": 450, "peak": 900, "peak_ns": 5000,
    }  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7), st.integers(0, 1)), max_size=60))
def test_peak_equals_a_snapshot_taken_there(steps: list[tuple[int, int, int]]) -> None:
    """Against a copy of all that is alive at each new peak."""
    _listen()
    alive: dict[tuple[int, int], tuple[str, int]] = {}
    peak: dict[int, tuple[int, dict[str, int]]] = {0: (0, {}), 1: (0, {})}
    for number, (address, size, device) in enumerate(steps):
        if (device, address) in alive and size % 2:
            del alive[device, address]
            release(address, device=device)
            continue
        alive[device, address] = f"op{number % 3}", size
        allocate(f"op{number % 3}", address, size, device)
        held: dict[str, int] = {}
        for (at, _), (place, bytes_) in alive.items():
            if at == device:
                held[place] = held.get(place, 0) + bytes_
        if sum(held.values()) > peak[device][0]:
            peak[device] = sum(held.values()), held
    framework = recorder.memory_state()[0]
    contexts = recorder.contexts(0)
    found: dict[int, dict[str, int]] = {0: {}, 1: {}}
    rows = zip(*(framework[name].tolist() for name in ("pool", "context", "peak")))
    for at, context, bytes_ in rows:
        if bytes_:
            device = framework["pools"][at]["device"]
            found[device][recorder.name(contexts[context][2])] = bytes_
    assert found == {device: held for device, (_, held) in peak.items()}
    assert framework["blocks"] == len(alive)


def test_lifetimes_are_from_allocation_to_release() -> None:
    """Their sum, and their quantiles."""
    allocate("op", 1, 8, at=1000)
    allocate("op", 2, 8, at=2000)
    release(1, at=1010)
    release(2, at=2030)
    framework = recorder.memory_state()[0]
    assert framework["lifetime"].tolist() == [40]
    assert framework["sketch_bucket"].tolist() == [10, 30]
    assert framework["sketch_count"].tolist() == [1, 1]


def test_memory_from_before_is_nobodys() -> None:
    """It counts for the device's total, and what is released of it is taken off."""
    recorder.memory_event(EVENTS["allocated_before"], 0, 0, 1000)
    recorder.memory_event(EVENTS["reserved_before"], 0, 0, 4096)
    allocate("op", 1, 50)
    release(77, 300)
    assert places() == {"": (0, 0, 0, 700, 1000), "op": (1, 50, 0, 50, 50)}
    assert (pool()["peak"], pool()["live"], pool()["reserved"]) == (1050, 750, 4096)


def test_memory_is_followed_while_nobody_listens() -> None:
    """So that a release in a pause is not taken for a leak."""
    allocate("op", 1, 50)
    recorder.set_epoch(0)
    release(1)
    recorder.memory_event(EVENTS["allocated"], 0, 2, 70)
    recorder.set_epoch(1)
    assert places() == {"op": (1, 50, 1, 0, 0), "": (1, 70, 0, 70, 70)}


def test_memory_of_the_measurement_is_nobodys() -> None:
    """It is on the device all the same."""
    recorder.set_unrecorded(True)
    try:
        allocate("op", 1, 50)
    finally:
        recorder.set_unrecorded(False)
    assert places() == {"": (1, 50, 0, 50, 50)}


def test_next_recording_begins_with_what_is_alive() -> None:
    """Which is nobody's there, and is known when it is released."""
    allocate("op", 1, 50)
    allocate("op", 2, 30)
    release(2)
    recorder.memory_begin_recording()
    assert places() == {"": (0, 0, 0, 50, 50)}
    assert (pool()["peak"], pool()["live"]) == (50, 50)
    release(1)
    assert pool()["live"] == 0


def test_devices_have_peaks_of_their_own() -> None:
    """An address may be on both."""
    allocate("op", 1, 50, device=0)
    allocate("op", 1, 80, device=1)
    release(1, device=0)
    assert (pool(0)["live"], pool(0)["peak"]) == (0, 50)
    assert (pool(1)["live"], pool(1)["peak"]) == (80, 80)


def test_growth_counts_from_the_third_step_on() -> None:
    """Caches fill and optimizers make their states in the first two; what stays flat is no leak."""
    for step in range(8):
        if step == 0:
            allocate("state", 1, 1000)
        allocate("leak", 100 + step, 10)
        allocate("temporary", 50, 7)
        release(50)
        allocate("double", 60 + step % 2, 5 + step % 2)
        recorder.memory_end_step()
    found = places("growth", "grown", "shrunk")
    assert found["leak"] == (60, 6, 0)
    assert found["state"] == found["temporary"] == (0, 0, 0)
    assert found["double"] == (0, 0, 0)


def test_reserved_and_failed_requests_are_told() -> None:
    """Bytes that the allocator took from the driver, and requests that it could not meet."""
    recorder.memory_event(EVENTS["reserved"], 0, 0x1000, 2 << 20)
    recorder.memory_event(EVENTS["mapped"], 0, 0x9000, 1 << 20)
    recorder.memory_event(EVENTS["returned"], 0, 0x1000, 2 << 20)
    recorder.memory_event(EVENTS["failed"], 0, 0, 99)
    recorder.memory_event(EVENTS["failed"], 0, 0, 5)
    assert (pool()["reserved"], pool()["most_reserved"]) == (1 << 20, 3 << 20)
    assert (pool()["failures"], pool()["most_failed"]) == (2, 99)


def test_use_over_time_is_the_most_of_each_stretch() -> None:
    """Stretches without an event have what was alive before."""
    allocate("op", 1, 100, at=1_000_000)
    allocate("op", 2, 400, at=1_050_000)
    release(2, at=1_060_000)
    release(1, at=1_350_000)
    recorder.set_time(1_450_000)
    begin, stretch, most, _ = pool()["over_time"]
    assert (begin, stretch, most.tolist()) == (1_000_000, 100_000, [500, 100, 100, 100, 0])


def test_use_over_time_is_bounded() -> None:
    """Stretches double when there are too many; the peak stays."""
    for number in range(20_000):
        allocate("op", 1, 1000 if number == 7000 else 10, at=1_000_000 + 150_000 * number)
        release(1, at=1_000_000 + 150_000 * number + 10)
    begin, stretch, most, _ = pool()["over_time"]
    assert (begin, most.max(), len(most) <= 4096, stretch) == (1_000_000, 1000, True, 800_000)
    assert most.argmax() == 7000 * 150_000 // stretch
    assert len(most) == 20_000 * 150_000 // stretch + 1 - (20_000 * 150_000 % stretch < 150_000)


def test_paths_that_are_new_go_to_the_nearest_known_one() -> None:
    """The allocator's lock is held, so that nothing waits for Python: once a path is known from
    another event, allocations have it whole."""
    recorder.set_frames(True)

    def inner(call: Callable[[], object]) -> None:
        call()

    first = partial(recorder.memory_event, EVENTS["allocated"], 0, 1, 10)
    second = partial(recorder.memory_event, EVENTS["allocated"], 0, 2, 20)
    for call in (first, recorder.here, second):
        inner(call)
    contexts = recorder.contexts(0)
    framework = recorder.memory_state()[0]
    names = {
        getattr(contexts[context][2], "co_name", ""): size
        for context, size in zip(framework["context"].tolist(), framework["allocated"].tolist())
    }
    assert names["inner"] == 20
    assert sum(names.values()) == 30


def test_threads_allocate_at_their_own_places() -> None:
    """And may release what another one allocated."""

    def work(number: int) -> None:
        for turn in range(500):
            context = recorder.enter_op(f"thread{number}", -1, 0)
            recorder.memory_event(EVENTS["allocated"], 0, number * 1000 + turn, 3)
            recorder.leave(context)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for address in range(1000, 1500):
        release(address)
    found = places("allocations", "live")
    assert found == {f"thread{n}": (500, 0 if n == 1 else 1500) for n in range(4)}
    assert pool()["peak"] == 6000
