"""Elements of tensors that a tile kernel writes although nothing needs them there.

In: a kernel.  Out: `RoundTrip`s of fragments, and `Needless` for each tensor, or part of one, that

    copied        is a copy of an input, element by element, by a launch that does nothing else
    kept          is written by a block that reads the same elements back, and is read nowhere else
    overwritten   is written again, by the same block, before anything reads it
    added to      is given zeros by a block, which then adds one number to each of these elements

The last two may also be the doing of a launch that does nothing else, before another one that
writes, or adds to, all elements once.

Places are compared by what their indices are: sums of blocks' and loops' indices, and, by axis,
how many elements in a row from there.

    store %c0, %Y, [%by * 8 + %i, %j]       parallel [8, 64]: rows from by * 8, 8 of them; 0, 64
    copy %sums, view %Y, [%by * 8, 0]       sizes [8, 64]: the same place
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from tileprof.analyzer.tiles.effects import Effects, effects_of
from tileprof.analyzer.tiles.values import turns_of
from tileprof.kernel_ir import COPIES, Op, TileKernel

How: TypeAlias = Literal["copied", "kept", "overwritten", "added to"]
_Kind: TypeAlias = Literal["read", "write", "add"]
_Sum: TypeAlias = "frozenset[tuple[object, int]]"
_Axis: TypeAlias = "tuple[str, object, int]"
"""What an index is, and how many elements in a row from there."""
_SPACE = "global"
_AROUND = ("launch", "for", "scope", "parallel")
"""Ops whose statements all run."""
_SINGLE = ("load", "store", "fill", "atomic")


@dataclass(frozen=True, eq=False)
class Needless:
    """Writes of one statement that could go."""

    how: How
    tensor: str
    op: Op
    """The statement that writes."""
    instead: str
    """The input that is copied; nothing otherwise."""
    written: float
    """Bytes, of all blocks."""
    lines: frozenset[int]
    """Of the statement."""
    others: frozenset[int]
    """Of the statement that reads back, writes again, or adds."""
    launch: int
    """Which of the kernel's launches, from 0."""
    alone: bool = False
    """Whether that launch does nothing else."""


@dataclass(frozen=True, eq=False)
class _Access:
    tensor: str
    kind: _Kind
    place: tuple[_Axis, ...] | None
    """None where that is not known, or a condition decides."""
    op: Op
    zero: bool = False


@lru_cache(maxsize=2)
def needless_writes(kernel: TileKernel) -> tuple[Needless, ...]:
    """All of a kernel."""
    return tuple(_Finder(kernel).found())


def needless_bytes(kernel: TileKernel) -> float:
    """Bytes of tensors that would not have to be there at all."""
    gone = {each.tensor for each in needless_writes(kernel) if each.how in ("copied", "kept")}
    types = (kernel.parameters[name].type for name in gone)
    return sum(math.prod(each.extents or ()) * each.bits / 8 for each in types)


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """A fragment that is copied to shared memory and back to itself."""

    fragment: str
    buffer: str
    there: Op
    back: Op


@lru_cache(maxsize=2)
def round_trips(kernel: TileKernel) -> tuple[RoundTrip, ...]:
    """Fragments that are copied to a shared buffer which only the copy back reads."""
    blocks = (block for op, _ in kernel.nested for block in op.blocks)
    return tuple(trip for block in blocks for trip in _trips(kernel, block.ops))


def _trips(kernel: TileKernel, ops: Sequence[Op]) -> Iterator[RoundTrip]:
    effects = effects_of(kernel)
    copies = [(at, op) for at, op in enumerate(ops) if op.name in COPIES]
    for at, there in copies:
        fragment, buffer = there.operands[:2]
        held = [kernel.types.get(each) for each in (fragment, buffer)]
        if [each.space for each in held if each] != ["fragment", "shared"]:
            continue
        if held[0] is None or held[1] is None or held[0].dtype != held[1].dtype:
            continue
        back = next(
            (b for b, op in copies if b > at and op.operands[:2] == (buffer, fragment)), None
        )
        if back is None:
            continue
        between = [effects.of(each) for each in ops[at + 1 : back]]
        readers = [op for op, _ in kernel.nested if buffer in op.operands and op is not there]
        changed = any({fragment, buffer} & each.written for each in between)
        if readers == [ops[back]] and not changed:
            yield RoundTrip(fragment, buffer, there, ops[back])


