"""Addresses in swizzled shared memory: that of a thread's first point, and what registers change.

    const int x_at = i_at * 128 + ((j_at * 2) ^ ((i_at & 7) * 16));        once
    … *(x + slot * 8192 + (x_at ^ (r * 32)) + r_1 * 1024) …                  each point

Swizzles exchange bits by exclusive or, and so do steps over registers that carry into no other bit.
Whether they do is tried for all threads and registers.  Where the bits of a step are 0 in every
thread's first address the step is a sum, which instructions take as an immediate.

What an index has besides, as in `k * 128 + j`, changes nothing of that where it is the same for all
points and goes by whole panels, or by whole periods of rows: it is in the first address alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout
from tileprof.compiler.cuda.layouts.shared import LINES
from tileprof.compiler.cuda.passes.choice.copies import multiple
from tileprof.compiler.cuda.passes.layout.index import evaluate

from .buffers import SharedBuffer
from .loops.digit_runs import Run

Array = npt.NDArray[np.int64]
ARITHMETIC = ("add", "sub", "mul", "floordiv", "floormod", "and", "or", "xor", "min", "max")


Moves = tuple[tuple[int, int], ...]
"""Bits of a number and how far left they go; together they are the change of an address."""


@dataclass(frozen=True, slots=True)
class Swizzled:
    """Places of the elements of one access."""

    mask: int
    """Bits that steps exchange; the others are added."""
    steps: tuple[tuple[Run, Moves], ...]
    """Change by each loop over registers."""
    base: str = ""
    """The name of the address of the thread's first point."""

    def offset(self, runs: Sequence[Run], lead: Extent) -> Extent:
        """Bytes to the point of the given loops; `lead`: to its tile."""
        exchanged: list[Extent] = []
        added: list[Extent] = []
        for run in runs:
            number: Extent = int(run.name) if run.name.isdigit() else run.name
            for bits, shift in self._moves(run):
                swapped = bits & _shifted(self.mask, -shift)
                exchanged.append(_moved(number, swapped, shift, run.count))
                added.append(_moved(number, bits & ~swapped, shift, run.count))
        changes = [str(paren(e)) for e in exchanged if e != 0]
        at = f"({' ^ '.join([self.base, *changes])})" if changes else self.base
        return plus(lead, at, *added)

    def _moves(self, run: Run) -> Moves:
        """Those of a loop, which may be a part of one that was counted."""
        for whole, moves in self.steps:
            for skipped in range(whole.count.bit_length() - 1):
                if run.step == tuple(s << skipped for s in whole.step):
                    parts = ((bits >> skipped & run.count - 1, by + skipped) for bits, by in moves)
                    return tuple(p for p in parts if p[0])
        return ()


def _moved(number: Extent, bits: int, shift: int, count: int) -> Extent:
    """Some bits of a number below `count`, so far left."""
    if isinstance(number, int):
        return _shifted(number & bits, shift)
    if not bits:
        return 0
    text = number if bits == count - 1 else f"({paren(number)} & {bits})"
    return times(text, 1 << shift) if shift >= 0 else f"({text} >> {-shift})"


def swizzled_steps(
    op: ir.Load | ir.Store | ir.Atomic,
    buffer: SharedBuffer,
    variables: Sequence[ir.Value],
    layout: RegisterLayout,
    runs: Sequence[Run],
    inner: Collection[ir.Value] = (),
) -> Swizzled | None:
    """Return how the address of an access of points over `variables` changes with registers; None
    where it has no such form. `inner`: values that are computed for each point."""
    shared = buffer.layout
    if not shared.swizzle or len(op.indices) < 2:
        return None
    varying = {*variables, *inner}
    last = [
        _without_whole(index, period, varying) if shared.rows % LINES == 0 else index
        for index, period in zip(op.indices[-2:], (LINES, shared.panel), strict=True)
    ]
    if not all(_is_arithmetic(v, variables) for v in last):
        return None
    table = _points(layout, runs)
    at = {variable: table[..., d] for d, variable in enumerate(variables)}
    coordinates = np.stack([evaluate(v, at, table.shape[:-1]) for v in last], axis=-1)
    tile = SharedLayout(shared.shape[-2:], shared.dtype, shared.swizzle)
    offsets = tile.address(coordinates)
    change = offsets[0] ^ offsets[0, 0]
    if np.any(offsets != (offsets[:, :1] ^ change)):
        return None
    steps = _moves(change, runs)
    if steps is None:
        return None
    mask = int(np.bitwise_or.reduce(offsets[:, 0])) & int(np.bitwise_or.reduce(change))
    return Swizzled(mask | _changed_twice(steps), steps)


