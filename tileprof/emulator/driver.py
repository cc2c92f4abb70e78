"""Running the launches of a `CudaSource` on the emulated machine."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.instrument.decode.samples import NOT_SAMPLED
from tileprof.runtime.cuda.host_values import HostProgram
from tileprof.runtime.cuda.tensor_maps import unaligned_params

from .arguments import DeviceArray, number_bytes, tensor_map
from .building import Library, library, machine, watched_library
from .findings import MOST, RaceFound, Stuck, read_races, read_stuck

MULTIPROCESSORS = 2
STEPS = 500_000_000
_MESSAGE = 8192
_PRINTED = 1 << 16


@dataclass(frozen=True, slots=True)
class Failure:
    """What `tp_fail` wrote into the report."""

    place: int
    block: int
    thread: int
    values: tuple[int, ...]
    """Twelve; those after the last one given are 0."""


@dataclass(frozen=True, slots=True)
class Printed:
    """One message: place and the words that the kernel wrote."""

    place: int
    block: int
    thread: int
    words: tuple[int, ...]


End = Literal["deadlock", "limit", "fault"]
"""How a launch failed: every thread waits; the limit of steps was reached; anything else."""


class EmulationError(Exception):
    """What a GPU would not survive, or what it would do wrong in silence.

    `failure` is set where the kernel itself stopped the launch; `function` is that of the launch
    and `end` says how it failed; `stuck` where threads wait for ever, or which one made the error,
    with lines in a watched run.
    """

    def __init__(
        self,
        message: str,
        failure: Failure | None = None,
        *,
        function: str = "",
        end: End = "fault",
        stuck: Sequence[Stuck] = (),
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.function = function
        self.end: End = end
        self.stuck = tuple(stuck)


@dataclass(eq=False)
class Watch:
    """Races that were found in watched runs."""

    found: list[tuple[str, RaceFound]] = field(default_factory=list)
    """With the function of the launch."""


class _Launch(ctypes.Structure):
    """`Launch` of `runtime/machine.h`."""

    _fields_ = (
        ("body", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("blocks", ctypes.POINTER(ctypes.c_int64)),
        ("clusters", ctypes.c_int64),
        ("grid", ctypes.c_int64),
        ("threads", ctypes.c_int32),
        ("shared", ctypes.c_int32),
        ("cluster", ctypes.c_int32),
        ("together", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("steps", ctypes.c_int64),
        ("races", ctypes.c_int32),
        ("pad", ctypes.c_int32),
    )


class _Report(ctypes.Structure):
    """`TpReport` of the prelude's `report.cuh`, and room for messages."""

    _fields_ = (
        ("failed", ctypes.c_int32),
        ("place", ctypes.c_int32),
        ("block", ctypes.c_int64),
        ("thread", ctypes.c_int64),
        ("values", ctypes.c_int64 * 12),
        ("cursor", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("noted", ctypes.c_uint64),
        ("messages", ctypes.c_ubyte * _PRINTED),
    )

    def failure(self) -> Failure | None:
        """What stopped the launch, if the kernel did."""
        if not self.failed:
            return None
        return Failure(self.place, self.block, self.thread, tuple(self.values))

    def printed(self) -> list[Printed]:
        """All messages, as they were begun."""
        data, at, found = bytes(self.messages), 0, []
        while at < self.cursor:
            block = int.from_bytes(data[at : at + 8], "little", signed=True)
            place, thread, words, _ = np.frombuffer(data, np.int32, 4, at + 8).tolist()
            values = np.frombuffer(data, np.int64, words, at + 24).tolist()
            found.append(Printed(place, block, thread, tuple(values)))
            at += 24 + 8 * words
        return found


@dataclass
class Call:
    """The arguments of one call, as launches take them."""

    source: CudaSource
    kernel: ir.Kernel
    values: Sequence[Any]
    symbols: Mapping[str, int]
    arrays: dict[int, DeviceArray] = field(default_factory=dict)
    recording: bytes = bytes(32)
    sampling: bytes = NOT_SAMPLED
    counter: ctypes.c_uint32 = field(default_factory=ctypes.c_uint32)
    report: _Report = field(default_factory=lambda: _Report(capacity=_PRINTED))
    noted: ctypes.c_int32 = field(default_factory=ctypes.c_int32)
    least_aligned: bool = False
    """Whether arrays are aligned as little as kernels may ask; else as they were given."""

    def __post_init__(self) -> None:
        made: dict[int, DeviceArray] = {}
        for at, value in enumerate(self.values):
            if isinstance(value, np.ndarray):
                self.arrays[at] = made.setdefault(id(value), self._held(value))
        self.host = self.evaluate(self.source.host)
        self.report.noted = ctypes.addressof(self.noted)

    def _held(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        return DeviceArray(array, least_aligned=self.least_aligned)

    def evaluate(self, wanted: Sequence[ir.Value]) -> tuple[Any, ...]:
        """Values that the host computes."""
        if not wanted:
            return ()
        program = HostProgram.of(self.kernel, wanted)
        return program.run(self.values, [self.symbols[name] for name in self.kernel.symbols])

    def argument(self, spec: LaunchSpec, argument: Argument) -> bytes:
        """The bytes of one argument."""
        at = argument.index
        match argument.kind:
            case "pointer":
                return self.arrays[at].address.to_bytes(8, "little")
            case "map":
                wanted = spec.maps[at]
                return tensor_map(wanted, self.arrays[wanted.param].address, self.symbols)
            case "counter":
                return ctypes.addressof(self.counter).to_bytes(8, "little")
            case "report" | "notes":
                return ctypes.addressof(self.report).to_bytes(8, "little")
            case "recording":
                return self.recording
            case "sampling":
                return self.sampling
            case "scalar":
                value = self.values[at]
            case "symbol":
                value = self.symbols[self.kernel.symbols[at]]
            case "host":
                value = self.host[at]
        assert argument.dtype is not None, argument
        return number_bytes(value, argument.dtype)


Blocks = Callable[[int], Sequence[int]]
"""From the number of a launch's blocks to the numbers of those that run."""
Resident = Callable[[int], int]
"""From the number of a launch's tiles to how many blocks, or clusters, of it run at once."""


def emulate(
    source: CudaSource,
    kernel: ir.Kernel,
    arrays: Sequence[Any],
    symbols: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
    blocks: Sequence[int] | Blocks | None = None,
    recording: bytes = bytes(32),
    sampling: bytes = NOT_SAMPLED,
    resident: int | Resident | None = None,
    compiled: ctypes.CDLL | None = None,
    watch: Watch | None = None,
    steps: int = STEPS,
) -> list[Printed]:
    """Run every launch on arrays (written in place) and scalars, one for each parameter.

    `blocks`: numbers of the blocks to run, or what chooses them for each launch, all by default;
    `recording`, `sampling`: what a kernel with marks is given (`slots.recording`,
    `samples.sampling` of `instrument`), by default nothing; `resident`: blocks of persistent
    launches, by default those that the machine holds at once; `compiled`: the library that has the
    functions, by default one of this text alone; `watch`: races are looked for and added to it;
    `steps`: changes of thread after which a launch fails.
    Gives what the kernel printed; EmulationError for what a GPU would refuse, wait for without end,
    or get wrong.
    """
    call = Call(
        source, kernel, arrays, symbols or {}, recording=recording, sampling=sampling,
        least_aligned=True,
    )  # fmt: skip
    if compiled is None:
        built = library(source) if watch is None else watched_library(source)
    else:
        built = Library(Path(), compiled)
    for spec in source.launches:
        _launch(call, spec, built, seed, blocks, resident, watch, steps)
        if call.counter.value and blocks is None:
            raise EmulationError(f"the counter of tiles was left at {call.counter.value}")
    for at, held in call.arrays.items():
        if not held.intact():
            raise EmulationError(f"memory around `{kernel.params[at].name}` was written")
        held.copy_back()
    return call.report.printed()


def _launch(
    call: Call,
    spec: LaunchSpec,
    built: Library,
    seed: int,
    blocks: Sequence[int] | Blocks | None,
    resident: int | Resident | None,
    watch: Watch | None,
    steps: int,
) -> None:
    if spec.rows and (open_ := unaligned_params([replace(spec, maps=())], call.symbols)):
        names = ", ".join(call.kernel.params[at].name for at in sorted(open_))
        raise EmulationError(f"{spec.function} copies chunks that rows of {names} do not have")
    entry = getattr(built.functions, f"tp_entry_{spec.function}")
    tiles = math.prod(int(v) for v in call.evaluate(spec.grid))
    grid = _blocks(spec, tiles)
    if spec.persistent and resident is not None:
        grid = (resident(tiles) if callable(resident) else resident) * spec.cluster
    if callable(blocks):
        blocks = blocks(grid)
    shares = any(each.kind == "counter" for each in spec.arguments)
    first = [b for b in range(0, grid, spec.cluster) if blocks is None or _touches(spec, b, blocks)]
    owners = [_aligned(call.argument(spec, each)) for each in spec.arguments]
    pointers = (ctypes.c_void_p * max(len(owners), 1))(*[address for _, address in owners])
    launch = _Launch(
        ctypes.cast(entry, ctypes.c_void_p),
        pointers,
        (ctypes.c_int64 * max(len(first), 1))(*first),
        len(first),
        grid,
        spec.threads,
        spec.shared,
        spec.cluster,
        grid if shares else 1,
        seed,
        steps,
        MOST if watch is not None else 0,
    )
    message = ctypes.create_string_buffer(_MESSAGE)
    failed = machine().tp_emulator_run(ctypes.byref(launch), message, ctypes.c_size_t(_MESSAGE))
    if watch is not None:
        found = read_races(machine(), call.source, built)
        watch.found += [(spec.function, each) for each in found]
    if failed:
        text = message.value.decode(errors="replace")
        stuck = read_stuck(machine(), call.source, built)
        begin: dict[str, End] = {"deadlock": "deadlock", "no end": "limit"}
        ends = [end for start, end in begin.items() if text.startswith(start)]
        raise EmulationError(
            f"{spec.function}: {text}",
            call.report.failure(),
            function=spec.function,
            end=ends[0] if ends else "fault",
            stuck=stuck,
        )
    failure = call.report.failure()
    if bool(failure) != bool(call.noted.value):
        raise EmulationError(f"{spec.function}: what was noted and the word for it differ", failure)
    if failure:
        raise EmulationError(f"{spec.function}: noted at its end", failure)


def _blocks(spec: LaunchSpec, tiles: int) -> int:
    clusters = -(-tiles // spec.cluster)
    if spec.persistent:
        clusters = min(clusters, max(spec.persistent * MULTIPROCESSORS // spec.cluster, 1))
    return clusters * spec.cluster


def _touches(spec: LaunchSpec, first: int, blocks: Sequence[int]) -> bool:
    return any(first <= b < first + spec.cluster for b in blocks)


def _aligned(data: bytes) -> tuple[object, int]:
    """Memory with these bytes, 64-byte aligned: what owns it, and its address."""
    owner = ctypes.create_string_buffer(len(data) + 64)
    address = (ctypes.addressof(owner) + 63) & ~63
    ctypes.memmove(address, data, len(data))
    return owner, address
