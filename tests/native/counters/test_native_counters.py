"""Hardware counters: each launch is a range of its context, in order, whatever happens."""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.native.cupti_programs import (
    COOPERATIVE,
    GRAPH_LAUNCH,
    LAUNCH,
    LAUNCH_EX,
    NODE_CREATED,
    Fake,
)

CONTEXT, OTHER = 0x1000, 0x2000
METRICS = ["dram__bytes.sum", "gpu__time_duration.sum"]
HELD = 24
"""Bytes of an image of the played library before the names of its ranges, which have 64 each."""


class Counting:
    """The played library with counters asked for."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.recorder = fake, fake.recorder
        fake.c.fake_counters_reset()
        self.current(CONTEXT)

    def current(self, context: int) -> None:
        """The context of this thread's launches."""
        self.fake.c.fake_current(C.c_uint64(context))

    def begin(self, ranges: int = 128, chip: str = "FAKE100", **more: Any) -> None:
        """Begin a recording; nothing but callbacks and counters."""
        self.recorder.counters_configure(chip, METRICS, b"plan 1", ranges, **more)
        assert self.fake.start(()) == (0, "")

    def launch(self, name: str, number: int = LAUNCH, returned: int = 0) -> None:
        """Launch a function."""
        self.fake.c.fake_symbol(name.encode())
        correlation = self.fake.c.fake_enter(number)
        self.fake.c.fake_exit(number, correlation, returned)

    def batches(self) -> list[tuple[int, int, list[str], list[str]]]:
        """Device, dropped ranges, functions of ranges, functions of launches of each batch."""
        assert self.recorder.gpu_flush(True) == (0, "")
        found = []
        for device, dropped, image, epochs, contexts, functions in self.recorder.counters_take():
            assert len(epochs) == len(contexts) == len(functions)
            count = int.from_bytes(image[16:24], "little")
            names = [image[HELD + 64 * i : HELD + 64 * (i + 1)] for i in range(count)]
            ranges = [name.rstrip(b"\0").decode() for name in names]
            launched = [self.recorder.name(f) if f else "" for f in functions.tolist()]
            found.append((device, dropped, ranges, launched))
        return found

    def status(self) -> dict[str, Any]:
        """What is told of it."""
        told: dict[str, Any] = self.recorder.counters_status()
        return told


@pytest.fixture
def counting(stopped: Fake) -> Iterator[Counting]:
    """Nothing may be called in a wrong order, and nothing is left behind."""
    made = Counting(stopped)
    yield made
    if stopped.recorder.gpu_started():
        stopped.recorder.gpu_stop(5)
    stopped.recorder.counters_configure("", [], b"")
    stopped.c.fake_symbol(None)
    stopped.c.fake_capturing(0)
    made.current(0)
    assert stopped.c.fake_counter_misuses() == 0
    assert stopped.c.fake_profiled() == 0


def test_ranges_are_launches_in_order(counting: Counting) -> None:
    """Of all ways to launch; the rest are no launches. A graph is one, apart from the others."""
    counting.begin()
    with counting.fake.range("step"):
        counting.launch("gemm", LAUNCH_EX)
        counting.launch("add", COOPERATIVE)
    counting.fake.call(17)
    counting.launch("", GRAPH_LAUNCH)
    counting.launch("add")
    assert counting.batches() == [
        (0, 0, names, names) for names in (["gemm", "add"], [""], ["add"])
    ]
    assert counting.status() == {
        "code": 0, "text": "", "counted": 1, "refused": 0, "launches": 4, "lost": 0, "waited": 0,
    }  # fmt: skip


def test_a_graph_has_a_range_for_each_kernel(counting: Counting) -> None:
    """As many as there is room for; the others are counted as dropped."""
    counting.fake.option("graph_ranges", 1030)
    counting.begin()
    counting.launch("", GRAPH_LAUNCH)
    ((_, dropped, ranges, launched),) = counting.batches()
    assert (dropped, len(ranges), launched) == (6, 1024, [""])


def test_paths_and_epochs_of_launches(counting: Counting) -> None:
    """Those that nobody records have epoch 0, and are ranges all the same."""
    counting.begin()
    with counting.fake.range("step"):
        counting.launch("gemm")
    counting.recorder.set_unrecorded(True)
    counting.launch("ours")
    counting.recorder.set_unrecorded(False)
    counting.recorder.gpu_flush(True)
    ((_, _, _, epochs, contexts, _),) = counting.recorder.counters_take()
    assert epochs.tolist() == [1, 0]
    assert counting.fake.path_of(int(contexts[0])) == "step cuLaunchKernel"


def test_many_launches_make_batches(counting: Counting) -> None:
    """Each of at most so many ranges, none lost; a read between ends the one that runs."""
    counting.begin(ranges=4)
    for number in range(10):
        counting.launch(f"k{number}")
    batches = counting.batches()
    assert [len(ranges) for _, _, ranges, _ in batches] == [4, 4, 2]
    assert [name for _, _, ranges, _ in batches for name in ranges] == [f"k{n}" for n in range(10)]
    assert all(ranges == launched for _, _, ranges, launched in batches)
    counting.launch("later")
    assert counting.batches() == [(0, 0, ["later"], ["later"])]
    assert counting.batches() == []


