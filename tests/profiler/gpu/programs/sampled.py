"""Kernels whose samples are known: which line is hot, how many cycles they take, who launches them.

sampled.py WHAT [NUMBERS]     prints what was done, as JSON
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time

from bare_driver import attribute, checked, first_device, loaded
from cuda.bindings import driver

import tileprof

# All threads of a block run the hot line (5) again and again, until the cycles are over.
SOURCE = """\
extern "C" __global__ void hot(float *x, long long cycles) {
  float v = x[threadIdx.x];
  long long end = clock64() + cycles;
  do {
    _Pragma("unroll") for (int i = 0; i < 512; i++) v = v * 1.0001f + 0.5f;
  } while (clock64() < end);
  x[threadIdx.x] = v;
}
"""
HOT_LINE = 5


class Gpu:
    """The first GPU with the kernel, in its primary context or in one of its own."""

    def __init__(self, own_context: bool = False) -> None:
        self.device = first_device()
        if own_context:
            self.context = self.created()
        else:
            self.context = checked(driver.cuDevicePrimaryCtxRetain(self.device))
        checked(driver.cuCtxSetCurrent(self.context))
        self.sms = attribute(self.device, "MULTIPROCESSOR_COUNT")
        self.module = loaded(self.device, SOURCE, "hot.cu")
        self.kernel = checked(driver.cuModuleGetFunction(self.module, b"hot"))
        self.memory = checked(driver.cuMemAlloc(4096))

    def created(self):
        """A context besides the primary one; the call has changed with CUDA 13."""
        try:
            return checked(driver.cuCtxCreate(None, 0, self.device))
        except TypeError:
            return checked(driver.cuCtxCreate(0, self.device))

    def launch(self, cycles: int, stream=0) -> None:
        """One block of 1024 threads a multiprocessor."""
        values = ((int(self.memory), cycles), (ctypes.c_void_p, ctypes.c_longlong))
        checked(
            driver.cuLaunchKernel(self.kernel, self.sms, 1, 1, 1024, 1, 1, 0, stream, values, 0)
        )

    def wait(self) -> None:
        """For all work of the context."""
        checked(driver.cuCtxSynchronize())


def hot(launches: int, cycles: int) -> dict:
    """Launched twice as often in one scope as in the other."""
    gpu = Gpu()
    for name, count in (("few", launches), ("many", 2 * launches)):
        with tileprof.scope(name):
            for _ in range(count):
                gpu.launch(cycles)
    # What is under way when the program ends is sampled too.
    return {"sms": gpu.sms, "cycles": 3 * launches * cycles, "launches": 3 * launches}


def begun(launches: int, cycles: int) -> dict:
    """A session in a program whose CUDA works, and whose module is loaded."""
    gpu = Gpu()
    gpu.launch(cycles)
    with tileprof.profile("out.tprof", pc_sampling=4096):
        for _ in range(launches):
            gpu.launch(cycles)
        gpu.wait()
    gpu.launch(cycles)
    gpu.wait()
    return {"sms": gpu.sms, "cycles": launches * cycles, "launches": launches}


def between(launches: int, cycles: int) -> dict:
    """A module that is loaded and runs between two sessions; the second is written."""
    first = Gpu()
    with tileprof.profile("before.tprof", pc_sampling=4096):
        first.launch(cycles)
        first.wait()
    gpu = Gpu()
    gpu.launch(cycles)
    gpu.wait()
    with tileprof.profile("out.tprof", pc_sampling=4096):
        for _ in range(launches):
            gpu.launch(cycles)
        gpu.wait()
    return {"sms": gpu.sms, "cycles": launches * cycles, "launches": launches}


def contexts(launches: int, cycles: int) -> dict:
    """One after the other, each destroyed with what it holds."""
    for _ in range(2):
        gpu = Gpu(own_context=True)
        for _ in range(launches):
            gpu.launch(cycles)
        gpu.wait()
        checked(driver.cuCtxDestroy(gpu.context))
    return {"sms": gpu.sms, "cycles": 2 * launches * cycles, "launches": 2 * launches}


def captured(launches: int, cycles: int) -> dict:
    """The first launch of all is captured into a graph."""
    gpu = Gpu()
    stream = checked(driver.cuStreamCreate(1))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    checked(driver.cuStreamBeginCapture(stream, mode))
    gpu.launch(cycles, stream)
    graph = checked(driver.cuStreamEndCapture(stream))
    graph = checked(driver.cuGraphInstantiate(graph, 0))
    for _ in range(launches):
        checked(driver.cuGraphLaunch(graph, stream))
    gpu.wait()
    return {"sms": gpu.sms, "cycles": launches * cycles, "launches": launches}


def libraries(launches: int, size: int) -> dict:
    """PyTorch's product, a softmax of Triton's and a product of ours, in two threads."""
    import torch
    from sampled_softmax import softmax

    from case_studies.matmul import matmul

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
            x = torch.randn(4096, 1024, device="cuda")
            b = torch.randn(256, 256, device="cuda")
            for _ in range(launches):
                a @ a
                softmax(x)
                matmul(b, b)
            torch.cuda.current_stream().synchronize()

    matmul(torch.ones(256, 256, device="cuda"), torch.ones(256, 256, device="cuda"))
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"launches": 2 * launches}


def soak(seconds: int, size: int) -> dict:
    """Large products, one after the other."""
    import torch

    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    a @ a
    torch.cuda.synchronize()
    began, launches = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()
        launches += 20
    return {"launches": launches + 1, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    parts = (hot, begun, between, contexts, captured, libraries, soak)
    print(json.dumps({part.__name__: part for part in parts}[what](*map(int, numbers))))
