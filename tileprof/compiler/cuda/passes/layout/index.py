"""Indices of element accesses as functions of the variables of the parallel loop around them.

bx·128 + i·2 + 1      terms {i: 2}, constant 1, and something that 128 divides
i // 8                no sum of variables: evaluated point by point
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

import numpy as np
import numpy.typing as npt

from tileprof import ir

Array = npt.NDArray[np.int64]
EVERY = 1 << 20
"""Divisor of 0, as far as alignment is asked for."""


@dataclass(frozen=True, slots=True)
class Form:
    """`constant` + Σ factor · variable + a number that `divisor` divides (none where it is 0)."""

    constant: int = 0
    terms: Mapping[ir.Value, int] = field(default_factory=dict)
    divisor: int = 0
    is_linear: bool = True
    """Whether it is such a sum; where it is not, the rest says nothing."""

    @property
    def is_constant(self) -> bool:
        """Whether it is one known number."""
        return self.is_linear and not self.terms and not self.divisor

    @property
    def variable(self) -> ir.Value | None:
        """The variable that it is, plainly."""
        if self.is_linear and not self.constant and not self.divisor and len(self.terms) == 1:
            ((variable, factor),) = self.terms.items()
            return variable if factor == 1 else None
        return None

    def plus(self, other: Form, sign: int = 1) -> Form:
        """The sum, or the difference."""
        if not (self.is_linear and other.is_linear):
            return _OTHER
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0) + sign * factor
        kept = {v: f for v, f in terms.items() if f}
        constant = self.constant + sign * other.constant
        return Form(constant, kept, gcd(self.divisor, other.divisor))

    def times(self, number: int) -> Form:
        """The product with a number."""
        if not self.is_linear or not number:
            return Form() if not number else self
        terms = {v: f * number for v, f in self.terms.items()}
        return Form(self.constant * number, terms, self.divisor * abs(number))


_OTHER = Form(is_linear=False)


class Forms:
    """Forms of scalars over the given variables, each worked out once."""

    def __init__(self, variables: Mapping[ir.Value, int], steps: Mapping[ir.Value, int]) -> None:
        self._variables = variables
        self._steps = steps
        """Divisors of the variables of loops around."""
        self._known: dict[ir.Value, Form] = {}

    def of(self, value: ir.Value) -> Form:
        """The form of an index."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._made(value)
        return found

    def _made(self, value: ir.Value) -> Form:
        if value in self._variables:
            return Form(0, {value: 1})
        owner = value.owner
        match owner:
            case ir.Constant(value=number):
                return Form(int(number))
            case None:
                return Form(divisor=self._steps.get(value, 1))
            case ir.Cast(operand=operand) if operand.dtype.is_integer:
                return self.of(operand)
            case ir.Binary(kind="add" | "sub" as kind, left=left, right=right):
                return self.of(left).plus(self.of(right), 1 if kind == "add" else -1)
            case ir.Binary(kind="mul", left=left, right=right):
                return self._product(self.of(left), self.of(right))
            case ir.Binary(kind="min" | "max", left=left, right=right):
                both = self.of(left), self.of(right)
                if any(not f.is_linear or f.terms for f in both):
                    return _OTHER
                return Form(divisor=gcd(*(gcd(f.constant, f.divisor) for f in both)) or EVERY)
            case _:
                parts = [self.of(v) for v in owner.operand_values() if _is_scalar(v)]
                around = any(not f.is_linear or f.terms for f in parts) or owner.SPEC.regions
                return _OTHER if around else Form(divisor=1)

    @staticmethod
    def _product(left: Form, right: Form) -> Form:
        for number, other in ((left, right), (right, left)):
            if number.is_constant:
                return other.times(number.constant)
        if not (left.is_linear and right.is_linear) or left.terms or right.terms:
            return _OTHER
        divides = [gcd(f.constant, f.divisor) or EVERY for f in (left, right)]
        return Form(divisor=min(divides[0] * divides[1], EVERY))


def _is_scalar(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.BufferType)


def behind(value: ir.Value) -> set[ir.Value]:
    """The values without an op, such as loop variables, that a scalar is computed from."""
    if value.owner is None:
        return {value}
    parts = filter(_is_scalar, value.owner.all_operand_values())
    return set[ir.Value]().union(*map(behind, parts))


def evaluate(value: ir.Value, at: Mapping[ir.Value, Array], shape: tuple[int, ...]) -> Array:
    """An index at many points; what is known at launch only counts as 0, and what is loaded as
    spread over memory."""
    if value in at:
        return at[value]
    owner = value.owner
    match owner:
        case ir.Constant(value=number):
            return np.full(shape, int(number), np.int64)
        case ir.Cast(operand=operand) if _is_scalar(operand) and operand.dtype.is_integer:
            return evaluate(operand, at, shape)
        case ir.Select(then=then):
            return evaluate(then, at, shape)
        case ir.Binary(kind=kind, left=left, right=right) if kind in _NUMPY:
            a, b = evaluate(left, at, shape), evaluate(right, at, shape)
            if kind.endswith(("div", "mod")):
                b = np.where(b == 0, 1, b)
            made: Array = _NUMPY[kind](a, b)
            return made
        case ir.Load(indices=indices):
            total = np.zeros(shape, np.int64)
            for index in indices:
                total = total * 4093 + evaluate(index, at, shape)
            return (total * 2654435761) % (1 << 24)
        case _:
            return np.zeros(shape, np.int64)


_NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": np.floor_divide,
    "truncmod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
