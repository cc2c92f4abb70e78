"""How GPU work is timed here, and under what circumstances it was.

`tileprof.bench` times batches.  A ratio is the median over interleaved pairs: ours, the peer's,
ours, … so that a change of the clock meets both sides.  Its interval holds the middle 90 % of the
pairs.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from tileprof.bench import CudaTimer, batch_sizes, in_turns, read_gpu, replayed, torch_timer
from tileprof.once import once

__all__ = [
    "PAIRS", "Pairs", "Work", "alone", "batch_ms", "circumstances", "clocks", "compare", "fastest",
    "launches", "replayed", "times",
]  # fmt: skip

PAIRS = 21
ROUNDS = 5
"""Batches of each way of ours, of which the median decides which one is compared."""


@dataclass(frozen=True)
class Pairs:
    """Interleaved times of ours and of one peer, in ms a launch."""

    peer: str
    ours_ms: float
    peer_ms: float
    ratio: float
    """Peer's time over ours: above 1 we are faster."""
    low: float
    high: float
    pairs: int
    mean: float
    """Geometric, of the ratios of the pairs."""


@dataclass
class Work:
    """One row of the table."""

    name: str
    amount: float
    """Floating-point operations, or bytes."""
    unit: str
    """TFLOP/s or GB/s."""
    asked: float
    aim: float
    results: list[Pairs] = field(default_factory=list)
    note: str = ""
    ways: dict[str, float] = field(default_factory=dict)
    """Ours in each way that was tried, in ms, in turns and in a few batches only."""

    @property
    def decisive(self) -> Pairs | None:
        """The pair with the fastest peer."""
        return min(self.results, key=lambda p: p.peer_ms, default=None)

    def rate(self, ms: float) -> float:
        """The amount at a time."""
        return self.amount / (ms * 1e-3) / (1e12 if self.unit == "TFLOP/s" else 1e9)

    def row(self) -> dict[str, Any]:
        """For the results file."""
        best = self.decisive
        return {
            "work": self.name,
            "unit": self.unit,
            "asked": self.asked,
            "aim": self.aim,
            "met": best is not None and best.ratio >= self.asked,
            "ours": self.rate(best.ours_ms) if best else None,
            "ratio": best.ratio if best else None,
            "peers": [{**asdict(p), "rate": self.rate(p.peer_ms)} for p in self.results],
            "note": self.note,
            "ways": {name: self.rate(ms) for name, ms in self.ways.items()},
        }

    def __str__(self) -> str:
        best = self.decisive
        if best is None:
            return f"{self.name:<34} {self.note}"
        mark = "ok" if best.ratio >= self.asked else "MISSED"
        return (
            f"{self.name:<34} {self.rate(best.ours_ms):8.0f} {self.unit:<8} "
            f"{best.ratio:6.3f}× {best.peer:<10} [{best.low:.3f}, {best.high:.3f}] "
            f"asked {self.asked:.2f} {mark} {self.note}"
        )


_timer = once(torch_timer)


def batch_ms(run: Callable[[], Any], launches: int) -> float:
    """Time of a launch in a batch, by CUDA events, in ms."""
    return _timer().batch(run, launches).ns / 1e6


def launches(runs: Sequence[Callable[[], Any]]) -> list[int]:
    """How many launches of each make a batch."""
    return batch_sizes([batch_ms(run, 3) * 1e6 for run in runs], CudaTimer.most_calls)


def times(batches: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Times of batches of each, in turns."""
    return [list(column) for column in zip(*islice(in_turns(batches), rounds))]


def compare(
    ours: Callable[[], Any], peers: Mapping[str, Callable[[], Any]], pairs: int = PAIRS
) -> list[Pairs]:
    """Ours against each peer, in turns."""
    found = []
    for name, peer in peers.items():
        runs = (ours, peer)
        for run in runs:
            run()  # compiles, where it has not yet
        batches = [partial(batch_ms, *each) for each in zip(runs, launches(runs))]
        mine, theirs = times(batches, pairs)
        ratios = sorted(p / o for o, p in zip(mine, theirs))
        found.append(
            Pairs(
                name,
                statistics.median(mine),
                statistics.median(theirs),
                statistics.median(ratios),
                ratios[round(0.05 * (pairs - 1))],
                ratios[round(0.95 * (pairs - 1))],
                pairs,
                statistics.geometric_mean(ratios),
            )
        )
    return found


def alone(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The time of each call by itself, in ms, the fastest first.

    All are timed in turns: a GPU at its limit of power has a lower clock from batch to batch, and
    what was timed first would win.  Batches are as long as those of `compare`: in shorter ones the
    clock is higher, and another call may be the fastest.
    """
    runs = list(calls.values())
    for run in runs:
        run()
    taken = times([partial(batch_ms, *each) for each in zip(runs, launches(runs))], ROUNDS)
    found = dict(zip(calls, map(statistics.median, taken)))
    return dict(sorted(found.items(), key=lambda each: each[1]))


def fastest(calls: Mapping[str, Callable[[], Any]]) -> str:
    """The name of the call that takes the least time."""
    return next(iter(alone(calls)))


def clocks() -> dict[str, str]:
    """State of the first GPU, under the names that `nvidia-smi` has for it."""
    state = read_gpu()
    if state is None:
        return {}
    return {
        "name": state.name,
        "driver_version": state.driver,
        "clocks.sm": f"{state.sm_mhz} MHz",
        "clocks.mem": f"{state.memory_mhz} MHz",
        "power.draw": f"{state.watts} W",
        "temperature.gpu": str(state.celsius),
    }


def circumstances() -> dict[str, Any]:
    """Device, versions and date of a run."""
    import torch

    import tileprof

    found: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "device": torch.cuda.get_device_name(),
        "gpu": clocks(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "tileprof": tileprof.__version__,
    }
    try:
        import tilelang

        found["tilelang"] = tilelang.__version__
    except Exception as error:
        found["tilelang"] = f"not measured: {type(error).__name__}"
    return found
