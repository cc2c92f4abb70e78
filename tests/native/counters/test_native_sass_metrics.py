"""Counts by instruction: each execution in a patched context is counted once, whatever happens."""

from __future__ import annotations

import ctypes as C
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.native.cupti_programs import LAUNCH, Fake, wait_until

CONTEXT, OTHER = 0x1000, 0x2000
EXECUTED, THREADS, SECTORS = range(3)
"""Metrics of the played device, by their place in its list."""
NAMES = ("smsp__sass_inst_executed", "smsp__sass_thread_inst_executed",
         "smsp__sass_sectors_mem_global")  # fmt: skip


class Counting:
    """The played library with counts of instructions asked for."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.recorder = fake, fake.recorder
        for name in ("load", "sass_misuses", "sass_flushes", "sass_configured", "sass_enabled"):
            getattr(fake.c, f"fake_{name}").restype = C.c_uint64

    def begin(self, metrics: tuple[str, ...] = NAMES[:2], **options: Any) -> None:
        """Begin a recording that counts."""
        self.recorder.sass_configure(list(metrics), **options)
        assert self.fake.start() == (0, "")

    def load(self, cubin: bytes) -> int:
        """Load a module; what CUPTI keeps of the answer for its cubin."""
        return int(self.fake.c.fake_load(cubin, C.c_size_t(len(cubin)))) & 0xFFFFFFFF

    def launch(self, context: int = CONTEXT) -> None:
        """Launch a kernel, which has run."""
        self.fake.c.fake_current(C.c_uint64(context))
        self.fake.kernel(correlation=self.fake.call(LAUNCH))

    def execute(self, function: str = "f", offset: int = 0, metric: int = EXECUTED, count: int = 1,
                module: int = 0xABCDEF, context: int = CONTEXT) -> None:  # fmt: skip
        """Execute an instruction; counted if the context is patched."""
        self.fake.c.fake_execute(
            C.c_uint64(context), module, function.encode(), offset, metric, C.c_uint64(count)
        )

    def counted(self) -> Counter[tuple[str, int, int]]:
        """Sums by function, offset and place of the metric."""
        drained = self.recorder.sass_drain()
        columns = (drained[name].tolist() for name in ("function", "offset", "metric", "count"))
        found: Counter[tuple[str, int, int]] = Counter()
        for function, offset, metric, count in zip(*columns):
            found[drained["functions"][function][1], offset, metric] += count
        return found

    def status(self) -> dict[str, Any]:
        """What is told of it."""
        told: dict[str, Any] = self.recorder.sass_status()
        return told

    def enabled(self, context: int = CONTEXT) -> bool:
        """Whether a context is patched."""
        return bool(self.fake.c.fake_sass_enabled(C.c_uint64(context)))


@pytest.fixture
def counting(stopped: Fake) -> Iterator[Counting]:
    """Nothing may be called in a wrong order, and nothing stays patched."""
    made = Counting(stopped)
    yield made
    if stopped.recorder.gpu_started():
        stopped.recorder.gpu_stop(5)
    stopped.recorder.sass_configure([])
    stopped.c.fake_current(C.c_uint64(0))
    assert stopped.c.fake_sass_misuses() == 0
    assert not made.enabled()


def test_launches_go_one_at_a_time(counting: Counting) -> None:
    """CUPTI patches a function as it is launched first, and two of them at once end never."""
    counting.begin()
    under_way = counting.fake.c.fake_enter(LAUNCH)
    another = threading.Thread(target=counting.launch)
    another.start()
    another.join(0.2)
    assert another.is_alive()
    counting.fake.c.fake_exit(LAUNCH, under_way, 0)
    another.join(5)
    assert not another.is_alive()
    assert counting.fake.counts()["launches"] == 2


def test_executions_are_added_up(counting: Counting) -> None:
    """Of all launches, by function, offset and metric; kernels have records, and nothing else."""
    counting.begin()
    assert counting.fake.c.fake_kinds() == 1 << 3
    for _ in range(3):
        counting.launch()
        counting.execute("f", 0, EXECUTED, 10)
        counting.execute("f", 0, THREADS, 320)
        counting.execute("f", 16, EXECUTED, 5)
        counting.execute("g", 0, EXECUTED, 1)
    assert counting.recorder.gpu_flush(True) == (0, "")
    assert counting.counted() == {
        ("f", 0, EXECUTED): 30, ("f", 0, THREADS): 960, ("f", 16, EXECUTED): 15,
        ("g", 0, EXECUTED): 3,
    }  # fmt: skip
    assert counting.status() == {
        "code": 0, "text": "", "counted": 1, "refused": 0, "records": 6, "dropped": 0,
        "hung": False,
    }  # fmt: skip
    assert [row.count for row in counting.fake.rows("kernel")] == [3]


def test_metrics_are_those_that_were_asked_for(counting: Counting) -> None:
    """In the order in which they were."""
    counting.begin((NAMES[SECTORS], NAMES[EXECUTED]))
    counting.launch()
    for metric, count in ((EXECUTED, 2), (THREADS, 64), (SECTORS, 8)):
        counting.execute(metric=metric, count=count)
    counting.recorder.gpu_flush(True)
    assert counting.counted() == {("f", 0, 0): 8, ("f", 0, 1): 2}


def test_functions_of_one_name_in_two_modules(counting: Counting) -> None:
    """They stay apart, and have their cubins."""
    counting.begin()
    modules = [counting.load(cubin) for cubin in (b"first cubin", b"second cubin")]
    counting.launch()
    for count, module in enumerate(modules, 1):
        counting.execute(module=module, count=count)
    counting.recorder.gpu_flush(True)
    drained = counting.recorder.sass_drain()
    counts = dict(zip(drained["function"].tolist(), drained["count"].tolist()))
    cubins = {
        counting.recorder.pc_cubin(module): counts[place]
        for place, (module, _) in enumerate(drained["functions"])
    }
    assert cubins == {b"first cubin": 1, b"second cubin": 2}


def test_a_module_that_was_loaded_before(counting: Counting) -> None:
    """CUPTI names it by a sum of its own; its counts are there, its cubin is not."""
    counting.begin()
    counting.load(b"another")
    counting.launch()
    counting.execute(module=0xFEDCBA98)
    counting.recorder.gpu_flush(True)
    ((module, name),) = counting.recorder.sass_drain()["functions"]
    assert (name, counting.recorder.pc_cubin(module)) == ("f", b"")


def test_flushes_lose_nothing(counting: Counting) -> None:
    """What was read is added to; nothing is read while nobody asks."""
    counting.begin()
    for turn in range(4):
        counting.launch()
        counting.execute(count=turn)
        assert counting.recorder.gpu_flush(False) == (0, "")
        assert counting.fake.c.fake_sass_flushes() == turn
        counting.recorder.gpu_flush(True)
    assert counting.counted() == {("f", 0, EXECUTED): 6}


def test_pauses(counting: Counting) -> None:
    """Code stays patched, as it cannot be a second time; what it does meanwhile is forgotten."""
    counting.begin()
    counting.launch()
    counting.execute(count=1)
    assert counting.recorder.gpu_pause() == (0, "")
    assert counting.enabled()
    counting.launch()
    counting.execute(count=10)
    assert counting.recorder.gpu_resume() == (0, "")
    counting.launch()
    counting.execute(count=100)
    counting.recorder.gpu_flush(True)
    assert counting.counted() == {("f", 0, EXECUTED): 101}
    assert counting.status()["dropped"] == 0


def test_contexts(counting: Counting) -> None:
    """Each is patched at its first launch, for one device once; one that ends is read before."""
    counting.begin()
    for context in (CONTEXT, OTHER):
        assert not counting.enabled(context)
        counting.launch(context)
        assert counting.enabled(context)
        counting.execute(context=context)
    counting.fake.c.fake_context_ends(C.c_uint64(CONTEXT))
    assert not counting.enabled(CONTEXT)
    assert counting.counted() == {("f", 0, EXECUTED): 1}
    counting.recorder.gpu_flush(True)
    assert counting.counted() == {("f", 0, EXECUTED): 2}
    assert counting.status()["counted"] == 2


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("initialize_result", "cuptiProfilerInitialize"),
        ("chip_result", "cuptiDeviceGetChipName"),
        ("sass_properties_result", f"cuptiSassMetricsGetProperties of {NAMES[0]}"),
        ("sass_configure_result", "cuptiSassMetricsSetConfig"),
        ("sass_enable_result", "cuptiSassMetricsEnable"),
        ("sass_extent_result", "cuptiSassMetricsGetDataProperties"),
        ("sass_flush_result", "cuptiSassMetricsFlushData"),
    ],
)
def test_calls_that_fail(counting: Counting, option: str, call: str) -> None:
    """The program goes on without counts; the first call that failed is told, with its code."""
    counting.fake.option(option, 35)
    counting.begin()
    counting.launch()
    counting.execute()
    counting.recorder.gpu_flush(True)
    assert counting.counted() == {}
    status = counting.status()
    assert (status["code"], status["text"]) == (35, f"{call}: FAKE_ERROR")
    counting.fake.option(option, 0)


def test_a_call_that_does_not_return(counting: Counting) -> None:
    """It is waited for so long and no longer, and told."""
    counting.begin(patience_s=0.05)
    counting.launch()
    counting.execute()
    counting.fake.option("sass_flush_ms", 60_000)
    assert counting.recorder.gpu_flush(True) == (0, "")
    assert counting.status()["hung"]
    # Neither launches nor a pause wait for it.
    counting.launch()
    assert counting.recorder.gpu_pause() == (0, "")
    assert counting.fake.option_now("sass_returns") == 0
    # The library comes back; its context is given back by nobody, for nothing is called any more.
    counting.fake.option("sass_flush_ms", 0)
    wait_until(lambda: counting.fake.option_now("sass_returns") == 1)
    counting.fake.c.fake_reset()
    counting.recorder.gpu_after_fork()


def test_nothing_is_read_while_a_launch_is_under_way(counting: Counting) -> None:
    """One that never returns is not waited for for ever; the counts are read later."""
    counting.begin(patience_s=0.05)
    counting.launch()
    counting.execute()
    under_way = counting.fake.c.fake_enter(LAUNCH)
    assert counting.recorder.gpu_flush(True) == (0, "")
    assert counting.counted() == {}
    assert "a launch did not return" in counting.status()["text"]
    counting.fake.c.fake_exit(LAUNCH, under_way, 0)
    counting.recorder.gpu_flush(True)
    assert counting.counted() == {("f", 0, EXECUTED): 1}
    assert not counting.status()["hung"]


def test_what_was_counted_is_forgotten(counting: Counting) -> None:
    """By the next recording that asks; without metrics nothing is patched."""
    counting.begin()
    counting.launch()
    counting.execute()
    counting.recorder.gpu_stop(5)
    assert counting.counted() == {("f", 0, EXECUTED): 1}
    counting.begin((NAMES[THREADS],))
    counting.launch()
    counting.execute(metric=THREADS, count=32)
    counting.recorder.gpu_stop(5)
    assert counting.counted() == {("f", 0, 0): 32}
    counting.begin(())
    counting.launch()
    assert not counting.enabled()
    assert counting.counted() == {}
