"""Masks of a Triton kernel that say what its numbers tell as well.

In: a module's TTGIR, and the numbers that launches were given.  Out: branches in loops that
reductions of masks decide, where the masks depend on places alone; and axes of tiles that reach
further than the next power of two.

    %ok = arith.cmpi slt, %places, %n                 depends on no memory
    %any = "tt.reduce"(%ok) …                         threads meet in each iteration
    scf.if %any > 0 { … }                             `start < n` says the same
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileprof.analyzer.machine.triton_ops import LOOPS, Op, from_memory, operations

__all__ = ["Axis", "place_checks", "wide_axes"]

_RANGE = re.compile(r"end = (\d+) : i32, start = 0 ")
_SHAPED = ("tt.splat", "tt.expand_dims", "tt.broadcast", "ttg.convert_layout", "arith.extsi")
_ACCESSES = ("tt.load", "tt.store")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of tiles that a mask compares with a number of the launch."""

    extent: int
    """Elements of the tile along it."""
    limit: str
    """The parameter that the mask compares places with."""
    needed: int
    """The next power of two from the largest of its numbers."""
    line: int
    """Line of the comparison; 0 where it is not known."""


def place_checks(text: str) -> tuple[int, ...]:
    """Return lines of branches in loops that reductions of places decide."""
    root = operations(text)
    ops = list(root.walk())
    loaded, made = from_memory(ops), {name: op for op in ops for name in op.results}
    found = list[int]()
    for loop in (op for op in ops if op.name in LOOPS):
        inside = {id(op) for op in loop.walk()}
        for op in loop.walk():
            if op.name != "scf.if" or not op.line or op.operands[0] in loaded:
                continue
            asked = [each for each in _slice(op.operands[0], made) if id(each) in inside]
            if any(each.name == "tt.reduce" for each in asked):
                found.append(op.line)
    return tuple(dict.fromkeys(found))


def wide_axes(text: str, numbers: Mapping[str, int]) -> tuple[Axis, ...]:
    """Return axes of which half the tile or more is behind the limit, where most accesses of tiles
    are masked by it. `numbers`: the largest that launches were given, by parameter."""
    root = operations(text)
    ops = list(root.walk())
    made = {name: op for op in ops for name in op.results}
    accesses = [each for each in ops if each.name in _ACCESSES and "tensor<" in each.text]
    found = list[Axis]()
    for op in (each for each in ops if each.text.startswith("arith.cmpi slt, ")):
        extent, limit = (_plain(each, made) for each in op.operands)
        place = _RANGE.search(extent.text) if isinstance(extent, Op) else None
        if place is None or not isinstance(limit, str) or numbers.get(limit[1:], 0) <= 0:
            continue
        needed = 1 << (numbers[limit[1:]] - 1).bit_length()
        masked = sum(any(op is e for e in _mask(each, made)) for each in accesses)
        if 2 * needed <= int(place[1]) and 2 * masked > len(accesses):
            found.append(Axis(int(place[1]), limit[1:], needed, op.line))
    return tuple({each.limit: each for each in found}.values())


def _plain(name: str, made: Mapping[str, Op]) -> Op | str:
    """Return the operation whose numbers a value has in another shape, or the parameter."""
    while (op := made.get(name)) is not None and op.name in _SHAPED:
        name = op.operands[0]
    return op or name


def _mask(access: Op, made: Mapping[str, Op]) -> list[Op]:
    at = 1 if access.name == "tt.load" else 2
    return list(_slice(access.operands[at], made)) if len(access.operands) > at else []


def _slice(name: str, made: Mapping[str, Op]) -> Iterator[Op]:
    """Yield the operations that a value is made by; loops are not followed inside."""
    held, seen = [name], set[str]()
    while held:
        each = held.pop()
        if each in seen or (op := made.get(each)) is None:
            continue
        seen.add(each)
        yield op
        held += op.operands
