"""Samples of program counters: each that a device took is counted once, whatever happens."""

from __future__ import annotations

import os
import random
import sys
import threading
import time

import pytest

from tests.native.cupti_programs import LAUNCH, wait_until
from tests.native.pc_programs import (
    ARRIVE,
    ARRIVE_LATENCY,
    CONTEXT,
    SCOREBOARD,
    SELECTED,
    WAIT,
    WAIT_LATENCY,
    Sampling,
)

PERIOD, STALLS, MODE, START_STOP = 1, 2, 5, 6
CONTEXT_ENDS, MODULE_PROFILED, SERIAL_KERNEL = 2, 8, 3


def take_many(sampling: Sampling, count: int, seed: int = 1) -> None:
    """Samples of a thousand instructions in three functions, as a device takes them."""
    chance = random.Random(seed)
    for _ in range(count):
        reasons = chance.choice([(SELECTED,), (WAIT, WAIT_LATENCY), (SCOREBOARD, SELECTED),
                                 (ARRIVE, ARRIVE_LATENCY, WAIT)])  # fmt: skip
        sampling.sample(chance.choice("fgh"), 16 * chance.randrange(300), reasons,
                        chance.randrange(1, 1000))  # fmt: skip


# -- counting


@pytest.mark.parametrize("copies", [0, 1])
@pytest.mark.parametrize("moved", [0, 3])
def test_every_sample_is_counted_once(sampling: Sampling, copies: int, moved: int) -> None:
    """With reads that have room for fewer instructions than there are, and some come late."""
    sampling.fake.option("pc_copies", copies)
    sampling.start(records=50)
    sampling.launch()
    assert sampling.state() == 3
    for part in range(5):
        take_many(sampling, 1000, seed=part)
        sampling.wait_for_reads()
        sampling.fake.option("pc_moved", moved)
    for offset in range(0, 160, 16):
        sampling.sample("f", offset, (WAIT,), 3, late=True)
    sampling.finish()
    counted = sampling.counted()
    assert counted.samples() == sampling.expected()
    drained = counted.drained
    assert drained["total"] == drained["counted"] == sampling.total()
    lost = ("dropped", "non_user", "overflows", "discarded")
    assert [drained[name] for name in lost] == [0] * 4
    assert {context for *_, context in counted.rows} == {0}
    assert sampling.state() == 0


def test_what_finds_no_room_at_the_end_is_told(sampling: Sampling) -> None:
    """CUPTI discards what does not fit into the buffer that it was given."""
    sampling.start(records=4)
    sampling.launch()
    for offset in range(10):
        sampling.sample("f", 16 * offset, late=True)
    sampling.finish()
    drained = sampling.counted().drained
    assert (drained["counted"], drained["discarded"], drained["total"]) == (4, 6, 10)


def test_losses_are_counted(sampling: Sampling) -> None:
    """Samples that were dropped, and those of kernels that are not told."""
    sampling.start()
    sampling.launch()
    sampling.sample(samples=10)
    sampling.lose(non_user=5, dropped=7)
    sampling.wait_for_reads()
    sampling.lose(dropped=1)
    sampling.finish()
    drained = sampling.counted().drained
    assert [drained[name] for name in ("total", "counted", "dropped", "non_user")] == [23, 10, 8, 5]


def test_samples_that_come_only_when_sampling_stops(sampling: Sampling) -> None:
    """It is stopped now and then while it runs, so that a device's buffer does not fill."""
    sampling.fake.option("pc_only_stopped")
    sampling.start()
    sampling.launch()
    take_many(sampling, 100)
    until = time.monotonic() + 5
    while not sampling.counted().rows:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert sampling.state() == 3
    sampling.finish()
    assert sampling.counted().samples() == sampling.expected()


def test_a_full_buffer_is_emptied_and_counted(sampling: Sampling) -> None:
    """Sampling goes on with a fresh one."""
    sampling.start()
    sampling.launch()
    sampling.overflow()
    until = time.monotonic() + 5
    while sampling.calls_of("enable") < 2 or sampling.state() != 3:
        assert time.monotonic() < until
        time.sleep(0.001)
    sampling.sample(samples=3)
    sampling.finish()
    counted = sampling.counted()
    assert counted.drained["overflows"] == 1
    assert counted.samples() == {("f", 0, "wait"): 3}


def test_a_buffer_that_is_always_full_ends_sampling(sampling: Sampling) -> None:
    """Emptying it takes the program's time."""
    sampling.start()
    sampling.launch()
    until = time.monotonic() + 10
    while not sampling.recorder.pc_status()["code"]:
        sampling.overflow()
        assert time.monotonic() < until
        time.sleep(0.001)
    assert sampling.recorder.pc_status()["code"] == sampling.recorder.GPU_CODES["overflows"]
    assert sampling.state() == 0
    assert sampling.counted().drained["overflows"] == 21


