"""A machine that walks through a marked kernel: branches and turns by chance, one warp of a role.

It knows nothing of how marks are placed.  Of each op that it comes across it tells in which sites
the warp was by then, and in which visits of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tileprof import ir

__all__ = ["Seen", "Warp", "roles", "walks"]


@dataclass(frozen=True)
class Seen:
    """One op that was run."""

    op: ir.OpBase
    path: tuple[int, ...] | None
    """Sites that were open, outermost first; None before the first mark."""
    visits: tuple[int, ...]
    """A number for each visit of these."""
    turns: tuple[tuple[ir.OpBase, int], ...]
    """The loops around it, each with the number of the turn."""


class _Left(Exception):
    def __init__(self, on: bool) -> None:
        super().__init__()
        self.on = on


@dataclass
class Warp:
    """One walk through the blocks of a role."""

    kernel: ir.Kernel
    chance: random.Random
    seen: list[Seen] = field(default_factory=list)
    marks: int = 0
    _path: tuple[int, ...] | None = None
    _visits: tuple[int, ...] = ()
    _count: int = 0
    _turns: tuple[tuple[ir.OpBase, int], ...] = ()
    _turn: int = 0

    def run(self, block: ir.Block) -> list[Seen]:
        """All ops of a block."""
        for op in block.ops:
            self._op(op)
        return self.seen

    def _op(self, op: ir.OpBase) -> None:
        match op:
            case ir.Mark(state=number):
                self._mark(self.kernel.states[number])
            case ir.For():
                self._loop(op, [op.body])
            case ir.While():
                self._loop(op, [op.condition, op.body])
            case ir.If():
                self.run(op.then if self.chance.random() < 0.5 else op.otherwise)
            case ir.Break() | ir.Continue():
                raise _Left(isinstance(op, ir.Continue))
            case _:
                self.seen.append(Seen(op, self._path, self._visits, self._turns))

    def _loop(self, op: ir.OpBase, blocks: Sequence[ir.Block]) -> None:
        outer = self._turns
        for _ in range(self.chance.choice([0, 1, 2, 3])):
            self._turn += 1
            self._turns = (*outer, (op, self._turn))
            try:
                for block in blocks:
                    self.run(block)
            except _Left as left:
                if not left.on:
                    break
        self._turns = outer

    def _mark(self, state: ir.State) -> None:
        path = path_of(self.kernel, state.site)
        open_before = self._path or ()
        # Sites can only go on that are open.
        assert path[: state.fresh] == open_before[: state.fresh], (state, open_before)
        new = range(self._count, self._count + len(path) - state.fresh)
        self._count += len(new)
        self._path, self._visits = path, (*self._visits[: state.fresh], *new)
        self.marks += 1


def path_of(kernel: ir.Kernel, site: int) -> tuple[int, ...]:
    """The sites from the outermost to this one."""
    path: list[int] = []
    at: int | None = site if site >= 0 else None
    while at is not None:
        path.append(at)
        at = kernel.sites[at].parent
    return tuple(reversed(path))


def roles(kernel: ir.Kernel) -> Iterator[ir.Block]:
    """The blocks that warps run from their beginning to their end."""
    for launch in kernel.body.ops:
        if isinstance(launch, ir.Launch):
            split = [op for op in launch.body.ops if isinstance(op, ir.Roles)]
            yield from [b for op in split for b in op.blocks()] or [launch.body]


def walks(kernel: ir.Kernel, count: int = 20) -> Iterator[list[Seen]]:
    """What warps of every role see on some walks."""
    for seed in range(count):
        for block in roles(kernel):
            yield Warp(kernel, random.Random(seed)).run(block)
