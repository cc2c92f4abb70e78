"""Programs on a real GPU that settle how CUPTI samples program counters; see `gpu_programs`.

Each is run in a process of its own by `gpu_native_cupti.py`, and prints what it found.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver

from tests.native.cupti_programs import KINDS
from tests.native.gpu_programs import Device, Real, checked
from tileprof.native import _recorder as recorder

MS = 1_000_000
GRID = 64
HARDWARE_BUSY = 26


@contextmanager
def sampled(log2_period: int = 12, **options: Any) -> Iterator[Real]:
    """A recording that samples; CUDA begins within it, so that modules are known."""
    real = Real()
    recorder.pc_configure(log2_period, **options)
    assert real.start(KINDS) == (0, "")
    yield real
    status = recorder.pc_status()
    assert status["code"] == 0, status
    assert not status["hung"], status


def busy(gpu: Device, seconds: float) -> int:
    """Kernels of a millisecond one after the other; how many."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for _ in range(50):
            gpu.launch("spin", MS, grid=GRID)
        gpu.wait()
        count += 50
    return count


def ended() -> dict[str, int]:
    """Totals once all was read; each sample has its instruction, or is told as lost."""
    assert recorder.gpu_pause() == (0, "")
    assert recorder.gpu_flush(True) == (0, "")
    totals: dict[str, int] = recorder.pc_totals()
    print(totals)
    known = totals["counted"] + totals["dropped"] + totals["non_user"]
    assert known == totals["total"] > 0, (known, totals)
    return totals


def reads_while_running() -> None:
    """Samples come before sampling is stopped: when the first, and how many by then."""
    with sampled():
        gpu = Device()
        seen: list[tuple[float, int]] = []
        over = threading.Event()
        began = time.monotonic()

        def look() -> None:
            while not over.wait(0.02):
                seen.append((time.monotonic() - began, recorder.pc_totals()["counted"]))

        looking = threading.Thread(target=look)
        looking.start()
        count = busy(gpu, 3)
        before = recorder.pc_totals()
        over.set()
        looking.join()
        totals = ended()
    first = next((at for at, counted in seen if counted), None)
    print(
        f"first after {first} s; {before['counted']:,} of {totals['counted']:,} while {count} ran"
    )
    assert before["counted"] > 0.7 * totals["counted"]


def names() -> None:
    """Whether CUPTI shares the strings of names or copies them for each read; few are held."""
    with sampled():
        busy(Device(), 3)
        totals = ended()
    print("shared" if not totals["names_freed"] else "copied")
    assert totals["names_held"] < 1000


def small_reads() -> None:
    """Reads that have room for few instructions count the same."""
    with sampled(records=4):
        busy(Device(), 1)
        totals = ended()
    assert 1 < totals["records"] <= 4 * totals["reads"]


def overflow() -> None:
    """A buffer that is too small is told, and the program goes on."""
    real = Real()
    recorder.pc_configure(5, hardware_bytes=1 << 20)
    assert real.start(KINDS) == (0, "")
    count = busy(Device(), 3)
    recorder.gpu_pause()
    recorder.gpu_flush(True)
    print(recorder.pc_totals(), recorder.pc_status())
    assert recorder.pc_totals()["overflows"] > 0
    assert sum(row.count for row in real.rows("kernel")) == count


def work_under_way() -> None:
    """Launching, stopping and going on beside a kernel that runs: what each takes."""
    gpu = Device()
    gpu.launch("nothing")
    gpu.wait()
    with sampled():
        gpu.launch("spin", 2000 * MS, grid=GRID)
        took = []
        for part in (lambda: gpu.launch("nothing"), recorder.gpu_pause, recorder.gpu_resume):
            began = time.monotonic()
            part()
            took.append(round(1e3 * (time.monotonic() - began), 1))
        gpu.wait()
        busy(gpu, 0.5)
        ended()
    print(f"ms for a launch, a pause, going on, beside a kernel of 2 s: {took}")


def enabling_under_way() -> None:
    """The first launch that is seen comes while a kernel of before runs."""
    gpu = Device()
    gpu.launch("nothing")
    gpu.wait()
    gpu.launch("spin", 1500 * MS, grid=GRID)
    with sampled():
        began = time.monotonic()
        gpu.launch("nothing")
        took = 1e3 * (time.monotonic() - began)
        gpu.wait()
        busy(gpu, 0.5)
        ended()
    print(f"first launch: {took:.0f} ms beside a kernel of 1500 ms")


def flushes_while_sampling() -> None:
    """Records that are handed over meanwhile are all there, and the subscription stays."""
    with sampled() as real:
        gpu, count = Device(), 0
        for _ in range(10):
            count += busy(gpu, 0.2)
            assert recorder.gpu_flush() == (0, "")
        assert recorder.gpu_health() == (0, "")
        ended()
        assert recorder.gpu_health() == (0, "")
        assert sum(row.count for row in real.rows("kernel")) == count


