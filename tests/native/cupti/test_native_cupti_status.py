"""Starting, interrupting and ending a recording; other tools; versions of CUPTI."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import struct
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.native.cupti_programs import (
    ALLOC,
    GRAPH_LAUNCH,
    KERNEL,
    KINDS,
    LAUNCH,
    MEMCPY,
    MEMSET,
    NODE_CREATED,
    WAIT_EVENT,
    Fake,
    wait_until,
)
from tests.repeated import in_one_of_five_runs
from tileprof.profiler.cupti import cupti_library
from tileprof.profiler.cupti.cupti_library import find_cupti

NOTHING_STARTED = (-3, "there is no recording")


def test_without_a_recording_there_is_nothing_to_end(stopped: Fake) -> None:
    """Each says so; what is to be read is empty."""
    recorder = stopped.recorder
    for function in (recorder.gpu_stop, recorder.gpu_pause, recorder.gpu_resume,
                     recorder.gpu_reclaim, recorder.gpu_flush, recorder.gpu_health):  # fmt: skip
        assert function() == NOTHING_STARTED
    assert not recorder.gpu_started()
    assert stopped.counts() == {}
    assert recorder.gpu_drain()["count"].size == 0


def test_libraries_that_cannot_be_used(stopped: Fake, tmp_path: Path) -> None:
    """Are named, with the reason."""
    recorder = stopped.recorder
    code, text = recorder.gpu_start(str(tmp_path / "libcupti.so.13"), KINDS)
    assert code == recorder.GPU_CODES["not_loaded"]
    assert "libcupti.so.13" in text
    code, text = recorder.gpu_start("libm.so.6", KINDS)
    assert (code, text) == (-1, "libm.so.6 has no function cuptiGetVersion")
    assert not recorder.gpu_started()


def test_a_recording_begins_once(fake: Fake) -> None:
    """And can begin again once it has ended."""
    assert fake.start() == (-2, "the recording has begun already")
    assert fake.recorder.gpu_version() == 130001
    fake.kernel()
    assert fake.recorder.gpu_stop() == (0, "")
    assert not fake.recorder.gpu_started()
    assert fake.c.fake_listened(1, LAUNCH) == fake.c.fake_kinds() == 0
    fake.kernel()
    assert fake.start() == (0, "")
    fake.kernel()
    assert [r.count for r in fake.rows("kernel")] == [2]


def test_another_subscriber_is_named(stopped: Fake) -> None:
    """Only one tool can listen; nothing is left on."""
    stopped.option("subscribe_result", 39)
    assert stopped.start() == (
        39,
        "another tool listens to CUPTI in this process: CUPTI for Somebody",
    )
    assert stopped.c.fake_kinds() == 0
    stopped.option("subscribe_result", 0)
    assert stopped.start() == (0, "")


def test_errors_of_cupti_have_their_text(stopped: Fake) -> None:
    """Where there is no driver, or no permission."""
    stopped.option("subscribe_result", 999)
    assert stopped.start() == (999, "cannot subscribe to CUPTI: FAKE_ERROR")
    stopped.option("subscribe_result", 0)
    stopped.option("refused_kind", KERNEL)
    assert stopped.start() == (27, "CUPTI collects no records: FAKE_ERROR")
    assert stopped.c.fake_kinds() == 0
    assert not stopped.recorder.gpu_started()


def test_kinds_that_are_not_to_be_had_are_left_out(stopped: Fake) -> None:
    """The others are collected."""
    stopped.option("refused_kind", MEMCPY)
    assert stopped.start() == (0, "")
    assert stopped.recorder.gpu_kinds() == sorted(set(KINDS) - {MEMCPY})


def test_a_pause_turns_everything_off(fake: Fake) -> None:
    """What is launched in it costs nothing and is not recorded; what was under way is."""
    early = fake.call()
    assert fake.recorder.gpu_pause() == (0, "")
    assert fake.c.fake_listened(1, LAUNCH) == 0
    # With no kind at all CUPTI would not see which modules are loaded.
    assert fake.c.fake_kinds() == 1 << MEMSET
    fake.kernel("lost")
    assert fake.recorder.gpu_resume() == (0, "")
    assert fake.c.fake_listened(1, LAUNCH) == 1
    fake.kernel(correlation=early)
    fake.kernel(start=5000, end=5100)
    assert [(r.path, r.count) for r in fake.rows("kernel")] == [("cuLaunchKernel", 2)]


def test_fills_of_a_pause_are_not_counted(fake: Fake) -> None:
    """CUPTI goes on to make records of them, which may be handed over late."""
    assert fake.recorder.gpu_pause() == (0, "")
    fake.fill(4096, 100, 200)
    assert fake.recorder.gpu_resume() == (0, "")
    later = time.monotonic_ns() + 10**9
    fake.fill(8192, later, later + 50)
    assert [(r.path, r.count, r.bytes) for r in fake.rows("memset")] == [
        ("cuMemsetD8Async", 1, 8192)
    ]
    assert "unattributed" not in fake.counts()


def test_a_flush_that_hangs_is_given_up(fake: Fake) -> None:
    """The program goes on, and so does its end, while CUPTI's call has not returned."""
    fake.option("flush_ms", 60_000)
    fake.kernel()
    timed_out = (
        fake.recorder.GPU_CODES["timed_out"],
        "CUPTI did not hand over its records in time",
    )
    assert fake.recorder.gpu_flush(True, 0.05) == timed_out
    assert fake.recorder.gpu_stop(0.05) == timed_out
    assert fake.recorder.gpu_counts()["kernels"] == 0
    fake.option("flush_ms", 0)
    wait_until(lambda: fake.recorder.gpu_counts()["kernels"] == 1)


