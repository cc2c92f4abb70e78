"""Loops of a Triton kernel that go on when nothing is left to do in them.

In: a module's TTGIR.  Out: loops that carry a flag which, once it is zero in all elements, makes
all further iterations do nothing, and which no condition to leave the loop asks.

    %k:3 = scf.while (%same = %m, %length = %zero, %i = %c0) {
      %go = arith.cmpi slt, %i, %longest              asks the counter alone
    } do {
      %b = tt.load %at, %same, %c1
      %same_2 = arith.andi %same, %equal              once zero, always zero
      %length_2 = arith.addi %length, %same_2         adds nothing then
      scf.yield %same_2, %length_2, %i_2

Where a carried value is taken to be zero (or one), numbers follow from it through the body: then an
iteration does nothing if that value stays, each result that is used after the loop stays as it was,
and each store is masked. Nothing is taken from names in the source, so it does not matter how the
loop is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tileprof.analyzer.machine.triton_ops import LOOPS, Op, constant_of, operations

__all__ = ["IdleLoop", "idle_loops"]

_Value: TypeAlias = float | str
"""A number that all elements have, or the name of a value that is not known."""
_Known: TypeAlias = dict[str, _Value]

_SHAPED = (
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "ttg.convert_layout",
    "arith.extui", "arith.extsi", "arith.trunci", "arith.sitofp", "arith.uitofp", "arith.extf",
    "arith.truncf", "arith.bitcast", "tt.bitcast", "tt.unsplat",
)  # fmt: skip
"""Operations that leave a number of all elements as it is."""
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_SUMS: Mapping[str, Callable[[float, float], float]] = {
    "addi": operator.add, "addf": operator.add, "subi": operator.sub, "subf": operator.sub,
    "muli": operator.mul, "mulf": operator.mul, "maxsi": max, "maxui": max, "minsi": min,
    "minui": min, "maximumf": max, "minimumf": min, "maxnumf": max, "minnumf": min,
}  # fmt: skip
_CHANGES = ("tt.atomic", "tt.print", "tt.assert", "tt.call", "ttng.", "ttg.async", "ttg.local",
            "nvgpu", "tt.descriptor", "tt.elementwise_inline_asm", "tt.dot")  # fmt: skip
"""Operations whose effect is not read here, so that an iteration with one does something."""


@dataclass(frozen=True, slots=True)
class IdleLoop:
    """A loop that goes on without work."""

    line: int
    """First line of the loop in the source; 0 where it is not known."""
    last: int
    """Last line that has work of it."""


def idle_loops(text: str) -> tuple[IdleLoop, ...]:
    """Return all such loops of a module, in its order."""
    root = operations(text)
    ops = list(root.walk())
    used = {name for op in ops for name in op.operands}
    numbers = {
        op.results[0]: number for op in ops
        if op.results and (number := constant_of(op)) is not None
    }  # fmt: skip
    return tuple(
        IdleLoop(min(lines), max(lines)) for op in ops
        if op.name in LOOPS and _goes_on(op, numbers, used)
        and (lines := [each.line for each in (op, *op.walk()) if each.line])
    )  # fmt: skip


def _goes_on(loop: Op, numbers: Mapping[str, float], used: set[str]) -> bool:
    """Whether a loop carries such a flag."""
    return any(
        _does_nothing(loop, at, end, numbers, used)
        for at in range(len(loop.results)) for end in (0.0, 1.0)
    )  # fmt: skip


def _does_nothing(
    loop: Op, flag: int, end: float, numbers: Mapping[str, float], used: set[str]
) -> bool:
    known: _Known = dict(numbers)
    body = loop.regions[-1]
    if loop.name == "scf.while":
        # Both regions are given the same values, where the condition hands on its arguments.
        first = loop.regions[0]
        carried = first.arguments
        if len(loop.regions) != 2 or len(carried) != len(body.arguments):
            return False
        known |= {name: end if at == flag else f"{at}" for at, name in enumerate(carried)}
        _followed(first.ops, known)
        asked = first.ops[-1] if first.ops else None
        if asked is None or asked.name != "scf.condition":
            return False
        handed = [known.get(name, name) for name in asked.operands[1:]]
        if handed != [known[name] for name in carried]:
            return False
        if isinstance(known.get(asked.operands[0], ""), float):
            return False  # left once the flag says so
        known |= {name: known[carried[at]] for at, name in enumerate(body.arguments)}
    else:
        known |= {n: end if at == flag else f"{at}" for at, n in enumerate(body.arguments[1:])}
    if not body.ops or body.ops[-1].name != "scf.yield" or not _followed(body.ops, known):
        return False
    given = [known.get(name, name) for name in body.ops[-1].operands]
    if len(given) != len(loop.results) or given[flag] != end:
        return False
    return all(
        given[at] == f"{at}" for at, name in enumerate(loop.results) if name in used and at != flag
    )


def _followed(ops: list[Op], known: _Known) -> bool:
    """Work out what follows of known numbers; return whether nothing in memory changes."""
    return all([_step(op, known) for op in ops])


def _step(op: Op, known: _Known) -> bool:
    given = [known.get(name, name) for name in op.operands]
    kind = op.name.removeprefix("arith.")
    value: _Value | None = None
    if op.name == "tt.store":
        return len(given) > 2 and given[2] == 0.0
    if op.name.startswith(_CHANGES):
        return False
    if op.name == "scf.if":
        return _chosen(op, given[0], known)
    if op.regions and op.name not in ("tt.reduce", "tt.scan"):
        return all(_step(each, known) for region in op.regions for each in region.ops)
    if op.name in _SHAPED and given:
        value = given[0]
    elif op.name == "tt.load":
        masked = len(given) > 1 and given[1] == 0.0
        value = given[2] if masked and len(given) > 2 else None
    elif op.name in ("tt.reduce", "tt.scan"):
        value = given[0] if given[0] == 0.0 and len(op.operands) == 1 else None
    elif op.name.startswith("arith.") and kind != "constant":
        value = _computed(kind, op.text, given)
    if value is not None and len(op.results) == 1:
        known[op.results[0]] = value
    return True


def _chosen(op: Op, condition: _Value, known: _Known) -> bool:
    """Follow the side of a branch that is taken, or both where that is not known."""
    sides = op.regions if isinstance(condition, str) else op.regions[int(condition == 0.0) :][:1]
    # A list, so that the values of both sides are known.
    quiet = all([_followed(each.ops, known) for each in sides])
    if len(sides) == 1 and sides[0].ops and sides[0].ops[-1].name == "scf.yield":
        last = sides[0].ops[-1].operands
        known |= {name: known.get(of, of) for name, of in zip(op.results, last)}
    return quiet


def _computed(kind: str, text: str, given: list[_Value]) -> _Value | None:
    if kind == "select" and len(given) == 3:
        condition, one, other = given
        if one == other:
            return one
        return None if isinstance(condition, str) else one if condition else other
    if len(given) != 2:
        return None
    a, b = given
    if isinstance(a, float) and isinstance(b, float):
        if kind in ("cmpi", "cmpf"):
            name = text.split()[1].rstrip(",").lstrip("sou")
            return float(_COMPARED[name](a, b)) if name in _COMPARED else None
        return float(_SUMS[kind](a, b)) if kind in _SUMS else _logical(kind, a, b, text)
    for number, other in ((a, b), (b, a)):
        if isinstance(number, float) and isinstance(other, str):
            return _with_number(kind, number, other, number is b, text)
    return a if a == b and kind in ("andi", "ori", "maxsi", "minsi", "maxui", "minui") else None


def _logical(kind: str, a: float, b: float, text: str) -> float | None:
    whole = {"andi": operator.and_, "ori": operator.or_, "xori": operator.xor}
    if kind not in whole or not a.is_integer() or not b.is_integer():
        return None
    bit = text.endswith("i1") or "xi1" in text
    found = whole[kind](int(a), int(b))
    return float(found & 1 if bit else found)


def _with_number(kind: str, number: float, other: str, right: bool, text: str) -> _Value | None:
    """Return what comes of a number with a value that is not known."""
    if kind in ("andi", "muli") and number == 0.0:
        return 0.0
    if kind in ("addi", "addf", "ori", "xori") and number == 0.0:
        return other
    if kind in ("subi", "subf", "shli", "shrsi", "shrui") and number == 0.0 and right:
        return other
    if kind in ("shli", "shrsi", "shrui") and number == 0.0:
        return 0.0
    if kind in ("muli", "mulf") and number == 1.0:
        return other
    if "xi1" in text or text.endswith(": i1"):
        if kind == "andi" and number == 1.0:
            return other
        if kind == "ori" and number == 1.0:
            return 1.0
    return None
