"""Parallel loops of which a comparison with a constant leaves elements out.

In: a kernel.  Out: `Masked` loops: all that such a loop does is under a condition on its own
indices, which holds for a part of its elements that is known.

    parallel [%c4, %c512] body(%i, %j) { if lt %j, %c256 then { … } }        half of them
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.values import Values, values_of
from tileprof.kernel_ir import Op, TileKernel


@dataclass(frozen=True, eq=False)
class Masked:
    """A parallel loop with elements that it does nothing for."""

    op: Op
    extents: tuple[int, ...]
    inside: tuple[int, ...]
    """Elements along each dimension that it does something for."""

    @property
    def part(self) -> float:
        """Share of the elements that are left out, 0 to 1."""
        return 1 - math.prod(self.inside) / math.prod(self.extents)

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the loop in the kernel's source."""
        return frozenset(each.line for each in self.op.walk() if each.line)


@lru_cache(maxsize=2)
def masked_loops(kernel: TileKernel) -> tuple[Masked, ...]:
    """Return all of a kernel."""
    values = values_of(kernel)
    found = (_masked(values, op) for op, _ in kernel.nested if op.name == "parallel")
    return tuple(each for each in found if each is not None)


def _masked(values: Values, op: Op) -> Masked | None:
    extents = [values.number(name) for name in op.listed]
    whole = tuple(each for each in extents if each)
    if not whole or len(whole) != len(extents):
        return None
    inside, body = list(whole), op.blocks[0].ops
    while True:
        held = {each.result: each for each in body if each.results}
        does = [each for each in body if each.blocks or not each.results]
        if len(does) != 1 or does[0].name != "if" or any(e.ops for e in does[0].blocks[1:]):
            break
        asked = held.get(does[0].operands[0])
        bound = values.number(asked.operands[1]) if asked and asked.name == "lt" else None
        if asked is None or bound is None or asked.operands[0] not in op.arguments:
            break
        at = op.arguments.index(asked.operands[0])
        inside[at], body = max(0, min(inside[at], bound)), does[0].blocks[0].ops
    return Masked(op, whole, tuple(inside)) if tuple(inside) != whole else None
