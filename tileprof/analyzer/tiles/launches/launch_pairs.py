"""What a later launch of a tile kernel makes of the tensors of an earlier one.

In: a kernel.  Out: `covers`: whether a launch writes all elements of a tensor; a `Split` for each
two launches of which the second reads what the first wrote, where one could do the work of both.

    launch [%c16] body(%b) { parallel [%c64] body(%i) { store %v, %Y, [%b * 64 + %i] } }

covers `Y` where that has 1,024 elements at most. Two launches are one where

    by blocks      both have the same grid, and each block reads what the block of its number wrote
    by elements    each thread of the second reads one element, which no other thread reads, and
                   computes what it stores from that and from what the first does not write

`prepared` has tensors that a launch makes an element at a time from others, which later launches
could read in its place: with their threads along the same rows, and about as often.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tileprof.analyzer.numbers.tiles import (
    LAUNCH_PAIRS_BOXES,
    LAUNCH_PAIRS_OFTEN,
    LAUNCH_PAIRS_RUNS,
)
from tileprof.analyzer.tiles.places import Access, Accesses, Axis, is_point, renamed
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["Prepared", "Split", "covers", "prepared", "splits"]

_Runs: TypeAlias = "tuple[tuple[int, int], ...]"
"""Elements along an axis: begins and ends of runs, in order."""
_Box: TypeAlias = "tuple[_Runs, ...]"
"""Elements of a tensor: all combinations of those along each axis."""
_BY_ELEMENT = ("launch", "parallel", "if", "load", "store", "yield")
"""Ops of a launch that works on single elements, beside those of numbers."""


# -- writes that leave nothing out


def covers(accesses: Accesses, launch: Op, tensor: str) -> bool:
    """Return whether a launch writes each element of a tensor, whatever its data are."""
    extents = accesses.kernel.parameters[tensor].type.extents
    if extents is None:
        return False
    writes = (each for each in _certain(accesses, launch, ()) if each.tensor == tensor)
    boxes = (_Indices(accesses).box(each, extents) for each in writes if each.kind == "write")
    return tuple(((0, each),) for each in extents) in _joined(filter(None, boxes))


def _certain(accesses: Accesses, op: Op, around: tuple[Op, ...]) -> Iterator[Access]:
    """Yield accesses of an op that happen whatever data say: of an `if`, those of which each branch
    has one at the same place, or that it leaves out where they are outside of their tensor only; of
    a loop, those of one that surely has an iteration."""
    turns = accesses.effects.values.turns.get(op.arguments[0]) if op.name == "for" else None
    if op.name == "for" and (turns is None or turns.min() < 1):
        return
    if not op.blocks:
        yield from accesses.inside(op, around)
        return
    inner = around if op.name == "if" else (*around, op)
    first, *others = (
        [each for one in block.ops for each in _certain(accesses, one, inner)]
        for block in op.blocks
    )  # fmt: skip
    if op.name == "if" and not any(others):
        yield from (each for each in first if _guards_bounds(accesses, op.source, each))
        return
    places = [{(each.tensor, each.kind, each.place) for each in held} for held in others]
    for each in first:
        if all((each.tensor, each.kind, each.place) in held for held in places):
            yield each


def _guards_bounds(accesses: Accesses, condition: str, access: Access) -> bool:
    """Return whether a condition holds for each index of an access that is inside of its tensor:
    `i < n`, for one of the indices and an extent of `n` or less, or several such together."""
    effects, op = accesses.effects, access.op
    held = effects.made.get(condition)
    extents = accesses.kernel.parameters[access.tensor].type.extents
    if held is None or extents is None or op.name not in ("load", "store"):
        return False
    if held.name == "and":
        return all(_guards_bounds(accesses, each, access) for each in held.operands)
    bound = effects.values.number(held.operands[-1]) if held.name == "lt" else None
    return bound is not None and any(
        effects.identity(index) == effects.identity(held.source) and extent <= bound
        for index, extent in zip(op.listed, extents, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers that an index goes through."""

    first: int
    step: int
    count: int


