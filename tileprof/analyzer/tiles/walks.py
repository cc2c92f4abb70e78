"""Blocks that walk tiles one after the other, though none needs what another one computed.

In: a kernel.  Out: `Walk`: the serial loop that all work of the launch is in, and its iterations.
They are independent where no buffer or tensor that an iteration writes is read before it is written
anew.

    launch [%c16] body(%long) { for serial %c0, %c16, %c1 body(%i) { … %long * 16 + %i … } }

Where 16 does not divide what is walked, iterations of the last blocks are outside of the tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.effects import LOOPS, Effects, effects_of
from tileprof.analyzer.tiles.padding import ACCESSES, Outside, padded_ops
from tileprof.kernel_ir import Op, TileKernel

_INDEX = "index"
_ATOMICS = ("atomic", "tile_atomic")
"""Sums into a tensor, whose order is open anyway."""
_SETTING_UP = ("constant", "alloc")


@dataclass(frozen=True, eq=False)
class Walk:
    """A loop whose iterations could be blocks of their own."""

    loop: Op
    turns: int
    """Iterations, the same for all blocks."""
    outside: float
    """Share of the iterations of all blocks that are outside of a tensor, 0 to 1."""


@lru_cache(maxsize=2)
def walk_of(kernel: TileKernel) -> Walk | None:
    """Return the walk of a kernel's only launch; None where it has none, or several launches."""
    launches = list(kernel.named("launch"))
    if len(launches) != 1:
        return None
    does = [
        op for op in launches[0].blocks[0].ops
        if op.name not in _SETTING_UP and not (op.results and op.type.dtype == _INDEX)
    ]  # fmt: skip
    if len(does) != 1 or does[0].name != "for" or does[0].word != "serial":
        return None
    loop, effects = does[0], effects_of(kernel)
    turns = [effects.values.turns.get(name) for name in loop.arguments[:1]]
    if not turns or turns[0] is None or turns[0].ndim or int(turns[0]) < 2:
        return None
    if not _independent(effects, loop):
        return None
    return Walk(loop, int(turns[0]), _outside(effects, loop, int(turns[0])))


def _independent(effects: Effects, loop: Op) -> bool:
    """Whether no iteration reads what another one writes."""
    parts = [op for op in loop.walk() if op is not loop]
    summed = {effects.root(op.operands[-1]) for op in parts if op.name in _ATOMICS}
    known = all(
        op.name in (*LOOPS, "if") if op.blocks else op.name in _ATOMICS or effects.of(op).known
        for op in parts
    )
    effect = effects.of(loop)
    return known and not effect.read & (effect.written | summed)


def _outside(effects: Effects, loop: Op, turns: int) -> float:
    """Share of the iterations that are outside of a tensor along the dimension that is walked."""
    walked = {
        (op.operands[-1][1:], dim)
        for op in loop.walk() if op.name in ACCESSES and op.operands
        for dim, index in enumerate(op.listed) if loop.arguments[0] in effects.used(index)
    }  # fmt: skip
    beyond = (each for op in padded_ops(effects.kernel) for each in op.beyond)
    parts = (_part(each) for each in beyond if (each.tensor, each.dim) in walked)
    # Less than an iteration is the rim of a tile, which other blocks would have as well.
    return max((each for each in parts if each * turns >= 1), default=0.0)


def _part(each: Outside) -> float:
    return 1 - each.extent / each.reach
