"""Reading and writing whole tiles: where a tile lies in each block, what of it lies inside.

A tile that starts at the same offsets in all blocks is a slice.  Otherwise blocks are grouped by
how much of their tile lies inside, and a group is one indexing of a sliding window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tileprof import ir
from tileprof.runtime.events.access import AccessKind

from . import faults, races
from .buffers import Buffer, Tile, whole
from .lanes import Array, Scalar, uniform
from .state import State

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Group:
    """Blocks of which equally much of the tile lies inside."""

    rows: Ints | slice
    """Blocks of the batch."""
    offsets: tuple[Any, ...]
    """Starts of their tiles: numbers if all start together, else one for each of `rows`."""
    sizes: tuple[int, ...]
    """Sizes of the parts inside."""

    @property
    def together(self) -> bool:
        """Whether all tiles start at the same place."""
        return not self.offsets or isinstance(self.offsets[0], int)


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of a tile for the active blocks."""

    groups: list[_Group]
    exact: bool
    """Whether all blocks are active and all tiles are whole."""


def operand(state: State, value: ir.Value) -> Tile:
    """Return the tile that a buffer or a view stands for."""
    held = state.env[value]
    return whole(held) if isinstance(held, Buffer) else held


def read(state: State, op: ir.OpBase, tile: Tile) -> tuple[Array, Array | None]:
    """Return the values, (blocks or 1, *sizes), not to be changed; and where nobody wrote them."""
    place = _place(state, op, tile, "read")
    values = _gather(tile, tile.buffer.data, place, state.count, tile.buffer.safe)
    shadow = tile.buffer.shadow
    if shadow is None:
        return values, None
    written = tile.buffer.written
    missing = _gather(tile, shadow, place, state.count, written) != written
    active = state.active_blocks(state.mask)
    if active is not None:
        kept = np.zeros(state.count, np.bool_)
        kept[active] = True
        missing = missing & kept.reshape(-1, *(1,) * len(tile.sizes))
    return values, missing if missing.any() else None


def need(state: State, op: ir.OpBase, tile: Tile) -> Array:
    """Return the values of a tile that is read as a whole; UninitializedError where one is
    missing."""
    values, missing = read(state, op, tile)
    if missing is not None:
        _unwritten(state, op, tile, missing)
    return values


def write(
    state: State,
    op: ir.OpBase,
    tile: Tile,
    values: Array,
    source: Tile | None = None,
    missing: Array | None = None,
) -> None:
    """Write values that broadcast to (blocks, *sizes); what lies outside is dropped.

    `missing` says where `source`, which the values come from, was never written.
    """
    buffer = tile.buffer
    place = _place(state, op, tile, "written")
    values = np.broadcast_to(values, (values.shape[0], *tile.sizes))
    if source is not None and missing is not None:
        _check_taken(state, op, tile, place, source, missing)
    _claim(state, op, tile, place)
    _scatter(buffer, buffer.data, place, values)
    if place.exact and tile.sizes == buffer.shape and not buffer.is_global:
        buffer.memory.fill_shadow()
    elif (shadow := buffer.shadow) is not None:
        _scatter(buffer, shadow, place, np.broadcast_to(buffer.written, (1, *tile.sizes)))
        buffer.finish()


def flat_elements(state: State, op: ir.OpBase, tile: Tile) -> tuple[Array, Array]:
    """Return, for combining, places in the buffer's data of the elements inside, in the order of
    blocks, and which of (blocks, *sizes) these are.  UninitializedError where one was never
    written."""
    place = _place(state, op, tile, "written")
    buffer = tile.buffer
    numbers = np.arange(buffer.data.size).reshape(buffer.data.shape)
    found = _gather(tile, numbers, place, state.count, -1)
    found = np.broadcast_to(found, (state.count, *tile.sizes))
    inside = found >= 0
    active = state.active_blocks(state.mask)
    if active is not None:
        kept = np.zeros(state.count, np.bool_)
        kept[active] = True
        inside = inside & kept.reshape(-1, *(1,) * len(tile.sizes))
    flat, shadow = found[inside], buffer.shadow
    if shadow is not None:
        missing = np.zeros(inside.shape, np.bool_)
        missing[inside] = shadow.reshape(-1)[flat] != buffer.written
        if missing.any():
            _unwritten(state, op, tile, missing)
    return flat, inside