class _Indices:
    """Numbers that the indices of a kernel's launches, loops and parallels go through."""

    def __init__(self, accesses: Accesses) -> None:
        self.effects, self.ranges = accesses.effects, dict[Hashable, _Range]()
        number, turns = self.effects.values.number, self.effects.values.turns
        self.points = frozenset(
            name for op in accesses.kernel.named("parallel")
            for name, extent in zip(op.arguments, op.listed) if number(extent) != 1
        )  # fmt: skip
        for op in accesses.kernel.named("launch", "for"):
            if op.name == "launch":
                for name, held in zip(op.arguments, map(number, op.listed)):
                    if held is not None:
                        self.ranges[name] = _Range(0, 1, held)
            elif len(op.operands) == 3:
                first, _, step = map(number, op.operands)
                count = turns.get(op.arguments[0])
                if first is not None and step is not None and count is not None and not count.ndim:
                    self.ranges[op.arguments[0]] = _Range(first, step, int(count))

    def of(self, key: object) -> _Range | None:
        """The numbers of a part of an index; None where they are not known."""
        if isinstance(key, tuple) and key[0] == "point":
            return _Range(0, 1, key[2]) if key[2] else None
        return self.ranges.get(key)

    def box(self, access: Access, extents: tuple[int, ...]) -> _Box | None:
        """The elements that an access goes to in all; None where that is not known."""
        if access.place is None or self.parts(access) is None:
            return None
        found = [
            _runs(axis, self.ranges_of(axis), extent)
            for axis, extent in zip(access.place, extents, strict=True)
        ]
        known = tuple(each for each in found if each is not None)
        return known if len(known) == len(found) else None

    def parts(self, access: Access) -> set[object] | None:
        """Indices of several numbers that a place goes with; None where not all are known, or one
        of them is in the indices of two axes, so that the two go together."""
        held = list[set[object]]()
        for axis in access.place or ():
            ranges = self.ranges_of(axis)
            if ranges is None:
                return None
            held.append({key for key, _, each in ranges if each.count > 1 and not is_point(key)})
        if access.op.name in ("load", "store", "atomic"):
            # What a place says of points along an axis, it says without their names.
            for at, name in enumerate(access.op.listed):
                held[at] |= self.points & self.effects.used(name)
        parts = set[object]().union(*held)
        return parts if len(parts) == sum(map(len, held)) else None

    def ranges_of(self, axis: Axis) -> list[tuple[object, int, _Range]] | None:
        """Parts of an index with their factors and numbers; None where one is not known."""
        held = [(key, factor, self.of(key)) for key, factor in axis[1] if key != ""]
        known = [(key, factor, each) for key, factor, each in held if each is not None]
        return known if len(known) == len(held) else None


def _runs(
    axis: Axis, parts: list[tuple[object, int, _Range]] | None, extent: int
) -> _Runs | None:  # fmt: skip
    """The elements along an axis of a tensor that an index goes through; None if not known."""
    if parts is None:
        return None
    _, terms, length = axis
    starts = [sum(factor for key, factor in terms if key == "")]
    for _, factor, held in sorted(parts, key=lambda each: abs(each[1] * each[2].step)):
        if not held.count:
            return ()
        ends = factor * held.first, factor * (held.first + held.step * (held.count - 1))
        first, step = min(ends), abs(factor * held.step)
        if step <= length:
            length += step * (held.count - 1)
            starts = [start + first for start in starts]
        elif len(starts) * held.count > LAUNCH_PAIRS_RUNS:
            return None
        else:
            starts = [s + first + step * at for s in starts for at in range(held.count)]
    return _merged(((each, each + length) for each in starts), extent)


def _merged(runs: Iterable[tuple[int, int]], extent: int) -> _Runs:
    """Runs in order, those that touch as one, without what is outside of the tensor."""
    found = list[tuple[int, int]]()
    for first, end in sorted((max(first, 0), min(end, extent)) for first, end in runs):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif first < end:
            found.append((first, end))
    return tuple(found)


def _joined(boxes: Iterable[_Box]) -> set[_Box]:
    """Boxes, with those that two of them are together: they differ along one axis at most."""
    found = set(itertools.islice(boxes, LAUNCH_PAIRS_BOXES))
    while True:
        more = {box for pair in itertools.combinations(found, 2) if (box := _pair(*pair))} - found
        if not more or len(found) > LAUNCH_PAIRS_BOXES**2:
            return found
        found |= more