def test_flushes_wait_for_one_that_hangs_instead_of_hanging_too(fake: Fake) -> None:
    """It holds up one thread, however long; once it has returned, flushes work again."""
    before = {*os.listdir("/proc/self/task")}
    fake.option("flush_ms", 60_000)
    fake.kernel()
    for _ in range(5):
        code, _text = fake.recorder.gpu_flush(False, 0.02)
        assert code == fake.recorder.GPU_CODES["timed_out"]
    # Threads of other tests may end meanwhile.
    assert len({*os.listdir("/proc/self/task")} - before) == 1
    fake.option("flush_ms", 0)
    assert fake.recorder.gpu_flush(False, 10) == (0, "")
    assert fake.recorder.gpu_counts()["kernels"] == 1


@in_one_of_five_runs
def test_flushes_and_launches_keep_apart(fake: Fake) -> None:
    """Of four threads; CUPTI 13.0 crashes otherwise."""
    launching = threading.Thread(target=fake.c.fake_threads, args=(4, 5000, 0))
    launching.start()
    flushes = 0
    while launching.is_alive():
        assert fake.recorder.gpu_flush(False) == (0, "")
        flushes += 1
    launching.join()
    assert flushes > 10
    assert fake.option_now("met_launches") == 0


def test_a_flush_does_not_wait_for_a_launch_that_never_returns(fake: Fake) -> None:
    """As where the device's queue is full; records of others are handed over."""
    stuck = fake.c.fake_enter(LAUNCH)
    fake.kernel()
    assert fake.recorder.gpu_flush(False) == (0, "")
    assert fake.option_now("met_launches") == 1
    assert [row.count for row in fake.rows("kernel")] == [1]
    fake.c.fake_exit(LAUNCH, stuck, 0)


