"""A kernel of which it is known how often each line is executed, and by how many threads.

executed.py WHAT [LAUNCHES]     launches, scopes, graph, pauses, threads; prints the turns as JSON
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading

from bare_driver import checked, first_device, loaded
from cuda.bindings import driver

import tileprof

# Line 4 turns N times in all threads, line 6 twice as often in five threads of each block; line 8
# writes to one bank of shared memory, line 10 reads from all; line 11 reads a sector a thread.
SOURCE = """\
extern "C" __global__ void counted(int *out, const int *in, int n) {
  __shared__ int held[1024];
  int t = threadIdx.x, v = t;
  _Pragma("unroll 1") for (int i = 0; i < n; i++) v = v * 3 + i;
  if (t < 5) {
    _Pragma("unroll 1") for (int i = 0; i < 2 * n; i++) v ^= (v >> 3) + i;
  }
  held[(t * 32) & 1023] = v;
  __syncthreads();
  v += held[(t + 1) & 1023];
  out[blockIdx.x * blockDim.x + t] = v + in[(t * 8) & 4095];
}
extern "C" __global__ void other(int *out, const int *in, int n) {
  int v = threadIdx.x;
  _Pragma("unroll 1") for (int i = 0; i < n; i++) v = v * 5 + (v >> 2);
  out[threadIdx.x] = v;
}
"""
GRID, BLOCK, TURNS = 3, 64, 10


class Gpu:
    """The first GPU with the kernels, in its primary context."""

    def __init__(self) -> None:
        device = first_device()
        self.context = checked(driver.cuDevicePrimaryCtxRetain(device))
        checked(driver.cuCtxSetCurrent(self.context))
        module = loaded(device, SOURCE, "counted.cu")
        names = ("counted", "other")
        self.kernels = {
            name: checked(driver.cuModuleGetFunction(module, name.encode())) for name in names
        }
        self.out, self.numbers = (checked(driver.cuMemAlloc(1 << 16)) for _ in range(2))

    def launch(self, name: str = "counted", stream=0) -> None:
        """Three blocks of two warps."""
        values = (int(self.out), int(self.numbers), TURNS)
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        kernel = self.kernels[name]
        checked(
            driver.cuLaunchKernel(kernel, GRID, 1, 1, BLOCK, 1, 1, 0, stream, (values, kinds), 0)
        )

    def wait(self) -> None:
        """For all work of the context."""
        checked(driver.cuCtxSynchronize())


def launches(gpu: Gpu, count: int) -> int:
    """One after the other, and one of another kernel."""
    for _ in range(count):
        gpu.launch()
    gpu.launch("other")
    return count


def scopes(gpu: Gpu, count: int) -> int:
    """In two scopes, waiting between them."""
    for name in ("first", "second"):
        with tileprof.scope(name):
            for _ in range(count):
                gpu.launch()
            gpu.wait()
    return 2 * count


def graph(gpu: Gpu, count: int) -> int:
    """Captured once, and run again and again."""
    stream = checked(driver.cuStreamCreate(1))
    checked(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode(0)))
    gpu.launch(stream=stream)
    captured = checked(driver.cuStreamEndCapture(stream))
    ready = checked(driver.cuGraphInstantiate(captured, 0))
    for _ in range(count):
        checked(driver.cuGraphLaunch(ready, stream))
    return count


def pauses(gpu: Gpu, count: int) -> int:
    """With launches between that nobody is to count."""
    for _ in range(2):
        for _ in range(count):
            gpu.launch()
        gpu.wait()
        tileprof.deactivate()
        gpu.launch()
        gpu.wait()
        tileprof.activate()
    return 2 * count


def threads(gpu: Gpu, count: int) -> int:
    """From four threads at once."""

    def work() -> None:
        checked(driver.cuCtxSetCurrent(gpu.context))
        for _ in range(count):
            gpu.launch()

    all_of_them = [threading.Thread(target=work) for _ in range(4)]
    for each in all_of_them:
        each.start()
    for each in all_of_them:
        each.join()
    return 4 * count


what, *numbers = sys.argv[1:]
device = Gpu()
done = globals()[what](device, int(numbers[0]) if numbers else 4)
device.wait()
print(json.dumps({"launches": done, "warps": GRID * BLOCK // 32, "turns": TURNS}))
