"""How much faster a kernel goes with more blocks side by side on a multiprocessor.

In: a kernel, how many blocks a multiprocessor holds, and how many it would.  Out: how many times as
much they do.

A block that is alone loads, then computes, then stores, and what it does not use stands still
meanwhile. With others beside it each part of a multiprocessor serves one of them while the rest are
elsewhere: a closed network of queues. Its throughput is that of mean value analysis (Reiser and
Lavenberg, Journal of the ACM 27, 1980): of n blocks, one is at a station of demand D for
D (1 + those that stand there among n - 1). Stations are memory, of which the bytes are known that
have to move, or else the queue to it that is full; shared memory, by passes, as many as the
addresses of lanes have; and schedulers, by what they issue. What is left of the time is latency,
for which nobody stands in line: as much of it as makes the blocks that there are as fast as they
were. Where the stations alone would be slower, warps of one block are at several of them at once,
so all but the busiest count for less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.kernel.memory_use import memory_use
from tileprof.analyzer.kernel.queues import passes_of
from tileprof.analyzer.kernel.shared_memory import passes_at
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.kernels import SIDE_BY_SIDE_HALVINGS, SIDE_BY_SIDE_LEAST
from tileprof.analyzer.numbers.shared import SCHEDULERS

_QUEUES = ("lg_throttle", "mio_throttle", "tex_throttle")
_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL")


def demands(case: KernelCase, code: KernelCode) -> list[float]:
    """Of the time, the share in which memory, shared memory and schedulers each are at work."""
    use, issuing = memory_use(case), busy_share(code)
    moving = use.share / use.reached if use else 0.0
    full = code.n(reasons=_QUEUES) / code.whole
    return [min(each, 1.0) for each in (max(moving, full), _passes(case, code, issuing), issuing)]


def faster(stations: Sequence[float], now: int, then: float) -> float:
    """How many times as much `then` blocks do as `now`; between whole numbers in proportion."""
    most = max(stations, default=0.0)

    def overlapped(part: float) -> list[float]:
        return [each if each == most else part * each for each in stations]

    def rate(part: float, latency: float, blocks: int) -> float:
        return throughput(overlapped(part), latency, blocks)

    if rate(1.0, 0.0, now) > 1:
        part, latency = 1.0, _falling_to_one(lambda each: rate(1.0, each, now), float(now))
    else:
        part, latency = _falling_to_one(lambda each: rate(each, 0.0, now), 1.0), 0.0
    whole = int(then)
    low, high = (max(1.0, rate(part, latency, each)) for each in (whole, whole + 1))
    return low + (then - whole) * (high - low)


def throughput(stations: Sequence[float], latency: float, blocks: int) -> float:
    """What a network of queues does in the time in which a block alone takes its demands."""
    held, rate = [0.0] * len(stations), 0.0
    for count in range(1, blocks + 1):
        answers = [demand * (1 + there) for demand, there in zip(stations, held)]
        rate = count / max(latency + sum(answers), SIDE_BY_SIDE_LEAST)
        held = [rate * each for each in answers]
    return rate


def _falling_to_one(rate: Callable[[float], float], most: float) -> float:
    """Where a falling rate is 1, or nearest to it."""
    low, high = 0.0, most
    for _ in range(SIDE_BY_SIDE_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > 1 else (low, middle)
    return high


def _passes(case: KernelCase, code: KernelCode, issuing: float) -> float:
    """Of cycles, the share in which shared memory has a pass: one a cycle for all schedulers."""
    ways = {index: passes / ideal for index, (passes, ideal) in passes_at(case).items()}
    passes = sum(
        (1 + ways.get(index, 1.0) * (passes_of(code.instructions[index]) - 1))
        * code.n([index], (ISSUED,))
        for index in code.named(*_SHARED)
    )
    return SCHEDULERS * issuing * passes / code.issued if code.issued else 0.0
