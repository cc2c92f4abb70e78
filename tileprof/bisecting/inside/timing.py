"""Time of a call: many in a row, by events of the GPU's current stream or by the host's clock."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]


def on_gpu() -> bool:
    """Return whether this process uses a GPU through PyTorch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def batch_ns(call: Call, calls: int, lead: int) -> float:
    """Return the time of one of `calls` calls, in ns, after `lead` calls that are not timed."""
    for _ in range(lead):
        call()
    return _gpu_ns(call, calls) if on_gpu() else _host_ns(call, calls)


def batch_size(call: Call, batch: float, most: int) -> int:
    """Return how many calls take about `batch` ns, 1 to `most`."""
    calls = 1
    while True:
        took = min(batch_ns(call, calls, 0) for _ in range(2)) * calls
        if 4 * took >= batch or calls >= most:
            return max(1, min(most, round(batch / max(took / calls, 1.0))))
        calls = min(4 * calls, most)


def _host_ns(call: Call, calls: int) -> float:
    began = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - began) / calls


def _gpu_ns(call: Call, calls: int) -> float:
    torch: Any = sys.modules["torch"]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e6 / calls
