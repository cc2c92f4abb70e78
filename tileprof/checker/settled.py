"""Accesses that are the same in every run with the same integers.

A run of a launch visits all blocks, points and iterations.  Where indices, conditions and bounds of
loops come from extents, scalars and tensors of integers that nobody writes, and from nothing else,
every other run with these integers makes the same accesses, whatever the other tensors hold and in
whatever order blocks run.  So a run without a finding is a proof for all of these runs:

    start = offsets[bz]                     which rows are written follows from `offsets`
    if bx * 64 < offsets[bz + 1] - start:
        T.copy(tile, Out[start + bx * 64, 0])

A block may read what other blocks of its launch write only if they race, which the run finds.

In: a kernel.  Out: what decides each access, or that something else does.  The analysis takes no
notice of the order of ops: a buffer holds whatever is written to it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tileprof import ir
from tileprof.ir.memory import base

Deciding: TypeAlias = frozenset[ir.Value]
"""Parameters and symbols that decide a number or an access, with `UNKNOWN` where others do."""

UNKNOWN = ir.Value(ir.index, "unknown")
"""Stands for what follows from floating-point numbers, from memory that is changed meanwhile, or
from the order of atomic updates."""
_NOTHING: Deciding = frozenset()
_UNKNOWN: Deciding = frozenset({UNKNOWN})


@dataclass(eq=False)
class Deciders:
    """Parameters and extents that decide the accesses of a kernel."""

    kernel: ir.Kernel
    _numbers: dict[ir.Value, Deciding] = field(default_factory=dict)
    """Deciders of a scalar, or of the elements that a view has."""
    _contents: dict[ir.Value, Deciding] = field(default_factory=dict)
    """Deciders of the elements of a buffer, and of which of them were written."""
    _around: dict[ir.OpBase, Deciding] = field(default_factory=dict)
    """Deciders of whether and how often an op runs, with the numbers of its loops."""
    _leaving: dict[ir.OpBase, Deciding] = field(default_factory=dict)
    """Parameters that decide when iterations of a loop, or its points, are left early."""
    _changed: bool = True

    def __post_init__(self) -> None:
        for value in self.kernel.symbol_values().values():
            self._numbers[value] = frozenset({value})
        for param, value in zip(self.kernel.params, self.kernel.param_values()):
            kind = value.dtype.kind
            known = kind == "bool" or value.dtype.is_integer
            decided = frozenset({value}) if known else _UNKNOWN
            if not isinstance(param.type, ir.BufferType):
                self._numbers[value] = decided
            elif param.role == "in":
                self._contents[value] = decided
        while self._changed:
            self._changed = False
            self._block(self.kernel.body, _NOTHING, ())

    def of_accesses(self, ops: Iterable[ir.OpBase]) -> Deciding:
        """Return what decides the accesses of some ops together."""
        return _NOTHING.union(*map(self.of_access, ops))

    def of_access(self, op: ir.OpBase) -> Deciding:
        """Return what decides which elements of which buffers an op accesses, and how often."""
        found = self._around.get(op, _NOTHING) | self._extents(op)
        if isinstance(op, ir.View):
            found |= self._numbers.get(op.result, _NOTHING)
        for access in op.accesses():
            found |= self._numbers.get(access.value, _NOTHING)
            for index in access.indices or ():
                found |= self._numbers.get(index, _NOTHING)
        return found

    def of_writes(self, buffers: Iterable[ir.Value]) -> Deciding:
        """Return what decides which elements of these buffers are written at all."""
        wanted, found = set(buffers), _NOTHING
        for op in self.kernel.ops():
            if any(each.writes and base(each.value) in wanted for each in op.accesses()):
                found |= self.of_access(op)
        return found

    def _extents(self, op: ir.OpBase) -> Deciding:
        """Return the extents of the buffers that an op accesses, as far as they are symbols."""
        symbols = self.kernel.symbol_values()
        shapes = [base(each.value).buffer.shape for each in op.accesses()]
        return frozenset(symbols[dim] for shape in shapes for dim in shape if isinstance(dim, str))

    def _add(self, table: dict[ir.Value, Deciding], value: ir.Value, decided: Deciding) -> None:
        before = table.get(value, _NOTHING)
        if not decided <= before:
            table[value] = before | decided
            self._changed = True

    def _leave(self, loop: ir.OpBase, decided: Deciding) -> None:
        before = self._leaving.get(loop, _NOTHING)
        if not decided <= before:
            self._leaving[loop] = before | decided
            self._changed = True

    def _block(self, block: ir.Block, around: Deciding, loops: tuple[ir.OpBase, ...]) -> Deciding:
        """Follow a block that runs as `around` decides; return what decides what it yields.

        loops: ops around that `break` and `continue` may leave, the innermost last.
        """
        given = _NOTHING
        for op in block.ops:
            self._around[op] = self._around.get(op, _NOTHING) | around
            read = self._operands(op) | around
            if isinstance(op, ir.Yield):
                given |= read
            elif isinstance(op, ir.Break | ir.Continue):
                for loop in loops:
                    self._leave(loop, around)
            given_inside = self._inside(op, read, loops)
            if isinstance(op, ir.Atomic | ir.TileAtomic):
                # What it finds, and what others find later, depends on the order of blocks.
                read = _UNKNOWN
            for result in op.results:
                self._add(self._numbers, result, read | given_inside)
            for access in op.accesses():
                if access.writes:
                    self._add(self._contents, base(access.value), read)
        return given

    def _operands(self, op: ir.OpBase) -> Deciding:
        """Return what decides the operands of an op, and what it reads of memory."""
        found = _NOTHING
        for value in op.operand_values():
            found |= self._numbers.get(value, _NOTHING)
        for access in op.accesses():
            if access.reads:
                found |= self._contents.get(base(access.value), _NOTHING)
        return found

    def _inside(self, op: ir.OpBase, read: Deciding, loops: tuple[ir.OpBase, ...]) -> Deciding:
        """Follow the blocks of an op; return what decides what they yield."""
        if isinstance(op, ir.For | ir.While | ir.Parallel):
            loops = (*loops, op)
        inner = read | self._leaving.get(op, _NOTHING)
        given = _NOTHING
        for body in op.blocks():
            for arg in body.args:
                self._add(self._numbers, arg, inner)
            held = self._block(body, inner, loops)
            if isinstance(op, ir.While):
                # The condition decides whether there is another iteration.
                self._leave(op, held)
            elif isinstance(op, ir.For):
                # Its body may yield the next number.
                self._leave(op, held if _yields(body) else _NOTHING)
            else:
                given |= held
        return given


def _yields(body: ir.Block) -> bool:
    return bool(body.ops) and isinstance(body.ops[-1], ir.Yield)


def names_of(deciding: Deciding, kernel: ir.Kernel) -> tuple[str, ...] | None:
    """Return the names of parameters and extents in the order of the kernel's signature; None where
    something else decides, too."""
    if UNKNOWN in deciding:
        return None
    names: Mapping[ir.Value, str] = {
        **dict(zip(kernel.param_values(), (param.name for param in kernel.params))),
        **{value: name for name, value in kernel.symbol_values().items()},
    }
    return tuple(name for value, name in names.items() if value in deciding)
