"""Cost of a mark on a device: measured once, when records are first read, and kept.

In: a device.  Out: the cycles that one record adds to the warp that writes it, to be taken from
times; 0 and a reason where it cannot be measured.  A short kernel of its own does it, on a stream
of its own, in a thread of its own: a device that is busy for long is not waited for.  The cache of
compiled kernels keeps the number for a kind of device, a driver and this version, so that most
programs measure nothing.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tileprof
from tileprof import ir
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.errors import TileprofError
from tileprof.files import replace_bytes
from tileprof.instrument import calibration, slots
from tileprof.instrument.calibration import Cost
from tileprof.native.cache import cache_folder, create_folder, digest_of
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import OtherReason
from tileprof.remarks.measured import IncludesMarks, RecordCostCandidate
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice, image_of
from tileprof.runtime.cuda.driver import STREAM_NON_BLOCKING
from tileprof.runtime.cuda.launch import Call, Function

PATIENCE_S = 3.0
"""Seconds that a reader of records waits for the number."""
_AGREED = 1.0
"""Cycles by which warps may differ for the cost to be kept."""
_TAG = 1


@dataclass(frozen=True, slots=True)
class RecordCost:
    """Time that a record adds to the warp that writes it."""

    cycles: float = 0.0
    """0 where it is not known."""
    reason: str = ""
    """Why it is not known."""

    def remarks(self) -> tuple[Remark, ...]:
        """Return a remark if the cost is unknown."""
        if not self.reason:
            return ()
        rejected = Rejection(RecordCostCandidate(), OtherReason(self.reason))
        return (Remark(IncludesMarks(), "measurement", "", None, (rejected,), "missed"),)


class Calibration:
    """The number of one device, which `measure` finds out where nobody has."""

    def __init__(self, device: CudaDevice, measure: Callable[[CudaDevice], Cost | None]) -> None:
        self._device, self._measure = device, measure
        self._known: RecordCost | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._place: Path | None = None
        """File of the number; of the cache that there was when it was first asked for."""

    def cost(self) -> RecordCost:
        """Return the number, for which it waits a while."""
        with self._lock:
            if self._known is None and self._thread is None:
                self._known = self._kept()
                if self._known is None:
                    self._begin()
            thread = self._thread
        if self._known is None and thread is not None:
            thread.join(PATIENCE_S)
        return self._known or RecordCost(0.0, "the device is busy")

    def _kept(self) -> RecordCost | None:
        self._place = _place(self._device)
        cycles = read_kept(self._place)
        return None if cycles is None else RecordCost(cycles)

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="tileprof calibrates", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter ends
            self._run()

    def _run(self) -> None:
        ident = threading.get_ident()
        hooks.own_threads.add(ident)
        try:
            cost = self._measure(self._device)
            self._take(cost)
        except TileprofError as error:
            self._known = RecordCost(0.0, error.message)
        finally:
            # The next thread with this number is the program's.
            hooks.own_threads.discard(ident)

    def _take(self, cost: Cost | None) -> None:
        if cost is None:
            self._known = RecordCost(0.0, "the kernel that measures it wrote no records")
            return
        self._known = RecordCost(cost.cycles)
        if cost.spread <= _AGREED and self._place is not None:
            with suppress(OSError, TileprofError):
                keep(self._place, self._device, cost)


# -- what is kept


def _place(device: CudaDevice) -> Path:
    """Return the file of such devices' record cost, named after all that the cost depends on."""
    parts = (device.name, device.driver.version(), device.target.name, tileprof.__version__)
    digest = digest_of((*parts, calibration.cuda_text(), slots.cuda_text()))
    return cache_folder() / f"record-cost-{digest}.json"


def read_kept(place: Path) -> float | None:
    """Return the cycles in a file; None where it is not there or damaged."""
    try:
        cycles = json.loads(place.read_text())["cycles"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    good = isinstance(cycles, int | float) and math.isfinite(cycles) and cycles >= 0
    return float(cycles) if good else None


def keep(place: Path, device: CudaDevice, cost: Cost) -> None:
    """Write a number and where it comes from, at once or not at all; OSError where it cannot,
    OutputError where the cache is not safe."""
    held = {"device": device.name, "driver": device.driver.version(), **asdict(cost)}
    create_folder()
    replace_bytes(place, json.dumps(held, indent=1).encode())


# -- measuring


def source() -> CudaSource:
    """Return the kernel that measures."""
    from tileprof.compiler.cuda.prelude import with_dependencies

    headers = (*with_dependencies(["base.cuh"]), ("records.cuh", slots.cuda_text()))
    spec = LaunchSpec(
        calibration.FUNCTION, (Argument("recording", 0),), (), (), calibration.THREADS, 0
    )
    return CudaSource("calibration", calibration.cuda_text(), headers, (spec,), ())


def measure(device: CudaDevice) -> Cost | None:
    """Run the kernel, and wait for it; TileprofError where it cannot be compiled or run, None where
    its records are not there."""
    image = image_of(device, source())
    with hooks.unrecorded(), device.current(), device.driver.beside_captures():
        return calibration.cost_of(_run(device, image))


def _run(device: CudaDevice, image: bytes) -> slots.Slots:
    """Return the slots that the kernel records."""
    driver, capacity = device.driver, calibration.CAPACITY
    module = driver.pointer("cuModuleLoadDataEx", image, 0, None, None)
    kernel = ir.Kernel(calibration.FUNCTION, (), (), ir.Block([], []))
    (spec,) = source().launches
    function = Function(device, kernel, module, spec)
    stream = driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING)
    row, size = capacity * slots.RECORD.itemsize, slots.arena_bytes(calibration.SLOTS, capacity)
    held = driver.pointer("cuMemAllocAsync", size + row, stream)
    try:
        arena = -(-held // row) * row
        head = slots.new_head(calibration.SLOTS, capacity)
        driver.call("cuMemsetD8Async", arena, 0, size, stream)
        driver.call("cuMemcpyHtoDAsync_v2", arena, head, len(head), stream)
        given = slots.recording(arena, capacity, tag=_TAG)
        grid = (calibration.BLOCKS,)
        function.launch(Call((), (), (), (), grid, stream, 0, given))
        return slots.read(_copied(device, arena, size, stream)).slots()
    finally:
        with suppress(TileprofError):
            driver.call("cuMemFreeAsync", held, stream)


def _copied(device: CudaDevice, place: int, size: int, stream: int) -> NDArray[np.uint8]:
    made = np.empty(size, np.uint8)
    device.driver.call("cuMemcpyDtoHAsync_v2", made.ctypes.data, place, size, stream)
    device.driver.call("cuStreamSynchronize", stream)
    return made
