"""What a kernel costs before it runs: its compilation, and each of its calls."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import gpu_kernels as kernels
import torch
from launch_floor import driver_us, image, parts, variants

from tileprof.cli.kernel.compile_cuda import empty_cache
from tileprof.runtime.cuda.device import find_device

LAUNCHES = 10_000
QUEUED = 500
"""Launches that fit into the GPU's queue, so that none of them waits for a place in it."""


@dataclass
class Cost:
    """One row of the table: less is better."""

    name: str
    value: float
    unit: str
    asked: float
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """For the results file."""
        return {
            "work": self.name, "unit": self.unit, "asked": self.asked,
            "met": self.value <= self.asked, "ours": self.value, "note": self.note, **self.details,
        }  # fmt: skip

    def __str__(self) -> str:
        mark = "ok" if self.value <= self.asked else "MISSED"
        return (
            f"{self.name:<34} {self.value:8.2f} {self.unit:<8} asked ≤ {self.asked:g} {mark}"
            f" {self.note}"
        )


# -- compilation


def compile_cost(name: str, asked: float, make: Callable[[int], Any], turns: int = 6) -> Cost:
    """Python function to loaded cubin with empty caches, in ms; `make(turn)` gives a kernel that
    was not there before.  The first, which may load the compiler, is given apart."""
    times = []
    for turn in range(turns):
        with empty_cache():
            start = time.perf_counter()
            make(turn).variant.loaded("cuda:0", "off")
            times.append((time.perf_counter() - start) * 1e3)
    note = f"the first {times[0]:.0f}"
    return Cost(
        f"compile {name}", statistics.median(times[1:]), "ms", asked, note, {"all_ms": times}
    )


def compile_costs() -> Iterator[Cost]:
    """A product that uses everything, and a kernel without matrix instructions."""
    yield compile_cost(
        "GEMM", 600, lambda n: kernels.matmul.compile(M=2048 + n * 128, N=2048, K=2048)
    )
    yield compile_cost("softmax", 250, lambda n: kernels.softmax.compile(M=1000 + n, N=8192))


# -- calls


def launch_costs() -> Iterator[Cost]:
    """CPU time of a warm call, in µs, with tensors of PyTorch."""
    x, y, z = (torch.ones(1024, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    bound = kernels.add_into.compile(N=x.numel()).bound(x, y, z, device="cuda:0")
    three = launch_cost(
        "launch, three tensors",
        lambda: kernels.add_into(x, y, z),
        lambda: torch.add(x, y, out=z),
        lambda: driver_us(bound, QUEUED),
    )
    yield replace(three, asked=3.5, details={**three.details, "driver_variants": _variants()})
    yield launch_cost(
        "launch, two tensors and a new one", lambda: kernels.add(x, y), lambda: torch.add(x, y)
    )


def _variants() -> dict[str, dict[str, float]]:
    """Time in µs of launches of empty kernels by the driver alone; see `launch_floor.parts`."""
    device, driver = find_device(0), ctypes.CDLL("libcuda.so.1")

    def address_of(name: str) -> int:
        return ctypes.cast(getattr(driver, name), ctypes.c_void_p).value or 0

    found: dict[str, dict[str, float]] = variants(
        device, parts(device, image(device), address_of), QUEUED
    )
    for name, times in found.items():
        print(f"  {name:<40} " + "  ".join(f"{v:6.3f}" for v in times.values()), flush=True)
    return found


def launch_cost(
    name: str,
    run: Callable[[], Any],
    peer: Callable[[], Any],
    floor: Callable[[], float] | None = None,
) -> Cost:
    """The mean over 10,000 calls and one wait at the end, the least of several turns; what is
    queued alone, what of that the driver alone takes (`floor`, in µs), and PyTorch's own, beside
    it."""
    mean, waited = min(_mean_us(run) for _ in range(5))
    queued, floors = [], []
    for _ in range(20):
        queued.append(_queued_us(run))
        torch.cuda.synchronize()
        floors.append(floor() if floor is not None else 0.0)
    theirs = min(_mean_us(peer)[0] for _ in range(5))
    note = f"queueing alone {min(queued):.2f}, PyTorch {theirs:.2f}"
    if floor is not None:
        note += f", the driver alone {min(floors):.2f}"
    if waited > 0.1:
        note += f"; GPU-bound: {waited:.0%} of the time is its rest at the end"
    details = {"queued_us": min(queued), "torch_us": theirs, "waited": waited}
    if floor is not None:
        details["driver_us"] = min(floors)
    return Cost(name, mean, "µs", 5.0, note, details)


def _mean_us(run: Callable[[], Any]) -> tuple[float, float]:
    """µs a call, and the share of the wait at the end."""
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        run()
    launched = time.perf_counter()
    torch.cuda.synchronize()
    end = time.perf_counter()
    return (end - start) / LAUNCHES * 1e6, (end - launched) / (end - start)


def _queued_us(run: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(QUEUED):
        run()
    return (time.perf_counter() - start) / QUEUED * 1e6
