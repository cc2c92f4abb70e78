"""Loads that a thread does not make again, because it holds what they would give.

In: a launch in the form that the compiler gave its loops, with layouts.  Out: for its loads of
global memory a name of what is asked for, and around how many loops the answer stays the same.

NVRTC loads once what two texts ask for at the same address, and takes a load out of a loop in which
its address stays, where nothing in the launch writes the tensor, across barriers and waits, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.passes.pipeline.roles import written_globals
from tileprof.ir.memory import base


class Numbers:
    """Numbers of the values of a launch: equal ones are equal wherever both can be used.

    The variables of all parallel loops that stand at the same axis have one number, since what is
    asked for by loops is compared with the places of their points.
    """

    def __init__(self, launch: ir.Launch, params: Set[ir.Value]) -> None:
        self._fixed = params - written_globals(launch)
        self._known: dict[Hashable, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._loops: dict[int, frozenset[ir.OpBase]] = {}
        """Loops of which a value may differ from one iteration to the next, by number."""
        self._block(launch.body, ())

    def is_fixed(self, buffer: ir.Value) -> bool:
        """Whether a buffer is in global memory that nobody writes."""
        return base(buffer) in self._fixed

    def of(self, value: ir.Value) -> int:
        """Return the number of a value."""
        if value not in self._numbers:
            self._numbers[value] = self._number(("value", value), frozenset())
        return self._numbers[value]

    def changes(self, values: Iterable[ir.Value]) -> frozenset[ir.OpBase]:
        """Return the loops in which one of the values may change."""
        return frozenset[ir.OpBase]().union(*(self._loops[self.of(each)] for each in values))

    def _number(self, text: Hashable, loops: frozenset[ir.OpBase]) -> int:
        number = self._known.setdefault(text, len(self._known))
        self._loops.setdefault(number, loops)
        return number

    def _block(self, block: ir.Block, around: tuple[ir.OpBase, ...]) -> None:
        for op in block.ops:
            self._op(op, around)
            if isinstance(op, ir.Parallel):
                for axis, variable in enumerate(op.body.args):
                    self._numbers[variable] = self._number(("axis", axis), frozenset())
                self._block(op.body, around)
                continue
            inside = (*around, op) if isinstance(op, ir.For | ir.While) else around
            for each in op.blocks():
                for value in each.args:
                    self._numbers[value] = self._number(("value", value), frozenset(inside))
                self._block(each, inside)

    def _op(self, op: ir.OpBase, around: tuple[ir.OpBase, ...]) -> None:
        known = isinstance(op, ir.Constant) or is_pure(op)
        if known or (isinstance(op, ir.Load) and self.is_fixed(op.buffer)):
            given = tuple(self.of(each) for each in op.operand_values())
            names = (*op.SPEC.positional, *(name for name, _ in op.SPEC.attributes))
            # As text, since NaN is not equal to itself.
            attributes = repr([getattr(op, name) for name in names])
            kind = op.mnemonic, repr(op.results[0].type), attributes, given
            loops = frozenset[ir.OpBase]().union(*(self._loops[each] for each in given))
            self._numbers[op.results[0]] = self._number(kind, loops)
            return
        for value in op.results:
            self._numbers[value] = self._number(("value", value), frozenset(around))
