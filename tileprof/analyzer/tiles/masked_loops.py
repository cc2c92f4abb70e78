"""Parallel loops of which a comparison leaves elements out: with a constant, or a loop's index.

In: a kernel.  Out: `Masked` loops: all that such a loop does is under a condition on its own
indices, which holds for a part of its elements that is known.

    parallel [%c4, %c512] body(%i, %j) { if lt %j, %c256 then { … } }        half of them
    for %k in 64: parallel [%c64] body(%i) { if ge %i, %k then { … } }       half, on average
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.tiles.values import Values, values_of
from tileprof.kernel_ir import Op, TileKernel


@dataclass(frozen=True, eq=False)
class Masked:
    """A parallel loop with elements that it does nothing for."""

    op: Op
    extents: tuple[int, ...]
    inside: tuple[float, ...]
    """Elements along each dimension that it does something for, on average."""

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
    middles = {each.arguments[0]: _middle(values, each) for each in kernel.named("for")}
    found = (_masked(values, middles, op) for op, _ in kernel.nested if op.name == "parallel")
    return tuple(each for each in found if each is not None)


def _middle(values: Values, loop: Op) -> float | None:
    """Return the mean of a loop's index; None where its range is not known."""
    bounds = [values.number(each) for each in loop.operands[:3]]
    known = [each for each in bounds if each is not None]
    return (known[0] + known[1] - known[2]) / 2 if len(known) == 3 else None


def _masked(values: Values, middles: Mapping[str, float | None], op: Op) -> Masked | None:
    extents = [values.number(name) for name in op.listed]
    whole = tuple(each for each in extents if each)
    if not whole or len(whole) != len(extents):
        return None
    ranges, body = [(0.0, float(extent)) for extent in whole], op.blocks[0].ops
    while True:
        held = {each.result: each for each in body if each.results}
        does = [each for each in body if each.blocks or not each.results]
        if len(does) != 1 or does[0].name != "if" or any(e.ops for e in does[0].blocks[1:]):
            break
        bounds = list(_bounds(values, middles, held, does[0].operands[0]))
        if any(each is None or each[0] not in op.arguments for each in bounds):
            break
        for index, low, high in filter(None, bounds):
            at = op.arguments.index(index)
            ranges[at] = (
                max(ranges[at][0], low or 0),
                min(ranges[at][1], whole[at] if high is None else high),
            )
        body = does[0].blocks[0].ops
    inside = tuple(max(0.0, high - low) for low, high in ranges)
    return Masked(op, whole, inside) if inside != whole else None


_NOT = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
"""Comparisons that say the same with their operands exchanged."""


def _bounds(
    values: Values, middles: Mapping[str, float | None], held: Mapping[str, Op], name: str,
    holds: bool = True,
) -> Iterator[tuple[str, float | None, float | None] | None]:  # fmt: skip
    """Yield, of comparisons that must all hold, the index, the first number that it may be and the
    one after the last; None for what is no comparison of an index with a constant, or with that of
    a loop, whose mean is taken."""
    asked = held.get(name)
    if asked is not None and asked.name == "not":
        yield from _bounds(values, middles, held, asked.operands[0], not holds)
    elif asked is not None and asked.name == "and" and holds:
        for each in asked.operands[:2]:
            yield from _bounds(values, middles, held, each)
    elif asked is not None and asked.name in _NOT:
        kind = asked.name if holds else _NOT[asked.name]
        index, other = asked.operands[:2]
        if _number(values, middles, other) is None:
            index, other, kind = other, index, _TURNED[kind]
        number = _number(values, middles, other)
        if number is None:
            yield None
        elif kind in ("lt", "le"):
            yield index, None, number + (kind == "le")
        else:
            yield index, number + (kind == "gt"), None
    else:
        yield None


def _number(values: Values, middles: Mapping[str, float | None], name: str) -> float | None:
    """Return a constant, or the mean of a loop's index."""
    return middles[name] if name in middles else values.number(name)
