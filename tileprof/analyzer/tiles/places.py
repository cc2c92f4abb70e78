"""Accesses of tensors by statements of a tile kernel, and whether two are at the same place.

In: a kernel, a statement, and the ops around it.  Out: `Access`es in order, each with its place.

Places are compared by what their indices are: sums of blocks' and loops' indices, and, by axis,
how many elements in a row from there.

    store %c0, %Y, [%by * 8 + %i, %j]       parallel [8, 64]: rows from by * 8, 8 of them; 0, 64
    copy %sums, view %Y, [%by * 8, 0]       sizes [8, 64]: the same place
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

__all__ = ["Access", "Accesses", "Axis", "elements_of", "is_point", "renamed"]

_Kind: TypeAlias = Literal["read", "write", "add"]
_Sum: TypeAlias = "frozenset[tuple[object, int]]"
Axis: TypeAlias = "tuple[str, _Sum, int]"
"""What an index is, and how many elements in a row from there."""
_SPACE = "global"
_AROUND = ("launch", "for", "scope", "parallel")
"""Ops whose statements all run."""
_SINGLE = ("load", "store", "fill", "atomic")


@dataclass(frozen=True, eq=False)
class Access:
    """An access of a tensor by an op."""

    tensor: str
    kind: _Kind
    place: tuple[Axis, ...] | None
    """None where that is not known, or a condition decides."""
    op: Op
    zero: bool = False


class Accesses:
    """Accesses of a kernel's statements."""

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        self.effects: Effects = effects_of(kernel)
        self._constants = {op.result: op.word for op in kernel.named("constant")}
        self._held: dict[tuple[int, bool], tuple[Access, ...]] = {}
        self._sums: dict[str, _Sum] = {}

    def inside(
        self, op: Op, around: tuple[Op, ...], guarded: bool = False
    ) -> list[Access]:  # fmt: skip
        """Accesses of tensors by a statement and all that is inside, in order; `guarded` ones have
        places too."""
        found = list(self._own(op, around))
        inner = around if guarded and op.name == "if" else (*around, op)
        for block in op.blocks:
            for each in block.ops:
                found += self.inside(each, inner, guarded)
        return found

    def _own(self, op: Op, around: tuple[Op, ...]) -> tuple[Access, ...]:
        """Accesses of tensors by an op itself."""
        known = all(each.name in _AROUND for each in around)
        key = id(op), known
        if key not in self._held:
            known = known and op.name in (*_SINGLE, *COPIES)
            self._held[key] = tuple(
                Access(
                    tensor, kind, self._place(op, name, around) if known else None, op,
                    self._zero(op),
                )
                for tensor, kind, name in self.targets(op)
            )  # fmt: skip
        return self._held[key]

    def targets(self, op: Op) -> Iterator[tuple[str, _Kind, str]]:
        """Tensors that an op accesses, how, and the operand that says so."""
        targets: tuple[tuple[str, _Kind], ...] = ()
        if op.name == "load":
            targets = ((op.source, "read"),)
        elif op.name == "store":
            targets = ((op.operands[1], "write"),)
        elif op.name in COPIES:
            targets = ((op.source, "read"), (op.operands[1], "write"))
        elif op.name == "fill":
            targets = ((op.source, "write"),)
        elif op.name == "atomic" and op.word == "add":
            targets = ((op.operands[1], "add"),)
        elif op.name not in ("view", "reinterpret"):
            targets = tuple((name, "read") for name in op.operands)  # whatever it does there
        for name, kind in targets:
            root = self.effects.root(name)
            held = self.kernel.parameters.get(root)
            if held is not None and held.type.space == _SPACE:
                yield root, kind, name

    def _zero(self, op: Op) -> bool:
        if op.name not in ("store", "fill"):
            return False
        value = op.source if op.name == "store" else op.operands[1]
        return self._constants.get(value, 1) == 0

    def _place(self, op: Op, name: str, around: tuple[Op, ...]) -> tuple[Axis, ...] | None:
        points = self._points(around)
        if op.name in ("load", "store", "atomic"):
            if self.effects.root(name) != name:
                return None
            return tuple(self._axis(index, points) for index in op.listed)
        made = self.effects.made.get(name)
        if made is None:
            extents = self.kernel.types[name].extents
            return None if extents is None else tuple(
                ("from", frozenset[tuple[object, int]](), extent) for extent in extents
            )  # fmt: skip
        sizes = made.numbers("sizes")
        if made.name != "view" or made.source in self.effects.made:
            return None
        if len(sizes) != len(made.listed):
            return None
        firsts = (self.sum_of(index, points) for index in made.listed)
        return tuple(("from", first, size) for first, size in zip(firsts, sizes))

    def _points(self, around: tuple[Op, ...]) -> dict[str, tuple[int, int]]:
        """By the index of a `parallel`, which one it is, and how many points it has."""
        found = dict[str, tuple[int, int]]()
        for op in around:
            if op.name == "parallel":
                for name, extent in zip(op.arguments, op.listed):
                    number = self.effects.values.number(extent)
                    found[name] = (len(found), number if number is not None else 0)
        return found

    def _axis(self, index: str, points: dict[str, tuple[int, int]]) -> Axis:
        held = dict(self.sum_of(index, points))
        moving = [name for name in held if is_point(name)]
        if not any(map(_has_point, held)):
            return ("from", frozenset(held.items()), 1)
        if len(moving) == 1 and held[moving[0]] == 1:
            rest = frozenset((k, v) for k, v in held.items() if k != moving[0])
            if not any(_has_point(k) for k, _ in rest):
                return ("from", rest, _extent(moving[0]))
        return ("by", frozenset(held.items()), 1)

    def sum_of(self, name: str, points: dict[str, tuple[int, int]]) -> _Sum:
        """An index as a sum of products by constants."""
        if name not in self._sums:
            held = self._terms(name, points)
            self._sums[name] = frozenset((key, factor) for key, factor in held.items() if factor)
        return self._sums[name]

    def _terms(self, name: str, points: dict[str, tuple[int, int]]) -> dict[object, int]:
        if name in points:
            return {("point", *points[name]): 1}
        op = self.effects.made.get(name)
        if op is None:
            return {name: 1}
        if op.index is not None:
            return {"": op.index}
        if op.name in ("add", "sub", "mul") and len(op.operands) == 2:
            left, right = (dict(self.sum_of(each, points)) for each in op.operands)
            if op.name != "mul":
                sign = 1 if op.name == "add" else -1
                keys = {*left, *right}
                return {key: left.get(key, 0) + sign * right.get(key, 0) for key in keys}
            for one, other in ((left, right), (right, left)):
                if set(one) <= {""}:
                    factor = one.get("", 0)
                    return {key: factor * each for key, each in other.items()}
        of_constant = op.name == "load" and op.source in self.effects.constant
        if op.name in ("load", "for", "if", "alloc") and not of_constant:
            return {name: 1}
        words = (op.source,) if of_constant else op.words
        names = op.listed if of_constant else op.operands
        parts = tuple(self.sum_of(each, points) for each in names)
        return {("of", op.name, repr(words), parts): 1}