def _place(state: State, op: ir.OpBase, tile: Tile, access: faults.Access) -> _Place:
    if state.events is not None:
        done: AccessKind = "read" if access == "read" else "write"
        kind: AccessKind = "atomic" if isinstance(op, ir.TileAtomic) and done == "write" else done
        state.note(op, kind, tile.buffer, tile.offsets, tile.sizes)
    active = state.active_blocks(state.mask)
    shape, sizes = tile.buffer.shape, tile.sizes
    # A global buffer is one for all blocks, so each block's write is one of its own.
    shared = tile.buffer.is_global and access == "written"
    if not shared and all(uniform(o) for o in tile.offsets):
        start = tuple(int(o) for o in tile.offsets)
        inside = tuple(_within(o, n, s) for o, n, s in zip(start, shape, sizes))
        if min(start, default=0) < 0 or inside != sizes:
            spread = [np.full(state.count, o) for o in start]
            _check(state, op, tile, access, spread, active)
        rows = slice(None) if active is None else active
        return _Place([_Group(rows, start, inside)], active is None and inside == sizes)
    offsets = [np.broadcast_to(np.ravel(o), state.count) for o in tile.offsets]
    rows_at = np.arange(state.count) if active is None else active
    if not offsets:
        return _Place([_Group(rows_at[i : i + 1], (), ()) for i in range(len(rows_at))], False)
    start_at = [o[rows_at] for o in offsets]
    if all(len(o) and o.min() >= 0 and o.max() + s <= n for o, n, s in zip(start_at, shape, sizes)):
        rows = slice(None) if active is None else rows_at
        return _Place([_Group(rows, tuple(start_at), sizes)], active is None)
    _check(state, op, tile, access, offsets, active)
    return _Place(list(_grouped(rows_at, start_at, shape, sizes)), False)


def _within(offset: int, extent: int, size: int) -> int:
    return max(min(extent - offset, size), 0)


def _grouped(
    rows: Ints, offsets: list[Ints], shape: tuple[int, ...], sizes: tuple[int, ...]
) -> Iterator[_Group]:
    inside = [np.clip(n - o, 0, s) for o, n, s in zip(offsets, shape, sizes)]
    kinds, which = np.unique(np.stack(inside), axis=1, return_inverse=True)
    for number, kind in enumerate(kinds.T.tolist()):
        if all(kind):
            chosen = np.flatnonzero(which.ravel() == number)
            yield _Group(rows[chosen], tuple(o[chosen] for o in offsets), tuple(kind))


def _check(
    state: State,
    op: ir.OpBase,
    tile: Tile,
    access: faults.Access,
    offsets: list[Ints],
    active: Ints | None,
) -> None:
    """Errors of a tile that passes an edge, and the count of what is guarded."""
    buffer = tile.buffer
    rows = np.arange(state.count) if active is None else active
    below = np.zeros(len(rows), np.bool_)
    inside = np.ones(len(rows), np.int64)
    for offset, extent, size in zip(offsets, buffer.shape, tile.sizes):
        below |= offset[rows] < 0
        inside *= np.clip(extent - offset[rows], 0, size)

    def first(bad: Array) -> tuple[list[int], tuple[int, ...]]:
        row = int(rows[bad.argmax()])
        return [int(o[row]) for o in offsets], (row, *(0,) * state.facts.depth)

    if below.any():
        index, lane = first(below)
        faults.negative(state, op, buffer.name, access, index, lane)
    total = int(np.prod(tile.sizes))
    passing = inside < total
    if passing.any() and (tile.proved or not buffer.is_global):
        index, lane = first(passing)
        shown = [max(o, n) if o + s > n else o for o, n, s in zip(index, buffer.shape, tile.sizes)]
        faults.outside(state, op, buffer, access, shown, lane)
    if state.options.strict_bounds and (inside == 0).any():
        index, lane = first(inside == 0)
        faults.nothing_inside(state, op, buffer, access, index, lane)
    if passing.any():
        state.count_guarded(op, int((total - inside).sum()))


def _gather(tile: Tile, held: Array, place: _Place, count: int, fill: Scalar) -> Array:
    """Return the tile of `held`, which has the buffer's shape; `fill` outside."""
    blocks = held.reshape(-1, *tile.buffer.shape) if tile.buffer.lead else held[None]
    if len(place.groups) == 1 and place.groups[0].sizes == tile.sizes:
        (group,) = place.groups
        if group.together:
            return blocks[(slice(None), *_slices(group))]
        if place.exact:
            return _window(tile.buffer, held, group)
    made = np.full((count, *tile.sizes), fill, held.dtype)
    for group in place.groups:
        inner = tuple(slice(n) for n in group.sizes)
        if group.together:
            rows: Any = group.rows if tile.buffer.lead else slice(None)
            made[(group.rows, *inner)] = blocks[(rows, *_slices(group))]
        else:
            made[(group.rows, *inner)] = _window(tile.buffer, held, group)
    return made


