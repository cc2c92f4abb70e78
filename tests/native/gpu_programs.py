"""Programs that use a real GPU through the driver, and what the recorder must have made of them.

Each is run in a process of its own by `gpu_native_cupti.py`: CUPTI has one subscriber a process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

from tests.native.cupti_programs import DEVICE, KINDS, PAGEABLE, PINNED, Fake, Row, gaps_of
from tileprof.native import _recorder as recorder
from tileprof.profiler.cupti.cupti_library import find_cupti

SOURCE = """
extern "C" __global__ void nothing() {}
extern "C" __global__ void add(float *x) { x[threadIdx.x] += 1; }
extern "C" __global__ void spin(long long ns) {
  long long began, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - began < ns);
}
"""


def checked(answer: tuple[Any, ...]) -> Any:
    """What a call of the bindings returned, once it has succeeded."""
    result, *values = answer
    assert int(result) == 0, result
    return values[0] if len(values) == 1 else values


class Device:
    """The first GPU, with three kernels and a buffer."""

    def __init__(self, own_context: bool = False) -> None:
        checked(driver.cuInit(0))
        self.device = checked(driver.cuDeviceGet(0))
        if own_context:
            self.context = checked(driver.cuCtxCreate(None, 0, self.device))
        else:
            self.context = checked(driver.cuDevicePrimaryCtxRetain(self.device))
        self.enter()
        kinds = driver.CUdevice_attribute
        major, minor = (
            checked(driver.cuDeviceGetAttribute(kind, self.device))
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        program = checked(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"k.cu", 0, [], []))
        checked(nvrtc.nvrtcCompileProgram(program, 1, [f"-arch=sm_{major}{minor}".encode()]))
        cubin = bytes(checked(nvrtc.nvrtcGetCUBINSize(program)))
        checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        self.module = checked(driver.cuModuleLoadData(np.frombuffer(cubin, np.uint8).ctypes.data))
        self.memory = checked(driver.cuMemAlloc(1 << 20))

    def enter(self) -> None:
        """Make the context the calling thread's."""
        checked(driver.cuCtxSetCurrent(self.context))

    def launch(self, name: str, *arguments: int, stream: Any = 0, grid: int = 1) -> None:
        """Launch a kernel of 32 threads a block; its arguments are 64-bit numbers."""
        kernel = checked(driver.cuModuleGetFunction(self.module, name.encode()))
        values = (tuple(arguments), (ctypes.c_longlong,) * len(arguments)) if arguments else 0
        checked(driver.cuLaunchKernel(kernel, grid, 1, 1, 32, 1, 1, 0, stream, values, 0))

    def wait(self) -> None:
        """Wait for all work."""
        checked(driver.cuCtxSynchronize())


class Real(Fake):
    """The recorder with NVIDIA's own library; the parts of the played one are not there."""

    def __init__(self) -> None:
        library = find_cupti()
        assert library is not None
        self.path = str(library.path)
        self.recorder = recorder
        recorder.set_frames(False)
        recorder.set_epoch(1)

    def rows(self, what: str | None = None) -> list[Row]:
        """Totals of all that was launched, when it has ended."""
        assert recorder.gpu_flush(True) == (0, "")
        return self.rows_of(recorder.gpu_drain(), what)

    def kernels(self) -> dict[str, list[Row]]:
        """Totals of kernels by name."""
        found: dict[str, list[Row]] = {}
        names = None
        for row in self.rows("kernel"):
            names = names or [v[0] for v in recorder.gpu_variants()]
            found.setdefault(names[row.detail], []).append(row)
        return found


@contextmanager
def recorded(gpu: Device) -> Iterator[Real]:
    """A recording around work, which is waited for."""
    real = Real()
    assert real.start(KINDS) == (0, ""), real.start(KINDS)
    yield real
    gpu.wait()


def clean(real: Real, *allowed: str) -> None:
    """Nothing was lost, late or foreign."""
    counts = real.counts()
    odd = set(counts) - {"records", "kernels", "launches", *allowed}
    assert not odd, counts


# -- programs


def threads_and_streams() -> None:
    """Every launch of eight threads is counted once; nothing is out of order beyond the window."""
    gpu = Device()
    with recorded(gpu) as real:

        def work() -> None:
            gpu.enter()
            stream = checked(driver.cuStreamCreate(1))
            for i in range(5000):
                gpu.launch("add", int(gpu.memory), stream=stream, grid=1 + i % 2)
            checked(driver.cuStreamSynchronize(stream))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gpu.wait()
        (row,) = real.kernels()["add"]
    assert (row.path, row.count, row.blocks) == ("cuLaunchKernel", 40_000, 60_000)
    assert 0 < row.min <= row.sum / row.count <= row.max < 10**7
    assert sum(row.sketch.values()) == 40_000
    clean(real, "late")
    print("late:", real.counts().get("late", 0))


