"""Iterations of the steps of a program in one launch, and their sizes.

In: a configuration.  Out: iterations as means over programs; `NotKnown` where data decides them.
"""

from __future__ import annotations

import math

import numpy as np

from tileprof.profiler.frameworks import triton_numbers as numbers
from tileprof.profiler.frameworks.triton_accesses import LOADS, STORES, Step, is_branch
from tileprof.profiler.frameworks.triton_numbers import Expression, Launch
from tileprof.remarks.pruning import DataDecidesLoop

from .configured import Configured, NotKnown
from .numbers import MOST_PROGRAMS

LINEAR = (2, 1, 0)
"""Axes of a grid such that programs are in the order in which they start: x fastest."""


class Iterations:
    """The steps of a program, with the numbers of one launch."""

    def __init__(self, given: Configured) -> None:
        self.given = given
        self.launch = Launch(given.arguments, given.grid)
        self.steps = given.work.steps
        self.values: dict[int, numbers.Each] = {}
        """Values of expressions in each program, by their identity."""
        self._means: dict[int, float] = {}

    def mean(self, trips: Expression | None) -> float:
        """Return how often a loop or branch runs, as a mean over programs."""
        if trips is None:
            raise NotKnown(DataDecidesLoop())
        key = id(trips)
        if key not in self._means:
            self._means[key] = self._mean(trips)
        return self._means[key]

    def _mean(self, trips: Expression) -> float:
        if trips == numbers.MAYBE:
            return 1.0
        found = numbers.bounds(trips, self.launch)
        if found is not None and found[0] == found[1]:
            return float(found[0])
        if self.given.blocks <= MOST_PROGRAMS:
            each = numbers.by_program(trips, self.launch, LINEAR, self.values)
            if each is not None:
                return float(np.mean(each))
        if found is None:
            if is_branch(trips):
                return 1.0
            raise NotKnown(DataDecidesLoop())
        return (found[0] + found[1]) / 2


def loops_of(around: tuple[tuple[int, Expression | None], ...]) -> tuple[int, ...]:
    """Return the loops among the loops and branches around a step."""
    return tuple(loop for loop, trips in around if not is_branch(trips))


def is_load(step: Step) -> bool:
    """Return whether a step reads a tensor."""
    return step.name in LOADS


def is_store(step: Step) -> bool:
    """Return whether a step writes a tensor; an atomic one does both."""
    return step.name in STORES


def bytes_of(kind: str) -> int:
    """Return the bytes of an element of a type as Triton writes it."""
    if kind.startswith(("!tt.ptr", "i64", "f64")):
        return 8
    if kind.startswith(("f8", "i8", "i1", "i4")) and not kind.startswith("i16"):
        return 1
    return 2 if kind.startswith(("f16", "bf16", "i16")) else 4


def size_of(step: Step) -> float:
    """Return the bytes of a step's tile."""
    return float(math.prod(step.shape) * bytes_of(step.kind))
