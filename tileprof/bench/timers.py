"""Timers of batches of calls: the host's clock, and events of a GPU.

In: a function without arguments, and how often it is called.  Out: a `Batch`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tileprof.errors import ExecutionError, from_extra
from tileprof.runtime.cuda.device import CudaDevice, find_device
from tileprof.runtime.cuda.driver import L2_BYTES

Run = Callable[[], Any]
Clock = Callable[[], int]

_LEAD_PART = 20
"""One call in so many runs before a batch begins, and is not timed: the GPU is still busy with
these when the first calls of the batch are queued, so it does not wait for the host."""
_FLUSHES = 2
"""Caches' worth of memory that is overwritten to flush L2."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Time of one batch, in ns for each call."""

    ns: float
    issue_ns: float
    """Host time until a call has returned; a GPU may still work on it."""
    tail_ns: float = 0.0
    """Time from the return of the last call until its work was over, for the whole batch."""
    late_ns: float = 0.0
    """Time for which the GPU still worked on other streams after that, for the whole batch."""


class Timer(Protocol):
    """A way to time a batch."""

    clock: str
    """`host` or `gpu`."""
    most_calls: int
    """Largest number of calls in a batch."""

    def batch(self, run: Run, calls: int) -> Batch:
        """Time this many calls."""


class HostTimer:
    """The host's monotonic clock; `wait` returns when what calls have started is over."""

    clock = "host"
    most_calls = 1_000_000

    def __init__(
        self,
        wait: Run = lambda: None,
        clock: Clock = time.perf_counter_ns,
        flush: Run | None = None,
    ) -> None:
        self._wait, self._now, self._flush = wait, clock, flush
        if flush is not None:
            # Flushing is not timed, and takes many times as long as a short call.
            self.most_calls = CudaTimer.most_calls

    def batch(self, run: Run, calls: int) -> Batch:
        """Time calls from the first one's begin until all they started is over."""
        now, wait = self._now, self._wait
        if self._flush is not None:
            return self._flushed(run, calls)
        wait()
        begin = now()
        for _ in range(calls):
            run()
        issued = now()
        wait()
        over = now()
        return Batch((over - begin) / calls, (issued - begin) / calls, over - issued)

    def _flushed(self, run: Run, calls: int) -> Batch:
        now, wait, flush = self._now, self._wait, self._flush
        assert flush is not None
        spent = issued = 0
        for _ in range(calls):
            flush()
            wait()
            begin = now()
            run()
            issued += now() - begin
            wait()
            spent += now() - begin
        return Batch(spent / calls, issued / calls)


class CudaTimer:
    """Events on the stream that calls launch on; with `flush`, L2 is overwritten before each call.

    `stream` returns the handle of the stream, 0 for the legacy default stream.
    """

    clock = "gpu"
    most_calls = 400
    """A GPU's queue holds about a thousand launches; beyond that, the host waits."""

    def __init__(
        self,
        device: CudaDevice,
        stream: Callable[[], int] = lambda: 0,
        flush: bool = False,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self._device, self._driver = device, device.driver
        self._stream, self._now = stream, clock
        self._overwrite = flusher(device, stream) if flush else None
        self._events: list[int] = []

    def batch(self, run: Run, calls: int) -> Batch:
        """Time calls between two events; with flushing, each call between two of its own."""
        with self._device.current():
            return self._flushed(run, calls) if self._overwrite else self._whole(run, calls)

    def empty_ns(self) -> float:
        """Return the time between two events with nothing in between."""
        with self._device.current():
            (pair,) = self._driver.event_pairs(self._events, 1)
            for event in pair:
                self._record(event)
            self._driver.call("cuEventSynchronize", pair[1])
            return float(self._driver.elapsed_ns(*pair))

    def wait(self) -> None:
        """Return when the device has nothing to do."""
        with self._device.current():
            self._driver.call("cuCtxSynchronize")

    def _whole(self, run: Run, calls: int) -> Batch:
        ((begin, end),) = self._driver.event_pairs(self._events, 1)
        for _ in range(max(1, calls // _LEAD_PART)):
            run()
        self._record(begin)
        started = self._now()
        for _ in range(calls):
            run()
        issued = self._now() - started
        self._record(end)
        after = self._after(end)
        return Batch(self._driver.elapsed_ns(begin, end) / calls, issued / calls, *after)

    def _flushed(self, run: Run, calls: int) -> Batch:
        assert self._overwrite is not None
        pairs, issued = self._driver.event_pairs(self._events, calls), 0
        for begin, end in pairs:
            self._overwrite()
            self._record(begin)
            started = self._now()
            run()
            issued += self._now() - started
            self._record(end)
        after = self._after(pairs[-1][1])
        spent = sum(self._driver.elapsed_ns(*pair) for pair in pairs)
        return Batch(spent / calls, issued / calls, *after)

    def _after(self, end: int) -> tuple[int, int]:
        """Wait for an event, then for the device; return how long each took, in ns."""
        issued = self._now()
        self._driver.call("cuEventSynchronize", end)
        over = self._now()
        self._driver.call("cuCtxSynchronize")
        return over - issued, self._now() - over

    def _record(self, event: int) -> None:
        self._driver.call("cuEventRecord", event, self._stream())


def flusher(device: CudaDevice, stream: Callable[[], int]) -> Run:
    """Return a function that overwrites L2 from the stream, with memory allocated once."""
    driver = device.driver
    with device.current():
        size = _FLUSHES * driver.number(
            "cuDeviceGetAttribute", L2_BYTES, driver.number("cuDeviceGet", device.number)
        )
        place = driver.pointer("cuMemAllocAsync", size, stream())

    def overwrite() -> None:
        with device.current():
            driver.call("cuMemsetD8Async", place, 0, size, stream())

    return overwrite


def torch_stream() -> int:
    """Return PyTorch's current stream where PyTorch uses a GPU, else the default stream, 0."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)


def torch_timer() -> CudaTimer:
    """Return the timer of PyTorch's current device and stream."""
    import torch

    return CudaTimer(find_device(torch.cuda.current_device()), torch_stream)


def replayed(calls: Sequence[Run]) -> Run:
    """Return the replay of one CUDA graph that holds these calls, captured by PyTorch."""
    with from_extra("torch"):
        import torch
    for call in dict.fromkeys(calls):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept = []
    try:
        with torch.cuda.graph(graph):
            for call in calls:
                kept.append(call())
    except RuntimeError as error:
        raise ExecutionError(
            f"the calls cannot be captured as a CUDA graph: {error}",
            hint="What waits for the GPU or copies to the host cannot be: leave that out, or time "
            "without a graph.",
        ) from error

    def replay(graph: Any = graph, kept: Any = kept) -> None:
        graph.replay()

    return replay