# -- names and modules


def test_names_that_are_copies_are_freed(sampling: Sampling) -> None:
    """Each that was handed over is freed or held, and few are held."""
    sampling.fake.option("pc_copies")
    sampling.start()
    sampling.launch()
    for _ in range(20):
        for offset in range(0, 640, 16):
            sampling.sample("f", offset)
        sampling.wait_for_reads()
    sampling.finish()
    drained = sampling.counted().drained
    assert sampling.fake.c.fake_names() == drained["names_freed"] + drained["names_held"] >= 800
    assert drained["names_held"] <= 120


def test_names_that_records_share_are_not_freed(sampling: Sampling) -> None:
    """They come again, and may be those of kernels' records too."""
    sampling.start()
    sampling.launch()
    for _ in range(20):
        sampling.sample("f")
        sampling.sample("g")
        sampling.wait_for_reads()
    sampling.finish()
    drained = sampling.counted().drained
    assert (drained["names_freed"], drained["names_held"]) == (0, 2)
    assert sampling.fake.c.fake_names() == 2


def test_modules_have_numbers_and_cubins(sampling: Sampling) -> None:
    """One for the same bytes; a module that was loaded before has no bytes but a number."""
    before = sampling.load(b"loaded before")
    sampling.start()
    first, second = sampling.load(b"\x7fELF one"), sampling.load(b"\x7fELF two and more")
    assert sampling.load(b"\x7fELF one") == first != second
    sampling.launch()
    for module in (second, before, first):
        sampling.sample("f", module=module)
        sampling.wait_for_reads(1)
    sampling.finish()
    functions = sampling.counted().drained["functions"]
    cubins = [sampling.recorder.pc_cubin(module) for module, _ in functions]
    assert cubins == [b"\x7fELF two and more", b"", b"\x7fELF one"]
    assert len({module for module, _ in functions}) == 3
    assert {name for _, name in functions} == {"f"}
    assert sampling.recorder.pc_cubin(99) == b""


# -- launches and contexts


def test_exact_samples_know_their_launch(sampling: Sampling) -> None:
    """By the calling context of the launch; kernels run one after the other."""
    sampling.start(exact=True)
    with sampling.fake.range("first"):
        first = sampling.launch()
    with sampling.fake.range("second"):
        second = sampling.launch()
    for correlation, samples in ((first, 3), (second, 4), (first, 5), (10**6, 6)):
        sampling.sample("f", samples=samples, correlation=correlation)
    sampling.finish()
    rows = {sampling.fake.path_of(c): n for (*_, c), n in sampling.counted().rows.items()}
    assert rows == {"first cuLaunchKernel": 8, "second cuLaunchKernel": 4, "": 6}


def test_what_is_configured(sampling: Sampling) -> None:
    """And what keeps samples away is never asked for."""
    sampling.start(log2_period=17)
    sampling.launch()
    assert [sampling.attribute(n) for n in (PERIOD, MODE, START_STOP)] == [17, 1, 1]
    listened = sampling.fake.c.fake_listened
    assert [listened(3, n) for n in (CONTEXT_ENDS, MODULE_PROFILED)] == [1, 0]
    assert not sampling.fake.c.fake_kinds() >> SERIAL_KERNEL & 1
    sampling.finish()
    sampling.configure(exact=True)
    assert sampling.recorder.gpu_resume() == (0, "")
    sampling.launch()
    assert sampling.attribute(MODE) == 2


def test_without_being_asked_nothing_is_sampled(sampling: Sampling) -> None:
    """Nor is anything called or listened to."""
    assert sampling.fake.start() == (0, "")
    sampling.launch()
    sampling.context_ends()
    sampling.finish()
    names = ("enable", "start", "stop", "data", "disable")
    assert [sampling.calls_of(name) for name in names] == [0] * 5
    assert sampling.fake.c.fake_listened(3, CONTEXT_ENDS) == 0
    assert sampling.counted().drained["total"] == 0


def test_a_pause_stops_sampling(sampling: Sampling) -> None:
    """What was taken is counted; going on needs no new launch."""
    sampling.start()
    sampling.launch()
    sampling.sample(samples=2)
    assert sampling.recorder.gpu_pause() == (0, "")
    assert sampling.state() == 1
    assert sampling.counted().samples() == {("f", 0, "wait"): 2}
    sampling.launch()
    sampling.sample(samples=100)
    assert sampling.recorder.gpu_resume() == (0, "")
    assert sampling.state() == 3
    sampling.sample(samples=5)
    sampling.finish()
    assert sampling.counted().samples() == {("f", 0, "wait"): 7}
    assert [sampling.calls_of(name) for name in ("enable", "disable", "start")] == [1, 1, 2]


