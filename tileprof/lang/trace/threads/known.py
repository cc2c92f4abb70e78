"""Values that follow from constants and the number of the thread alone, for each thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from tileprof import ir
from tileprof.compiler.passes.folding import Number, fold

PerThread = tuple[Number, ...]
"""One number for each thread of a block, the first axis fastest."""


class KnownValues:
    """Numbers that values are for each thread of a block.

    `numbers` has the axis that each thread's number counts along; `threads` are the extents.
    """

    def __init__(self, numbers: Mapping[ir.Value, int], threads: Sequence[int]) -> None:
        self._numbers = numbers
        places = [at[::-1] for at in product(*map(range, reversed(threads)))]
        self._places: Sequence[tuple[int, ...]] = places
        self._found: dict[ir.Value, PerThread | None] = {}
        self.count = len(places)
        """Threads of a block."""

    def of(self, value: ir.Value) -> PerThread | None:
        """Return what a value is for each thread; None where it depends on anything else."""
        if value not in self._found:
            self._found[value] = self._computed(value)
        return self._found[value]

    def _computed(self, value: ir.Value) -> PerThread | None:
        if value in self._numbers:
            axis = self._numbers[value]
            return tuple(at[axis] for at in self._places)
        op = value.owner
        if isinstance(op, ir.Constant):
            return (op.value,) * len(self._places)
        if not isinstance(op, ir.ScalarOp):
            return None
        operands = [self.of(v) for v in op.operand_values()]
        known = [held for held in operands if held is not None]
        if not known or len(known) < len(operands):
            return None
        if all(held.count(held[0]) == len(held) for held in known):
            same = fold(op, [held[0] for held in known])
            return None if same is None else (same,) * len(self._places)
        made = [fold(op, list(each)) for each in zip(*known)]
        found = tuple(number for number in made if number is not None)
        return found if len(found) == len(made) else None
