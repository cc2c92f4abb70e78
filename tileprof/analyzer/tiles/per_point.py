"""What a parallel loop computes again for points of an axis that it does not depend on.

In: a kernel.  Out: `PerPoint` for each line of a parallel loop with such work: what it is, for how
many points it is the same, and which part of the line's work it is.

    parallel [64, 512] i, j: … exp(load G, [i]) …       512 times the same exponential
    parallel [64, 512] i, j: … x / load S, [i] …        512 divisions by one number: a reciprocal

What a thread computes for several of its points a compiler merges, so a line may cost nothing.
Loads of the same elements are left out: they come from L1, and two kernels on an H200 were no
faster with these elements in shared memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import PER_POINT_FUNCTIONS
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["PerPoint", "per_point"]

_FREE = ("constant", "view", "alloc", "yield", "parallel", "for", "if")
_FLOATS = ("float", "bfloat")


@dataclass(frozen=True, eq=False)
class PerPoint:
    """Work in a line of a parallel loop that is the same for several of its points."""

    line: int
    """Line in the kernel's source."""
    names: tuple[str, ...]
    """Functions."""
    axes: tuple[str, ...]
    """Indices that it does not depend on."""
    times: int
    """For how many points it is the same."""
    part: float
    """Share of the line's instructions, 0 to 1."""


@lru_cache(maxsize=2)
def per_point(kernel: TileKernel) -> tuple[PerPoint, ...]:
    """Return all such work of a kernel, one for each line and set of axes."""
    effects = effects_of(kernel)
    return tuple(each for op in kernel.named("parallel") for each in _of(effects, op))


def _of(effects: Effects, loop: Op) -> Iterator[PerPoint]:
    inside = [op for op in loop.walk() if op is not loop and op.name not in _FREE]
    changed = {effects.root(op.operands[1]) for op in inside if op.name == "store"}
    whole = defaultdict[int, int](int)
    same: dict[tuple[int, tuple[str, ...]], dict[str, int]] = defaultdict(dict)
    for op in inside:
        work = PER_POINT_FUNCTIONS.get(op.name, 0)
        whole[op.line] += work or 1
        if not work or not _is_float(effects, op):
            continue
        # A division by one number is a product with its reciprocal, which stays.
        used = effects.used(op.operands[1] if op.name == "div" else op.result)
        axes = tuple(each for each in loop.arguments if each not in used)
        if axes and used and not used & changed:
            held = same[op.line, axes]
            held[op.name] = held.get(op.name, 0) + work - (op.name == "div")
    for (line, axes), names in same.items():
        times = math.prod(int(effects.values.turns.get(each, 1)) for each in axes)
        if times > 1:
            part = sum(names.values()) / whole[line] * (1 - 1 / times)
            yield PerPoint(line, tuple(names), axes, times, part)


def _is_float(effects: Effects, op: Op) -> bool:
    held = effects.kernel.types.get(op.result)
    return held is not None and held.dtype.startswith(_FLOATS)
