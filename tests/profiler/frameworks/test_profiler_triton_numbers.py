"""Intervals of numbers that Triton kernels work out: they hold every value."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profiler.frameworks.triton_numbers import (
    Expression,
    Launch,
    bounds,
    by_program,
    combined,
    leaves,
)

GRID = (3, 4, 1)
ARGUMENTS = {0: 7, 1: -3, 2: 64}


def divided(a: int, b: int) -> int:
    """The quotient as C has it: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


MEANING: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": divided,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.remsi": lambda a, b: a - b * divided(a, b),
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.shli": lambda a, b: a << b,
    "arith.shrsi": lambda a, b: a >> b,
    "arith.divui": divided,
    "arith.remui": lambda a, b: a % b,
    "arith.minui": min,
    "slt": lambda a, b: int(a < b),
    "sge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "ult": lambda a, b: int(a < b),
}
"""Operations; a comparison by its predicate."""

Made = tuple[Expression, Callable[[tuple[int, int]], int]]
"""An expression, and what it is for the program at x and y."""

LEAVES: list[Made] = [
    *(((("constant", n)), lambda _, n=n: n) for n in (-2, 0, 1, 5, 64)),
    *(((("argument", at)), lambda _, at=at: ARGUMENTS[at]) for at in ARGUMENTS),
    (("program", 0), lambda at: at[0]),
    (("program", 1), lambda at: at[1]),
    (("programs", 0), lambda _: GRID[0]),
]


def of_two(name: str, a: Made, b: Made) -> Made:
    """An operation on two numbers."""
    operation, attribute = (name, "") if "." in name else ("arith.cmpi", name)
    made = combined(operation, attribute, [a[0], b[0]])
    assert made is not None

    def meaning(at: tuple[int, int]) -> int:
        found = MEANING[name](a[1](at), b[1](at))
        if abs(found) >= 1 << 31:
            raise OverflowError
        return found

    return made, meaning


def chosen(condition: Made, a: Made, b: Made) -> Made:
    """One of two numbers, by whether another one is above 0."""
    holds = combined("arith.cmpi", "sgt", [condition[0], ("constant", 0)])
    assert holds is not None
    made = combined("arith.select", "", [holds, a[0], b[0]])
    assert made is not None
    return made, lambda at: a[1](at) if condition[1](at) > 0 else b[1](at)


def extended(inside: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    """Operations on expressions."""
    two = st.builds(of_two, st.sampled_from(sorted(MEANING)), inside, inside)
    return two | st.builds(chosen, inside, inside, inside)


@given(st.recursive(st.sampled_from(LEAVES), extended, max_leaves=8))
def test_intervals_hold_every_value(made: Made) -> None:
    """The interval of all programs, and the value of each; what is not known is not wrong."""
    expression, meaning = made
    launch, (x, y, _) = Launch(ARGUMENTS, GRID), GRID
    whole = bounds(expression, launch)
    each = by_program(expression, launch, (0, 1), {})
    for number, at in enumerate(itertools.product(range(x), range(y))):
        try:
            value = meaning(at)
        except (ArithmeticError, ValueError):
            continue  # a division by 0, a shift by less, more than 32 bits
        assert whole is None or whole[0] <= value <= whole[1]
        assert each is None or np.broadcast_to(each, x * y)[number] == value


def between(low: int, high: int) -> Expression:
    """A number of which these are the ends."""
    return ("select", ("maybe",), ("constant", low), ("constant", high))


@pytest.mark.parametrize(
    ("begin", "end", "step", "trips"),
    [((0, 0), (100, 100), (32, 32), (4, 4)), ((0, 3), (8, 8), (4, 4), (2, 2)),
     ((5, 9), (3, 3), (1, 1), (0, 0)), ((0, 0), (0, 10), (1, 5), (0, 10))],
)  # fmt: skip
def test_trips_of_loops(
    begin: tuple[int, int], end: tuple[int, int], step: tuple[int, int], trips: tuple[int, int]
) -> None:
    """The least and the most, of begins, ends and steps that are known as intervals."""
    launch = Launch({}, (20, 20, 20))
    loop = ("trips", *(between(*each) for each in (begin, end, step)))
    assert bounds(loop, launch) == trips


def test_numbers_that_only_memory_knows() -> None:
    """A product with one is not known; a branch on one is taken or is not."""
    unknown, launch = ("argument", 9), Launch({}, GRID)
    assert bounds(("mul", ("constant", 2), unknown), launch) is None
    assert bounds(("branch", unknown), launch) == (0, 1)
    assert bounds(("trips", ("constant", 0), unknown, ("constant", 1)), launch) is None


def test_leaves_of_what_is_shared_are_found_once() -> None:
    """A chain in which each number is the sum of the one before with itself."""
    made: Expression = ("add", ("argument", 1), ("program", 2))
    for _ in range(100):
        made = ("add", made, made)
    assert leaves([made], "argument") == {1}
    assert leaves([made], "program") == {2}
    assert bounds(made, Launch({1: 0}, (1, 1, 1))) == (0, 0)