def _pair(one: _Box, other: _Box) -> _Box | None:
    apart = [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(apart) != 1:
        return None
    (at,) = apart
    runs = (*one[at], *other[at])
    return (*one[:at], _merged(runs, max(end for _, end in runs)), *one[at + 1 :])


# -- two launches that could be one


@dataclass(frozen=True, eq=False)
class Split:
    """Two launches in a row that one launch could replace."""

    tensors: tuple[str, ...]
    """Written by the first, and read by the second alone."""
    first: int
    """Which of the kernel's launches that is, from 0."""
    launch: Op
    """The second one."""
    moved: float
    """Bytes of the tensors."""
    before: float
    """Bytes of other tensors that the first launch reads or writes."""
    after: float
    """The same of the second one."""
    by_blocks: bool
    """Whether a block of the second reads what one block of the first wrote; else by elements."""
    again: float = 0.0
    """Bytes of other tensors that a block of the second reads as its block of the first did."""


@lru_cache(maxsize=2)
def splits(kernel: TileKernel) -> tuple[Split, ...]:
    """Return all of a kernel, where extents are known when it compiles."""
    launches = list(kernel.named("launch"))
    accesses = Accesses(kernel)
    held = [accesses.inside(each, (), guarded=True) for each in launches]
    found = list[Split]()
    for number, (one, other) in enumerate(itertools.pairwise(held)):
        elsewhere = {
            each.tensor for at, accessed in enumerate(held)
            for each in accessed if at not in (number, number + 1)
        }  # fmt: skip
        pair = launches[number], launches[number + 1]
        tensors = _handed_over(accesses, one, other)
        size = {name: _size(kernel, name) for name in {each.tensor for each in (*one, *other)}}
        if not tensors or tensors & elsewhere or not all(size.values()):
            continue
        reads = [each for each in other if each.tensor in tensors]
        by_blocks = _in_own_block(accesses, *pair, one, reads)
        if not by_blocks and not _by_elements(accesses, pair[1], reads):
            continue
        before, after = (
            sum(size[name] for name in {each.tensor for each in accessed} - tensors)
            for accessed in (one, other)
        )
        moved = sum(map(size.__getitem__, tensors))
        again = _read_by_both(accesses, pair, one, other) if by_blocks else set()
        found.append(
            Split(
                tuple(sorted(tensors)),
                number,
                pair[1],
                moved,
                before,
                after,
                by_blocks,
                sum(size[name] for name in again - tensors),
            )
        )
    return tuple(found)


def _size(kernel: TileKernel, tensor: str) -> float:
    """Bytes of a tensor; 0 where that is known at launch only."""
    held = kernel.parameters[tensor].type
    return math.prod(held.extents) * held.bits / 8 if held.extents else 0.0


def _handed_over(
    accesses: Accesses, before: list[Access], after: list[Access]
) -> frozenset[str]:  # fmt: skip
    """The tensors of the kernel's own that one launch writes and the next one reads; nothing where
    blocks of one launch would wait for each other: for a sum of theirs, or to change what they
    read."""
    written = {each.tensor for each in before if each.kind != "read"}
    tensors = frozenset(each.tensor for each in after if each.kind == "read") & written
    changed = {each.tensor for each in after if each.kind != "read"}
    shared = {each.tensor for each in before if each.kind != "write"}
    if tensors & shared or changed & {each.tensor for each in before}:
        return frozenset()
    own = all(accesses.kernel.parameters[name].out for name in tensors)
    return tensors if own else frozenset()


def _in_own_block(
    accesses: Accesses, first: Op, second: Op, before: list[Access], reads: list[Access]
) -> bool:
    """Whether two launches have the same grid, and each block of the second reads only places that
    the block with its number writes, and no other one."""
    number = accesses.effects.values.number
    grids = [[number(name) for name in launch.listed] for launch in (first, second)]
    if grids[0] != grids[1]:
        return False
    names = dict(zip(second.arguments, first.arguments, strict=True))
    places = {(each.tensor, each.place) for each in before if each.kind == "write"}
    apart = {name for name, held in zip(first.arguments, grids[0]) if held != 1}
    for each in reads:
        place = None if each.place is None else renamed(each.place, names)
        if place is None or (each.tensor, place) not in places:
            return False
        if not apart <= {key for _, terms, _ in place for key, _ in terms}:
            return False
    return True


def _read_by_both(
    accesses: Accesses, launches: tuple[Op, Op], before: list[Access], after: list[Access]
) -> set[str]:
    """Return tensors of which blocks of two launches read the same places, which nothing writes."""
    names = dict(zip(launches[1].arguments, launches[0].arguments, strict=True))
    read = {(each.tensor, each.place) for each in before if each.kind == "read" and each.place}
    return {
        each.tensor for each in after
        if each.kind == "read" and each.place is not None
        and each.tensor in accesses.effects.constant
        and (each.tensor, renamed(each.place, names)) in read
    }  # fmt: skip


def _by_elements(accesses: Accesses, launch: Op, reads: list[Access]) -> bool:
    """Whether threads of a launch read an element each, and nothing that another one does."""
    ops, number = list(launch.walk()), accesses.effects.values.number
    loops = [op for op in ops if op.name in ("launch", "parallel")]
    if len(loops) != 2 or not all(_is_of_element(each) for each in ops):
        return False
    apart = {
        name for op in loops for name, extent in zip(op.arguments, op.listed) if number(extent) != 1
    }
    indices = _Indices(accesses)
    # What is read at two places, two threads of the first launch may have.
    one_place = len({each.place for each in reads}) == 1
    return one_place and all(indices.parts(each) == apart for each in reads)


def _is_of_element(op: Op) -> bool:
    """Whether an op works on single numbers that a thread has, or on elements of tensors."""
    if op.name in _BY_ELEMENT:
        return True
    single = bool(op.results) and not any(each.space for each in op.types)
    return single and not op.blocks and op.name != "atomic"


# -- launches that only prepare a tensor


@dataclass(frozen=True, eq=False)
class Prepared:
    """A tensor that a launch does nothing but make, an element at a time."""

    tensor: str
    sources: tuple[str, ...]
    """Tensors that it is made from."""
    number: int
    """Which of the kernel's launches that is, from 0."""
    launch: Op
    more: float
    """Bytes of the sources beyond those of the tensor; below 0 where it is the larger one."""
    turned: bool
    """Whether its rows are columns of the source."""


@lru_cache(maxsize=2)
def prepared(kernel: TileKernel) -> tuple[Prepared, ...]:
    """Return all of a kernel whose later launches read each element about once, by threads that go
    along rows of the source."""
    launches, accesses = list(kernel.named("launch")), Accesses(kernel)
    held = [accesses.inside(each, (), guarded=True) for each in launches]
    found = list[Prepared]()
    for number, launch in enumerate(launches[:-1]):
        changes = [each for each in held[number] if each.kind != "read"]
        reads = [each for each in held[number] if each.kind == "read"]
        if [each.kind for each in changes] != ["write"] or not reads:
            continue
        (write,) = changes
        sources = {each.tensor for each in reads}
        others = [each for at, used in enumerate(held) if at != number for each in used]
        users = [each for each in others if each.tensor == write.tensor]
        changed = any(each.kind != "read" and each.tensor in sources for each in others)
        before = any(each in users for used in held[:number] for each in used)
        if changed or before or not users or any(each.kind != "read" for each in users):
            continue
        size = [_size(kernel, name) for name in (write.tensor, *sources)]
        if not all(size) or write.tensor in sources or not kernel.parameters[write.tensor].out:
            continue
        largest = max(reads, key=lambda each: _size(kernel, each.tensor))
        axis = _axis_of_rows(accesses, write, largest)
        last = len(write.op.listed) - 1
        often = (
            sum(_often(accesses, each, axis) for each in users) if axis is not None else math.inf
        )
        elements = math.prod(kernel.parameters[write.tensor].type.extents or (0,))
        if _by_elements(accesses, launch, [write]) and often <= LAUNCH_PAIRS_OFTEN * elements:
            found.append(
                Prepared(write.tensor, tuple(sorted(sources)), number, launch,
                         sum(size[1:]) - size[0], axis != last)
            )  # fmt: skip
    return tuple(found)


def _axis_of_rows(accesses: Accesses, write: Access, read: Access) -> int | None:
    """The axis of what is written that goes along rows of what is read; None where none does."""
    points, used = _Indices(accesses).points, accesses.effects.used
    row = used(read.op.listed[-1]) & points if read.op.name == "load" else frozenset[str]()
    axes = [at for at, each in enumerate(write.op.listed) if used(each) & row]
    return axes[0] if len(axes) == 1 else None


def _often(accesses: Accesses, read: Access, axis: int) -> float:
    """Elements that a statement reads in all, where neighbouring threads do along an axis; infinite
    where they do not, or that is not known."""
    around = next((held for op, held in accesses.kernel.nested if op is read.op), ())
    loops = [op for op in around if op.name == "parallel"]
    if read.op.name != "load" or not loops or not loops[-1].arguments:
        return math.inf
    if loops[-1].arguments[-1] not in accesses.effects.used(read.op.listed[axis]):
        return math.inf
    count, values = 1.0, accesses.effects.values
    for op in around:
        extents = map(values.number, op.listed) if op.name in ("launch", "parallel") else ()
        for extent in extents:
            count *= math.inf if extent is None else extent
        count *= (values.mean_turns(op) or math.inf) if op.name == "for" else 1.0
    return count