def clocks_agree() -> None:
    """Kernels run between the host's times around them, on one clock."""
    gpu = Device()
    real = Real()
    assert real.start(KINDS, timeline=1000) == (0, "")
    for _ in range(20):
        began = time.perf_counter_ns()
        gpu.launch("spin", 2_000_000)
        gpu.wait()
        ended = time.perf_counter_ns()
        assert recorder.gpu_flush(True) == (0, "")
        events = recorder.gpu_drain()["timeline"]
        (at,) = np.flatnonzero(events["what"] == recorder.WHATS["kernel"])
        start, end = int(events["start"][at]), int(events["end"][at])
        assert began < start < end < ended, (began, start, end, ended)
        assert 1_900_000 < end - start < 2_500_000


def copies_and_fills() -> None:
    """Directions, kinds of memory, bytes, and who waited."""
    gpu = Device()
    size = 1 << 20
    pageable = np.zeros(size, np.uint8)
    pinned = checked(driver.cuMemAllocHost(size))
    other = checked(driver.cuMemAlloc(size))
    with recorded(gpu) as real:
        checked(driver.cuMemcpyHtoDAsync(gpu.memory, pinned, size, 0))
        checked(driver.cuMemcpyHtoD(gpu.memory, pageable.ctypes.data, size))
        checked(driver.cuMemcpyDtoH(pageable.ctypes.data, gpu.memory, size))
        checked(driver.cuMemcpyDtoDAsync(other, gpu.memory, size, 0))
        checked(driver.cuMemsetD8Async(gpu.memory, 1, size, 0))
        gpu.wait()
        rows = real.rows()
    copies = {(r.detail & 15, r.detail >> 4 & 15, r.detail >> 8 & 15): r
              for r in rows if r.what == "memcpy"}  # fmt: skip
    paths = {key: (r.path, r.bytes) for key, r in copies.items()}
    assert paths == {
        (1, PINNED, DEVICE): ("cuMemcpyHtoDAsync", size),
        (1, PAGEABLE, DEVICE): ("cuMemcpyHtoD", size),
        (2, DEVICE, PAGEABLE): ("cuMemcpyDtoH", size),
        (8, DEVICE, DEVICE): ("cuMemcpyDtoDAsync", size),
    }
    (fill,) = (r for r in rows if r.what == "memset")
    assert (fill.path, fill.bytes, fill.count) == ("cuMemsetD8Async", size, 1)
    clean(real)


def waits_and_idle_time() -> None:
    """A wait has its time and call; the gaps after it and before a late launch have reasons."""
    gpu = Device()
    gpu.launch("nothing")
    gpu.wait()
    with recorded(gpu) as real:
        gpu.launch("spin", 20_000_000)
        with real.range("wait"):
            checked(driver.cuStreamSynchronize(0))
        time.sleep(0.005)
        gpu.launch("spin", 20_000_000)
        gpu.launch("nothing")
        time.sleep(0.030)
        gpu.launch("nothing")
        gpu.wait()
        assert recorder.gpu_flush(True) == (0, "")
        drained = recorder.gpu_drain()
    rows = real.rows_of(drained)
    (wait,) = (r for r in rows if r.path == "wait cuStreamSynchronize")
    assert 15_000_000 < wait.sum < 25_000_000, wait
    # Long gaps are told one by one, the others are in totals.
    names = {number: name for name, number in recorder.IDLE_REASONS.items()}
    long = [(names[detail & 15], end - start) for start, end, detail in gaps_of(drained)]
    assert [reason for reason, _ in long] == ["sync", "launch"], (long, rows)
    assert 4_000_000 < long[0][1] < 12_000_000, long
    assert 5_000_000 < long[1][1] < 20_000_000, long
    short = [(names[r.detail & 15], r.sum) for r in rows if r.what == "idle"]
    assert [reason for reason, _ in short] == ["queue"], (short, rows)
    assert 0 < short[0][1] < 50_000, short
    clean(real)


def captured_graph(gpu: Device, kernels: int) -> Any:
    """An executable graph of some kernels, and the stream it was captured on."""
    stream = checked(driver.cuStreamCreate(1))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    checked(driver.cuStreamBeginCapture(stream, mode))
    for _ in range(kernels):
        gpu.launch("add", int(gpu.memory), stream=stream)
    graph = checked(driver.cuStreamEndCapture(stream))
    return checked(driver.cuGraphInstantiate(graph, 0)), stream


def graphs() -> None:
    """Replays carry the path of their capture, where that was recorded."""
    gpu = Device()
    early, early_stream = captured_graph(gpu, 2)
    with recorded(gpu) as real:
        with real.range("capture"):
            late, late_stream = captured_graph(gpu, 3)
        for _ in range(10):
            with real.range("replay"):
                checked(driver.cuGraphLaunch(late, late_stream))
                checked(driver.cuGraphLaunch(early, early_stream))
        gpu.wait()
        rows = real.kernels()["add"]
    assert {(r.path, r.count) for r in rows} == {
        ("replay cuGraphLaunch [capture cuLaunchKernel]", 30),
        ("replay cuGraphLaunch", 20),
    }
    assert real.counts()["uncaptured"] == 20
    clean(real, "uncaptured")


