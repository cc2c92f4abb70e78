"""Elements of tensors that a tile kernel writes although nothing needs them there.

In: a kernel.  Out: `Needless` for each tensor, or part of one, that

    copied        is a copy of an input, element by element, by a launch that does nothing else;
                  rows may be longer, unless they begin at multiples of 16 bytes thereby
    turned        is an input with its axes exchanged, by a launch that does nothing else, of which
                  neighbouring points are then read from different rows
    passed on     is written by one launch, and then only copied to another tensor, in the same way
    kept          is written by a block that reads the same elements back, and is read nowhere else
    overwritten   is written again, by the same block, before anything reads it
    added to      is given zeros by a block, which then adds one number to each of these elements

The last two may also be the doing of a launch that does nothing else, before another one that
writes all elements, or adds to each of them once. Tensors that one launch writes for the next one
alone, `launch_pairs` tells.

Which accesses are at the same place, `places` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from tileprof.analyzer.numbers.shared import WIDEST
from tileprof.analyzer.tiles.launches.launch_pairs import covers, splits
from tileprof.analyzer.tiles.places import Access, Accesses, renamed
from tileprof.analyzer.tiles.values import turns_of
from tileprof.kernel_ir import COPIES, Op, TileKernel, Type

How: TypeAlias = Literal["copied", "turned", "passed on", "kept", "overwritten", "added to"]


_ALONE: tuple[How, ...] = ("copied", "turned", "passed on")
"""What launches that do nothing else do."""


@dataclass(frozen=True, eq=False)
class Needless:
    """Writes of one statement that could go."""

    how: How
    tensor: str
    op: Op
    """The statement that writes."""
    instead: str
    """The input that is copied, or the tensor that it is passed on to; nothing otherwise."""
    written: float
    """Bytes, of all blocks."""
    lines: frozenset[int]
    """Of the statement."""
    others: frozenset[int]
    """Of the statement that reads back, or across rows, writes again, or adds."""
    launch: int
    """Which of the kernel's launches, from 0."""
    alone: bool = False
    """Whether that launch does nothing else."""
    surely: bool = True
    """Whether the places that are written again are known to be all: False where data choose them,
    which are as many."""


@lru_cache(maxsize=2)
def needless_writes(kernel: TileKernel) -> tuple[Needless, ...]:
    """All of a kernel."""
    return tuple(_Finder(kernel).found())


def needless_bytes(kernel: TileKernel) -> float:
    """Return the bytes of tensors that would not have to be there at all."""
    whole = ("copied", "turned", "passed on", "kept")
    gone = {each.tensor for each in needless_writes(kernel) if each.how in whole}
    gone.update(name for each in splits(kernel) for name in each.tensors)
    types = (kernel.parameters[name].type for name in gone)
    return sum(math.prod(each.extents or ()) * each.bits / 8 for each in types)