def renamed(place: tuple[Axis, ...], names: Mapping[str, str]) -> tuple[Axis, ...]:
    """Return a place with other indices: `names`, keyed by those that it has."""

    def key_of(key: object) -> object:
        if isinstance(key, tuple) and key[0] == "of":
            return (*key[:3], tuple(sum_of(part) for part in key[3]))
        return names.get(key, key) if isinstance(key, str) else key

    def sum_of(terms: _Sum) -> _Sum:
        return frozenset((key_of(key), factor) for key, factor in terms)

    return tuple((word, sum_of(terms), count) for word, terms, count in place)


def elements_of(place: tuple[Axis, ...]) -> int:
    """Return how many elements a place has: in a row along each axis, and for all points."""
    points = {each for _, terms, _ in place for key, _ in terms for each in _points_of(key)}
    return math.prod(count for _, _, count in place) * math.prod(extent for _, extent in points)


def _points_of(key: object) -> Iterator[tuple[int, int]]:
    """Yield the number and the extent of each point of a `parallel` in a part of an index."""
    if isinstance(key, tuple) and key[0] == "point":
        yield key[1], key[2]
    elif isinstance(key, tuple) and key[0] == "of":
        for part in key[3]:
            for inner, _ in part:
                yield from _points_of(inner)


def is_point(key: object) -> bool:
    """Whether a part of an index is the point of a `parallel`."""
    return isinstance(key, tuple) and key[0] == "point"


def _has_point(key: object) -> bool:
    """Whether an atom depends on the point of a `parallel`."""
    return next(_points_of(key), None) is not None


def _extent(key: object) -> int:
    assert isinstance(key, tuple)
    return int(key[2])
