"""Access of single elements: `load`, `store`, `atomic`, each in all lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.runtime.events.access import AccessKind

from . import faults, races
from .arithmetic import binary
from .buffers import Buffer, Cell
from .lanes import Array, Mask, Scalar, as_mask, both, either, some, span, tidy, uniform, without
from .state import State

Indices = list[Scalar]
KIND: Mapping[type[ir.OpBase], AccessKind] = {
    ir.Load: "read", ir.Store: "write", ir.Atomic: "atomic",
}  # fmt: skip
"""Kind of access that an op makes of the elements that it names."""


def load(state: State, op: ir.Load) -> Scalar:
    """Return the meaning of `ir.Load`."""
    held = state.env[op.buffer]
    if isinstance(held, Cell):
        return _load_cell(state, op, held)
    indices, inside = _locate(state, op, held, op.indices, "read")
    if inside is False:
        return held.safe
    value = _gather(state, op.indices, held, indices, held.data)
    _require(state, op, held, indices, inside)
    if inside is not True:
        value = np.where(inside, value, held.safe)
    return tidy(value, held.type.dtype)


def store(state: State, op: ir.Store) -> None:
    """The meaning of `ir.Store`."""
    held, value = state.env[op.buffer], state.env[op.value]
    if isinstance(held, Cell):
        old = value if held.written is False else held.value
        held.value = value if state.mask is True else np.where(state.mask, value, old)
        held.written = _settled(either(held.written, state.mask))
        return
    indices, inside = _locate(state, op, held, op.indices, "written")
    active = both(state.mask, inside)
    if not some(active):
        return
    if active is True and not races.watched(state, held, op):
        view = _direct(state, op.indices, held, indices, held.data)
        if view is not None:
            view[...] = value
            _note_direct(state, op, held, indices)
            return
    flat, kept = _flat_lanes(state, held, indices, active)
    _write(held, flat, kept(value))
    _claim(state, op, held, flat, kept)


def atomic(state: State, op: ir.Atomic) -> Scalar:
    """Return the meaning of `ir.Atomic`: lanes combine in the order of blocks, then of points."""
    held = state.env[op.buffer]
    indices, inside = _locate(state, op, held, op.indices, "written")
    active = both(state.mask, inside)
    if not some(active):
        return held.safe
    _require(state, op, held, indices, inside)
    flat, kept = _flat_lanes(state, held, indices, active)
    values = kept(state.env[op.value])
    before = combine(held, op.kind, flat, values, wanted=op.result in state.facts.used)
    if before is None:
        return held.safe
    if active is True:
        return tidy(before.reshape(state.lanes), held.type.dtype)
    result = np.full(state.lanes, held.safe, before.dtype)
    result[np.broadcast_to(np.asarray(active), state.lanes)] = before
    return result


def _load_cell(state: State, op: ir.Load, cell: Cell) -> Scalar:
    missing = without(state.mask, cell.written)
    if some(missing):
        faults.unwritten(state, op, cell.name, False, [], state.first(missing))
    return cell.value


def _settled(mask: Mask) -> Mask:
    return True if not isinstance(mask, bool) and bool(mask.all()) else mask


def _locate(
    state: State,
    op: ir.Load | ir.Store | ir.Atomic,
    buffer: Buffer,
    values: list[ir.Value],
    access: faults.Access,
) -> tuple[Indices, Mask]:
    """Return the indices, those outside moved inside, and which lanes were inside. BoundsError for
    a negative index, and for one outside a buffer of a block."""
    asked = [state.env[v] for v in values]
    if state.events is not None:
        state.note(op, KIND[type(op)], buffer, asked, (1,) * len(asked))
    inside: Mask = True
    indices: Indices = []
    for index, extent in zip(asked, buffer.shape):
        low, high = span(index)
        if low >= 0 and high < extent:
            indices.append(low if uniform(index) else index)
            continue
        if low < 0 and some(bad := both(state.mask, as_mask(index < 0))):
            lane = state.first(bad)
            shown = [int(state.at(i, lane)) for i in asked]
            faults.negative(state, op, buffer.name, access, shown, lane)
        inside = without(inside, as_mask(index >= extent))
        moved = np.clip(index, 0, max(extent - 1, 0))
        indices.append(int(moved) if uniform(index) else moved)
    if inside is not True and some(guarded := without(state.mask, inside)):
        _guard(state, op, buffer, asked, inside, guarded, access)
    return indices, inside if some(inside) else False


def _guard(
    state: State,
    op: ir.Load | ir.Store | ir.Atomic,
    buffer: Buffer,
    asked: Indices,
    inside: Mask,
    guarded: Mask,
    access: faults.Access,
) -> None:
    if not buffer.is_global or op.in_bounds:
        lane = state.first(guarded)
        faults.outside(state, op, buffer, access, [int(state.at(i, lane)) for i in asked], lane)
    if state.options.strict_bounds:
        here = np.broadcast_to(np.asarray(both(state.mask, inside)), state.lanes)
        blocks = here.reshape(state.count, -1).any(1)
        missed = both(state.mask, state.per_block(np.logical_not(blocks)))
        if some(missed):
            lane = state.first(missed)
            shown = [int(state.at(i, lane)) for i in asked]
            faults.nothing_inside(state, op, buffer, access, shown, lane)
    state.count_guarded(op, state.number_active(guarded))


def _direct(
    state: State, values: list[ir.Value], buffer: Buffer, indices: Indices, held: Array
) -> Array | None:
    """Return the elements as a view with lane axes, where indices are constants and loop
    variables."""
    selection: list[Any] = []
    axes: list[int] = []
    for value, index, extent in zip(values, indices, buffer.shape):
        axis = state.axis_of.get(value)
        if type(index) is int:
            selection.append(index)
        elif axis is None or axis in axes or state.points[axis - 1] > extent:
            return None
        else:
            selection.append(slice(state.points[axis - 1]))
            axes.append(axis)
    if buffer.lead and not axes:
        view: Array = held[(..., *selection)]
        return view
    if any(n != 1 for n in held.shape[1 : buffer.lead]):
        return None
    blocks = held.reshape(-1, *buffer.shape) if buffer.lead else held[None]
    view = blocks[(slice(None), *selection)]
    view = view.transpose(0, *(1 + i for i in np.argsort(axes)))
    spread = (slice(None) if a in axes else None for a in range(1, state.facts.depth + 1))
    return view[(slice(None), *spread)]


def _flat(state: State, buffer: Buffer, indices: Indices) -> Scalar:
    """Return the place of each lane's element in the data, counted row-major over all its axes."""
    at: Scalar = 0
    for index, extent in zip(indices, buffer.shape):
        step = index if type(index) is int else index.astype(np.int64, copy=False)
        at = at * extent + step
    if buffer.lead:
        at = at + state.lead(buffer.data.shape[: buffer.lead]) * int(np.prod(buffer.shape))
    return at


