"""Linear expressions over atoms, and a proof that one is never negative.

An atom is a number known when the kernel runs: a loop counter, a block index, a symbol, a quotient.
It has numeric bounds, and may have bounds that are expressions of atoms made before it.  To show
`e ≥ 0`, the newest atom is replaced by the bound that makes `e` smallest, until only a number is
left.  Every step keeps a lower bound, so a proof is never wrong; it may miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tileprof.once import cached_property

__all__ = ["Atom", "Linear", "is_nonnegative"]

STEPS = 256
"""Replacements after which a proof is given up."""

Factor = int | Fraction


@dataclass(eq=False, slots=True)
class Atom:
    """A whole number between `low` and `high`, and where more is known, between expressions."""

    number: int
    """Position in the order of making; bounds only name atoms with smaller numbers."""
    low: int
    high: int
    lowers: tuple[Linear, ...] = ()
    """Each is at most the atom."""
    uppers: tuple[Linear, ...] = ()
    """Each is at least the atom."""
    cases: tuple[Linear, ...] = ()
    """The atom is equal to one of these, where there are any."""


@dataclass(frozen=True, eq=False)
class Linear:
    """`constant` plus the sum of factor × atom."""

    constant: Factor = 0
    terms: Mapping[Atom, Factor] = field(default_factory=dict)

    @cached_property
    def low(self) -> Factor:
        """A number that it is never below."""
        ends = ((f, a.low if f > 0 else a.high) for a, f in self.terms.items())
        return self.constant + sum(f * end for f, end in ends)

    @cached_property
    def high(self) -> Factor:
        """A number that it is never above."""
        ends = ((f, a.high if f > 0 else a.low) for a, f in self.terms.items())
        return self.constant + sum(f * end for f, end in ends)

    @property
    def known(self) -> int | None:
        """Its value where that is one number."""
        return int(self.low) if self.low == self.high else None

    def key(self) -> tuple[object, ...]:
        """Equal for equal expressions."""
        terms = sorted((a.number, f) for a, f in self.terms.items())
        return (self.constant, *terms)

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for atom, factor in other.terms.items():
            total = terms.get(atom, 0) + factor
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(self.constant + other.constant, terms)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def plus(self, number: Factor) -> Linear:
        """With a number added."""
        return Linear(self.constant + number, self.terms)

    def times(self, number: Factor) -> Linear:
        """With every factor multiplied."""
        if not number:
            return Linear()
        return Linear(self.constant * number, {a: f * number for a, f in self.terms.items()})


def is_nonnegative(value: Linear, facts: Sequence[Linear] = ()) -> bool:
    """Whether a whole-numbered expression is proved to be at least 0, given that `facts` are."""
    budget = [STEPS]
    return any(_proved(value - fact, budget) for fact in (Linear(), *facts))


def _proved(value: Linear, budget: list[int]) -> bool:
    # A whole number above -1 is at least 0; fractions come from bounds of quotients.
    if value.low > -1:
        return True
    budget[0] -= 1
    if not value.terms or budget[0] < 0:
        return False
    newest = max(value.terms, key=lambda atom: atom.number)
    factor = value.terms[newest]
    rest = Linear(value.constant, {a: f for a, f in value.terms.items() if a is not newest})
    if factor > 0:
        ends = (*newest.lowers, Linear(newest.low))
    else:
        ends = (*newest.uppers, Linear(newest.high))
    if any(_proved(rest + end.times(factor), budget) for end in ends):
        return True
    cases = newest.cases
    return bool(cases) and all(_proved(rest + case.times(factor), budget) for case in cases)