def _slices(group: _Group) -> tuple[slice, ...]:
    return tuple(slice(o, o + n) for o, n in zip(group.offsets, group.sizes))


def _window(buffer: Buffer, held: Array, group: _Group) -> Array:
    view, index = _sliding(buffer, held, group)
    found: Array = view[index]
    return found


def _sliding(buffer: Buffer, held: Array, group: _Group) -> tuple[Array, tuple[Any, ...]]:
    """Return a window of the group's sizes that slides over `held`, and the index of its tiles."""
    base = held.reshape(-1, *buffer.shape) if buffer.lead else held
    lead = base.ndim - len(buffer.shape)
    steps = tuple(n - s + 1 for n, s in zip(buffer.shape, group.sizes))
    strides = (*base.strides, *base.strides[lead:])
    # As plain bits: NumPy makes the view from the type's name, and float8_e5m2 has none it knows.
    bits = base.view(f"u{base.itemsize}")
    view = as_strided(bits, (*base.shape[:lead], *steps, *group.sizes), strides).view(base.dtype)
    if not lead:
        return view, group.offsets
    rows = np.arange(base.shape[0]) if isinstance(group.rows, slice) else group.rows
    return view, (rows, *group.offsets)


def _scatter(buffer: Buffer, held: Array, place: _Place, values: Array) -> None:
    for group in place.groups:
        inner = tuple(slice(n) for n in group.sizes)
        one = values.shape[0] == 1
        taken = values[(slice(None) if one else group.rows, *inner)]
        if group.together:
            blocks = held.reshape(-1, *buffer.shape) if buffer.lead else held[None]
            rows: Any = group.rows if buffer.lead else slice(None)
            blocks[(rows, *_slices(group))] = taken
        else:
            view, index = _sliding(buffer, held, group)
            view[index] = taken


def _claim(state: State, op: ir.OpBase, tile: Tile, place: _Place) -> None:
    """RaceError where two blocks write one element of a global buffer."""
    buffer = tile.buffer
    if not races.watched(state, buffer, op):
        return
    authors = races.writers_of(buffer)
    own = state.codes().reshape(-1, *(1,) * len(tile.sizes))
    own = np.broadcast_to(own, (state.count, *(1,) * len(tile.sizes)))
    before = _gather(tile, authors, place, state.count, 0)
    _scatter(buffer, authors, place, np.broadcast_to(own, (state.count, *tile.sizes)))
    after = _gather(tile, authors, place, state.count, 0)
    met = races.clash(state, before, own)
    lost = (after != own) & (after != 0)
    if met is None and not lost.any():
        return
    numbers = np.arange(authors.size).reshape(authors.shape)
    elements = _gather(tile, numbers, place, state.count, -1)
    inside = elements >= 0
    codes = np.broadcast_to(own, elements.shape)[inside]
    old = np.broadcast_to(before, elements.shape)[inside]
    clashes = None if met is None else np.broadcast_to(met, elements.shape)[inside]
    races.refuse(state, op, buffer, elements[inside], codes, old, clashes)


def _check_taken(
    state: State, op: ir.OpBase, tile: Tile, place: _Place, source: Tile, missing: Array
) -> None:
    """Elements that land outside the target need not have been written in the source."""
    landing = np.zeros((state.count, *tile.sizes), np.bool_)
    for group in place.groups:
        landing[(group.rows, *(slice(n) for n in group.sizes))] = True
    spread = np.broadcast_to(missing.reshape(-1, *tile.sizes), landing.shape)
    bad = (spread & landing).reshape(state.count, *source.sizes)
    if bad.any():
        _unwritten(state, op, source, bad)


def _unwritten(state: State, op: ir.OpBase, tile: Tile, missing: Array) -> None:
    row, *index = (int(i) for i in np.unravel_index(int(missing.argmax()), missing.shape))
    lane = (row, *(0,) * state.facts.depth)
    start = [int(state.at(o, lane)) for o in tile.offsets]
    shown = [o + i for o, i in zip(start, index)]
    faults.unwritten(state, op, tile.buffer.name, tile.buffer.out, shown, lane)