def test_graphs_keep_apart_from_waits_for_events(fake: Fake) -> None:
    """Of other threads: CUPTI 13.0 may wait for ever where the two meet. Several of one kind do not
    wait for each other, and neither kind keeps the other out."""
    fake.c.fake_call(GRAPH_LAUNCH)
    count, ns = 3000, 5_000
    threads = [
        threading.Thread(
            target=fake.c.fake_long_calls,
            args=(ctypes.c_uint64(count), number, ctypes.c_uint64(ns)),
        )
        for number in (GRAPH_LAUNCH, GRAPH_LAUNCH, WAIT_EVENT, WAIT_EVENT)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One that the system takes off its core for a fifth of a second is not waited for.
    assert fake.option_now("met_graphs") < count / 100


@pytest.mark.parametrize(
    ("stuck", "other"), [(WAIT_EVENT, GRAPH_LAUNCH), (GRAPH_LAUNCH, WAIT_EVENT)]
)
def test_a_graph_does_not_wait_long_for_a_call_that_blocks(
    fake: Fake, stuck: int, other: int
) -> None:
    """As a launch does where the device's queue is full, or whose end CUPTI did not report."""
    fake.c.fake_call(GRAPH_LAUNCH)
    blocked = fake.c.fake_enter(stuck)
    before = fake.option_now("met_graphs")
    threads = [threading.Thread(target=fake.c.fake_call, args=(other,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert fake.option_now("met_graphs") == before + 3
    fake.c.fake_exit(stuck, blocked, 0)


def test_waits_for_events_are_followed_from_the_first_graph_on(fake: Fake) -> None:
    """A program without graphs pays nothing for what keeps graphs apart."""
    fake.call(LAUNCH)
    assert not fake.c.fake_listened(1, WAIT_EVENT)
    fake.call(GRAPH_LAUNCH)
    assert fake.c.fake_listened(1, WAIT_EVENT)
    assert fake.recorder.gpu_pause() == (0, "")
    assert not fake.c.fake_listened(1, WAIT_EVENT)


def test_a_forced_flush_waits_for_what_was_launched(fake: Fake) -> None:
    """While it is under way, its record has no times."""
    fake.option("unfinished", 20)
    fake.many(10)
    assert fake.recorder.gpu_flush(True) == (0, "")
    (row,) = fake.rows("kernel")
    assert (row.count, row.untimed, row.sum) == (10, 0, 1000)


def test_a_forced_flush_does_not_wait_for_ever(fake: Fake) -> None:
    """What is under way after all is handed over without times."""
    fake.option("unfinished", 10**9)
    fake.many(10)
    assert fake.recorder.gpu_flush(True, 0.4) == (0, "")
    fake.option("unfinished", 0)
    (row,) = fake.rows("kernel")
    assert (row.count, row.untimed) == (10, 10)


def test_buffers_that_are_refused_are_dropped_records(stopped: Fake) -> None:
    """Very small buffers do, and are used again."""
    assert stopped.start(buffer_bytes=4096) == (0, "")
    for i in range(1000):
        stopped.kernel(start=1000 * i + 1, end=1000 * i + 101)
    assert [r.count for r in stopped.rows("kernel")] == [1000]


# -- other tools


def test_a_subscription_that_another_tool_ended(fake: Fake) -> None:
    """As cuptiFinalize does."""
    assert fake.recorder.gpu_health() == (0, "")
    fake.option("lost")
    assert fake.recorder.gpu_health() == (
        fake.recorder.GPU_CODES["subscription_lost"],
        "another tool has ended the subscription to CUPTI",
    )


def test_records_of_a_lost_subscription_are_not_waited_for(fake: Fake) -> None:
    """They do not come any more; those of one that stands are waited for."""

    def flushed_in() -> float:
        began = time.monotonic()
        assert fake.recorder.gpu_flush(True, 1.0) == (0, "")
        return time.monotonic() - began

    fake.option("unfinished", 10**9)
    fake.many(10)
    waited = flushed_in()
    fake.many(10)
    fake.option("lost")
    assert flushed_in() < waited / 2


def test_records_that_another_tool_took_over(fake: Fake) -> None:
    """Calls come, records do not; once it lets go, they are taken back."""
    fake.kernel()
    fake.recorder.gpu_flush(True)
    fake.option("stolen")
    fake.many(100)
    fake.recorder.gpu_flush(True)
    assert fake.recorder.gpu_health() == (
        fake.recorder.GPU_CODES["records_elsewhere"],
        "another tool has taken CUPTI's records over: calls come, records do not",
    )
    fake.option("stolen", 0)
    fake.c.cuptiActivityDisable(KERNEL)
    assert fake.recorder.gpu_reclaim() == (0, "")
    assert fake.recorder.gpu_health() == (0, "")
    fake.kernel()
    assert sum(r.count for r in fake.rows("kernel")) == 2
    assert fake.recorder.gpu_health() == (0, "")


def test_a_quiet_program_is_healthy(fake: Fake) -> None:
    """No records without launches is as it should be."""
    for _ in range(3):
        fake.recorder.gpu_flush(True)
        assert fake.recorder.gpu_health() == (0, "")


def test_a_program_that_only_captures_is_healthy(fake: Fake) -> None:
    """Captured launches leave no records, and a flush does not ask for them again and again."""
    captured = fake.c.fake_enter(LAUNCH)
    fake.node(NODE_CREATED, 7)
    fake.c.fake_exit(LAUNCH, captured, 0)
    fake.option("unfinished", 10**9)
    fake.recorder.gpu_flush(True)
    assert 10**9 - fake.option_now("unfinished") <= 2
    assert fake.recorder.gpu_health() == (0, "")


def test_records_that_others_asked_for_are_passed_over(fake: Fake) -> None:
    """And counted: they come to whoever registered last."""
    fake.kernel()
    fake.c.fake_foreign(4)
    fake.c.fake_foreign(5)
    fake.kernel(start=5000, end=5100)
    assert [r.count for r in fake.rows("kernel")] == [2]
    assert fake.counts()["foreign"] == 2


# -- versions


@pytest.mark.parametrize("size", [208, 216, 248])
def test_records_of_other_versions(stopped: Fake, size: int) -> None:
    """Their length is asked of the library; the fields that are read are where they always were."""
    stopped.c.fake_size(KERNEL, size)
    assert stopped.recorder.gpu_record_sizes(stopped.path)[KERNEL] == size
    assert stopped.start() == (0, "")
    for i in range(1000):
        stopped.kernel(f"k{i % 3}", 1000 * i + 1, 1000 * i + 101, cluster=(2, 1, 1))
    rows = stopped.rows("kernel")
    assert sum(r.count for r in rows) == 1000
    assert [v[4] for v in stopped.recorder.gpu_variants()] == [(2, 1, 1)] * 3


def test_records_too_short_to_be_read(stopped: Fake) -> None:
    """No number is guessed."""
    stopped.c.fake_size(KERNEL, 104)
    code, text = stopped.start()
    assert code == stopped.recorder.GPU_CODES["unknown_records"]
    assert "records of kind 10 have 104 bytes" in text
    assert not stopped.recorder.gpu_started()


def test_a_length_that_the_library_tells_wrongly(fake: Fake) -> None:
    """The first buffer is compared with the library's own walk, which is then followed."""
    fake.c.fake_size(KERNEL, 224)
    for i in range(100):
        fake.kernel(start=1000 * i + 1, end=1000 * i + 101)
    assert [r.count for r in fake.rows("kernel")] == [100]


def test_lengths_in_nvidias_own_library(stopped: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the played one has them, and as its own walk over mixed records steps over them.

    Asking needs no driver up to version 13.3.
    """
    # Copies that are loaded already are those that other tests play.
    monkeypatch.setattr(cupti_library, "_loaded", list)
    library = find_cupti()
    if library is None:
        pytest.skip("could not import 'nvidia.cuda_cupti': no libcupti")
    sizes = stopped.recorder.gpu_record_sizes(str(library.path))
    played = stopped.recorder.gpu_record_sizes(stopped.path)
    assert {kind: sizes.get(kind) for kind in KINDS} == {kind: played[kind] for kind in KINDS}

    chance = random.Random(1)
    kinds = [chance.choice((*KINDS, 4, 5)) for _ in range(2000)]
    records = b"".join(struct.pack("I", kind).ljust(sizes[kind], b"\0") for kind in kinds)
    buffer = (ctypes.c_uint64 * (len(records) // 8)).from_buffer_copy(records)
    base, record = ctypes.addressof(buffer), ctypes.c_void_p()
    next_record = ctypes.CDLL(str(library.path)).cuptiActivityGetNextRecord
    stepped = []
    while not next_record(ctypes.c_void_p(base), ctypes.c_size_t(len(records)),
                          ctypes.byref(record)):  # fmt: skip
        stepped.append((record.value or 0) - base)
    assert stepped == [0, *itertools.accumulate(sizes[kind] for kind in kinds[:-1])]


# -- processes


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_child_begins_with_nothing(fake: Fake) -> None:
    """And may record for itself, though its copy of the library has the parent's subscriber."""
    fake.kernel()
    fake.recorder.gpu_flush(True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fake.recorder.after_fork()
            fake.recorder.gpu_after_fork()
            clean = not fake.recorder.gpu_started() and fake.counts() == {}
            if clean and fake.start() == (0, ""):
                fake.kernel(start=5000, end=5100)
                code = 0 if [r.count for r in fake.rows("kernel")] == [1] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [r.count for r in fake.rows("kernel")] == [1]


def test_calls_after_the_end_do_nothing(fake: Fake) -> None:
    """Callbacks and buffers that still come are harmless."""
    fake.recorder.gpu_stop()
    fake.many(10)
    fake.deliver()
    assert fake.recorder.gpu_drain()["count"].sum() == 0


@pytest.mark.parametrize("again", ["start", "resume"])
def test_calls_that_were_open_at_the_end(fake: Fake, again: str) -> None:
    """Their ends are never told; later calls are not within them."""
    waiting = fake.c.fake_enter(ALLOC)
    fake.recorder.gpu_pause() if again == "resume" else fake.recorder.gpu_stop()
    fake.c.fake_exit(ALLOC, waiting, 0)
    fake.recorder.gpu_resume() if again == "resume" else fake.start()
    fake.call()
    fake.kernel()
    assert [r.path for r in fake.rows("kernel")] == ["cuLaunchKernel"]
