"""Proof that no two blocks of a launch touch one element, from indices as linear expressions.

Two accesses, by blocks b and b', touch one element only if their ranges meet in every dimension.
Indices of the second one are the same expressions over atoms of its own: x' for x.  The proof goes
through the cases x' = x, x' = x + 1 + t and x' = x - 1 - t with t ≥ 0, first for the block's
indices, then for quotients and loop counters.  In each case in which b ≠ b', some dimension must
be apart, or a condition around one of the accesses must fail:

    C[bx * 64 + i], 0 ≤ i < 64           bx' = bx + 1 + t:   (bx' * 64 + i') - (bx * 64 + i) - 1
                                         = 64 + 64 t + i' - i - 1 ≥ 0

What does not differ between blocks (extents, scalar arguments) keeps its atom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Effort, Linear, is_nonnegative
from tileprof.compiler.passes.ranges import Ranges

MOST_CASES = 400
"""Cases of one pair of accesses after which a proof is given up."""
MOST_SPLITS = 4
"""Atoms besides the block's indices whose order is tried."""

MOST_FACTS = 8
"""Conditions around each access that are tried in pairs."""


@dataclass(frozen=True, eq=False)
class Box:
    """Elements of one access: from `starts`, `sizes` many in each dimension, where `facts` are at
    least 0."""

    starts: tuple[Linear, ...]
    sizes: tuple[Linear, ...]
    facts: tuple[Linear, ...]


def box_of(
    ranges: Ranges,
    value: ir.Value,
    indices: tuple[ir.Value, ...] | None,
    facts: tuple[Linear, ...] = (),
) -> tuple[ir.Value, Box]:
    """Return what an access of a buffer or a view covers, and the buffer under the shape that this
    is counted in; without indices it is an access of the whole operand."""
    if indices is not None:
        starts = tuple(map(ranges.of, indices))
        return value, Box(starts, (Linear(1),) * len(starts), facts)
    if isinstance(value.owner, ir.View):
        shaped, at = ranges.window(value.owner)
        return shaped, Box(tuple(at), tuple(map(Linear, value.owner.sizes)), facts)
    extents = tuple(map(ranges.extent, value.buffer.shape))
    return value, Box((Linear(),) * len(extents), extents, facts)


@dataclass(eq=False)
class Blocks:
    """Atoms of a launch."""

    axes: tuple[Atom, ...]
    """Indices of the block; axes with one block have none."""
    uniform: int
    """Atoms up to this number are the same in all blocks."""
    dividends: Mapping[Atom, Linear]
    """Dividend of each quotient."""
    made: int
    """Number of the newest atom of the kernel."""
    effort: Effort


def apart(a: Box, b: Box, blocks: Blocks) -> bool:
    """Return whether no block's access `a` is proved to meet another block's access `b`."""
    shared = {x for start in a.starts for x in start.terms} & {
        x for start in b.starts for x in start.terms
    }
    split = sorted(
        (x for x in shared if x.number > blocks.uniform and x not in blocks.axes),
        key=lambda x: (x not in blocks.dividends, x.number),
    )
    return _Search(a, b, blocks).holds({}, [*blocks.axes, *split[:MOST_SPLITS]], False)


@dataclass
class _Search:
    a: Box
    b: Box
    blocks: Blocks
    cases: int = 0

    def holds(self, order: dict[Atom, int], rest: Sequence[Atom], differs: bool) -> bool:
        """Return whether the accesses are apart where x' - x has the signs of `order`."""
        self.cases += 1
        if self.cases > MOST_CASES or self.blocks.effort.terms < 0:
            return False
        if differs and self._apart(order):
            return True
        if not rest:
            # With all of the block's indices equal, both are one block.
            return not differs
        first, *others = rest
        if not differs and first not in self.blocks.axes:
            return True
        moved = differs or first in self.blocks.axes
        return all(
            self.holds({**order, first: sign}, others, moved if sign else differs)
            for sign in (0, 1, -1)
        )

    def _apart(self, order: Mapping[Atom, int]) -> bool:
        second = _Second(self.blocks, order)
        a, b = self.a, self.b
        starts = [second.of(start) for start in b.starts]
        stops = [s + second.of(size) for s, size in zip(starts, b.sizes)]
        ends = zip(a.starts, a.sizes, starts, stops)
        facts = [second.of(fact) for fact in b.facts]
        both = (own + other for own in a.facts[:MOST_FACTS] for other in facts[:MOST_FACTS])
        return any(map(self._never, (*a.facts, *facts, *both))) or any(
            self._proved(start - (own + size)) or self._proved(own - stop)
            for own, size, start, stop in ends
        )

    def _proved(self, value: Linear) -> bool:
        return is_nonnegative(value, (), self.blocks.effort)

    def _never(self, fact: Linear) -> bool:
        """Return whether a condition is proved to fail."""
        return self._proved(fact.times(-1).plus(-1))


class _Second:
    """Expressions of the second block in one case."""

    def __init__(self, blocks: Blocks, order: Mapping[Atom, int]) -> None:
        self._blocks = blocks
        self._order = order
        self._known: dict[Atom, Linear] = {}
        self._count = blocks.made

    def of(self, value: Linear) -> Linear:
        """Return an expression of the first block as it is in the second one."""
        self._blocks.effort.spend(value)
        made = Linear(value.constant)
        for atom, factor in value.terms.items():
            made = made + self._atom(atom).times(factor)
        return made

    def _atom(self, atom: Atom) -> Linear:
        if atom.number <= self._blocks.uniform:
            return Linear(0, {atom: 1})
        if atom not in self._known:
            self._known[atom] = self._made(atom)
        return self._known[atom]

    def _made(self, atom: Atom) -> Linear:
        same = Linear(0, {atom: 1})
        sign = self._order.get(atom)
        if sign == 0:
            return same
        bounds = {
            name: tuple(map(self.of, getattr(atom, name))) for name in ("lowers", "uppers", "cases")
        }
        if sign is None:
            dividend = self._blocks.dividends.get(atom)
            if dividend is not None and self.of(dividend).key() == dividend.key():
                return same
            return self._new(Atom(0, atom.low, atom.high, **bounds))
        # How far beyond the next number: nothing below 0, nothing past the atom's own bounds.
        if sign > 0:
            limits = [upper - same.plus(1) for upper in bounds["uppers"]]
        else:
            limits = [same.plus(-1) - lower for lower in bounds["lowers"]]
        most = max(atom.high - atom.low - 1, 0)
        beyond = self._new(Atom(0, 0, most, uppers=tuple(limits)))
        return same + beyond.plus(1).times(sign)

    def _new(self, atom: Atom) -> Linear:
        self._count += 1
        return Linear(0, {replace(atom, number=self._count): 1})
