"""Elements of tensors that a block of a tile kernel reads again, though it had them before.

In: a kernel.  Out: `ReadAgain` for each statement that reads a part of a tensor which a statement
before it, that surely ran, has read. Nothing in the kernel writes these tensors, so the elements
are the same, and they are few enough that a block could have kept them.

    copy X_tile, x                                  128 × 64 elements of X
    parallel [128, 64] i, j: … load X, [by * 128 + i, j]        the same ones, from memory again

What a loop copies again in each iteration, and what one statement loads twice, others tell of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tileprof.analyzer.numbers.tiles import READ_AGAIN_MOST_BYTES
from tileprof.analyzer.tiles.places import Access, Accesses, Axis, elements_of
from tileprof.kernel_ir import Op, TileKernel

__all__ = ["ReadAgain", "read_again"]

_Known: TypeAlias = "Mapping[tuple[str, tuple[Axis, ...]], Op]"
"""Ops that read elements first, keyed by the tensor and the place."""


@dataclass(frozen=True, eq=False)
class ReadAgain:
    """A read of elements that the block has read already."""

    tensor: str
    op: Op
    first: Op
    """The op that reads them first."""
    elements: int
    """Elements that a block reads at once."""


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

    def found(
        self, ops: Sequence[Op], around: tuple[Op, ...], before: _Known
    ) -> Iterator[ReadAgain]:
        """Yield reads again in a list of statements, where those of `before` ran."""
        known = dict(before)
        for op in ops:
            if op.name in ("for", "scope"):
                for block in op.blocks:
                    yield from self.found(block.ops, (*around, op), known)
            own = dict[tuple[str, tuple[Axis, ...]], Op]()
            for each in self.accesses.inside(op, around):
                if each.place is None or not self._could_be_kept(each, around):
                    continue
                key = each.tensor, each.place
                first = known.get(key)
                if first is None:
                    own.setdefault(key, each.op)
                elif op.name not in ("for", "scope") and first.line != each.op.line:
                    yield ReadAgain(each.tensor, each.op, first, elements_of(each.place))
            known |= own

    def _could_be_kept(self, access: Access, around: tuple[Op, ...]) -> bool:
        """Whether an access reads elements for all threads of a block that do not change."""
        if access.kind != "read" or access.tensor not in self.accesses.effects.constant:
            return False
        assert access.place is not None
        elements = elements_of(access.place)
        threads = math.prod(each for op in around for each in op.numbers("threads"))
        size = elements * self.kernel.parameters[access.tensor].type.bits / 8
        return elements >= threads and size <= READ_AGAIN_MOST_BYTES
