"""Programs of a Triton grid that compute the same, because nothing else of their number is used.

In: a module's TTGIR and the extents of a grid.  Out: how many programs there are for each distinct
work.

    %pid = tt.get_program_id x : i32
    %tile = arith.divsi %pid, %c2_i32 : i32
    %first = arith.muli %tile, %c128_i32 : i32          programs 0 and 1 have the same %first, …

Values that follow from the program's number and constants alone are worked out for the whole grid.
Where two programs agree in all of those that any other operation uses, they do the same.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.numbers.machine import PROGRAM_IDS_MOST

__all__ = ["programs_alike"]

_Numbers: TypeAlias = npt.NDArray[np.int64]

_OP = re.compile(r"^\s*(?:(%[\w-]+) = )?(.*?)(?: loc\(.*)?$")
_PROGRAM = re.compile(r"tt\.get_program_id ([xyz]) ")
_CONSTANT = re.compile(r"arith\.constant (-?\d+|true|false)(?: :|$)")
_WORDS = {"true": "1", "false": "0"}
_SCALAR = re.compile(
    r"arith\.(\w+) (?:(\w+), )?((?:%[\w-]+(?:, )?)+)(?: overflow<\w+>)? : (?:i\d+|index)\b"
)
_NAME = re.compile(r"%[\w-]+")
_APART = ("tt.atomic_", "tt.call", "ctaid", "globaltimer", "tt.get_num_programs")
"""Operations that may tell programs apart, or that add to a result once for each program."""
_AGAIN = re.compile(r"(%[\w-]+) = tt\.atomic_rmw (?:max|min|umax|umin|and|or|exch)\b.*")
"""An atomic that leaves the same behind when it is done again with the same value."""


def _quotient(a: Any, b: Any) -> Any:
    """Divide toward zero, as machines do."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "andi": operator.and_,
    "ori": operator.or_, "xori": operator.xor, "shli": operator.lshift, "shrsi": operator.rshift,
    "shrui": operator.rshift, "divsi": _quotient, "divui": _quotient,
    "floordivsi": operator.floordiv,
    "remsi": lambda a, b: a - b * _quotient(a, b), "remui": operator.mod,
    "minsi": np.minimum, "minui": np.minimum, "maxsi": np.maximum, "maxui": np.maximum,
}  # fmt: skip
_DIVIDES = ("divsi", "divui", "floordivsi", "remsi", "remui")
_ONE_TO_ONE = ("addi", "subi", "muli", "shli")
_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_SAME = ("extsi", "extui", "trunci", "index_cast")


@dataclass(frozen=True, eq=False)
class _Value:
    """A number that follows from a program's number and constants."""

    numbers: _Numbers
    """One for each program; broadcast over axes that it does not depend on."""
    axis: int = -1
    """The axis along which no two programs have the same; -1 for none, or not known."""

    @property
    def is_constant(self) -> bool:
        return self.numbers.size == 1


@lru_cache(maxsize=8)
def programs_alike(text: str, grid: Sequence[int]) -> float:
    """Return the number of programs for each distinct work; 1.0 where each has its own.

    `grid`: programs along each axis. 1.0 as well where the text is not understood, or has atomic
    operations whose results count each program.
    """
    extents = (*grid, 1, 1)[:3]
    whole = math.prod(extents)
    if "tt.get_program_id" not in text or text.count("tt.func ") != 1:
        return 1.0
    apart = _AGAIN.sub(lambda each: "" if _is_unread(text, each[1]) else each[0], text)
    if any(each in apart for each in _APART) or not 1 < whole <= PROGRAM_IDS_MOST:
        return 1.0
    used = _used(text, extents)
    held = {each.axis for each in used} - {-1}
    if all(extent == 1 or axis in held for axis, extent in enumerate(extents)):
        return 1.0
    alike = np.zeros(extents, np.int64)
    for each in used:
        _, places = np.unique(each.numbers, return_inverse=True)
        own = places.reshape(each.numbers.shape)
        joined = np.unique(alike * (own.max() + 1) + own, return_inverse=True)[1]
        alike = joined.reshape(extents)
    return whole / (int(alike.max()) + 1)


def _is_unread(text: str, name: str) -> bool:
    """Return whether nothing uses a value after the operation that gives it."""
    return len(re.findall(rf"{name}(?![\w-])", text)) == 1


def _used(text: str, extents: tuple[int, ...]) -> list[_Value]:
    """Return the values that operations use which are not worked out."""
    known, used = dict[str, _Value](), dict[int, _Value]()
    for line in text.splitlines():
        matched = _OP.match(line)
        if matched is None:
            continue
        name, told = matched[1], matched[2]
        value = _worked_out(told, known, extents) if name else None
        if value is not None:
            known[name] = value
            continue
        if name:
            known.pop(name, None)  # a name of a region before it
        for each in _NAME.findall(told):
            if each in known and not known[each].is_constant:
                used[id(known[each])] = known[each]
    return list(used.values())


def _worked_out(told: str, known: dict[str, _Value], extents: tuple[int, ...]) -> _Value | None:
    if asked := _PROGRAM.match(told):
        axis = "xyz".index(asked[1])
        shape = [extents[axis] if at == axis else 1 for at in range(3)]
        return _Value(np.arange(extents[axis], dtype=np.int64).reshape(shape), axis)
    if constant := _CONSTANT.match(told):
        number = int(_WORDS.get(constant[1], constant[1]))
        return _Value(np.full((1, 1, 1), number, np.int64))
    matched = _SCALAR.match(told)
    names = _NAME.findall(matched[3]) if matched else []
    if matched is None or not all(each in known for each in names):
        return None
    return _applied(matched[1], matched[2] or "", [known[each] for each in names])


def _applied(op: str, predicate: str, values: list[_Value]) -> _Value | None:
    numbers = [each.numbers for each in values]
    if op in _SAME and len(values) == 1:
        return values[0]
    if op == "select" and len(values) == 3:
        return _Value(np.where(*numbers))
    if len(values) != 2:
        return None
    first, second = numbers
    if op == "cmpi" and predicate.lstrip("su") in _COMPARED:
        return _Value(np.asarray(_COMPARED[predicate.lstrip("su")](first, second), np.int64))
    if op not in _BINARY or (op in _DIVIDES and not second.all()):
        return None
    one = next((each for each in values if each.axis >= 0), None)
    other = next((each for each in values if each is not one), None)
    apart = (
        one is not None and other is not None and other.is_constant and op in _ONE_TO_ONE
        and (op != "muli" or bool(other.numbers.all())) and (op != "shli" or one is values[0])
    )  # fmt: skip
    return _Value(_BINARY[op](first, second), one.axis if apart and one is not None else -1)
