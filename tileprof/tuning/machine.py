"""Machines as the model of tiles knows them: peak rates of a GPU, or of a processor.

In: a device's name, or a target without a device; measured roofs where there are any.  Out: a
`Gpu` or a `Processor`.  A GPU without measured roofs has those of an H200, scaled to its number of
multiprocessors: their order of configurations is what matters here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tileprof.analyzer.numbers.reports import FLOORS_USUAL
from tileprof.binary.occupancy import Multiprocessor
from tileprof.compiler.cuda.target import Target

from .numbers import CPU_CACHES, CPU_FLOPS, CPU_MEMORY, SM_CLOCK

_USUAL = "NVIDIA H200"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU."""

    name: str
    target: str
    sms: int
    clock: float
    """Clock of a multiprocessor, in Hz."""
    roofs: Mapping[str, float]
    """Peak rates by name, bytes or operations a second."""
    multiprocessor: Multiprocessor

    def cycles(self, roof: str) -> float:
        """Return how many operations, or bytes, of a roof one multiprocessor does in a cycle."""
        rate = self.roofs.get(roof) or self.roofs.get("fma_float32") or 1.0
        return rate / self.sms / self.clock


@dataclass(frozen=True, slots=True)
class Processor:
    """The processor of the host, which runs one block in each thread."""

    name: str
    threads: int
    flops: float
    """Flops of a product in a second of one thread."""
    caches: tuple[tuple[int, float], ...]
    """Bytes of a thread's caches, the nearest first, and the bytes a second that each gives."""
    memory: float
    """Bytes a second that memory gives one thread."""


Machine: TypeAlias = Gpu | Processor


def gpu(
    target: Target, *, name: str = "", sms: int = 0, roofs: Mapping[str, float] | None = None
) -> Gpu:
    """Return a GPU for a target; `roofs` were measured on the device called `name`."""
    count = sms or target.sms
    known = dict(roofs or FLOORS_USUAL.get(name, {}))
    if not known:
        usual = FLOORS_USUAL[_USUAL]
        known = {each: rate * count / 132 for each, rate in usual.items()}
    known.setdefault("tensor_int8", 2 * known.get("tensor_float16", 0.0))
    known.setdefault("tensor_uint8", known["tensor_int8"])
    known.setdefault("tensor_float8_e5m2", known.get("tensor_float8_e4m3", 0.0))
    return Gpu(name or target.name, target.name, count, SM_CLOCK, known, target.multiprocessor)


def processor(threads: int) -> Processor:
    """Return the host's processor with so many threads."""
    return Processor("cpu", threads, CPU_FLOPS, CPU_CACHES, CPU_MEMORY)
