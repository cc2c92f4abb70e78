"""Two writers of one element: two blocks, or two points of one `parallel`.

Every write leaves its author's code beside the element: the block's linear index + 1 above a stamp.
Stamps are counted up over the points of the `parallel`s that a block runs; 0 stands for a write
outside of any.  In nested `parallel`s the stamp of a point of an inner one, less the first stamp of
the outermost one, leaves the outermost point as its rest by their number.  Of three levels and
more, a clash in a middle one is not seen.

Reads are not followed here; `tileprof.checker` does, over the stream of accesses.
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from tileprof import ir
from tileprof.errors import Element
from tileprof.runtime.events.access import block_indices

from . import faults
from .buffers import Buffer
from .lanes import Array
from .state import STAMP_BITS, State

_STAMP = (1 << STAMP_BITS) - 1


def watched(state: State, buffer: Buffer, op: ir.OpBase) -> bool:
    """Return whether two writers could meet in this write."""
    if buffer.is_global:
        alone = len(state.grid) == 0 or all(n == 1 for n in state.grid)
        return bool(state.parallels) or not alone
    if buffer.type.space == "local":
        return False
    return bool(state.parallels) and op not in state.facts.disjoint


def writers_of(buffer: Buffer) -> Array:
    """Return the authors of a buffer's elements, in its shape with the lead axes."""
    if buffer.writers is None:
        buffer.writers = np.zeros(buffer.data.shape, np.int64)
    return buffer.writers


def clash(state: State, before: Array, own: Array) -> Array | None:
    """Return where a new author meets another one; None if nowhere."""
    if not before.any():
        return None
    meets = (before != 0) & ((before ^ own) >> STAMP_BITS != 0)
    if state.parallels:
        outer, inner = state.parallels[0], state.parallels[-1]
        old, new = before & _STAMP, own & _STAMP
        size = state.size_of(outer)
        meets |= (old >= outer.base) & ((old - outer.base) % size != (new - outer.base) % size)
        if inner is not outer:
            meets |= (old >= inner.base) & (old != new)
    return meets if meets.any() else None


def refuse(
    state: State,
    op: ir.OpBase,
    buffer: Buffer,
    elements: Array,
    codes: Array,
    before: Array,
    met: Array | None,
) -> NoReturn:
    """Raise RaceError for the clash that would come first if blocks ran one by one.

    All are flat: the elements that are written, counted in the buffer's data, their authors, the
    authors before, and where these two clash.
    """
    if met is not None:
        elements = np.concatenate([elements, elements[met]])
        codes = np.concatenate([codes, before[met]])
    order = np.lexsort((codes, elements))
    elements, codes = elements[order], codes[order]
    pair = (elements[1:] == elements[:-1]) & (codes[1:] != codes[:-1])
    found = np.flatnonzero(pair)
    at = found[np.argmin(codes[1:][found])]
    shape = buffer.data.shape
    index = np.unravel_index(int(elements[at]), shape)[buffer.lead :]
    place = tuple(int(i) for i in index)
    a, b = (int(code) for code in codes[at : at + 2])
    in_one = a >> STAMP_BITS == b >> STAMP_BITS
    faults.race(
        state, op, buffer, *(_author(state, buffer, place, code, in_one) for code in (a, b))
    )


def _author(
    state: State, buffer: Buffer, index: tuple[int, ...], code: int, in_one: bool
) -> Element:
    """Return the access of an author; its point only where both are points `in_one` block."""
    block = block_indices((code >> STAMP_BITS) - 1, state.grid)
    return Element(buffer.name, index, block, _point(state, code & _STAMP) if in_one else ())


def _point(state: State, stamp: int) -> tuple[tuple[str, int], ...]:
    outer = state.parallels[0]
    size = state.size_of(outer)
    at, shown = (stamp - outer.base) % size, []
    for arg, axis in reversed(list(zip(outer.op.body.args, outer.axes))):
        at, index = divmod(at, state.points[axis - 1])
        shown.append((arg.name or "i", index))
    inner = [(a, x) for p in state.parallels[1:] for a, x in zip(p.op.body.args, p.axes)]
    rest = (stamp - outer.base) // size - state.parallels[-1].rounds
    if inner and 0 <= rest < math.prod(state.points[x - 1] for _, x in inner):
        for arg, axis in reversed(inner):
            rest, index = divmod(rest, state.points[axis - 1])
            shown.insert(0, (arg.name or "i", index))
    return tuple(reversed(shown))