def test_a_recording_that_goes_on_after_a_forced_flush_samples_on(sampling: Sampling) -> None:
    """Sampling ends before records are forced out, and begins again with the next launch."""
    sampling.start()
    sampling.launch()
    sampling.sample(samples=2)
    assert sampling.recorder.gpu_flush(True, 0.2) == (0, "")
    assert sampling.state() == 0
    sampling.launch()
    assert sampling.state() == 3
    sampling.sample(samples=3)
    sampling.finish()
    assert sampling.counted().samples() == {("f", 0, "wait"): 5}


def test_a_context_that_ends_is_read_first(sampling: Sampling) -> None:
    """Another one at the same address is another context."""
    sampling.start()
    for samples in (2, 3):
        sampling.launch()
        sampling.sample(samples=samples)
        sampling.context_ends()
        assert sampling.state() == 0
    sampling.finish()
    assert sampling.counted().samples() == {("f", 0, "wait"): 5}
    assert sampling.recorder.pc_status()["sampled"] == 2


def test_what_cupti_launches_itself_is_not_recorded(sampling: Sampling) -> None:
    """Enabling does work in the context, on the launching thread."""
    sampling.start()
    for _ in range(3):
        sampling.launch()
    assert sampling.calls_of("enable") == 1
    assert sampling.fake.counts()["launches"] == 3
    sampling.finish()


def test_several_contexts_are_sampled(sampling: Sampling) -> None:
    """One of each device."""
    sampling.fake.option("devices", 3)
    # A launch that comes while samples are read leaves its context to the next launch.
    sampling.start(drain_ms=5000)
    for context in (1, 2, 3, 2, 1):
        sampling.launch(context)
        sampling.sample("f", context, context=context)
    sampling.finish()
    assert sum(sampling.counted().rows.values()) == 5
    assert sampling.recorder.pc_status() == {
        "code": 0, "text": "", "sampled": 3, "refused": 0, "hung": False,
    }  # fmt: skip


def test_a_second_context_of_a_device_is_refused(sampling: Sampling) -> None:
    """Without asking the device; the first one is sampled, launches of both are recorded."""
    sampling.start(drain_ms=5000)
    for context in (1, 2, 2, 1, 2):
        sampling.launch(context)
        sampling.sample("f", context=context)
    sampling.finish()
    assert sampling.counted().samples() == {("f", 0, "wait"): 2}
    assert sampling.calls_of("enable") == 1
    assert sampling.fake.counts()["launches"] == 5
    assert sampling.recorder.pc_status() == {
        "code": 26, "text": "a second context of its device: FAKE_ERROR",
        "sampled": 1, "refused": 1, "hung": False,
    }  # fmt: skip


# -- what can go wrong


@pytest.mark.parametrize(
    ("option", "value", "code", "text"),
    [
        ("pc_enable_result", 35, 35, "enabling: FAKE_ERROR"),
        ("pc_enable_result", 43, 43, "enabling: FAKE_ERROR"),
        ("pc_no_stalls", 1, -8, "counting stall reasons: FAKE_ERROR"),
        ("pc_attribute", 4, 7, "setting attribute 4: FAKE_ERROR"),
        ("pc_start_result", 999, 999, "starting: FAKE_ERROR"),
        ("pc_data_result", 999, 999, "reading: FAKE_ERROR"),
        ("pc_stop_result", 999, 999, "stopping: FAKE_ERROR"),
    ],
)
def test_failures_end_sampling_and_nothing_else(
    sampling: Sampling, option: str, value: int, code: int, text: str
) -> None:
    """Launches are recorded as ever; nothing is tried again, and all is given back."""
    sampling.fake.option(option, value)
    sampling.start()
    for _ in range(3):
        sampling.launch()
        sampling.sample()
        time.sleep(0.02)
    sampling.finish()
    assert sampling.fake.counts()["launches"] == 3
    assert sum(row.count for row in sampling.fake.rows("kernel")) == 3
    status = sampling.recorder.pc_status()
    assert (status["code"], status["text"]) == (code, text)
    assert sampling.calls_of("enable") == 1
    assert sampling.state() == 0


def test_a_device_that_another_process_samples(sampling: Sampling) -> None:
    """CUPTI ends the subscription then, which is told; nobody waits for the launch's end."""
    sampling.fake.option("pc_start_result", 26)
    sampling.start()
    sampling.launch()
    assert sampling.recorder.gpu_health()[0] == sampling.recorder.GPU_CODES["subscription_lost"]
    sampling.recorder.gpu_pause()
    assert sampling.recorder.gpu_stop(3600)[0] != sampling.recorder.GPU_CODES["timed_out"]
    status = sampling.recorder.pc_status()
    assert (status["code"], status["text"]) == (26, "starting: FAKE_ERROR")
    assert sampling.state() == 0


