"""Time that the driver alone takes to enqueue a kernel, in µs: the least that any launcher pays.

In: a call of a compiled kernel that is bound to its arguments, and the times that it is made.  Out:
µs a launch of `cuLaunchKernelEx` in a loop of C, with the parameters and the configuration that
calls from Python have.  `variants` says what that time consists of: launches of empty kernels by
another function, with other parameters, attributes and streams, and the driver's functions that a
call asks besides.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Iterator
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any

from tileprof.compiler.build import find_compiler
from tileprof.compiler.cuda.nvrtc import compile_text
from tileprof.errors import InternalError
from tileprof.lang.calls import BoundCall
from tileprof.native.building import Order, load_library
from tileprof.once import once
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import (
    CLUSTER_DIMENSION,
    EARLY_START,
    STREAM_NON_BLOCKING,
    Attribute,
    LaunchConfig,
)

__all__ = ["Part", "driver_us", "parts", "variants"]

LEGACY, PER_THREAD = 1, 2
"""Handles of the default streams; 0 is the legacy one, too."""
ROUNDS = 20
SIZES = (8, 24, 128, 384, 1024, 4000)
"""Bytes of the one parameter of a kernel."""
KERNELS = (
    "struct alignas(64) Map { char bytes[128]; };\n"
    'extern "C" __global__ void none() {}\n'
    'extern "C" __global__ void waits(void *p0, void *p1, void *p2)'
    ' { asm volatile("griddepcontrol.wait;" ::: "memory"); }\n'
    'extern "C" __global__ void maps(const __grid_constant__ Map a, const __grid_constant__ Map b,'
    " const __grid_constant__ Map c) {}\n"
    + "".join(
        f"struct Of{size} {{ char bytes[{size}]; }};\n"
        f'extern "C" __global__ void bytes{size}(const __grid_constant__ Of{size} a) {{}}\n'
        for size in SIZES
    )
    + "".join(
        f'extern "C" __global__ void pointers{count}('
        + ", ".join(f"void *p{at}" for at in range(count))
        + ") {}\n"
        for count in (3, 16, 128)
    )
)
_TEXT = """
#include <time.h>

typedef int Launch(const void *config, void *function, void **parameters, void **extra);

static double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * double(t.tv_sec) + 1e-3 * double(t.tv_nsec);
}

// µs a launch; the driver's code, negative, where it refuses one.
extern "C" __attribute__((visibility("default"))) double
launch_us(Launch *launch, const void *config, void *function, void **parameters, int count) {
  const double began = now_us();
  for (int i = 0; i < count; ++i)
    if (const int code = launch(config, function, parameters, nullptr)) return -code;
  return (now_us() - began) / count;
}

typedef int Plain(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned shared, void *stream, void **parameters, void **extra);

// The same of `cuLaunchKernel`, for one block: `parameters`, or `extra`, is null.
extern "C" __attribute__((visibility("default"))) double
plain_us(Plain *launch, void *function, unsigned threads, void *stream, void **parameters,
         void **extra, int count) {
  const double began = now_us();
  for (int i = 0; i < count; ++i)
    if (const int code = launch(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, extra))
      return -code;
  return (now_us() - began) / count;
}

// The same of a function that answers a question, about a stream where it takes one.
extern "C" __attribute__((visibility("default"))) double
asked_us(void *function, bool of_stream, void *stream, int count) {
  unsigned long long found = 0;
  const double began = now_us();
  for (int i = 0; i < count; ++i)
    if (const int code = of_stream ? ((int (*)(void *, void *))function)(stream, &found)
                                   : ((int (*)(void *))function)(&found))
      return -code;
  return (now_us() - began) / count;
}
"""


@once
def _library() -> Any:
    compiler = find_compiler()
    if compiler is None:
        raise InternalError("there is no C++ compiler")
    library = load_library(Order("launch_floor", _TEXT, compiler), ctypes.CDLL)
    for each in (library.launch_us, library.plain_us, library.asked_us):
        each.restype = ctypes.c_double
    library.launch_us.argtypes = (*[c_void_p] * 4, c_int)
    library.plain_us.argtypes = (c_void_p, c_void_p, ctypes.c_uint, *[c_void_p] * 3, c_int)
    library.asked_us.argtypes = (c_void_p, ctypes.c_bool, c_void_p, c_int)
    return library


def driver_us(bound: BoundCall, count: int) -> float:
    """Return the µs that the driver takes for each of so many launches, which must fit into the
    device's queue; of a call of several launches, for all of them."""
    executable: Any = bound.loaded.executable
    prepared = executable.prepare(bound.values, bound.symbols)
    if prepared is None:
        raise InternalError(f"`{executable.kernel.name}` does more in a call than to launch")
    launch = ctypes.cast(executable.device.driver.launch, c_void_p)
    total = 0.0
    for function, call in zip(*prepared, strict=True):
        frame = function.frame(call)
        took = float(
            _library().launch_us(launch, frame.launch, function.handle, frame.parameters, count)
        )
        if took < 0:
            executable.refuse(round(-took))
        total += took
    return total


