"""The CUDA driver by ctypes: its functions, its structures, its error codes as errors.

The driver is the only thing of NVIDIA's that running a kernel needs: a saved kernel runs where no
package is installed.  Names and numbers are those of `cuda.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)  # fmt: skip
from typing import Any

from tileprof.errors import ExecutionError, MissingDependencyError
from tileprof.once import Guard, once, unforked

_LIBRARY = "nvcuda.dll" if hasattr(ctypes, "WinDLL") else "libcuda.so.1"
"""Name of the driver's library, as the system's loader knows it."""

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NO_DEVICE = 100
NO_BINARY_FOR_GPU = 209
INVALID_PTX = 218
UNSUPPORTED_PTX = 222
LAUNCH_OUT_OF_RESOURCES = 701
NOT_READY = 600
STREAM_CAPTURE_UNSUPPORTED = 900
FAULTS = {
    700: "an address that is not mapped",
    702: "no end within the time that the system allows",
    714: "a fault of the hardware stack",
    715: "an illegal instruction or a trap",
    716: "an address that is not aligned to its access",
    717: "an address of the wrong memory",
    718: "an invalid program counter",
    719: "a fault of the launch, as a trap is",
    720: "more blocks than a cooperative launch can hold",
}
"""Errors of a running kernel; after most of them the context cannot be used any more."""

COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS, CLOCK_RATE, L2_BYTES = 75, 76, 16, 13, 38
MAX_DYNAMIC_SHARED, CLUSTER_WIDTH, NON_PORTABLE_CLUSTER = 8, 11, 14
CLUSTER_DIMENSION, EARLY_START = 4, 6
CAPTURES_EARLY_STARTS = 12030
"""First version of the driver, as it numbers them, that records early starts into graphs."""
HOST_PORTABLE_MAPPED = 0x03
STREAM_NON_BLOCKING = 1
EVENT_WITHOUT_TIME = 2
CAPTURE_MODE_RELAXED = 2
HOST_MEMORY, DEVICE_MEMORY = 1, 2


class Attribute(ctypes.Structure):
    """`CUlaunchAttribute`: the extent of a cluster in blocks, or a switch, which is `x`."""

    id: int
    x: int
    y: int
    z: int

    _fields_ = (
        ("id", c_int), ("pad", c_int), ("x", c_uint), ("y", c_uint), ("z", c_uint),
        ("rest", c_uint * 13),
    )  # fmt: skip


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    stream: int | None

    _fields_ = (
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint), ("stream", c_void_p),
        ("attributes", POINTER(Attribute)), ("attribute_count", c_uint),
    )  # fmt: skip


class Copy2D(ctypes.Structure):
    """`CUDA_MEMCPY2D`: rows of `width` bytes, each a pitch from the one before."""

    _fields_ = (
        ("source_x", c_size_t), ("source_y", c_size_t), ("source_type", c_int),
        ("source_host", c_void_p), ("source_device", c_uint64), ("source_array", c_void_p),
        ("source_pitch", c_size_t), ("target_x", c_size_t), ("target_y", c_size_t),
        ("target_type", c_int), ("target_host", c_void_p), ("target_device", c_uint64),
        ("target_array", c_void_p), ("target_pitch", c_size_t), ("width", c_size_t),
        ("height", c_size_t),
    )  # fmt: skip


class DriverFailure(ExecutionError):
    """A function of the driver that did not do its work; `code` is its `CUresult`."""

    def __init__(self, function: str, code: int, name: str, text: str, hint: str = "") -> None:
        super().__init__(f"{function} failed: {text} ({name}, {code})", hint=hint)
        self.function = function
        self.code = code


_P, _D = c_void_p, c_uint64
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_P,),
    "cuGetErrorName": (c_int, _P),
    "cuGetErrorString": (c_int, _P),
    "cuDeviceGetCount": (_P,),
    "cuDeviceGet": (_P, c_int),
    "cuDeviceGetName": (_P, c_int, c_int),
    "cuDeviceGetAttribute": (_P, c_int, c_int),
    "cuDeviceGetUuid_v2": (_P, c_int),
    "cuDeviceTotalMem_v2": (_P, c_int),
    "cuDevicePrimaryCtxGetState": (c_int, _P, _P),
    "cuDevicePrimaryCtxRetain": (_P, c_int),
    "cuCtxGetCurrent": (_P,),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxPopCurrent_v2": (_P,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_P, _P, c_uint, _P, _P),
    "cuModuleUnload": (_P,),
    "cuModuleGetFunction": (_P, _P, c_char_p),
    "cuFuncSetAttribute": (_P, c_int, c_int),
    "cuFuncGetAttribute": (_P, c_int, _P),
    "cuLaunchKernelEx": (_P, _P, _P, _P),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_P, _P, c_int, c_size_t),
    "cuOccupancyMaxActiveClusters": (_P, _P, _P),
    "cuTensorMapEncodeTiled": (_P, c_int, c_uint, _D, _P, _P, _P, _P, c_int, c_int, c_int, c_int),
    "cuMemAllocAsync": (_P, c_size_t, _P),
    "cuMemFreeAsync": (_D, _P),
    "cuMemcpyHtoDAsync_v2": (_D, _P, c_size_t, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _D, c_size_t, _P),
    "cuMemcpy2DAsync_v2": (_P, _P),
    "cuMemsetD8Async": (_D, c_ubyte, c_size_t, _P),
    "cuMemHostAlloc": (_P, c_size_t, c_uint),
    "cuMemFreeHost": (_P,),
    "cuEventCreate": (_P, c_uint),
    "cuEventDestroy_v2": (_P,),
    "cuEventQuery": (_P,),
    "cuEventRecord": (_P, _P),
    "cuEventSynchronize": (_P,),
    "cuEventElapsedTime": (_P, _P, _P),
    "cuStreamCreate": (_P, c_uint),
    "cuStreamDestroy_v2": (_P,),
    "cuStreamGetId": (_P, _P),
    "cuStreamSynchronize": (_P,),
    "cuStreamIsCapturing": (_P, _P),
    "cuThreadExchangeStreamCaptureMode": (_P,),
}
Resolve = Callable[[str, Any], Any]
"""Function from the name and the ctypes prototype of a driver function to the function;
AttributeError for one that the driver lacks."""

_START = Guard()


@contextmanager
def driver_start() -> Iterator[None]:
    """Start the driver, make a context, or attach CUPTI: one thread at a time, and between forks.

    A process whose threads did these at once died inside `cuDevicePrimaryCtxRetain` (driver 580,
    CUPTI 13.0.1; 2 of 2,329 runs beside another process that kept the H200 busy, 0 of 1,330 without
    it).  A child that is forked meanwhile would wait for ever for a driver that is half started.
    """
    with _START, unforked():
        yield


class Driver:
    """The driver's functions; each but `launch` raises DriverFailure where the driver refuses."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._held: dict[str, Any] = {}
        self.launch = self.function("cuLaunchKernelEx")
        """`cuLaunchKernelEx(config, function, parameters, extra)`; gives its `CUresult`."""
        self.call("cuInit", 0)

    def function(self, name: str) -> Any:
        """Return a function of the driver, to be called with ctypes values."""
        found = self._held.get(name)
        if found is None:
            prototype = ctypes.CFUNCTYPE(c_int, *_FUNCTIONS[name])
            try:
                found = self._held.setdefault(name, self._resolve(name, prototype))
            except AttributeError:
                raise MissingDependencyError(
                    f"the CUDA driver ({_LIBRARY}) has no function {name}",
                    hint="Update the NVIDIA driver: kernels need one of CUDA 12.0 or later.",
                ) from None
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; DriverFailure where it refuses."""
        code = self.function(name)(*arguments)
        if code:
            self.fail(name, code)

    def fail(self, function: str, code: int) -> None:
        """Raise what a `CUresult` stands for."""
        texts = []
        for lookup in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            self.function(lookup)(code, byref(text))
            texts.append((text.value or b"unknown error").decode())
        hint = {
            OUT_OF_MEMORY: "Free arrays on the device, or use smaller ones.",
            NO_DEVICE: "`nvidia-smi` should list a GPU; CUDA_VISIBLE_DEVICES may hide it.",
        }.get(code, "")
        raise DriverFailure(function, code, texts[0], texts[1], hint)

    def pointer(self, name: str, *arguments: Any) -> int:
        """Call a function whose first parameter takes a handle or an address out."""
        made = c_void_p()
        self.call(name, byref(made), *arguments)
        return made.value or 0

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function whose first parameter takes an int out."""
        made = c_int()
        self.call(name, byref(made), *arguments)
        return made.value

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is recorded into a graph, where nothing can be waited for."""
        made = c_int()
        self.call("cuStreamIsCapturing", stream, byref(made))
        return made.value != 0

    @contextmanager
    def beside_captures(self) -> Iterator[None]:
        """Let the calling thread allocate and wait, on streams of its own, while others capture."""
        mode = c_int(CAPTURE_MODE_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def in_use(self, number: int) -> bool:
        """Return whether something in this process has made a device's primary context."""
        flags, active = c_uint(), c_int()
        handle = self.number("cuDeviceGet", number)
        self.call("cuDevicePrimaryCtxGetState", handle, byref(flags), byref(active))
        return active.value != 0

    def version(self) -> str:
        """Return the CUDA version that the driver has, as `13.0`."""
        number = self.number("cuDriverGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"

    def event_pairs(self, held: list[int], count: int) -> list[tuple[int, int]]:
        """Return `count` pairs of the events in `held`, to which those that lack are added."""
        while len(held) < 2 * count:
            held.append(self.pointer("cuEventCreate", 0))
        return list(zip(held[: 2 * count : 2], held[1 : 2 * count : 2]))

    def elapsed_ns(self, start: int, stop: int) -> int:
        """Time between two events that are over."""
        made = c_float()
        self.call("cuEventElapsedTime", byref(made), start, stop)
        return round(made.value * 1e6)


@once
def load_driver() -> Driver:
    """Return the driver of this machine, started; MissingDependencyError where there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise MissingDependencyError(
            "kernels cannot run on a GPU: there is no CUDA driver",
            hint="Install the NVIDIA driver, or pass host arrays, which run on `cpu`.",
        ) from None
    with driver_start():
        return Driver(lambda name, prototype: prototype((name, library)))
