"""Whole numbers that a Triton kernel works out from its arguments and from where it runs.

In: expressions, made while a kernel's program is read.  Out: the interval that an expression is in
for a launch; None where it depends on what is in memory. Machine integers are taken to hold every
value, as addresses and trip counts that overflow would be mistakes in the kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Expression: TypeAlias = tuple[Any, ...]
"""A name and what it applies to: other expressions, or an int for those of `_LEAVES`."""
Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value."""
Bound: TypeAlias = Interval | None
Each: TypeAlias = Any
"""An array with one int of 64 bits for each program, one int for all of them, or None."""

MAYBE: Expression = ("maybe",)
"""Trips of code that runs once or not at all, depending on what is not known."""

_SIGNED = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "div",
    "arith.floordivsi": "floordiv", "arith.ceildivsi": "ceildiv", "arith.remsi": "rem",
    "arith.minsi": "min", "arith.maxsi": "max", "arith.andi": "and", "arith.shli": "shl",
    "arith.shrsi": "shr",
}  # fmt: skip
_UNSIGNED = {
    "arith.divui": "div", "arith.ceildivui": "ceildiv", "arith.remui": "rem", "arith.minui": "min",
    "arith.maxui": "max", "arith.shrui": "shr",
}  # fmt: skip
_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """Numbers of a launch."""

    arguments: Mapping[int, int]
    """Whole numbers among the kernel's arguments, by position in its program."""
    grid: tuple[int, int, int]
    known: dict[int, Bound] = field(default_factory=dict)
    """Intervals that were worked out, by identity of the expression."""


def combined(name: str, attribute: str, operands: list[Expression]) -> Expression | None:
    """Return the expression of an operation on integers; None where it is none of those known.

    `attribute` is the predicate of a comparison.
    """
    if name in _SIGNED:
        return (_SIGNED[name], *operands)
    if name in _UNSIGNED:
        return ("unsigned", (_UNSIGNED[name], *operands), *operands)
    if name == "arith.cmpi":
        compared: Expression = (attribute.lstrip("su"), *operands)
        return ("unsigned", compared, *operands) if attribute.startswith("u") else compared
    if name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"):
        return operands[0]
    return ("select", *operands) if name == "arith.select" else None


def bounds(expression: Expression, launch: Launch) -> Bound:
    """Return the interval that an expression is in."""
    key = id(expression)
    if key not in launch.known:
        launch.known[key] = _bounds(expression, launch)
    return launch.known[key]


def _bounds(expression: Expression, launch: Launch) -> Bound:
    name, *operands = expression
    if name in _LEAVES:
        return _LEAVES[name](launch, *operands)
    found = [bounds(each, launch) for each in operands]
    if name == "select":
        return _selected(*found)
    if name == "branch":
        return found[0] if found[0] in ((0, 0), (1, 1)) else (0, 1)
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    if name == "unsigned":
        return known[0] if all(low >= 0 for low, _ in known[1:]) else None
    return _compared(name, *known) if name in _COMPARED else _WORKED_OUT[name](*known)


def by_program(
    expression: Expression, launch: Launch, axes: Sequence[int], known: dict[int, Each]
) -> Each:
    """Return the value in each program along some axes of the grid, the last axis fastest.

    One int where all programs have the same. None where it is not known in one of them.
    """
    key = id(expression)
    if key not in known:
        known[key] = _by_program(expression, launch, axes, known)
    return known[key]


def _by_program(
    expression: Expression, launch: Launch, axes: Sequence[int], known: dict[int, Each]
) -> Each:
    name, *operands = expression
    if name == "program":
        extents = [launch.grid[axis] for axis in axes]
        return np.indices(extents, np.int64)[axes.index(operands[0])].ravel()
    if name in _LEAVES:
        low, high = _LEAVES[name](launch, *operands) or (0, 1)
        return int(low) if low == high else None
    found = [by_program(each, launch, axes, known) for each in operands]
    if any(each is None for each in found):
        return None
    if name == "unsigned":
        return found[0] if all(np.all(each >= 0) for each in found[1:]) else None
    return _EXACTLY[name](*found)


def leaves(expressions: Iterable[Expression], name: str) -> frozenset[int]:
    """Return which leaves of a name expressions have: positions of arguments (`argument`), or axes
    of the grid along which programs are counted (`program`)."""
    found, seen, left = set[int](), set[int](), list(expressions)
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if each[0] == name:
            found.add(each[1])
        left += [operand for operand in each[1:] if isinstance(operand, tuple)]
    return frozenset(found)


def _selected(condition: Bound, first: Bound, second: Bound) -> Bound:
    if condition in ((0, 0), (1, 1)):
        return first if condition == (1, 1) else second
    if first is None or second is None:
        return None
    return min(first[0], second[0]), max(first[1], second[1])