def test_a_call_that_hangs_is_given_up(sampling: Sampling) -> None:
    """The program and its recording go on."""
    sampling.recorder.pc_configure(12, drain_ms=5, patience_s=0.1)
    assert sampling.fake.start() == (0, "")
    sampling.launch()
    sampling.fake.option("pc_stop_ms", 60_000)
    assert sampling.recorder.gpu_pause() == (0, "")
    assert sampling.recorder.gpu_resume() == (0, "")
    sampling.launch()
    assert sampling.recorder.pc_status()["hung"]
    assert sampling.recorder.gpu_stop(0.2) == (0, "")
    assert sampling.fake.option_now("pc_stops") == 0
    sampling.fake.option("pc_stop_ms", 0)
    wait_until(lambda: sampling.fake.option_now("pc_stops") == 1)


def test_a_stop_and_a_launch_do_not_meet(sampling: Sampling) -> None:
    """The later one waits, whichever it is: CUPTI would let both wait for ever."""
    sampling.recorder.pc_configure(12, drain_ms=5)
    assert sampling.fake.start() == (0, "")
    sampling.launch()
    c, done = sampling.fake.c, list[object]()
    under_way = c.fake_enter(LAUNCH)
    pausing = threading.Thread(target=lambda: done.append(sampling.recorder.gpu_pause()))
    pausing.start()
    time.sleep(0.1)
    assert sampling.state() == 3
    sampling.fake.option("pc_stop_ms", 100)

    def launch() -> None:
        sampling.launch()
        done.append(sampling.state())

    later = threading.Thread(target=launch)
    later.start()
    time.sleep(0.1)
    assert not done
    c.fake_exit(LAUNCH, under_way, 0)
    pausing.join()
    later.join()
    assert sorted(map(str, done)) == ["(0, '')", "1"]
    sampling.fake.option("pc_stop_ms", 0)
    sampling.finish()


def test_a_launch_whose_end_is_not_told_is_not_waited_for(sampling: Sampling) -> None:
    """Once its thread launches again."""
    sampling.start()
    sampling.launch()
    sampling.fake.c.fake_enter(LAUNCH)
    sampling.launch()
    sampling.finish()
    assert not sampling.recorder.pc_status()["hung"]


def test_launches_of_a_pause_do_not_meet_the_end(sampling: Sampling) -> None:
    """Which may come long after it; nobody listens to launches then."""
    sampling.start()
    sampling.launch()
    c = sampling.fake.c
    assert sampling.recorder.gpu_pause() == (0, "")
    under_way = c.fake_enter(LAUNCH)
    ending = threading.Thread(target=sampling.recorder.gpu_flush, args=(True,))
    ending.start()
    time.sleep(0.1)
    assert sampling.state() == 1
    c.fake_exit(LAUNCH, under_way, 0)
    ending.join()
    assert sampling.state() == 0
    assert c.fake_listened(1, LAUNCH)
    sampling.recorder.pc_want(False)
    assert not c.fake_listened(1, LAUNCH)


def test_threads_that_launch_at_once(sampling: Sampling) -> None:
    """One of them begins to sample, and none waits for ever."""
    sampling.fake.option("devices", 3)
    sampling.start()

    def work(context: int) -> None:
        for _ in range(200):
            sampling.launch(context)

    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for context in (1, 2, 3):
        sampling.launch(context)
        assert sampling.state(context) == 3
    sampling.finish()
    assert sampling.calls_of("enable") == sampling.calls_of("disable") == 3


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_child_begins_with_nothing(sampling: Sampling) -> None:
    """The parent samples on."""
    sampling.start()
    sampling.launch()
    sampling.sample(samples=2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sampling.recorder.after_fork()
            sampling.recorder.gpu_after_fork()
            code = 0 if not sampling.counted().rows else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sampling.sample(samples=3)
    sampling.finish()
    assert sampling.counted().samples() == {("f", 0, "wait"): 5}


def test_another_recording_counts_anew(sampling: Sampling) -> None:
    """Configuring forgets what was counted; functions and modules keep their numbers."""
    sampling.start()
    sampling.launch()
    sampling.sample(samples=2)
    sampling.finish()
    sampling.configure()
    assert sampling.recorder.gpu_resume() == (0, "")
    sampling.launch()
    assert sampling.state(CONTEXT) == 3
    sampling.sample(samples=9)
    sampling.finish()
    counted = sampling.counted()
    assert counted.samples() == {("f", 0, "wait"): 9}
    assert counted.drained["functions"][0][1] == "f"