def _without_whole(index: ir.Value, period: int, varying: Collection[ir.Value]) -> ir.Value:
    """An index without what is the same for all points and goes by whole periods."""
    match index.owner:
        case ir.Binary(kind="add", left=left, right=right):
            for rest, same in ((left, right), (right, left)):
                if multiple(same) % period == 0 and _is_same(same, varying):
                    return _without_whole(rest, period, varying)
    return index


def _is_same(value: ir.Value, varying: Collection[ir.Value]) -> bool:
    """Whether a number is one for all points: known outside, or arithmetic of such."""
    match value.owner:
        case ir.Constant():
            return True
        case ir.Binary(left=left, right=right):
            return _is_same(left, varying) and _is_same(right, varying)
        case _:
            return value not in varying


def _is_arithmetic(value: ir.Value, variables: Sequence[ir.Value]) -> bool:
    """Whether a number follows from the variables alone."""
    if value in variables:
        return True
    match value.owner:
        case ir.Constant():
            return True
        case ir.Binary(kind=kind, left=left, right=right):
            parts = (left, right)
            return kind in ARITHMETIC and all(_is_arithmetic(v, variables) for v in parts)
        case _:
            return False


def _changed_twice(steps: Sequence[tuple[Run, Moves]]) -> int:
    """The bits of an address that more than one step changes."""
    seen = twice = 0
    for bits in (_shifted(b, shift) for _, moves in steps for b, shift in moves):
        twice |= seen & bits
        seen |= bits
    return twice


def _shifted(bits: int, by: int) -> int:
    return bits << by if by >= 0 else bits >> -by


def _points(layout: RegisterLayout, runs: Sequence[Run]) -> Array:
    """Coordinates by thread and register, the first of the runs fastest: int64[T, R, rank]."""
    first = layout.table()[:, 0, :]
    steps = np.zeros((1, layout.rank), np.int64)
    for run in runs:
        along = np.arange(run.count)[:, None] * np.array(run.step, np.int64)
        steps = (along[:, None, :] + steps[None, :, :]).reshape(-1, layout.rank)
    return np.asarray(first[:, None, :] + steps[None, :, :], np.int64)


def _moves(change: Array, runs: Sequence[Run]) -> tuple[tuple[Run, Moves], ...] | None:
    """Return what each run changes by the bits of its number, where that is all."""
    found: list[tuple[Run, Moves]] = []
    total = np.zeros(1, np.int64)
    for run in runs:
        if run.count & run.count - 1:
            return None
        moves: dict[int, int] = {}
        numbers = np.arange(run.count)
        own = np.zeros(run.count, np.int64)
        for bit in range(run.count.bit_length() - 1):
            moved = int(change[len(total) << bit])
            own ^= (numbers >> bit & 1) * moved
            for place in range(moved.bit_length()):
                if moved >> place & 1:
                    moves[place - bit] = moves.get(place - bit, 0) | 1 << bit
        total = (own[:, None] ^ total[None, :]).reshape(-1)
        found.append((run, tuple((bits, shift) for shift, bits in moves.items())))
    return tuple(found) if np.array_equal(total, change) else None
