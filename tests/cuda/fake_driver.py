"""A CUDA driver without a GPU: it records every call, and its device memory is the host's."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileprof.binary.occupancy import MULTIPROCESSORS
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import (
    CAPTURE_MODE_RELAXED,
    CLUSTER_DIMENSION,
    EARLY_START,
    NOT_READY,
    STREAM_CAPTURE_UNSUPPORTED,
    Copy2D,
    Driver,
    LaunchConfig,
)

INVALID_CONTEXT = 201
Kernel = Callable[["Launched"], int]
"""What a fake kernel does; it gives the `CUresult` of its stream from then on."""


@dataclass(frozen=True)
class Launched:
    """One launch as the driver sees it."""

    function: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    cluster: int
    parameters: tuple[bytes, ...]
    aligned: tuple[int, ...]
    """Largest power of two, up to 64, that divides the address of each parameter."""
    early: bool = False
    """Whether it may start while the launch before it runs."""

    def words(self) -> tuple[int, ...]:
        """The parameters as unsigned numbers."""
        return tuple(int.from_bytes(p, "little") for p in self.parameters)


class FakeDriver:
    """`sizes`: bytes of each parameter of each function; `kernels`: what they do."""

    def __init__(self, capability: tuple[int, int] = (9, 0), devices: int = 1) -> None:
        self.capability = capability
        self.count = devices
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.launches: list[Launched] = []
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.kernels: dict[str, Kernel] = {}
        self.fails: dict[str, int] = {}
        """CUresult that a function answers with."""
        self.capturing = 0
        self.running = False
        """Whether what was launched is still under way."""
        self.capture_mode = 0
        """Of the calling thread: what is forbidden while streams are captured."""
        self.stream_numbers: dict[int, int] = {}
        """Of streams, where they are not the handle."""
        self.cluster_dims = 0
        """`__cluster_dims__` of every function."""
        self.resident_clusters = 1000
        self.version = 13000
        self.resident_blocks = 32
        """Clusters that run at once."""
        self._threads = threading.local()
        self.memory: dict[int, Any] = {}
        """Of the device, by address."""
        self.memory_bytes = 141 << 30
        self.encoded: list[dict[str, Any]] = []
        self._names: dict[int, str] = {}
        self._next = 0x1000
        self._sticky = 0
        self._kept: list[Any] = []
        self._owners: dict[int, int] = {}
        """Contexts of streams and functions."""
        self.driver = Driver(self.resolve)
        self.devices = [CudaDevice(self.driver, number) for number in range(devices)]
        self.device = self.devices[0]
        self.calls.clear()

    @property
    def context(self) -> int:
        """That of the calling thread."""
        return getattr(self._threads, "context", 0)

    @context.setter
    def context(self, context: int) -> None:
        self._threads.context = context

    @property
    def _stack(self) -> list[int]:
        held: list[int] = self._threads.__dict__.setdefault("stack", [])
        return held

    def resolve(self, name: str, prototype: Any) -> Any:
        """The function called so, as C would call it."""
        method = getattr(self, name)

        def called(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            return self.fails.get(name) or method(*arguments) or 0

        made = prototype(called)
        self._kept.append(made)
        return made

    def names(self) -> list[str]:
        """The functions that were called, in order."""
        return [name for name, _ in self.calls]

    def _handle(self) -> int:
        self._next += 16
        return self._next

    def _out(self, place: int, kind: Any, value: Any) -> None:
        kind.from_address(place).value = value

    def _used(self, *handles: int) -> None:
        """Streams and functions belong to a context, which must be the thread's."""
        for handle in handles:
            owner = self._owners.get(handle, self.context)
            assert owner == self.context, f"{handle:#x} is of context {owner:#x}"

    def _new(self, place: int) -> None:
        self._out(place, ctypes.c_void_p, self._handle())

    # -- the driver's functions

    def cuInit(self, flags: int) -> None: ...

    def cuDriverGetVersion(self, out: int) -> None:
        self._out(out, ctypes.c_int, self.version)

    def cuGetErrorName(self, code: int, out: int) -> None:
        self._text(out, f"CUDA_ERROR_{code}")

    def cuGetErrorString(self, code: int, out: int) -> None:
        self._text(out, f"what {code} means")

    def _text(self, out: int, text: str) -> None:
        held = ctypes.create_string_buffer(text.encode())
        self._kept.append(held)
        self._out(out, ctypes.c_void_p, ctypes.addressof(held))

    def cuDeviceGetCount(self, out: int) -> None:
        self._out(out, ctypes.c_int, self.count)

    def cuDeviceGet(self, out: int, number: int) -> None:
        self._out(out, ctypes.c_int, number)

    def cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, b"Fake GPU", 9)

    def cuDeviceGetAttribute(self, out: int, what: int, device: int) -> None:
        of = MULTIPROCESSORS.get(self.capability, MULTIPROCESSORS[9, 0])
        held = {
            1: of.threads_per_block,
            12: of.registers_per_block,
            13: 1_980_000,
            16: 132,
            36: 3_201_000,
            38: 50 << 20,
            39: of.threads,
            75: self.capability[0],
            76: self.capability[1],
            81: of.shared,
            82: of.registers,
            97: of.shared_per_block,
            106: of.blocks,
            111: of.reserved_shared,
        }
        self._out(out, ctypes.c_int, held[what])

    def cuDeviceGetUuid_v2(self, out: int, device: int) -> None:
        ctypes.memmove(out, bytes([0xAB] * 15 + [device]), 16)

    def cuDeviceTotalMem_v2(self, out: int, device: int) -> None:
        self._out(out, ctypes.c_size_t, self.memory_bytes)

    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        self._out(out, ctypes.c_void_p, 0xC0 + device)

    def cuCtxGetCurrent(self, out: int) -> None:
        self._out(out, ctypes.c_void_p, self.context)

    def cuCtxPushCurrent_v2(self, context: int) -> None:
        self._stack.append(self.context)
        self.context = context

    def cuCtxPopCurrent_v2(self, out: int) -> None:
        self._out(out, ctypes.c_void_p, self.context)
        self.context = self._stack.pop()

    def cuModuleLoadDataEx(self, out: int, image: int, count: int, a: Any, b: Any) -> None:
        self._new(out)

    def cuModuleUnload(self, module: int) -> None: ...

    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        self._new(out)
        self._names[self._next] = name.decode()
        self._owners[self._next] = self.context

    def cuFuncSetAttribute(self, function: int, what: int, value: int) -> None: ...

    def cuFuncGetAttribute(self, out: int, what: int, function: int) -> None:
        self._out(out, ctypes.c_int, self.cluster_dims if what == 11 else 0)

    def cuTensorMapEncodeTiled(
        self, out: int, kind: int, rank: int, address: int, *rest: Any
    ) -> None:
        shape, strides, box, steps, _, swizzle, *_ = rest

        def read(kind: Any, at: int, count: int) -> list[int]:
            return list((kind * count).from_address(at))

        self.encoded.append(
            {
                "kind": kind,
                "address": address,
                "shape": read(ctypes.c_uint64, shape, rank),
                "strides": read(ctypes.c_uint64, strides, rank - 1),
                "box": read(ctypes.c_uint32, box, rank),
                "steps": read(ctypes.c_uint32, steps, rank),
                "swizzle": swizzle,
            }
        )
        assert out % 64 == 0
        digest = hashlib.sha256(repr(self.encoded[-1]).encode()).digest()
        ctypes.memmove(out, digest * 4, 128)

    def cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: Any) -> int:
        held = LaunchConfig.from_address(config)
        asked = {a.id: a.x for a in held.attributes[: held.attribute_count]}
        self._used(function, held.stream or 0)
        name = self._names[function]
        sizes = self.sizes[name]
        places = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        launched = Launched(
            name,
            tuple(held.grid),
            tuple(held.block),
            held.shared,
            held.stream or 0,
            asked.get(CLUSTER_DIMENSION, 1),
            tuple(ctypes.string_at(p or 0, n) for p, n in zip(places, sizes)),
            tuple(min((p or 0) & -(p or 0), 64) for p in places),
            bool(asked.get(EARLY_START)),
        )
        self.launches.append(launched)
        if name in self.kernels:
            self._sticky = self.kernels[name](launched)
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, out: int, function: int, threads: int, shared: int
    ) -> None:
        assert threads
        self._out(out, ctypes.c_int, self.resident_blocks)

    def cuOccupancyMaxActiveClusters(self, out: int, function: int, config: int) -> None:
        assert LaunchConfig.from_address(config).grid[0]
        self._out(out, ctypes.c_int, self.resident_clusters)

    def cuMemAllocAsync(self, out: int, size: int, stream: int) -> None:
        self._used(stream)
        held = ctypes.create_string_buffer(size + 256)
        place = (ctypes.addressof(held) + 255) & ~255
        self.memory[place] = held
        self._out(out, ctypes.c_void_p, place)

    def cuMemFreeAsync(self, place: int, stream: int) -> None:
        self._used(stream)
        del self.memory[place]

    def cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self._used(stream)
        ctypes.memmove(to, source, size)

    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self._used(stream)
        ctypes.memmove(to, source, size)

    def cuMemsetD8Async(self, place: int, value: int, size: int, stream: int) -> None:
        self._used(stream)
        ctypes.memset(place, value, size)

    def cuMemcpy2DAsync_v2(self, copy: int, stream: int) -> None:
        self._used(stream)
        held = Copy2D.from_address(copy)
        assert (held.source_type, held.target_type) == (2, 1)
        for row in range(held.height):
            ctypes.memmove(
                held.target_host + row * held.target_pitch,
                held.source_device + row * held.source_pitch,
                held.width,
            )

    def cuMemHostAlloc(self, out: int, size: int, flags: int) -> int:
        if not self.context:
            return INVALID_CONTEXT
        if self.capturing and self.capture_mode != CAPTURE_MODE_RELAXED:
            return STREAM_CAPTURE_UNSUPPORTED
        held = ctypes.create_string_buffer(size)
        self._kept.append(held)
        self._out(out, ctypes.c_void_p, ctypes.addressof(held))
        return 0

    def cuDevicePrimaryCtxGetState(self, device: int, flags: int, active: int) -> None:
        self._out(active, ctypes.c_int, 1)

    def cuEventCreate(self, out: int, flags: int) -> None:
        self._new(out)

    def cuEventRecord(self, event: int, stream: int) -> None: ...

    def cuEventQuery(self, event: int) -> int:
        return NOT_READY if self.running else self._sticky

    def cuEventSynchronize(self, event: int) -> int:
        return self._sticky

    def cuEventDestroy_v2(self, event: int) -> None: ...

    def cuEventElapsedTime(self, out: int, start: int, stop: int) -> None:
        self._out(out, ctypes.c_float, 0.0125)

    def cuStreamCreate(self, out: int, flags: int) -> None:
        assert flags in (0, 1)
        self._new(out)
        self._owners[self._next] = self.context

    def cuStreamDestroy_v2(self, stream: int) -> None: ...

    def cuStreamGetId(self, stream: int | None, out: int) -> None:
        self._out(out, ctypes.c_uint64, self.stream_numbers.get(stream or 0, stream or 0))

    def cuStreamSynchronize(self, stream: int) -> int:
        self._used(stream)
        return self._sticky

    def cuCtxSynchronize(self) -> int:
        return self._sticky if self.context else INVALID_CONTEXT

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> None:
        held = ctypes.c_int.from_address(mode)
        held.value, self.capture_mode = self.capture_mode, held.value

    def cuStreamIsCapturing(self, stream: int, out: int) -> None:
        self._out(out, ctypes.c_int, self.capturing)
