"""Columns of numbers, one entry a row, in which a profile holds what it has much of."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Self, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]


class Columns:
    """Base of dataclasses whose fields are arrays of one length, annotated with their types."""

    __slots__ = ()

    @classmethod
    def typed(cls, *columns: Any) -> Self:
        """Return the columns, in their order, as the numbers that they are of here."""
        kind: Any = cls
        made: Self = kind(*map(np.asarray, columns, _types(kind)))
        return made

    @classmethod
    def none(cls) -> Self:
        """Return columns without a row."""
        kind: Any = cls
        return cls.typed(*[()] * len(fields(kind)))

    def columns(self) -> list[Integers]:
        """Return the columns in their order."""
        return [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]

    def is_even(self) -> bool:
        """Return whether all columns have the same length."""
        return len({len(column) for column in self.columns()}) == 1

    def __len__(self) -> int:
        return len(self.columns()[0])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(map(np.array_equal, self.columns(), other.columns()))

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays


@functools.cache
def _types(kind: type[Columns]) -> tuple[Any, ...]:
    """Return the NumPy type of each column."""
    return tuple(number_type(hint) for hint in get_type_hints(kind).values())


def number_type(hint: Any) -> type[np.generic]:
    """Return the NumPy type of the elements of an annotated array.

    How deep it stands in the annotation depends on NumPy: `NDArray` is short for an array's type
    before 2.5, and a type of its own with one argument since then.

    Raises:
        TypeError: the annotation names none.
    """
    left = [*get_args(hint)]
    while left:
        argument = left.pop()
        if isinstance(argument, type) and issubclass(argument, np.generic):
            return argument
        left += get_args(argument)
    raise TypeError(f"no type of numbers in {hint}")


def within(limits: Iterable[tuple[Integers, int, int]]) -> bool:
    """Return whether each column has only numbers from its first limit to below its second."""
    return all(not len(each) or (low <= each.min() and each.max() < end)
               for each, low, end in limits)  # fmt: skip
