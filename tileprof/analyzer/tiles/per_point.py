"""What a parallel loop computes, or loads, again for points of an axis that it does not depend on.

In: a kernel.  Out: `PerPoint` for each line of a parallel loop with such work: what it is, for how
many points it is the same, and which part of the line's work it is.

    parallel [64, 512] i, j: … exp(load G, [i]) …       512 times the same load, and exponential
    parallel [64, 512] i, j: … x / load S, [i] …        512 divisions by one number: a reciprocal

What a thread computes for several of its points a compiler merges, so a line may cost nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["PerPoint", "per_point"]

_FUNCTIONS = {
    "div": 8, "sqrt": 8, "rsqrt": 6, "exp": 6, "exp2": 4, "exp10": 6, "log": 8, "log2": 6,
    "log10": 8, "log1p": 12, "sigmoid": 14, "tanh": 16, "erf": 20, "pow": 30, "sin": 20, "cos": 20,
    "tan": 30, "atan2": 30, "asin": 20, "acos": 20, "atan": 20, "sinh": 20, "cosh": 20,
}  # fmt: skip
"""Functions worth computing once, and about how many instructions each is on an H200."""
_FREE = ("constant", "view", "alloc", "yield", "parallel", "for", "if")
_FLOATS = ("float", "bfloat")


@dataclass(frozen=True, eq=False)
class PerPoint:
    """Work in a line of a parallel loop that is the same for several of its points."""

    op: Op
    """The first op of it."""
    names: tuple[str, ...]
    """Functions, or the tensors that are loaded from."""
    axes: tuple[str, ...]
    """Indices that it does not depend on."""
    times: int
    """For how many points it is the same."""
    part: float
    """Share of the line's instructions, or of its loads, 0 to 1."""

    @property
    def loads(self) -> bool:
        """Whether it is about loads."""
        return self.op.name == "load"


@lru_cache(maxsize=2)
def per_point(kernel: TileKernel) -> tuple[PerPoint, ...]:
    """Return all such work of a kernel, one of each kind for each line."""
    effects = effects_of(kernel)
    found = (
        each for op, _ in kernel.nested if op.name == "parallel" for each in _of(effects, op)
    )  # fmt: skip
    return tuple(found)


def _of(effects: Effects, loop: Op) -> Iterator[PerPoint]:
    inside = [op for op in loop.walk() if op is not loop and op.name not in _FREE]
    changed = {effects.root(op.operands[1]) for op in inside if op.name == "store"}
    whole, loads = defaultdict[int, float](float), defaultdict[int, int](int)
    same: dict[tuple[int, bool, tuple[str, ...]], list[tuple[Op, float]]] = defaultdict(list)
    for op in inside:
        whole[op.line] += _FUNCTIONS.get(op.name, 1)
        is_load = op.name == "load" and op.source in effects.constant and _is_float(effects, op)
        loads[op.line] += is_load
        name, work = (op.result, float(_FUNCTIONS.get(op.name, 0))) if op.results else ("", 0.0)
        if op.name == "div" and _is_float(effects, op):
            name, work = op.operands[1], work - 1  # the product with the reciprocal stays
        if not is_load and not (work and _is_float(effects, op)):
            continue
        used = effects.used(name)
        # What depends on no index at all, constants aside, is the same for the whole block.
        axes = tuple(each for each in loop.arguments if each not in used)
        if axes and used and not used & changed:
            same[op.line, is_load, axes].append((op, 1.0 if is_load else work))
    for (line, is_load, axes), ops in same.items():
        times = math.prod(int(effects.values.turns.get(each, 1)) for each in axes)
        if times > 1:
            names = dict.fromkeys(
                effects.root(op.source)[1:] if is_load else op.name for op, _ in ops
            )
            part = sum(work for _, work in ops) / (loads[line] if is_load else whole[line])
            yield PerPoint(ops[0][0], tuple(names), axes, times, part * (1 - 1 / times))


def _is_float(effects: Effects, op: Op) -> bool:
    held = effects.kernel.types.get(op.result)
    return held is not None and str(held.dtype).startswith(_FLOATS)
