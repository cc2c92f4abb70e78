"""A machine that walks through a marked kernel: branches and turns by chance, one warp of a role.

It knows nothing of how marks are placed.  Of each op that it comes across it tells in which sites
the warp was by then, and in which visits of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tileprof import ir
from tileprof.instrument.placement.steps import Steps, is_glue

__all__ = ["Seen", "Warp", "path_of", "roles", "walks"]
__all__ += ["check_loops", "check_scopes", "check_steps", "check_turns"]


_WAITS = (ir.Wait, ir.RingWait, ir.RingAcquire, ir.TurnWait)


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


def check_scopes(kernel: ir.Kernel, noted: Sequence[ir.Site], *, by_steps: bool) -> int:
    """The scopes that are open at each op that takes time are those that its place names; gives
    how many ops were looked at."""
    checked = 0
    steps = _steps(kernel)
    for walk in walks(kernel):
        for seen in walk:
            # Of what a pass made without a place nothing is known.
            idle = is_glue(seen.op) or not seen.op.SPEC.effect or seen.op.span is None
            # Barriers may go with what is beside them.
            joined = isinstance(seen.op, ir.Barrier) or seen.op not in steps
            if idle or isinstance(seen.op, ir.Alloc) or (by_steps and joined):
                continue
            opened = [kernel.sites[s] for s in seen.path or ()]
            found = [site.name for site in opened if site.kind == "scope"]
            expected = _scopes(noted, seen.op)
            if isinstance(seen.op, _WAITS):
                # One that lies in no scope of its own may be between two ops of one.
                found = found[: len(expected)]
            assert found == expected, seen
            checked += 1
    return checked


def _scopes(noted: Sequence[ir.Site], op: ir.OpBase) -> list[str]:
    """Names of the scopes around an op, outermost first."""
    at = op.span.scope if op.span is not None else None
    found: list[str] = []
    while at is not None:
        found.append(noted[at].name)
        at = noted[at].parent
    return found[::-1]


def _steps(kernel: ir.Kernel) -> dict[ir.OpBase, Any]:
    found: dict[ir.OpBase, Any] = {}
    for launch in kernel.body.ops:
        if isinstance(launch, ir.Launch):
            steps = Steps(launch)
            found |= {op: step for op in ir.walk(launch.body) if (step := steps.of(op))}
    return found


def check_steps(kernel: ir.Kernel) -> int:
    """In mode ops each step is in a site of its own, the tensors of a group of loads in one; gives
    how many steps were looked at."""
    checked = 0
    steps = _steps(kernel)
    for walk in walks(kernel):
        for seen in walk:
            if seen.op not in steps:
                continue
            step = steps[seen.op]
            site = kernel.sites[(seen.path or ())[-1]]
            assert site.kind == "op"
            names = step.what if step.kind == "load" else (step.name,)
            assert all(each in site.name for each in names) or "…" in site.name, (step, site)
            queues = site.issues, site.retires, site.pending
            assert queues == (step.issues, step.retires, step.pending)
            checked += 1
    return checked


def check_turns(kernel: ir.Kernel) -> None:
    """A visit of a site that is only marked inside of a loop ends with the turn it began in."""
    inside = _inside_loops(kernel)
    for walk in walks(kernel):
        first: dict[int, Seen] = {}
        for seen in walk:
            for site, visit in zip(seen.path or (), seen.visits, strict=True):
                began = first.setdefault(visit, seen)
                for loop, turn in began.turns:
                    if site in inside.get(loop, ()) and not is_glue(seen.op):
                        assert (loop, turn) in seen.turns, (kernel.sites[site], seen)


def _inside_loops(kernel: ir.Kernel) -> dict[ir.OpBase, set[int]]:
    """The sites that are only marked inside of each loop."""
    found: dict[ir.OpBase, set[int]] = {}
    marks = [op for op in kernel.ops() if isinstance(op, ir.Mark)]
    for loop in kernel.ops():
        if isinstance(loop, (ir.For, ir.While)):
            own = {o for b in loop.blocks() for o in ir.walk(b) if isinstance(o, ir.Mark)}
            outside = _marked(kernel, [mark for mark in marks if mark not in own])
            found[loop] = _marked(kernel, own) - outside
    return found


def _marked(kernel: ir.Kernel, marks: Iterable[ir.Mark]) -> set[int]:
    return {s for m in marks for s in path_of(kernel, kernel.states[m.state].site)}


def check_loops(kernel: ir.Kernel) -> None:
    """The site of a loop is entered once for each time that control comes to the loop."""
    for walk in walks(kernel):
        visits: dict[tuple[int, object], set[int]] = {}
        for seen in walk:
            for depth, (loop, _) in enumerate(seen.turns):
                name = f"loop {loop.body.args[0].name}" if isinstance(loop, ir.For) else "loop"
                for site, visit in zip(seen.path or (), seen.visits, strict=True):
                    if kernel.sites[site].name == name.rstrip():
                        key = (site, (loop, seen.turns[:depth]))
                        visits.setdefault(key, set()).add(visit)
        assert all(len(held) == 1 for held in visits.values())