class _Finder:
    """Walks a kernel's launches.

    Conditions around a statement, and around both that are compared, change nothing.
    """

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        self.effects: Effects = effects_of(kernel)
        self.launches = list(kernel.named("launch"))
        self.read_by: dict[str, list[Op]] = {}
        """Statements that read a tensor."""
        self.writes: dict[str, int] = {}
        """How many statements write one."""
        self.constants = {op.result: op.word for op in kernel.named("constant")}
        for op, _ in kernel.nested:
            for tensor, kind, _ in self._targets(op):
                if kind == "write":
                    self.writes[tensor] = self.writes.get(tensor, 0) + 1
                else:
                    self.read_by.setdefault(tensor, []).append(op)
        self._held: dict[tuple[int, bool], tuple[_Access, ...]] = {}
        self._sums: dict[str, _Sum] = {}

    def found(self) -> Iterator[Needless]:
        """Launches that only copy, then statements of the others."""
        for number, launch in enumerate(self.launches):
            if alone := self._copied(number, launch) or self._zeroed(number, launch):
                yield alone
                continue
            for block in launch.blocks:
                yield from self._in(block.ops, (launch,), number)

    # -- launches

    def _copied(self, number: int, launch: Op) -> Needless | None:
        """A launch that only copies an input to a tensor that later ones read."""
        if len(self.launches) < 2:
            return None
        held = self._inside(launch, (), guarded=True)
        pairs = [(each, self._value(each)) for each in held if each.kind == "write"]
        reads = [each for each in held if each.kind == "read"]
        if len(pairs) != 1 or len(reads) != 1:
            return None
        (write, value), read = pairs[0], reads[0]
        target, source = self.kernel.parameters[write.tensor], self.kernel.parameters[read.tensor]
        if source.out or not target.out or target.type != source.type:
            return None
        if write.place is None or write.place != read.place or value is not read.op:
            return None
        later = {op for other in self.launches[number + 1 :] for op in other.walk()}
        if not any(op in later for op in self.read_by.get(write.tensor, ())):
            return None
        return self._needless("copied", write, None, (launch,), number, launch, read.tensor)

    def _zeroed(self, number: int, launch: Op) -> Needless | None:
        """A launch that only writes zeros where a later one writes, or adds once, everywhere."""
        if number + 1 == len(self.launches):
            return None
        held = self._inside(launch, ())
        tensors = {each.tensor for each in held}
        if len(tensors) != 1 or not all(each.zero and each.place for each in held):
            return None
        (tensor,) = tensors
        later = [
            (other, [each for each in self._inside(other, (other,)) if each.tensor == tensor])
            for other in self.launches[number + 1 :]
        ]
        users = [(other, accesses) for other, accesses in later if accesses]
        if len(users) != 1 or len(users[0][1]) != 1 or not self.kernel.parameters[tensor].out:
            return None
        other, (access,) = users[0]
        if access.kind == "read" or not self._covers(other, access):
            return None
        how: How = "added to" if access.kind == "add" else "overwritten"
        return replace(
            self._needless(how, held[0], other, (launch,), number, launch), alone=True
        )  # fmt: skip

    def _covers(self, launch: Op, access: _Access) -> bool:
        """Whether the turns of all loops around an access in a launch, with the launch's blocks,
        are as many as its tensor has elements, and each has a place of its own."""
        around = next((held for op, held in self.kernel.nested if op is access.op), ())
        extents = self.kernel.parameters[access.tensor].type.extents
        if extents is None or access.place is None:
            return False
        loops = [op for op in around if op.name in ("launch", "for", "parallel")]
        values, count = self.effects.values, 1
        used = frozenset().union(*(self.effects.used(name) for name in access.op.listed))
        for name in access.op.operands:
            used |= self.effects.used(name)
        for op in loops:
            turns: list[float | None] = (
                [values.mean_turns(op)] if op.name == "for"
                else [values.number(each) for each in op.listed]
            )  # fmt: skip
            for index, extent in zip(op.arguments, turns):
                if extent is None or (extent != 1 and index not in used):
                    return False
                count *= int(extent)
        if access.op.name in COPIES or access.op.name == "fill":
            count *= math.prod(extent for _, _, extent in access.place)
        return count == math.prod(extents)

    def _value(self, write: _Access) -> Op | None:
        """The op that gives what is written: a load, or the copy itself."""
        if write.op.name == "store":
            return self.effects.made.get(write.op.source)
        return write.op

    # -- statements

    def _in(self, ops: Sequence[Op], around: tuple[Op, ...], number: int) -> Iterator[Needless]:
        held = [self._inside(op, around) for op in ops]
        for at, op in enumerate(ops):
            # What each turn of a loop writes again is said by `repeated`.
            for each in held[at] if op.name != "for" else ():
                alone = sum(other.tensor == each.tensor for other in held[at]) == 1
                if each.kind == "write" and each.place is not None and alone:
                    yield from self._after(each, op, list(zip(ops, held))[at + 1 :], around, number)
            inner = (*around, op) if op.name != "if" else around
            if op.name in ("for", "scope", "parallel", "if"):
                for block in op.blocks:
                    yield from self._in(block.ops, inner, number)

    def _after(
        self, write: _Access, statement: Op, later: Sequence[tuple[Op, list[_Access]]],
        around: tuple[Op, ...], number: int,
    ) -> Iterator[Needless]:  # fmt: skip
        for op, accesses in later:
            same = [each for each in accesses if each.tensor == write.tensor]
            if not same:
                continue
            first = same[0]
            if len(same) > 1 or first.place != write.place:
                return
            how: How | None = None
            if first.kind == "write":
                how = "overwritten"
            elif first.kind == "add" and write.zero and self._once(first, (*around, op)):
                how = "added to"
            elif first.kind == "read" and self._own_alone(write.tensor, first.op):
                how = "kept"
            if how is not None:
                yield self._needless(how, write, op, around, number, statement)
            return

    def _own_alone(self, tensor: str, reader: Op) -> bool:
        """Whether a tensor is the kernel's own, and one statement writes, and one reads it."""
        out = self.kernel.parameters[tensor].out
        return out and self.writes[tensor] == 1 and self.read_by[tensor] == [reader]

    def _once(self, add: _Access, around: tuple[Op, ...]) -> bool:
        """Whether each turn of the loops around it adds to an element of its own."""
        used = frozenset().union(*(self.effects.used(name) for name in add.op.listed))
        inner = [each for op in around for each in self._loops(op, add.op)]
        return all(name in used for name in inner)

    def _loops(self, op: Op, inner: Op) -> Iterator[str]:
        """Indices of `parallel`s in a statement around an op."""
        for each in op.walk():
            if each.name == "parallel" and any(held is inner for held in each.walk()):
                for name, extent in zip(each.arguments, each.listed):
                    if self.effects.values.number(extent) != 1:
                        yield name

    def _needless(
        self, how: How, write: _Access, other: Op | None, around: tuple[Op, ...], number: int,
        statement: Op, instead: str = "",
    ) -> Needless:  # fmt: skip
        held = self.kernel.parameters[write.tensor].type
        launch = self.launches[number]
        values = self.effects.values
        grid = [values.number(name) for name in launch.listed]
        blocks = math.prod(each or 1 for each in grid)
        turns = turns_of(values, [op for op in around if op.name == "for"])
        assert write.place is not None
        each = math.prod(extent for _, _, extent in write.place)
        size = each * blocks * turns * held.bits / 8
        if held.extents:
            size = min(size, max(turns, 1.0) * math.prod(held.extents) * held.bits / 8)
        return Needless(
            how, write.tensor, write.op, instead, size,
            _lines(statement),
            _lines(other) if other else frozenset(), number, how == "copied",
        )  # fmt: skip

    # -- accesses

    def _inside(
        self, op: Op, around: tuple[Op, ...], guarded: bool = False
    ) -> list[_Access]:  # fmt: skip
        """Accesses of tensors by a statement and all that is inside, in order; `guarded` ones have
        places too."""
        found = list(self._own(op, around))
        inner = around if guarded and op.name == "if" else (*around, op)
        for block in op.blocks:
            for each in block.ops:
                found += self._inside(each, inner, guarded)
        return found

    def _own(self, op: Op, around: tuple[Op, ...]) -> tuple[_Access, ...]:
        """Accesses of tensors by an op itself."""
        known = all(each.name in _AROUND for each in around)
        key = id(op), known
        if key not in self._held:
            known = known and op.name in (*_SINGLE, *COPIES)
            self._held[key] = tuple(
                _Access(
                    tensor, kind, self._place(op, name, around) if known else None, op,
                    self._zero(op),
                )
                for tensor, kind, name in self._targets(op)
            )  # fmt: skip
        return self._held[key]

    def _targets(self, op: Op) -> Iterator[tuple[str, _Kind, str]]:
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
        return self.constants.get(value, 1) == 0

    def _place(self, op: Op, name: str, around: tuple[Op, ...]) -> tuple[_Axis, ...] | None:
        points = self._points(around)
        if op.name in ("load", "store", "atomic"):
            if self.effects.root(name) != name:
                return None
            return tuple(self._axis(index, points) for index in op.listed)
        made = self.effects.made.get(name)
        if made is None:
            extents = self.kernel.types[name].extents
            return None if extents is None else tuple(
                ("from", frozenset[object](), extent) for extent in extents
            )  # fmt: skip
        sizes = made.numbers("sizes")
        if made.name != "view" or made.source in self.effects.made:
            return None
        if len(sizes) != len(made.listed):
            return None
        firsts = (self._sum(index, points) for index in made.listed)
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

    def _axis(self, index: str, points: dict[str, tuple[int, int]]) -> _Axis:
        held = dict(self._sum(index, points))
        moving = [name for name in held if _is_point(name)]
        if not any(map(_has_point, held)):
            return ("from", frozenset(held.items()), 1)
        if len(moving) == 1 and held[moving[0]] == 1:
            rest = frozenset((k, v) for k, v in held.items() if k != moving[0])
            if not any(_has_point(k) for k, _ in rest):
                return ("from", rest, _extent(moving[0]))
        return ("by", frozenset(held.items()), 1)

    def _sum(self, name: str, points: dict[str, tuple[int, int]]) -> _Sum:
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
            left, right = (dict(self._sum(each, points)) for each in op.operands)
            if op.name != "mul":
                sign = 1 if op.name == "add" else -1
                keys = {*left, *right}
                return {key: left.get(key, 0) + sign * right.get(key, 0) for key in keys}
            for one, other in ((left, right), (right, left)):
                if set(one) <= {""}:
                    factor = one.get("", 0)
                    return {key: factor * each for key, each in other.items()}
        if op.name in ("load", "for", "if", "alloc"):
            return {name: 1}
        parts = tuple(self._sum(each, points) for each in op.operands)
        return {("of", op.name, repr(op.words), parts): 1}


def _is_point(key: object) -> bool:
    return isinstance(key, tuple) and key[0] == "point"


def _has_point(key: object) -> bool:
    """Whether an atom depends on the point of a `parallel`."""
    if _is_point(key):
        return True
    if isinstance(key, tuple) and key[0] == "of":
        return any(_has_point(inner) for part in key[3] for inner, _ in part)
    return False


def _extent(key: object) -> int:
    assert isinstance(key, tuple)
    return int(key[2])


def _lines(op: Op) -> frozenset[int]:
    return frozenset(each.line for each in op.walk() if each.line)