def _gather(
    state: State, values: list[ir.Value], buffer: Buffer, indices: Indices, held: Array
) -> Scalar:
    view = _direct(state, values, buffer, indices, held)
    if view is not None:
        # A buffer changes under a view; a single element is the same in all lanes.
        return view.reshape(())[()] if view.size == 1 else view.copy()
    if held.flags.c_contiguous:
        return held.reshape(-1).take(_flat(state, buffer, indices))
    found: Array = held[tuple(indices)]
    return found


def _require(
    state: State,
    op: ir.Load | ir.Atomic,
    buffer: Buffer,
    indices: Indices,
    inside: Mask,
) -> None:
    """UninitializedError where an active lane reads what nobody wrote."""
    shadow = buffer.shadow
    if shadow is None:
        return
    seen = _gather(state, op.indices, buffer, indices, shadow) == buffer.written
    missing = both(both(state.mask, inside), bool(~seen) if np.ndim(seen) == 0 else ~seen)
    if some(missing):
        lane = state.first(missing)
        shown = [int(state.at(i, lane)) for i in indices]
        faults.unwritten(state, op, buffer.name, buffer.out, shown, lane)


def _flat_lanes(
    state: State, buffer: Buffer, indices: Indices, active: Mask
) -> tuple[Array, Callable[[Scalar], Array]]:
    """Places in the data of the active lanes, and what picks these lanes' values of a scalar."""
    if active is True:

        def kept(scalar: Scalar) -> Array:
            return np.broadcast_to(np.asarray(scalar), state.lanes).reshape(-1)
    else:
        chosen = np.broadcast_to(np.asarray(active), state.lanes)

        def kept(scalar: Scalar) -> Array:
            taken: Array = np.broadcast_to(np.asarray(scalar), state.lanes)[chosen]
            return taken

    return kept(_flat(state, buffer, indices)), kept


def _write(buffer: Buffer, flat: Array, values: Array) -> None:
    data = buffer.data
    if data.flags.c_contiguous:
        data.reshape(-1)[flat] = values
    else:
        data[np.unravel_index(flat, data.shape)] = values


def _claim(
    state: State,
    op: ir.Store,
    buffer: Buffer,
    flat: Array,
    kept: Callable[[Scalar], Array],
) -> None:
    """Note that elements are written, and by whom."""
    if races.watched(state, buffer, op):
        authors = races.writers_of(buffer).reshape(-1)
        own = kept(state.codes())
        before = authors[flat]
        authors[flat] = own
        met = races.clash(state, before, own)
        if met is not None or not np.array_equal(authors[flat], own):
            races.refuse(state, op, buffer, flat, own, before, met)
    shadow = buffer.shadow
    if shadow is not None:
        shadow.reshape(-1)[flat] = buffer.written
        buffer.finish()


def _note_direct(state: State, op: ir.Store, buffer: Buffer, indices: Indices) -> None:
    shadow = buffer.shadow
    if shadow is None:
        return
    view = _direct(state, op.indices, buffer, indices, shadow)
    assert view is not None
    view[...] = buffer.written
    buffer.finish()


COMBINE: Mapping[str, Any] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combine(buffer: Buffer, kind: str, flat: Array, values: Array, *, wanted: bool) -> Array | None:
    """Combine values into elements one after another, each rounded; what was there before each."""
    data = buffer.data
    if not data.flags.c_contiguous:
        place: Any = np.unravel_index(flat, data.shape)
    else:
        place, data = flat, data.reshape(-1)
    if kind != "exchange" and not wanted:
        COMBINE[kind].at(data, place, values)
        return None
    if len(np.unique(flat)) == len(flat):
        before: Array = data[place]
        data[place] = values if kind == "exchange" else COMBINE[kind](before, values)
        return before
    return _one_by_one(buffer, kind, flat, values)


def _one_by_one(buffer: Buffer, kind: str, flat: Array, values: Array) -> Array:
    data, dtype = buffer.data, buffer.type.dtype
    before = np.empty_like(values)
    for at, (element, value) in enumerate(zip(flat.tolist(), values)):
        place = np.unravel_index(element, data.shape)
        before[at] = data[place]
        data[place] = value if kind == "exchange" else binary(kind, before[at], value, dtype)
    return before
