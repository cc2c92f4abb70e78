"""What the index values of a tile kernel are, by block, and how often its loops turn.

In: a kernel.  Out: `Values`. Constants, block indices, and sums and products of
them; what a parameter or a load gives is not known. A value that goes with a loop is told where all
loops are at their first turn.

    launch [%c4] … body(%bx: index) {
      %0 = mul %bx, %c64 : index                        0, 64, 128, 192
      for serial %c0, %bx, %c1 body(%k: index) {        0, 1, 2, 3 turns; %k is 0, and goes with %k

A rotated loop stands as three in turn, of which two have one turn at most, and one that is peeled
as two: the number of turns tells which of them a kernel spends its time in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.numbers.tiles import VALUES_MOST_BLOCKS
from tileprof.kernel_ir import Op, TileKernel

Numbers = npt.NDArray[np.int64]
_ONTO = ("add", "sub", "mul")
"""Operations that keep what differs apart."""
_OPERATIONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
    "floormod": np.mod, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_DIVISIONS = ("floordiv", "floormod")


@dataclass(frozen=True, eq=False)
class Value:
    """By block, or one number for all: what it is where all loops are at their first turn."""

    first: Numbers
    loops: frozenset[str] = frozenset()
    """That it goes with, by their indices."""
    apart: bool = True
    """Whether each turn of them has a number of its own."""


class Values:
    """Of one kernel."""

    def __init__(self, kernel: TileKernel) -> None:
        self.grid: tuple[int, ...] = ()
        """Of the last launch; nothing where it is known at launch only, or has too many blocks."""
        self.held: dict[str, Value] = {}
        self.turns: dict[str, Numbers] = {}
        """By the index of a loop, or of a `parallel`."""
        for op, _ in kernel.nested:
            self._read(op)

    def number(self, name: str) -> int | None:
        """A value that is the same for all blocks and turns."""
        held = self.held.get(name)
        return int(held.first) if held and not held.loops and not held.first.ndim else None

    def mean_turns(self, loop: Op) -> float | None:
        """Of a loop, over all blocks, each time that it is run; None where that is not known."""
        found = [self.turns[name] for name in loop.arguments if name in self.turns]
        return float(np.mean(found[0])) if found else None

    def _read(self, op: Op) -> None:
        if (number := op.index) is not None:
            self.held[op.result] = Value(np.array(number))
        elif op.name == "launch":
            self._launch(op)
        elif op.name == "for" and len(op.operands) == 3 and op.arguments:
            self._loop(op)
        elif op.name == "parallel":
            self._points(op)
        elif op.name in _OPERATIONS and len(op.operands) == 2 and op.type.dtype == "index":
            self._operation(op)

    def _launch(self, op: Op) -> None:
        known = [number for each in op.listed if (number := self.number(each)) is not None]
        self.grid = tuple(known) if len(known) == len(op.listed) else ()
        if math.prod(self.grid) > VALUES_MOST_BLOCKS:
            self.grid = ()
        left = np.arange(math.prod(self.grid))
        for name, extent in zip(op.arguments, self.grid):
            self.held[name] = Value(left % extent)
            left = left // extent

    def _loop(self, op: Op) -> None:
        bounds = [held for each in op.operands if (held := self.held.get(each))]
        if len(bounds) < len(op.operands) or any(each.loops for each in bounds):
            return
        begin, end, step = (each.first for each in bounds)
        if np.all(step):
            self.turns[op.arguments[0]] = np.maximum(0, -(-(end - begin) // step))
            self.held[op.arguments[0]] = Value(begin, frozenset(op.arguments))

    def _points(self, op: Op) -> None:
        for name, extent in zip(op.arguments, op.listed):
            if (number := self.number(extent)) is not None:
                self.turns[name] = np.array(number)
                self.held[name] = Value(np.array(0), frozenset([name]))

    def _operation(self, op: Op) -> None:
        left, right = (self.held.get(each) for each in op.operands)
        if left is None or right is None or (op.name in _DIVISIONS and not np.all(right.first)):
            return
        loops = left.loops | right.loops
        apart = left.apart and right.apart and (op.name in _ONTO or not loops)
        first = np.asarray(_OPERATIONS[op.name](left.first, right.first))
        self.held[op.result] = Value(first, loops, apart)


@lru_cache(maxsize=1)
def values_of(kernel: TileKernel) -> Values:
    """Of a kernel; made once, as long as no other one is asked about."""
    return Values(kernel)


def turns_of(values: Values, loops: Sequence[Op]) -> float:
    """Of loops in each other, the turns of the innermost in all; an unknown one counts once."""
    known = (values.mean_turns(each) for each in loops)
    return math.prod(1.0 if each is None else each for each in known)