def test_batches_that_nobody_takes_give_way(counting: Counting) -> None:
    """The oldest; it is counted."""
    counting.begin(ranges=2, batches=2)
    for number in range(9):
        counting.launch(f"k{number}")
    assert [launched for *_, launched in counting.batches()] == [["k6", "k7"], ["k8"]]
    assert (counting.status()["launches"], counting.status()["lost"]) == (9, 6)


def test_launches_that_do_not_run_are_no_ranges(counting: Counting) -> None:
    """Those that fail, and those that are captured into a graph."""
    counting.begin()
    counting.launch("first")
    counting.launch("failed", returned=701)
    counting.fake.c.fake_capturing(1)
    counting.fake.c.fake_symbol(b"captured")
    correlation = counting.fake.c.fake_enter(LAUNCH)
    counting.fake.node(NODE_CREATED, 77)
    counting.fake.c.fake_exit(LAUNCH, correlation, 0)
    counting.fake.c.fake_capturing(0)
    counting.launch("last")
    assert counting.batches() == [(0, 0, ["first", "last"], ["first", "last"])]


def test_each_context_has_ranges_of_its_own(counting: Counting) -> None:
    """Their launches may alternate."""
    counting.begin()
    for number in range(6):
        counting.current(OTHER if number % 2 else CONTEXT)
        counting.launch(f"k{number}")
    assert [ranges for _, _, ranges, _ in counting.batches()] == [["k0", "k2", "k4"],
                                                                 ["k1", "k3", "k5"]]  # fmt: skip
    assert counting.status()["counted"] == 2


def test_threads_take_turns(counting: Counting) -> None:
    """However launches of several threads mix, a range has the function of its launch."""
    counting.begin(ranges=16)

    def work(number: int) -> None:
        counting.current(CONTEXT)
        for turn in range(50):
            counting.launch(f"t{number}_{turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    batches = counting.batches()
    assert sum(len(launched) for *_, launched in batches) == 200
    assert all(ranges == launched for _, _, ranges, launched in batches)


def test_pauses(counting: Counting) -> None:
    """Nothing is profiled meanwhile, and nothing that ran before is lost."""
    counting.begin()
    counting.launch("before")
    assert counting.recorder.gpu_pause() == (0, "")
    counting.launch("meanwhile")
    assert counting.recorder.gpu_resume() == (0, "")
    counting.launch("after")
    names = [["before"], ["after"]]
    assert [(ranges, launched) for _, _, ranges, launched in counting.batches()] == [
        (each, each) for each in names
    ]


def test_a_context_that_ends(counting: Counting) -> None:
    """Its counters are read before."""
    counting.begin()
    counting.launch("only")
    counting.fake.c.fake_context_ends(C.c_uint64(CONTEXT))
    assert counting.fake.c.fake_profiled() == 0
    assert counting.batches() == [(0, 0, ["only"], ["only"])]


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("chip_result", "cuptiDeviceGetChipName"),
        ("range_enable_result", "cuptiRangeProfilerEnable"),
        ("range_size_result", "cuptiRangeProfilerGetCounterDataSize"),
        ("range_image_result", "cuptiRangeProfilerCounterDataImageInitialize"),
        ("range_config_result", "cuptiRangeProfilerSetConfig"),
        ("range_start_result", "cuptiRangeProfilerStart"),
        ("range_decode_result", "cuptiRangeProfilerDecodeData"),
    ],
)
def test_calls_that_fail(counting: Counting, option: str, call: str) -> None:
    """The program goes on without counters; the first call that failed is told, with its code."""
    counting.fake.option(option, 35)
    counting.begin()
    counting.launch("a")
    counting.launch("b")
    assert counting.batches() == []
    status = counting.status()
    assert (status["code"], status["text"]) == (35, f"{call}: FAKE_ERROR")
    counting.fake.option(option, 0)
    counting.launch("c")
    assert counting.batches() == []


def test_a_device_of_another_kind(counting: Counting) -> None:
    """The plan is not for it."""
    counting.fake.option("chip", 1)
    counting.begin()
    counting.launch("a")
    assert counting.batches() == []
    status = counting.status()
    assert status["code"] == counting.recorder.GPU_CODES["other_chip"]
    assert status["text"] == "device 0 is a OTHER1, and counters were chosen for a FAKE100"


def test_without_metrics_nothing_is_profiled(counting: Counting) -> None:
    """And records come as ever."""
    assert counting.fake.start() == (0, "")
    counting.fake.kernel("k", 1000, 1500)
    assert counting.fake.c.fake_profiled() == 0
    assert [row.sum for row in counting.fake.rows("kernel")] == [500]


def test_counters_leave_no_correlations(counting: Counting) -> None:
    """There are no records that would take them back."""
    counting.begin()
    for _ in range(5000):
        counting.launch("k")
    assert counting.fake.counts().get("evicted", 0) == 0
    assert counting.recorder.gpu_health() == (0, "")
