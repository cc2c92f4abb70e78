"""Running the kernels of roofs, and what their repetitions say.

In: a device.  Out: its roofs.  It takes some seconds and a part of the device's memory; whatever
else runs there meanwhile makes the numbers smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.cuda.source import CudaSource
from tileprof.errors import TileprofError
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice, image_of
from tileprof.runtime.cuda.driver import OUT_OF_MEMORY, STREAM_NON_BLOCKING, DriverFailure
from tileprof.runtime.cuda.launch import Call, Function

from .model import Roof
from .plans import Attempt, Memory, Plan, plans
from .texts import source

Floats: TypeAlias = npt.NDArray[np.float64]
Progress = Callable[[str], None]
"""Hears the name of each roof before it is measured."""

REPETITIONS = 21
_REPETITION_NS = 3_000_000
_TRIAL_NS = 300_000
"""A trial that took so long tells how many turns a repetition has."""
_TRIALS = 3
"""Repetitions of each attempt, of which the best attempt goes on."""
_TRIES = 3
_SOUND, _SLOWED, _PATIENCE_S = 0.96, 0.75, 0.4
"""A roof is measured anew where its rate is below the first share of the best one seen: it may be
held back for milliseconds.  Below the second, or with a clock below this share of the usual one, it
is so after some patience: an H200 was seen at 60 % for a second."""
_MOST_WARMING = 200
_CLOCK_NS = 50_000
_CLOCK_OFFSET = 128
"""Offset of the clock from the sink of stores that never happen."""
_MOST_MEMORY, _LEAST_MEMORY = 4 << 30, 256 << 20
_EMPTY_LAUNCHES = 500
_HOLD_NS = 20_000_000
"""Time for which a stream is blocked, in ns: longer than the host takes to queue these launches."""
_MOST_TURNS = 1 << 30


def measure(device: CudaDevice, progress: Progress = lambda name: None) -> dict[str, Roof]:
    """Return all roofs by name; TileprofError where kernels cannot be compiled or run."""
    kernels = source(device.target)
    with hooks.unrecorded(), device.current(), device.driver.beside_captures():
        image = image_of(device, kernels)
        stream = device.driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING)
        with _memory(device, stream) as memory, _Bench(device, kernels, image, stream) as bench:
            found = {}
            for plan in plans(device.target, device.sms, memory):
                progress(plan.name)
                found[plan.name] = bench.roof(plan, memory)
            progress("launch")
            for roof in bench.launches():
                found[roof.name] = roof
            return found


@contextmanager
def _memory(device: CudaDevice, stream: int) -> Iterator[Memory]:
    """Provide as much memory as there is room for, filled with ones."""
    driver, size = device.driver, _MOST_MEMORY
    while True:
        try:
            held = driver.pointer("cuMemAllocAsync", size + 256, stream)
            break
        except DriverFailure as failure:
            if failure.code != OUT_OF_MEMORY or size <= _LEAST_MEMORY:
                raise
            size //= 2
    try:
        driver.call("cuMemsetD8Async", held, 1, size + 256, stream)
        yield Memory(held, size, held + size)
    finally:
        with suppress(TileprofError):
            driver.call("cuMemFreeAsync", held, stream)
            driver.call("cuStreamSynchronize", stream)


@dataclass(frozen=True, slots=True)
class _Chosen:
    attempt: Attempt
    turns: int
    best: float
    """Work in a second."""
    time_ns: int
    """Time of a launch."""


class _Bench:
    """A loaded module, a stream, events: what it takes to run and time kernels."""

    def __init__(self, device: CudaDevice, kernels: CudaSource, image: bytes, stream: int) -> None:
        self._driver, self._stream = device.driver, stream
        self._usual_mhz = device.clock_khz / 1000
        self._module = self._driver.pointer("cuModuleLoadDataEx", image, 0, None, None)
        empty = ir.Kernel("roofs", (), (), ir.Block([], []))
        self._functions = {
            spec.function.removeprefix("roof_"): Function(device, empty, self._module, spec)
            for spec in kernels.launches
        }
        self._events: list[int] = []
        self._sink = 0

    def __enter__(self) -> _Bench:
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(TileprofError):
            for event in self._events:
                self._driver.call("cuEventDestroy_v2", event)
            self._driver.call("cuModuleUnload", self._module)

    def roof(self, plan: Plan, memory: Memory) -> Roof:
        """Find the best attempt, warm up, repeat."""
        self._sink = memory.sink
        chosen = max((self._tried(each) for each in plan.attempts), key=lambda each: each.best)
        attempt, turns = chosen.attempt, chosen.turns
        warming = min(plan.warming_ms * 1_000_000 // max(chosen.time_ns, 1) + 1, _MOST_WARMING)
        tries = []
        for left in reversed(range(_TRIES)):
            times, clock = self._timed(attempt, turns, warming, REPETITIONS)
            rates = attempt.work(turns) * 1e9 / times
            tries.append((rates[warming:], clock))
            best = max(chosen.best, *(float(each.max()) for each, _ in tries))
            share = float(np.median(rates[warming:])) / best
            slowed = share < _SLOWED or 0 < clock < _SLOWED * self._usual_mhz
            if slowed and left:
                time.sleep(_PATIENCE_S)
            elif share >= _SOUND and not slowed:
                break
        rates, clock = max(tries, key=lambda each: float(np.median(each[0])))
        return _roof(plan.name, plan.unit, rates, best, clock, plan.formula)

    def launches(self) -> Iterator[Roof]:
        """Yield the cost of a launch: on the device behind another one, and from end to end."""
        formula = f"time of {_EMPTY_LAUNCHES} empty kernels / {_EMPTY_LAUNCHES}, queued beforehand"
        gaps = np.array([self._gap() for _ in range(REPETITIONS)])
        yield _roof("launch_gap", "ns", gaps, float(gaps.min()), 0.0, formula)
        trips = np.array([self._round_trip() for _ in range(10 * REPETITIONS)])[REPETITIONS:]
        formula = (
            "host time from the call that launches an empty kernel until it is known to be over"
        )
        yield _roof("launch_round_trip", "ns", trips, float(trips.min()), 0.0, formula)

    def _tried(self, attempt: Attempt) -> _Chosen:
        """Turns for a repetition, and how good the attempt is."""
        turns, took = 1, 0
        while True:
            took = int(self._timed(attempt, turns, 0, 1)[0][0])
            if took >= _TRIAL_NS or turns >= _MOST_TURNS:
                break
            turns *= 4
        turns = max(round(turns * _REPETITION_NS / took), 1)
        times, _ = self._timed(attempt, turns, 0, _TRIALS)
        took = int(times.min())
        return _Chosen(attempt, turns, attempt.work(turns) * 1e9 / took, took)

    def _timed(
        self, attempt: Attempt, turns: int, warming: int, repetitions: int
    ) -> tuple[Floats, float]:
        """Nanoseconds of each launch, and the clock in MHz behind those that are no warming."""
        count = warming + repetitions
        events = self._driver.event_pairs(self._events, count)
        blocks, symbols = attempt.blocks(turns), attempt.symbols(turns)
        for begin, end in events:
            self._driver.call("cuEventRecord", begin, self._stream)
            self._launch(attempt.function, attempt.addresses, symbols, blocks)
            self._driver.call("cuEventRecord", end, self._stream)
        clock = self._clock() if repetitions > _TRIALS else 0.0
        self._driver.call("cuStreamSynchronize", self._stream)
        times = np.array([self._driver.elapsed_ns(*pair) for pair in events], np.float64)
        return np.maximum(times, 1), clock

    def _launch(
        self, function: str, addresses: Sequence[int], symbols: tuple[int, ...], blocks: int
    ) -> None:
        call = Call((), addresses, symbols, (), (blocks,), self._stream, 0)
        self._functions[function].launch(call)

    def _clock(self) -> float:
        """MHz, while the device still has the clock of what it did before."""
        out = self._sink + _CLOCK_OFFSET
        self._launch("clock", (out,), (_CLOCK_NS,), 1)
        read = np.zeros(2, np.uint64)
        self._driver.call("cuMemcpyDtoHAsync_v2", read.ctypes.data, out, 16, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)
        cycles, nanoseconds = read.tolist()
        return 1000 * cycles / nanoseconds if nanoseconds else 0.0

    def _gap(self) -> float:
        """Nanoseconds from one empty kernel to the next that waits in the queue."""
        begin, end = self._driver.event_pairs(self._events, 1)[0]
        self._launch("hold", (self._sink,), (_HOLD_NS,), 1)
        self._driver.call("cuEventRecord", begin, self._stream)
        for _ in range(_EMPTY_LAUNCHES):
            self._launch("nothing", (self._sink,), (0,), 1)
        self._driver.call("cuEventRecord", end, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)
        return max(self._driver.elapsed_ns(begin, end), 1) / _EMPTY_LAUNCHES

    def _round_trip(self) -> float:
        began = time.perf_counter_ns()
        self._launch("nothing", (self._sink,), (0,), 1)
        self._driver.call("cuStreamSynchronize", self._stream)
        return time.perf_counter_ns() - began


def _roof(name: str, unit: str, values: Floats, best: float, clock: float, formula: str) -> Roof:
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Roof(name, median, unit, best, (third - first) / median, len(values), clock, formula)
