"""The interpreter's state for one block that runs one op at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprof import ir
from tileprof.errors import Location
from tileprof.runtime.events.access import block_indices
from tileprof.runtime.interpreter.executable import _limit
from tileprof.runtime.interpreter.facts import Facts
from tileprof.runtime.interpreter.recording import Recorder
from tileprof.runtime.interpreter.state import Options, Output, State

from .known import Environment

Point = tuple[Sequence[str], Sequence[int]]
"""The names and the values of the variables of a `T.Parallel`."""


class _Everything(set[ir.Value]):
    """Nothing is known about the ops that follow, so each fact is taken as the safe one."""

    def __contains__(self, value: object) -> bool:
        return True


class _AtOnce(Output):
    """Lines appear when they are printed."""

    def add(self, block: int, line: str) -> None:
        sys.stdout.write(line + "\n")


@dataclass(slots=True, eq=False)
class Machine(State):
    """One block; the point of each `T.Parallel` around is known by name."""

    around: list[Point] = field(default_factory=list)
    place: Callable[[], Location | None] = lambda: None
    """The user's line that is running."""
    missed: bool = False
    """Whether the op that ran last had elements outside of a global tensor."""

    def start(self, block: int) -> None:
        """Begin a block of the launch."""
        self.begin(np.array([block]), launched=True)
        self.around.clear()

    def stop(self) -> None:
        """Leave the launch."""
        self.begin(np.zeros(1, np.int64), launched=False)
        self.around.clear()

    def lane_place(
        self, lane: tuple[int, ...]
    ) -> tuple[tuple[int, ...] | None, tuple[tuple[str, int], ...]]:
        """Return the indices of the block, None outside a launch, and the point."""
        if not self.launched:
            return None, ()
        points = [(n, i) for names, at in self.around for n, i in zip(names, at)]
        return block_indices(int(self.blocks[0]), self.grid), tuple(points)

    def count_guarded(self, op: ir.OpBase, count: int) -> None:
        """Note elements that were guarded, by source line."""
        self.guarded[self._line()] += count
        self.missed = True

    def uncount(self) -> None:
        """Take one guarded element of the running line back."""
        self.guarded[self._line()] -= 1

    def _line(self) -> Location | None:
        at = self.place()
        return Location(at.file, at.line) if at else None


def machine(strict: bool, place: Callable[[], Location | None]) -> Machine:
    """Return a state in which ops run as soon as they are written."""
    facts = Facts(by_bits=_Everything(), used=_Everything())
    kernel = ir.Kernel("debug", (), (), ir.Block())
    recorder = Recorder(lambda: 0)
    options = Options(strict, while_limit=_limit())
    made = Machine(
        kernel, facts, options, recorder, _AtOnce(), {}, {}, env=Environment(), place=place
    )
    made.stop()
    return made


def written_by(op: ir.OpBase) -> ir.Value | None:
    """Return the buffer or view that an op writes."""
    return next((t.value for t in op.accesses() if t.writes), None)


def base_of(value: ir.Value) -> ir.Value:
    """Return the buffer of a view."""
    return value.owner.base if isinstance(value.owner, ir.View) else value