# -- what the time consists of


@dataclass(frozen=True, eq=False)
class Part:
    """One way to launch, or one function that a launch asks."""

    name: str
    run: Callable[[int], float]
    """Makes so many calls and returns the µs of each; negative where the driver refuses."""
    owners: list[Any]
    """Objects whose memory the calls use, which live as long as this."""


def image(device: CudaDevice) -> bytes:
    """Return the empty kernels, compiled for a device."""
    made = compile_text(KERNELS, (), (f"--gpu-architecture={device.target.name}",), name="floor.cu")
    if not made.ok:
        raise InternalError(made.log)
    return bytes(made.cubin)


def parts(
    device: CudaDevice, image: bytes, address_of: Callable[[str], int], threads: int = 128
) -> Iterator[Part]:
    """Yield the parts; `address_of` gives that of a function of the driver.  Each differs in one
    respect from the first, which is a launch with three pointers as `tileprof` makes it."""
    driver = device.driver
    module = driver.pointer("cuModuleLoadDataEx", image, 0, None, None)
    streams = {
        "legacy": LEGACY, "per thread": PER_THREAD,
        "blocking": driver.pointer("cuStreamCreate", 0),
        "not blocking": driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING),
    }  # fmt: skip
    room = ctypes.create_string_buffer(4096 + 64)
    base = (ctypes.addressof(room) + 63) & ~63
    library = _library()
    kept: list[Any] = [room]

    def function(name: str) -> int:
        return driver.pointer("cuModuleGetFunction", module, name.encode())

    def pointers(offsets: range) -> Any:
        kept.append((c_void_p * max(len(offsets), 1))(*[base + at for at in offsets]))
        return kept[-1]

    def extended(
        name: str, kernel: str, offsets: range, stream: int = 0, *asked: Attribute
    ) -> Part:
        attributes = (Attribute * max(len(asked), 1))(*asked)
        config = LaunchConfig(stream=stream, attribute_count=len(asked))
        config.grid[:], config.block[:] = (2, 1, 1), (threads, 1, 1)
        if asked:
            config.attributes = ctypes.cast(attributes, ctypes.POINTER(Attribute))
        handle, given, launch = function(kernel), pointers(offsets), address_of("cuLaunchKernelEx")
        kept.extend((attributes, config))
        at = ctypes.addressof(config)
        return Part(name, partial(library.launch_us, launch, at, handle, given), kept)

    three = range(0, 24, 8)
    yield extended("three pointers", "pointers3", three)
    for count in (16, 128):
        yield extended(f"{count} pointers", f"pointers{count}", range(0, 8 * count, 8))
    yield extended("no parameters", "none", range(0))
    for held in SIZES:
        yield extended(f"one parameter of {held} bytes", f"bytes{held}", range(1))
    yield extended("three tensor maps", "maps", range(0, 384, 128))
    for name, stream in streams.items():
        yield extended(f"stream: {name}", "pointers3", three, stream)
    early, pairs = Attribute(id=EARLY_START, x=1), Attribute(id=CLUSTER_DIMENSION, x=2, y=1, z=1)
    apart = streams["not blocking"]
    yield extended("attribute: early start", "pointers3", three, 0, early)
    yield extended("attribute: early start, the kernel waits first", "waits", three, 0, early)
    yield extended("attribute: cluster", "pointers3", three, 0, pairs)
    yield extended("both attributes", "pointers3", three, 0, pairs, early)
    yield extended("early start, stream not blocking", "pointers3", three, apart, early)

    handle, given, size = function("pointers3"), pointers(three), ctypes.c_size_t(24)
    packed = (c_void_p * 5)(1, base, 2, ctypes.addressof(size), 0)
    kept.append(size)
    run = partial(library.plain_us, address_of("cuLaunchKernel"), handle, threads, None)
    yield Part("cuLaunchKernel", partial(run, given, None), kept)
    yield Part("cuLaunchKernel, parameters in a buffer", partial(run, None, packed), kept)
    for name in ("cuCtxGetCurrent", "cuStreamIsCapturing", "cuStreamGetId"):
        run = partial(library.asked_us, address_of(name), name != "cuCtxGetCurrent", None)
        yield Part(name, run, kept)


def variants(device: CudaDevice, found: Iterator[Part], count: int) -> dict[str, dict[str, float]]:
    """Return for each part the least and the median µs of a call over `ROUNDS` rounds of `count`
    calls, all parts in turns; {} for one that the driver refuses."""
    held = {part: [part.run(1)] for part in found}
    for _ in range(ROUNDS):
        for part, times in held.items():
            device.driver.call("cuCtxSynchronize")
            if times[0] >= 0:
                times.append(part.run(count))
    device.driver.call("cuCtxSynchronize")
    return {
        part.name: {"least_us": min(times[1:]), "median_us": statistics.median(times[1:])}
        if times[0] >= 0
        else {}
        for part, times in held.items()
    }