def _compared(name: str, a: Interval, b: Interval) -> Interval:
    if name in ("eq", "ne"):
        if a[0] == a[1] == b[0] == b[1]:
            equal = 1
        elif a[1] < b[0] or b[1] < a[0]:
            equal = 0
        else:
            return 0, 1
        return (equal, equal) if name == "eq" else (1 - equal, 1 - equal)
    holds = _COMPARED[name]
    corners = {int(holds(x, y)) for x in a for y in b}
    return min(corners), max(corners)


def _by_corners(work_out: Callable[[int, int], int]) -> Callable[..., Bound]:
    """Return the interval's function of one that is monotonic in each of its operands."""

    def found(a: Interval, b: Interval) -> Interval:
        corners = [work_out(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return found


def _divided(work_out: Callable[[int, int], int]) -> Callable[..., Bound]:
    inside = _by_corners(work_out)
    return lambda a, b: inside(a, b) if b[0] > 0 else None


def _shifted(work_out: Callable[[int, int], int]) -> Callable[..., Bound]:
    inside = _by_corners(work_out)
    return lambda a, b: inside(a, b) if b[0] >= 0 and b[1] < 64 else None


def _truncated(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _remainder(a: Interval, b: Interval) -> Bound:
    if a[0] < 0 or b[0] <= 0:
        return None
    if a[1] < b[0]:
        return a
    if a[0] == a[1] and b[0] == b[1]:
        return a[0] % b[0], a[0] % b[0]
    return 0, min(a[1], b[1] - 1)


def _bits_of_both(a: Interval, b: Interval) -> Bound:
    if a[0] == a[1] and b[0] == b[1]:
        return a[0] & b[0], a[0] & b[0]
    return (0, min(a[1], b[1])) if a[0] >= 0 and b[0] >= 0 else None


def _trips(begin: Interval, end: Interval, step: Interval) -> Bound:
    if step[0] <= 0:
        return None
    least = -((begin[1] - end[0]) // step[1])
    return max(least, 0), max(-((begin[0] - end[1]) // step[0]), 0)


def _iteration(begin: Interval, end: Interval) -> Bound:
    return begin[0], max(begin[0], end[1] - 1)


def _exactly_divided(work_out: Callable[..., Each]) -> Callable[..., Each]:
    return lambda a, b: work_out(a, b) if np.all(b > 0) else None


def _exactly_shifted(work_out: Callable[..., Each]) -> Callable[..., Each]:
    return lambda a, b: work_out(a, b) if np.all((b >= 0) & (b < 32)) else None


def _exact_remainder(a: Any, b: Any) -> Each:
    return a % b if np.all(a >= 0) else None


def _exact_trips(begin: Any, end: Any, step: Any) -> Each:
    return np.maximum(-((begin - end) // step), 0) if np.all(step > 0) else None


def _exactly_compared(holds: Callable[..., Any]) -> Callable[..., Each]:
    return lambda a, b: holds(a, b) * 1


_EXACTLY: dict[str, Callable[..., Each]] = {
    **{name: _exactly_compared(holds) for name, holds in _COMPARED.items()},
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _exactly_divided(lambda a, b: np.where(a >= 0, a // b, -(-a // b))),
    "floordiv": _exactly_divided(operator.floordiv),
    "ceildiv": _exactly_divided(lambda a, b: -(-a // b)),
    "rem": _exactly_divided(_exact_remainder),
    "min": np.minimum,
    "max": np.maximum,
    "and": operator.and_,
    "shl": _exactly_shifted(operator.lshift),
    "shr": _exactly_shifted(operator.rshift),
    "select": lambda condition, a, b: np.where(condition, a, b),
    "branch": lambda condition: condition,
    "trips": _exact_trips,
    "iteration": lambda begin, end: None,
}
"""Operations on the values of all programs."""


def _argument(launch: Launch, at: int) -> Bound:
    value = launch.arguments.get(at)
    return None if value is None else (value, value)


_LEAVES: dict[str, Callable[..., Bound]] = {
    "constant": lambda launch, value: (value, value),
    "argument": _argument,
    "program": lambda launch, axis: (0, max(launch.grid[axis] - 1, 0)),
    "programs": lambda launch, axis: (launch.grid[axis], launch.grid[axis]),
    "maybe": lambda launch: (0, 1),
}
"""Numbers that a launch gives, by the position of the argument or the axis of the grid."""

_WORKED_OUT: dict[str, Callable[..., Bound]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _by_corners(operator.mul),
    "div": _divided(_truncated),
    "floordiv": _divided(operator.floordiv),
    "ceildiv": _divided(lambda a, b: -(-a // b)),
    "rem": _remainder,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "and": _bits_of_both,
    "shl": _shifted(operator.lshift),
    "shr": _shifted(operator.rshift),
    "trips": _trips,
    "iteration": _iteration,
}
"""Trips of loops (`trips`: begin, end, step), their counters (`iteration`: begin, end), and
arithmetic; a division by what may be 0 or less is not known."""