class _Finder:
    """Walks a kernel's launches.

    Conditions around a statement, and around both that are compared, change nothing.
    """

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        self.accesses = Accesses(kernel)
        self.launches = list(kernel.named("launch"))
        self.read_by: dict[str, list[Op]] = {}
        """Statements that read a tensor."""
        self.writes: dict[str, int] = {}
        """How many statements write one."""
        for op, _ in kernel.nested:
            for tensor, kind, _ in self.accesses.targets(op):
                if kind == "write":
                    self.writes[tensor] = self.writes.get(tensor, 0) + 1
                else:
                    self.read_by.setdefault(tensor, []).append(op)

    def found(self) -> Iterator[Needless]:
        """Launches that only copy, then statements of the others."""
        for number, launch in enumerate(self.launches):
            if alone := self._undone(number, launch) or self._copied(number, launch):
                yield alone
                continue
            for block in launch.blocks:
                yield from self._in(block.ops, (launch,), number)

    # -- launches

    def _copied(self, number: int, launch: Op) -> Needless | None:
        """A launch that only copies an input to a tensor that later ones read."""
        if len(self.launches) < 2:
            return None
        held = self.accesses.inside(launch, (), guarded=True)
        pairs = [(each, self._value(each)) for each in held if each.kind == "write"]
        reads = [each for each in held if each.kind == "read"]
        if len(pairs) != 1 or len(reads) != 1:
            return None
        (write, value), read = pairs[0], reads[0]
        target, source = self.kernel.parameters[write.tensor], self.kernel.parameters[read.tensor]
        if not target.out or target.type.dtype != source.type.dtype:
            return None
        if write.place is None or value is not read.op:
            return None
        turned = self._is_turned(write, read)
        in_place = write.place == read.place and _holds(target.type, source.type)
        if not turned and not in_place:
            return None
        if source.out:
            return None if turned else self._passed_on(number, launch, write, read)
        later = self.launches[number + 1 :]
        if not self._users(write.tensor, later):
            return None
        if not turned:
            return self._needless("copied", write, None, (launch,), number, launch, read.tensor)
        if not (across := self._read_across(write.tensor, later)):
            return None
        made = self._needless("turned", write, None, (launch,), number, launch, read.tensor)
        return replace(made, others=frozenset(op.line for op in across if op.line))

    def _is_turned(self, write: Access, read: Access) -> bool:
        """Whether elements keep their indices, and these stand in another order."""
        if write.place is None or read.place is None:
            return False
        used = self.accesses.effects.used
        to, from_ = (
            {used(name): axis for name, axis in zip(each.op.listed, each.place or ())}
            for each in (write, read)
        )
        return len(to) == len(write.place) and to == from_ and [*to] != [*from_]

    def _read_across(self, tensor: str, launches: Sequence[Op]) -> list[Op]:
        """The loads of a tensor, where the innermost axis of the loop around each goes across rows;
        nothing where one does not, or something else uses the tensor."""
        users, used = self._users(tensor, launches), self.accesses.effects.used
        inside = {id(op) for op in users}
        for op, around in self.kernel.nested:
            if id(op) not in inside:
                continue
            axes = [each.arguments[-1] for each in around if each.name == "parallel"]
            if op.name != "load" or not axes:
                return []
            *outer, last = (axes[-1] in used(name) for name in op.listed)
            if last or not any(outer):
                return []
        return users

    def _passed_on(self, number: int, launch: Op, write: Access, read: Access) -> Needless | None:
        """A launch that only copies what an earlier one wrote, and nothing else reads."""
        if self.read_by[read.tensor] != [read.op] or self.writes[write.tensor] != 1:
            return None
        writers = self._users(read.tensor, self.launches[:number])
        if not writers or self._users(read.tensor, self.launches[number + 1 :]):
            return None
        made = self._needless("passed on", write, None, (launch,), number, launch, write.tensor)
        return replace(made, tensor=read.tensor)

    def _users(self, tensor: str, launches: Sequence[Op]) -> list[Op]:
        """Statements of launches that read or write a tensor."""
        return [
            op for launch in launches for op in launch.walk()
            if any(held == tensor for held, _, _ in self.accesses.targets(op))
        ]  # fmt: skip

    def _undone(self, number: int, launch: Op) -> Needless | None:
        """A launch that only writes a tensor of which a later one then writes all elements, or only
        zeros to one where a later one adds once to each."""
        constant = self.accesses.effects.constant
        held = [
            each for each in self.accesses.inside(launch, (), guarded=True)
            if each.kind != "read" or each.tensor not in constant
        ]  # fmt: skip
        tensors = {each.tensor for each in held}
        if len(tensors) != 1 or any(each.kind != "write" for each in held) or not held[0].place:
            return None
        (tensor,) = tensors
        later = [
            (other, used) for other in self.launches[number + 1 :]
            if (used := [e for e in self.accesses.inside(other, ()) if e.tensor == tensor])
        ]  # fmt: skip
        if not later:
            return None
        (other, used), *more = later
        kinds = [each.kind for each in used]
        as_many = len(used) == 1 and self._as_many(other, used[0])
        how: How = "added to"
        surely = True
        same = self._at_same(launch, held, other, used)
        if not (same or self.kernel.parameters[tensor].out):
            return None
        sure = same or covers(self.accesses, other, tensor)
        if set(kinds) == {"write"} and (as_many or sure):
            how, surely = "overwritten", sure
        elif kinds != ["add"] or more or not as_many or not all(each.zero for each in held):
            return None
        made = self._needless(how, held[0], other, (launch,), number, launch)
        return replace(made, alone=True, surely=surely)

    def _at_same(
        self, launch: Op, held: Sequence[Access], other: Op, used: Sequence[Access]
    ) -> bool:
        """Whether blocks of another launch write all places that those of their numbers write."""
        number = self.accesses.effects.values.number
        if list(map(number, launch.listed)) != list(map(number, other.listed)):
            return False
        names = dict(zip(other.arguments, launch.arguments, strict=True))
        again = {renamed(each.place, names) for each in used if each.place is not None}
        return all(each.place in again for each in held)

    def _as_many(self, launch: Op, access: Access) -> bool:
        """Whether the turns of all loops around an access in a launch, with the launch's blocks,
        are as many as its tensor has elements, and each has a place of its own."""
        around = next((held for op, held in self.kernel.nested if op is access.op), ())
        extents = self.kernel.parameters[access.tensor].type.extents
        if extents is None or access.place is None:
            return False
        loops = [op for op in around if op.name in ("launch", "for", "parallel")]
        values, count = self.accesses.effects.values, 1
        used = frozenset().union(*(self.accesses.effects.used(name) for name in access.op.listed))
        for name in access.op.operands:
            used |= self.accesses.effects.used(name)
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

    def _value(self, write: Access) -> Op | None:
        """The op that gives what is written: a load, or the copy itself."""
        if write.op.name == "store":
            return self.accesses.effects.made.get(write.op.source)
        return write.op

    # -- statements

    def _in(self, ops: Sequence[Op], around: tuple[Op, ...], number: int) -> Iterator[Needless]:
        held = [self.accesses.inside(op, around) for op in ops]
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
        self, write: Access, statement: Op, later: Sequence[tuple[Op, list[Access]]],
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

    def _once(self, add: Access, around: tuple[Op, ...]) -> bool:
        """Whether each turn of the loops around it adds to an element of its own."""
        used = frozenset().union(*(self.accesses.effects.used(name) for name in add.op.listed))
        inner = [each for op in around for each in self._loops(op, add.op)]
        return all(name in used for name in inner)

    def _loops(self, op: Op, inner: Op) -> Iterator[str]:
        """Indices of `parallel`s and loops in a statement around an op; of a loop that ends when
        data say, nothing that an op could use."""
        for each in op.walk():
            if not each.blocks or not any(held is inner for held in each.walk()):
                continue
            if each.name == "parallel":
                for name, extent in zip(each.arguments, each.listed):
                    if self.accesses.effects.values.number(extent) != 1:
                        yield name
            elif each.name in ("for", "while"):
                yield each.arguments[0] if each.name == "for" else ""

    def _needless(
        self, how: How, write: Access, other: Op | None, around: tuple[Op, ...], number: int,
        statement: Op, instead: str = "",
    ) -> Needless:  # fmt: skip
        held = self.kernel.parameters[write.tensor].type
        launch = self.launches[number]
        values = self.accesses.effects.values
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
            _lines(other) if other else frozenset(), number, how in _ALONE,
        )  # fmt: skip


def _lines(op: Op) -> frozenset[int]:
    return frozenset(each.line for each in op.walk() if each.line)


def _holds(copy: Type, source: Type) -> bool:
    """Return whether a tensor can be a copy of another one that is as good as the original: of the
    same extents, or of larger ones whose rows are no better aligned for wide accesses."""
    if copy == source:
        return True
    held, given = copy.extents, source.extents
    if not held or not given or len(held) != len(given):
        return False
    is_aligned, was_aligned = (
        each[-1] * source.bits % (8 * WIDEST) == 0 for each in (held, given)
    )  # fmt: skip
    larger = all(more >= extent for more, extent in zip(held, given))
    return larger and (was_aligned or not is_aligned)