def allocations() -> None:
    """What is live and what was most, by device."""
    gpu = Device()
    with recorded(gpu) as real:
        first = checked(driver.cuMemAlloc(64 << 20))
        checked(driver.cuMemFree(first))
        checked(driver.cuMemAlloc(16 << 20))
        recorder.gpu_flush(True)
        driver_memory = recorder.memory_state()[1]
        (use,) = (u for u in driver_memory["pools"] if (u["device"], u["kind"]) == (0, DEVICE))
        paths = {real.path_of(context) for context in driver_memory["context"].tolist()}
    assert (use["live"], use["peak"]) == (16 << 20, 64 << 20)
    assert driver_memory["allocated"].tolist() == [80 << 20]
    assert driver_memory["releases"].tolist() == [1]
    assert paths == {"cuMemAlloc"}


def interruptions() -> None:
    """Off and on again, quickly; prints what that costs."""
    gpu = Device()
    with recorded(gpu) as real:
        off, on = [], []
        for _ in range(20):
            gpu.launch("nothing")
            gpu.wait()
            began = time.perf_counter_ns()
            assert recorder.gpu_pause() == (0, "")
            off.append(time.perf_counter_ns() - began)
            gpu.launch("add", int(gpu.memory))
            gpu.wait()
            began = time.perf_counter_ns()
            assert recorder.gpu_resume() == (0, "")
            on.append(time.perf_counter_ns() - began)
        kernels = real.kernels()
    assert set(kernels) == {"nothing"}
    assert kernels["nothing"][0].count == 20
    print(f"pause {np.median(off) / 1000:.0f} us, resume {np.median(on) / 1000:.0f} us")


def another_subscriber() -> None:
    """The second one is refused, and told who was first; we stay."""
    gpu = Device()
    with recorded(gpu) as real:
        library = ctypes.CDLL(real.path)
        handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(128)
        callback = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(lambda *_: None)
        assert library.cuptiSubscribe(ctypes.byref(handle), callback, None) == 39
        sizes = (ctypes.c_size_t * 4)(32, 0, ctypes.addressof(name), 128)
        print("v2:", library.cuptiSubscribe_v2(ctypes.byref(handle), callback, None, sizes),
              name.value)  # fmt: skip
        gpu.launch("nothing")
        gpu.wait()
        assert real.kernels()["nothing"][0].count == 1
        assert recorder.gpu_health() == (0, "")


def costs() -> None:
    """Prints what a launch costs without and with the recorder, and how fast records are read."""
    gpu = Device()
    kernel = checked(driver.cuModuleGetFunction(gpu.module, b"nothing"))

    def launches(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
        gpu.wait()
        return (time.perf_counter_ns() - began) / count

    launches(2000)
    without = min(launches(50_000) for _ in range(5))
    with recorded(gpu):
        recording = min(launches(50_000) for _ in range(5))
        recorder.gpu_pause()
        paused = min(launches(50_000) for _ in range(5))
        recorder.gpu_resume()
        launches(1_000_000)
        began = time.perf_counter_ns()
        assert recorder.gpu_flush(True, 60) == (0, "")
        recorder.gpu_drain()
        finish = (time.perf_counter_ns() - began) / 1e6
    print(f"launch {without:.0f} ns, recorded {recording:.0f} ns, paused {paused:.0f} ns; "
          f"finishing after 1 M kernels {finish:.0f} ms")  # fmt: skip


def runtime_calls() -> None:
    """PyTorch's calls of the runtime library have the driver's call as their context too."""
    import torch

    real = Real()
    x = torch.ones(1 << 20, device="cuda")
    assert real.start(KINDS) == (0, "")
    with real.range("ops"):
        for _ in range(100):
            x.add_(1)
    with real.range("item"):
        assert x[0].item() == 101
    with real.range("copy"):
        torch.ones(1 << 20).cuda(non_blocking=False)
    with real.range("wait"):
        torch.cuda.synchronize()
    rows = real.rows()
    print(*sorted({(r.what, r.path, r.detail, r.count) for r in rows}), sep="\n")
    assert sum(r.count for r in rows if r.what == "kernel" and r.path.startswith("ops ")) == 100
    for what, place in (("memcpy", "item"), ("sync", "item"), ("memcpy", "copy"), ("sync", "wait")):
        assert any(r.what == what and r.path.startswith(f"{place} cu") for r in rows), (what, place)
    assert not any(r.path == "" for r in rows if r.what in ("kernel", "memcpy", "memset"))
    clean(real)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
