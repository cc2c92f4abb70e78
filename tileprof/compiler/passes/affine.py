"""Linear expressions over atoms, and a proof that one is never negative.

An atom is a number known when the kernel runs: a loop counter, a block index, a symbol, a quotient.
It has numeric bounds, and may have bounds that are expressions of atoms made before it.  To show
`e ≥ 0`, the newest atom is replaced by the bound that makes `e` smallest, until only a number is
left.  Every step keeps a lower bound, so a proof is never wrong; it may miss.  How much work proofs
may take is counted (`Effort`), because a kernel may come from somebody who wants them to take long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain

from tileprof.once import cached_property

STEPS = 256
"""Replacements after which a proof is given up."""
MOST_TERMS = 200_000
"""Terms that all proofs for one kernel may add up, less than 1 s of work.  After that, nothing more
is proved, and accesses keep their guards.  The kernels of `tests/data/fuzz/ir` take at most 400."""
FRACTION_TERMS = 8
"""Terms that a term with a fraction counts as; adding fractions takes about that much longer."""
MOST_BITS = 256
"""Bits of a factor's numerator or denominator above which a proof is given up.  Factors of
quotients multiply, and long numbers make each step slow."""

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

    @cached_property
    def weight(self) -> int:
        """Its terms, where one with a fraction counts as `FRACTION_TERMS`."""
        return sum(1 if type(f) is int else FRACTION_TERMS for f in self.terms.values())

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


@dataclass(slots=True)
class Effort:
    """Work that the proofs for one kernel may still take."""

    terms: int = MOST_TERMS
    """Terms that may still be visited by all proofs together; negative where they are used up."""
    steps: int = STEPS
    """Replacements that the proof under way may still make."""

    def spend(self, *values: Linear) -> bool:
        """Count the terms of expressions before they are added up; False if none may be."""
        if self.terms >= 0:
            for value in values:
                self.terms -= 1 + value.weight
        return self.terms >= 0


def is_nonnegative(
    value: Linear, facts: Sequence[Linear] = (), effort: Effort | None = None
) -> bool:
    """Whether a whole-numbered expression is proved to be at least 0, given that `facts` are.

    Proofs that share an `effort` stop together when its terms are used up.
    """
    effort = effort or Effort()
    effort.steps = STEPS
    for fact in chain((Linear(),), facts):
        if not effort.spend(value, fact):
            break
        if _proved(value - fact, effort):
            return True
    return False


def _proved(value: Linear, effort: Effort) -> bool:
    if not effort.spend(value):
        return False
    # A whole number above -1 is at least 0; fractions come from bounds of quotients.
    if value.low > -1:
        return True
    effort.steps -= 1
    if not value.terms or effort.steps < 0:
        return False
    newest = max(value.terms, key=lambda atom: atom.number)
    factor = value.terms[newest]
    if max(factor.numerator.bit_length(), factor.denominator.bit_length()) > MOST_BITS:
        return False
    rest = Linear(value.constant, {a: f for a, f in value.terms.items() if a is not newest})
    if factor > 0:
        ends = (*newest.lowers, Linear(newest.low))
    else:
        ends = (*newest.uppers, Linear(newest.high))

    def holds(end: Linear) -> bool:
        # What cancels out has cost its terms all the same.
        return effort.spend(rest, end) and _proved(rest + end.times(factor), effort)

    return any(map(holds, ends)) or (bool(newest.cases) and all(map(holds, newest.cases)))
