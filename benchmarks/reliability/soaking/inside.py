"""A kernel with marks on a played GPU, whose warps write records as those of a GPU do.

In: launches, by several threads.  Out: the recorder's own reading and decoding of them: the driver
is played (`tests.cuda.fake_driver`), the device's memory is the host's, and warps write at once
what a GPU's write in the background.

The times of each visit are drawn anew, from those of a kernel of some microseconds.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.test_runtime import KERNEL, SPEC, aligned, binary
from tileprof import ir
from tileprof.compiler import Options, Program
from tileprof.compiler.cuda.source import Argument
from tileprof.errors import Location
from tileprof.instrument import slots
from tileprof.runtime.cuda import executable as cuda_executable
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.cuda.records.calibration import RecordCost
from tileprof.runtime.cuda.records.reader import reader
from tileprof.runtime.cuda.records.recorder import Records
from tileprof.runtime.launch import LoadedKernel

__all__ = ["played_kernel"]

_SITES = (
    ir.Site(0, "load", "scope", Location("soak.py", 3)),
    ir.Site(1, "math", "scope", Location("soak.py", 5)),
)
_MARKED = replace(
    SPEC,
    function="marked_0",
    arguments=(Argument("scalar", 3, ir.dtype("int8")), Argument("recording", 0)),
    maps=(),
    cluster=1,
)
_ROWS = 16
"""Blocks of a launch."""
_WARPS = 8
"""Warps of a block."""
_RECORDS = 3
_SHORTEST, _LONGEST = np.log(800.0), np.log(80_000.0)
"""Logarithms of a visit's cycles."""


class _Device(FakeDriver):
    """The played driver, with no memory of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Any = deque(maxlen=0)
        self.launches: Any = deque(maxlen=0)


class _Warps:
    """The warps of all launches: each visits both sites once, at a cycle a ns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = np.random.default_rng(0)
        self._clock = 1 << 20

    def __call__(self, launched: Launched) -> int:
        given = np.frombuffer(launched.parameters[-1], slots.RECORDING)[0]
        if given["arena"]:
            blocks = np.arange(launched.grid[0])
            blocks = blocks[(blocks & int(given["others"])) == int(given["first"])]
            with self._lock:
                self._write(given, blocks)
        return 0

    def _write(self, given: Any, blocks: Any) -> None:
        address = int(given["arena"])
        head = _view(address, 1, slots.ARENA)[0]
        held, capacity = int(head["slots"]), int(head["capacity"])
        free = held - int(head["claimed"] - head["released"])
        wanted = len(blocks) * _WARPS
        count = min(wanted, free)
        head["lost"] += wanted - count
        tickets = int(head["claimed"]) + np.arange(count)
        places = tickets % held
        head["claimed"] += count
        spent = np.exp(self._drawn.uniform(_SHORTEST, _LONGEST, (count, 2))).astype(np.int64)
        begin, self._clock = self._clock, self._clock + 100_000
        # The records first, as a GPU does: a slot that is ready is whole.
        rows = _view(address + int(head["records_at"]), held * capacity, slots.RECORD)
        first = places * capacity
        clocks = begin + np.cumsum(np.c_[np.zeros(count, np.int64), spent], axis=1)
        for at, state in enumerate((1, 2, 0)):
            rows["clock"][first + at], rows["state"][first + at] = clocks[:, at], state
        heads = _view(address + slots.ARENA.itemsize, held, slots.SLOT)
        heads["tag"][places] = given["tag"]
        heads["block"][places] = np.repeat(blocks, _WARPS)[:count]
        heads["warp"][places] = np.tile(np.arange(_WARPS), len(blocks))[:count]
        heads["begin_ns"][places] = heads["begin_clock"][places] = begin
        heads["end_ns"][places] = heads["end_clock"][places] = clocks[:, -1]
        heads["wanted"][places] = heads["kept"][places] = _RECORDS
        heads["ticket"][places] = tickets & 0xFFFFFFFF
        heads["ready"][places] = (tickets + 1) & 0xFFFFFFFF


def _view(address: int, count: int, kind: np.dtype[Any]) -> Any:
    held: Any = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(held, kind)


def _is_host(value: object) -> bool:
    return False


def _stream_of(value: object, number: int) -> int:
    return 77


def played_kernel() -> Callable[[], None]:
    """Return what launches the kernel; it is the only one with marks on a GPU in this process."""
    device = _Device()
    device.sizes = {"marked_0": (1, slots.RECORDING.itemsize)}
    device.kernels["marked_0"] = _Warps()
    mock.patch.multiple(cuda_executable, is_host=_is_host, stream_of=_stream_of).start()
    reader().devices[0] = Records(device.device, reader().notice, RecordCost)

    def build(need: object) -> CudaBinary:
        states = (ir.State(-1), ir.State(0), ir.State(1))
        return replace(binary(_MARKED), sites=_SITES, states=states)

    program = Program(KERNEL, KERNEL, Options(instrument="scopes"))
    loaded = LoadedKernel(program, "cuda:0", CudaExecutable(KERNEL, build, device.device))
    given = [aligned((_ROWS, 64)), aligned((_ROWS, 64)), 0.5, 1]

    def launch() -> None:
        loaded.launch(given, (_ROWS, 64))

    return launch
