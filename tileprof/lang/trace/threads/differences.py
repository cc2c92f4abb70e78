"""Values and buffers that differ between the threads of a block, and along which axes.

In: the traced body of a launch.  Out: `Differences`.  A value differs where it is computed from the
number of a thread, read from a buffer of each thread that differs, or the result of an atomic; a
buffer of each thread where such a value is stored, or some threads store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from tileprof import ir
from tileprof.ir.memory import base

Axes = frozenset[int]
"""Axes of a block of threads: 0 is x."""

_NONE: Axes = frozenset()
MEETING = "sync_threads"
"""Name of the mark at which all threads of a block meet."""


def is_meeting(op: ir.OpBase) -> bool:
    """Return whether an op marks a place where the threads of a block meet."""
    return isinstance(op, ir.Annotate) and op.name == MEETING


def is_combined(op: ir.OpBase) -> TypeGuard[ir.Reduce]:
    """Return whether an op combines a variable of each thread over an axis, its `dim`."""
    return isinstance(op, ir.Reduce) and op.source.buffer.space == "local" and (
        not op.source.buffer.shape
    )  # fmt: skip


class Differences:
    """Values and ops that differ between the threads of a block.

    `numbers` has the axis that each thread's number counts along; `threads` are the extents.
    """

    def __init__(
        self, body: ir.Block, numbers: Mapping[ir.Value, int], threads: Sequence[int]
    ) -> None:
        self.every = frozenset(range(len(threads)))
        self.private: dict[ir.Value, Axes] = {}
        """`local` buffers whose content differs between threads, and along which axes."""
        self.varying: dict[ir.Value, Axes] = {v: frozenset({n}) for v, n in numbers.items()}
        """Values that differ between threads, and along which axes."""
        self._body = body
        self._classify()

    def _classify(self) -> None:
        known = -1
        while known != (now := sum(map(len, (*self.private.values(), *self.varying.values())))):
            known = now
            self._classified(self._body, _NONE)

    def _classified(self, block: ir.Block, apart: Axes) -> None:
        """Note what differs in a block that threads run or leave along the axes `apart`."""
        for op in block.ops:
            if isinstance(op, ir.Parallel) and not self.differs(op):
                continue  # its points are dealt to threads: what an atomic gives differs by point
            if is_combined(op):
                self.note(self.private, op.source, frozenset({op.dim}))
                axes = self.private[op.source]
                self.note(self.private, op.target, axes - {op.dim} or axes)
                continue
            axes = self.every if isinstance(op, ir.Atomic) else self.along(op.operand_values())
            if isinstance(op, ir.While):
                axes |= self.yielded(op.condition)
            if axes and isinstance(op, ir.For | ir.While):
                # Stays in one piece, in which all have the same axes.
                axes |= self.along(op.all_operand_values())
            for inner in op.blocks():
                self._classified(inner, apart | axes)
            for held in op.accesses():
                local = base(held.value)
                if held.writes and local.buffer.space == "local":
                    self.note(self.private, local, axes | apart)
            axes = axes.union(*map(self.yielded, op.blocks()))
            for value in op.results:
                if not isinstance(value.type, ir.BufferType):
                    self.note(self.varying, value, axes)
            for inner in op.blocks() if isinstance(op, ir.For) else ():
                for value in inner.args:
                    self.note(self.varying, value, axes)

    def note(self, held: dict[ir.Value, Axes], value: ir.Value, axes: Axes) -> None:
        """Add axes to those of a value or buffer in `varying` or `private`."""
        if axes:
            held[value] = held.get(value, _NONE) | axes

    def along(self, values: Iterable[ir.Value]) -> Axes:
        """Return the axes along which any of these values or buffers differs."""
        found = _NONE
        for value in values:
            found |= self.varying.get(value, _NONE) | self.private.get(base(value), _NONE)
        return found

    def yielded(self, block: ir.Block) -> Axes:
        """Return the axes along which what a block yields differs."""
        last = block.ops[-1] if block.ops else None
        return self.along(last.values) if isinstance(last, ir.Yield) else _NONE

    def differs(self, op: ir.OpBase) -> bool:
        """Return whether an op, or one inside of it, differs between threads."""
        return bool(self.along(op.all_operand_values())) or _counts_threads(op)


def _counts_threads(op: ir.OpBase) -> bool:
    """Return whether an op has an atomic that each thread does: one of a `Parallel` is done once
    for each point, whichever thread does it."""
    if isinstance(op, ir.Atomic):
        return True
    return not isinstance(op, ir.Parallel) and any(
        _counts_threads(inner) for block in op.blocks() for inner in block.ops
    )
