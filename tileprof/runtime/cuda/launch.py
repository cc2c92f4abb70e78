"""One `__global__` function: its parameters packed, its launch configured.

The bytes of the parameters and the launch configuration lie in a `Frame`, which belongs to one call
at a time: the driver copies them, so a frame is free again when the launch is enqueued.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tileprof import ir
from tileprof.compiler.cuda.source import MOST_BLOCKS, MOST_TILES, Argument, LaunchSpec
from tileprof.errors import ExecutionError, InternalError
from tileprof.instrument.decode.samples import NOT_SAMPLED
from tileprof.runtime.arguments import word_of
from tileprof.runtime.device import taken

from .device import CudaDevice
from .driver import (
    CAPTURES_EARLY_STARTS,
    CLUSTER_DIMENSION,
    CLUSTER_WIDTH,
    EARLY_START,
    INVALID_VALUE,
    LAUNCH_OUT_OF_RESOURCES,
    MAX_DYNAMIC_SHARED,
    NON_PORTABLE_CLUSTER,
    OUT_OF_MEMORY,
    Attribute,
    DriverFailure,
    LaunchConfig,
)
from .records.launch_ids import NOTHING
from .tensor_maps import BYTES, TensorMaps

if TYPE_CHECKING:
    from .check_notes import Lent

_MAP_ALIGNMENT = 64
_STATIC_SHARED = 48 * 1024
_PORTABLE_CLUSTER = 8
_ALIGNMENTS = {"map": _MAP_ALIGNMENT, "recording": 8, "sampling": 8}
"""Alignments of arguments that are structures, in bytes."""
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True, slots=True)
class Call:
    """Parts of a launch besides the function."""

    values: Sequence[Any]
    addresses: Sequence[int]
    """One for each parameter; 0 for scalars."""
    symbols: tuple[int, ...]
    host: tuple[Any, ...]
    grid: tuple[int, ...]
    stream: int
    report: int
    """Address of the report buffer, 0 for none."""
    recording: bytes = NOTHING
    """Structure that says where records go."""
    sampling: bytes = NOT_SAMPLED
    """Structure that says where samples are counted."""
    counter: int = 0
    """Address of the counter of tiles, 0 for none."""
    lent: Lent | None = None
    """Keeps the report of notes for launches like this one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Position of an argument among the bytes of the parameters."""

    argument: Argument
    offset: int
    size: int
    convert: Callable[[Any], int] | None


class Frame:
    """Memory for one launch."""

    def __init__(self, layout: Sequence[Parameter], size: int, config: LaunchConfig) -> None:
        self._owner = ctypes.create_string_buffer(size + _MAP_ALIGNMENT)
        base = ctypes.addressof(self._owner)
        self.base = (base + _MAP_ALIGNMENT - 1) & -_MAP_ALIGNMENT
        self.bytes = (ctypes.c_char * size).from_address(self.base)
        self._pointers = (ctypes.c_void_p * max(len(layout), 1))(
            *[self.base + p.offset for p in layout]
        )
        self.config = LaunchConfig.from_buffer_copy(config)
        self.parameters = ctypes.addressof(self._pointers)
        self.launch = ctypes.addressof(self.config)


class Function:
    """A function of a loaded module."""

    def __init__(
        self, device: CudaDevice, kernel: ir.Kernel, module: int, spec: LaunchSpec
    ) -> None:
        self.device, self.kernel, self.spec = device, kernel, spec
        self.handle = device.driver.pointer("cuModuleGetFunction", module, spec.function.encode())
        self.maps = TensorMaps(device.driver, kernel, spec.maps)
        self.layout, self.size = _layout(kernel, spec)
        self._pack = struct.Struct(_format(self.layout)).pack_into
        self._config = LaunchConfig(shared=spec.shared)
        self._config.block = (ctypes.c_uint * 3)(spec.threads, 1, 1)
        self.counts = any(each.kind == "counter" for each in spec.arguments)
        """Whether its blocks share a counter of tiles."""
        self.reports = any(each.kind == "report" for each in spec.arguments)
        """Whether it prints or can stop its launch: each is waited for."""
        self.notes = any(each.kind == "notes" for each in spec.arguments)
        """Whether it notes failed checks, and nothing else: a later call tells of them."""
        self._free: list[Frame] = []
        self._allow()
        if asked := self._attributes():
            self._asked = (Attribute * len(asked))(*asked)
            self._config.attributes = ctypes.cast(self._asked, ctypes.POINTER(Attribute))
            self._config.attribute_count = len(asked)
        self._resident = self._clusters_at_once() if spec.persistent else 0

    def _attributes(self) -> list[Attribute]:
        """Return the attributes of each launch."""
        asked, spec = [], self.spec
        # A function that was compiled for clusters of a size must not be asked for one again.
        if spec.cluster > 1 and not self._compiled_cluster():
            asked.append(Attribute(id=CLUSTER_DIMENSION, x=spec.cluster, y=1, z=1))
        # Without it, a function that waits finds everything there.
        version = self.device.driver.number("cuDriverGetVersion")
        if spec.waits and version >= CAPTURES_EARLY_STARTS:
            asked.append(Attribute(id=EARLY_START, x=1))
        return asked

    def _compiled_cluster(self) -> int:
        """Blocks of a cluster by `__cluster_dims__`, 0 without it."""
        driver = self.device.driver
        return driver.number("cuFuncGetAttribute", CLUSTER_WIDTH, self.handle)

    def _clusters_at_once(self) -> int:
        """Clusters of a persistent launch.  One that found no room would start when another has
        ended; the multiprocessors of a part of the GPU may be no multiple of a cluster."""
        spec = self.spec
        if spec.cluster == 1:
            return self._blocks_each() * self.device.sms
        wanted = max(spec.persistent * self.device.sms // spec.cluster, 1)
        config = LaunchConfig.from_buffer_copy(self._config)
        config.grid[:] = (wanted * spec.cluster, 1, 1)
        found = self.device.driver.number(
            "cuOccupancyMaxActiveClusters", self.handle, ctypes.addressof(config)
        )
        return max(min(wanted, found), 1)

    def _blocks_each(self) -> int:
        """Blocks of a persistent launch on each multiprocessor."""
        spec = self.spec
        if spec.persistent == 1:
            return 1
        # The compiler does not know how many registers the assembler gives to a block.
        fitting = self.device.driver.number(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", self.handle, spec.threads, spec.shared
        )
        return max(min(spec.persistent, fitting), 1)

    def _allow(self) -> None:
        """Ask for what a function has not without asking."""
        driver, spec = self.device.driver, self.spec
        try:
            if spec.shared > _STATIC_SHARED:
                driver.call("cuFuncSetAttribute", self.handle, MAX_DYNAMIC_SHARED, spec.shared)
            if spec.cluster > _PORTABLE_CLUSTER:
                driver.call("cuFuncSetAttribute", self.handle, NON_PORTABLE_CLUSTER, 1)
        except DriverFailure as failure:
            raise self.refused(failure, "?") from None

    def blocks(self, grid: Sequence[int]) -> int:
        """Blocks of a launch over the author's grid; 0 where there is nothing to do."""
        spec, tiles = self.spec, math.prod(grid)
        if tiles <= 0:
            return 0
        clusters = -(-tiles // spec.cluster)
        most = MOST_TILES if spec.persistent else MOST_BLOCKS
        if clusters * spec.cluster > most:
            raise self._too_many(grid, most)
        if spec.persistent:
            clusters = min(clusters, self._resident)
        return clusters * spec.cluster

    def _too_many(self, grid: Sequence[int], most: int) -> ExecutionError:
        shown = " x ".join(f"{extent:,}" for extent in grid)
        return ExecutionError(
            f"`{self.kernel.name}` has {shown} blocks; a launch has at most {most:,}",
            location=self.kernel.location,
            hint="Use larger tiles, or several launches.",
        )

    def launch(self, call: Call) -> None:
        """Enqueue; returns before the work is done."""
        blocks = self.blocks(call.grid)
        if not blocks:
            return
        frame = self.frame(call)
        driver = self.device.driver
        code = driver.launch(frame.launch, self.handle, frame.parameters, None)
        self._free.append(frame)
        if code:
            try:
                driver.fail("cuLaunchKernelEx", code)
            except DriverFailure as failure:
                raise self.refused(failure, blocks) from None

    def frame(self, call: Call) -> Frame:
        """Return a frame with the parameters and the configuration of a call."""
        frame = taken(self._free) or Frame(self.layout, self.size, self._config)
        self._pack(frame.bytes, 0, *[self._value(p, call) for p in self.layout])
        frame.config.grid[:] = (self.blocks(call.grid), 1, 1)
        frame.config.stream = call.stream
        return frame

    def _value(self, parameter: Parameter, call: Call) -> Any:
        at = parameter.argument.index
        match parameter.argument.kind:
            case "pointer":
                return call.addresses[at]
            case "map":
                spec = self.spec.maps[at]
                return self.maps.get(at, call.addresses[spec.param], call.symbols)
            case "counter":
                return call.counter
            case "report" | "notes":
                return call.report
            case "recording":
                return call.recording
            case "sampling":
                return call.sampling
            case "scalar":
                held = call.values[at]
            case "symbol":
                held = call.symbols[at]
            case "host":
                held = call.host[at]
        assert parameter.convert is not None
        return parameter.convert(held)

    def refused(self, failure: DriverFailure, blocks: object) -> ExecutionError:
        """Return a launch that was refused, with its numbers."""
        spec = self.spec
        if failure.code not in (INVALID_VALUE, OUT_OF_MEMORY, LAUNCH_OUT_OF_RESOURCES):
            return failure
        cluster = f", clusters of {spec.cluster}" if spec.cluster > 1 else ""
        return ExecutionError(
            f"`{self.kernel.name}` cannot be launched on {self.device.name}: {blocks} blocks"
            f"{cluster}, {spec.threads} threads and {spec.shared} bytes of shared memory each"
            f" ({failure.message})",
            location=self.kernel.location,
            hint="Use smaller tiles, fewer stages or fewer threads.",
        )


def _layout(kernel: ir.Kernel, spec: LaunchSpec) -> tuple[list[Parameter], int]:
    """Return the parameters, each at a multiple of its alignment, in order, and the bytes of
    all."""
    made: list[Parameter] = []
    end = 0
    for argument in spec.arguments:
        size, convert = _size(kernel, argument)
        alignment = _ALIGNMENTS.get(argument.kind, size)
        offset = -(-end // alignment) * alignment
        made.append(Parameter(argument, offset, size, convert))
        end = offset + size
    return made, max(end, 1)


def layout_of(kernel: ir.Kernel, spec: LaunchSpec) -> list[tuple[int, int]]:
    """Offset and size in bytes of each parameter of a function."""
    return [(p.offset, p.size) for p in _layout(kernel, spec)[0]]


def _size(kernel: ir.Kernel, argument: Argument) -> tuple[int, Callable[[Any], int] | None]:
    if argument.kind == "map":
        return BYTES, None
    if argument.kind in ("pointer", "counter", "report", "notes"):
        return 8, None
    if argument.kind == "recording":
        return len(NOTHING), None
    if argument.kind == "sampling":
        return len(NOT_SAMPLED), None
    dtype = argument.dtype
    if dtype is None and argument.kind == "scalar":
        held = kernel.params[argument.index].type
        dtype = held if isinstance(held, ir.DType) else None
    if dtype is None:
        raise InternalError(f"{kernel.name}: argument {argument} has no type")
    return dtype.bytes, word_of(dtype)


def _format(layout: Sequence[Parameter]) -> str:
    """Return the layout as `struct` says it."""
    parts, end = ["="], 0
    for parameter in layout:
        parts.append(f"{parameter.offset - end}x")
        whole = parameter.argument.kind in _ALIGNMENTS
        parts.append(f"{parameter.size}s" if whole else _CODES[parameter.size])
        end = parameter.offset + parameter.size
    return "".join(parts)
