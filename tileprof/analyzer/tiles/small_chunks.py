"""Loops of a tile kernel that reduce a chunk of a tensor across threads in each iteration, of so few
elements that a thread has one or two of them.

In: a kernel.  Out: `SmallChunk` for each such loop.

    for k in 128: copy X[row, k * 256 …], x; reduce max x, top          256 elements, 256 threads
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.numbers.tiles import SMALL_CHUNKS_EACH, SMALL_CHUNKS_TURNS
from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

__all__ = ["SmallChunk", "small_chunks"]


@dataclass(frozen=True, eq=False)
class SmallChunk:
    """A loop over chunks."""

    loop: Op
    elements: int
    """Elements of a chunk."""
    threads: int
    turns: int

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the loop in the kernel's source."""
        return frozenset(each.line for each in self.loop.walk() if each.line)


@lru_cache(maxsize=2)
def small_chunks(kernel: TileKernel) -> tuple[SmallChunk, ...]:
    """Return all such loops of a kernel, the innermost ones."""
    effects, found = effects_of(kernel), dict[int, SmallChunk]()
    for op, around in kernel.nested:
        loops = [each for each in around if each.name == "for"]
        if op.name != "reduce" or not loops:
            continue
        loop, threads = loops[-1], math.prod(n for each in around for n in each.numbers("threads"))
        elements = math.prod(kernel.types[op.source].extents or (0,))
        turns = int(effects.turns(loop))
        few = threads <= elements <= SMALL_CHUNKS_EACH * threads
        if few and turns >= SMALL_CHUNKS_TURNS and _walks(effects, loop):
            found[id(loop)] = SmallChunk(loop, elements, threads, turns)
    return tuple(found.values())


def _walks(effects: Effects, loop: Op) -> bool:
    """Whether each iteration reads another part of a tensor that does not change."""
    index = loop.arguments[0]
    places = (
        (each.source, (each.source,) if each.name in COPIES else each.listed)
        for each in loop.walk() if each.name in (*COPIES, "load")
    )  # fmt: skip
    return any(
        effects.root(source) in effects.constant and any(index in effects.used(n) for n in names)
        for source, names in places
    )