def forced_flushes() -> None:
    """Sampling goes on after each; the first launch after it enables it again."""
    with sampled():
        gpu, counted = Device(), []
        for _ in range(3):
            busy(gpu, 0.3)
            assert recorder.gpu_flush(True) == (0, "")
            counted.append(recorder.pc_totals()["counted"])
        print(counted)
        assert 0 < counted[0] < counted[1] < counted[2]
        ended()


def modules_come_and_go() -> None:
    """Samples of unloaded modules are theirs; the same bytes are the same module."""
    with sampled():
        for _ in range(3):
            gpu = Device()
            busy(gpu, 0.3)
            checked(driver.cuModuleUnload(gpu.module))
        ended()
    functions = recorder.pc_drain()["functions"]
    print(functions)
    assert len({module for module, name in functions if name == "spin"}) == 1
    module = next(module for module, name in functions if name == "spin")
    assert recorder.pc_cubin(module).startswith(b"\x7fELF")


def modules_of_before() -> None:
    """What a module is named by that was loaded before anybody asked."""
    gpu = Device()
    gpu.launch("nothing")
    gpu.wait()
    with sampled():
        busy(gpu, 0.5)
        ended()
    functions = recorder.pc_drain()["functions"]
    print(functions, [len(recorder.pc_cubin(module)) for module, _ in functions])
    assert [name for _, name in functions] == ["spin"]


def two_contexts() -> None:
    """A second context of a GPU is refused and told; launches of both are recorded."""
    real = Real()
    recorder.pc_configure(12)
    assert real.start(KINDS) == (0, "")
    devices = [Device(), Device(own_context=True)]
    count = 0
    for _ in range(5):
        for each in devices:
            each.enter()
            count += busy(each, 0.1)
    assert recorder.gpu_pause() == (0, "")
    assert recorder.gpu_flush(True) == (0, "")
    status = recorder.pc_status()
    print(status, recorder.pc_totals())
    assert (status["sampled"], status["refused"], status["hung"]) == (1, 1, False)
    assert recorder.pc_totals()["counted"] > 0
    assert recorder.gpu_counts()["launches"] == count
    assert sum(row.count for row in real.rows("kernel")) == count


def another_process() -> None:
    """While another process samples the GPU, this one does not, says so and goes on."""
    with sampled():
        gpu = Device()
        busy(gpu, 0.3)
        command = [sys.executable, "-m", "tests.native.gpu_pc_programs", "beside_a_process"]
        beside = subprocess.Popen(command)
        while beside.poll() is None:
            busy(gpu, 0.1)
        ended()
    assert beside.returncode == 0


def beside_a_process() -> None:
    """What `another_process` starts; CUPTI ends the subscription of who asks in vain."""
    real = Real()
    recorder.pc_configure(12)
    assert real.start(KINDS) == (0, "")
    busy(Device(), 0.5)
    status, health = recorder.pc_status(), recorder.gpu_health()
    took = []
    for part in (
        recorder.gpu_pause,
        lambda: recorder.gpu_flush(True),
        lambda: recorder.gpu_stop(5),
    ):
        began = time.monotonic()
        print(part())
        took.append(round(time.monotonic() - began, 2))
    print(status, health, took)
    assert sum(took) < 1, f"{took} s: what waits for records waits a second for the first"
    assert (status["sampled"], status["refused"], status["hung"]) == (0, 1, False)
    assert status["code"] == HARDWARE_BUSY
    assert health[0] == recorder.GPU_CODES["subscription_lost"]


def call_costs() -> None:
    """What a launch, a pause and going on take."""
    gpu = Device()

    def launches(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            gpu.launch("nothing")
        gpu.wait()
        return (time.perf_counter_ns() - began) / count

    real = Real()
    assert real.start(KINDS) == (0, "")
    launches(20_000)
    plain = min(launches(20_000) for _ in range(3))
    recorder.gpu_pause()
    recorder.pc_configure(12)
    recorder.gpu_resume()
    launches(1)
    sampling = min(launches(20_000) for _ in range(3))
    took = []
    for part in (recorder.gpu_pause, recorder.gpu_resume):
        began = time.perf_counter()
        part()
        took.append(1e3 * (time.perf_counter() - began))
    print(f"launch {plain:.0f} ns recorded, {sampling:.0f} ns sampled; pause {took[0]:.2f} ms, "
          f"going on {took[1]:.2f} ms")  # fmt: skip
    assert sampling < plain + 5_000


if __name__ == "__main__":
    globals()[sys.argv[1]]()
