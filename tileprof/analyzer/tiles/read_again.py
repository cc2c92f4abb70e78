"""Elements of tensors that a block of a tile kernel reads again, though it had them before.

In: a kernel.  Out: `ReadAgain` for each statement that reads a part of a tensor which a statement
before it, that surely ran, has read. Nothing in the kernel writes these tensors, so the elements
are the same, and they are few enough that a block could have kept them.

    copy X_tile, x                                  128 × 64 elements of X
    parallel [128, 64] i, j: … load X, [by * 128 + i, j]        the same ones, from memory again

    for k in 4: … load X, [row, k * 2048 + j]
    for q in 4: … load X, [row, q * 2048 + j]                   the same row

What a loop copies again in each iteration, and what one statement loads twice, others tell of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tileprof.analyzer.numbers.tiles import READ_AGAIN_MOST_BYTES
from tileprof.analyzer.tiles.places import Access, Accesses, Axis, elements_of, renamed
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["ReadAgain", "read_again"]

_Key: TypeAlias = "tuple[str, tuple[Axis, ...]]"
"""A tensor and a place, in which an index of a loop stands for the loop's depth and range."""


@dataclass(frozen=True, eq=False)
class _First:
    """A read that others may repeat."""

    op: Op
    elements: int
    """Elements that it reads in all iterations of the loops that have ended since."""


@dataclass(frozen=True, eq=False)
class ReadAgain:
    """A read of elements that the block has read already."""

    tensor: str
    op: Op
    first: Op
    """The op that reads them first."""
    elements: int
    """Elements that a block would have to keep in between."""


@lru_cache(maxsize=2)
def read_again(kernel: TileKernel) -> tuple[ReadAgain, ...]:
    """Return all such reads of a kernel."""
    finder = _Finder(kernel)
    return tuple(
        each for launch in kernel.named("launch") for block in launch.blocks
        for each in finder.found(block.ops, (launch,), {})
    )  # fmt: skip


class _Finder:
    """Walks a kernel's statements in their order."""

    def __init__(self, kernel: TileKernel) -> None:
        self.kernel, self.accesses = kernel, Accesses(kernel)
        self.around = {id(op): held for op, held in kernel.nested}

    def found(
        self, ops: Sequence[Op], around: tuple[Op, ...], before: Mapping[_Key, _First]
    ) -> Iterator[ReadAgain]:
        """Yield reads again in a list of statements, where those of `before` ran."""
        known = dict(before)
        for op in ops:
            if op.name in ("for", "scope"):
                for block in op.blocks:
                    yield from self.found(block.ops, (*around, op), known)
            for each in self.accesses.inside(op, around):
                if (key := self._key(each, around)) is None:
                    continue
                first = known.get(key)
                if first is None or first.op is each.op or 0 < first.op.line == each.op.line:
                    own = _First(each.op, self._elements(each, around))
                    known = {**known, key: first or own}
                elif op.name not in ("for", "scope") and self._fits(each.tensor, first.elements):
                    yield ReadAgain(each.tensor, each.op, first.op, first.elements)

    def _key(self, access: Access, around: tuple[Op, ...]) -> _Key | None:
        """Return what an access reads, if these are elements for all threads of a block, which
        nothing in the kernel changes."""
        constant = self.accesses.effects.constant
        if access.kind != "read" or access.place is None or access.tensor not in constant:
            return None
        threads = math.prod(each for op in around for each in op.numbers("threads"))
        if elements_of(access.place) < threads:
            return None
        identity, turns = self.accesses.effects.identity, self.accesses.effects.turns
        names = {
            loop.arguments[0]: f"{depth}: {[*map(identity, loop.operands)]}"
            for depth, loop in enumerate(self._loops(access))
            if turns(loop)
        }
        return access.tensor, renamed(access.place, names)

    def _loops(self, access: Access) -> list[Op]:
        return [each for each in self.around[id(access.op)] if each.name == "for"]

    def _elements(self, access: Access, around: tuple[Op, ...]) -> int:
        """Return how many elements an access reads in the loops that are not `around` it yet."""
        assert access.place is not None
        turns = (
            self.accesses.effects.turns(loop) for loop in self._loops(access)
            if all(loop is not each for each in around)
        )  # fmt: skip
        return elements_of(access.place) * math.ceil(math.prod(turns))

    def _fits(self, tensor: str, elements: int) -> bool:
        held = self.kernel.parameters[tensor].type
        return 0 < elements * held.bits / 8 <= READ_AGAIN_MOST_BYTES
