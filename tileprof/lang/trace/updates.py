"""Updates of elements that several points share, as `x[i // 8] = T.max(x[i // 8], y)`.

In: the body of a `T.Parallel`, with its extents.  Out: its updates of buffers that it uses in no
other way, and whether two points update one element.  That is tried for all points: what an index
takes from outside of the loop is 1 then, so it is a proof only where nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.ir.core import users
from tileprof.ir.memory import base
from tileprof.lang.static import fits

Meeting = Literal["no", "maybe", "yes"]
"""Whether two points update one element."""
Kind = Literal["add", "max", "min", "and", "or", "xor"]
"""Operation that combines the value of a point with an element."""

_MOST_POINTS = 1 << 20
"""Points that are tried; of a larger loop nothing is known."""
_FUNCTIONS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
    "floormod": np.mod, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Update:
    """A store of `combine(x[e], other)` to `x[e]`."""

    store: ir.Store
    kind: Kind
    other: ir.Value
    is_difference: bool
    """Whether `other` is subtracted; `kind` is then `add`."""
    chain: Sequence[ir.OpBase]
    """Ops that nothing but the store uses: conversions, what combines, the load."""
    around: Sequence[tuple[ir.OpBase, ir.Block]]
    """Loops and branches around the store, outer ones first, with their block."""


def updates_in(body: ir.Block) -> list[Update]:
    """Return the updates of shared buffers and fragments that the points use in no other way."""
    uses = users(ir.walk(body))
    found: dict[ir.Value, list[Update]] = {}
    for op, around in _within(body, ()):
        if isinstance(op, ir.Store) and op.buffer.buffer.space in ("shared", "fragment"):
            update = _update(op, uses, around)
            if update is not None:
                found.setdefault(base(op.buffer), []).append(update)
    if not found:
        return []
    own = {op for held in found.values() for u in held for op in (u.store, *u.chain)}
    touched = {base(a.value) for op in ir.walk(body) if op not in own for a in op.accesses()}
    return [
        update
        for buffer, held in found.items()
        if buffer not in touched and len({u.kind for u in held}) == 1
        for update in held
    ]


def _within(
    block: ir.Block, around: tuple[tuple[ir.OpBase, ir.Block], ...]
) -> Iterator[tuple[ir.OpBase, tuple[tuple[ir.OpBase, ir.Block], ...]]]:
    for op in block.ops:
        yield op, around
        for inner in op.blocks():
            yield from _within(inner, (*around, (op, inner)))


def _update(
    store: ir.Store,
    uses: Mapping[ir.Value, Sequence[ir.OpBase]],
    around: Sequence[tuple[ir.OpBase, ir.Block]],
) -> Update | None:
    dtype = store.value.dtype
    *outer, op = uncast(store.value)
    if dtype == ir.dtype("bool") or not isinstance(op, ir.Binary):
        return None
    kind: Any = "add" if op.kind == "sub" else op.kind
    if kind not in ("add", "max", "min", "and", "or", "xor"):
        return None
    sides = [(op.left, op.right), (op.right, op.left)]
    for old, other in sides[:1] if op.kind == "sub" else sides:
        *inner, load = uncast(old)
        chain = [*outer, op, *inner, load]
        if (
            isinstance(load, ir.Load)
            and load.buffer is store.buffer
            and all(map(same, load.indices, store.indices))
            and all(len(uses.get(each.result, ())) == 1 for each in chain)
            and all(each.result.dtype.is_float == dtype.is_float for each in chain)
            and (kind not in ("max", "min") or dtype.is_float or _holds(dtype, other))
        ):
            return Update(store, kind, other, op.kind == "sub", chain, around)
    return None


def _holds(kind: ir.DType, value: ir.Value) -> bool:
    """Return whether an integer type holds a value as it is."""
    origin = uncast(value)[-1]
    if isinstance(origin, ir.Constant):
        return fits(origin.value, kind)
    return kind in (value.dtype, *(op.result.dtype for op in [origin] if op is not None))


def uncast(value: ir.Value) -> list[Any]:
    """Return the conversions that give a value, the last one first, and what is converted."""
    found: list[Any] = [value.owner]
    while isinstance(found[-1], ir.Cast):
        found.append(found[-1].operand.owner)
    return found


def meeting(update: Update, body: ir.Block, extents: Sequence[int | None]) -> Meeting:
    """Return whether two points of a loop with these extents update one element."""
    many = {arg for arg, extent in zip(body.args, extents) if extent != 1}
    if many <= set(update.store.indices):
        return "no"
    return _Points(body, extents, update).meeting()


class _Points:
    """All points of a loop, and the iterations of the loops inside around an update of theirs."""

    def __init__(self, body: ir.Block, extents: Sequence[int | None], update: Update) -> None:
        self.update = update
        self.inside = {op for op in ir.walk(body)}
        self.is_exact = None not in extents
        """Whether nothing was assumed about values that are not known."""
        ranges: dict[ir.Value, range | None] = {
            arg: range(2 if n is None else n) for arg, n in zip(body.args, extents)
        }
        for op, block in update.around:
            if isinstance(op, ir.For):
                bounds = [constant_of(v) for v in (op.start, op.stop, op.step)]
                known = None not in bounds and bounds[2] != 0
                ranges[block.args[0]] = range(*bounds) if known else None  # type: ignore[arg-type]
        if any(isinstance(op, ir.Break | ir.Continue | ir.While) for op in self.inside):
            self.is_exact = False
        counts = [1 if held is None else len(held) for held in ranges.values()]
        self.size = math.prod(counts)
        self.counts = counts
        self.lead = len(body.args)
        self.axes: dict[ir.Value, NDArray[np.int64] | None] = {}
        for at, (arg, held) in enumerate(ranges.items()):
            shape = [1] * len(counts)
            shape[at] = counts[at]
            values = None if held is None else np.array(held, np.int64).reshape(shape)
            self.axes[arg] = values

    def meeting(self) -> Meeting:
        """Return whether two points update one element."""
        if not 1 < self.size <= _MOST_POINTS:
            return "no" if self.size <= 1 else "maybe"
        runs = self._runs()
        store = self.update.store
        lead = self.counts[: self.lead]
        points = np.arange(math.prod(lead)).reshape(*lead, *[1] * (len(self.counts) - self.lead))
        numbers = np.broadcast_to(points, self.counts)[runs]
        places = []
        for index in store.indices:
            before = self.is_exact
            place = self.number(index)
            if place is None:
                size = math.prod(n for n in store.buffer.buffer.shape if isinstance(n, int))
                return "yes" if before and len(np.unique(numbers)) > size else "maybe"
            if np.ndim(place) == 0:
                # It is the same for all points, whatever it is.
                self.is_exact = before
            places.append(np.broadcast_to(place, self.counts)[runs])
        pairs = np.unique(np.stack([*places, numbers]), axis=1)
        elements = np.unique(pairs[:-1], axis=1)
        if pairs.shape[1] == elements.shape[1]:
            return "no"
        return "yes" if self.is_exact else "maybe"

    def _runs(self) -> NDArray[np.bool_]:
        """Return which points come to the update, as far as conditions say so."""
        runs = np.ones(self.counts, bool)
        for op, block in self.update.around:
            if isinstance(op, ir.If):
                for part in _parts(op.condition) if block is op.then else [op.condition]:
                    before, self.is_exact = self.is_exact, True
                    held = self.number(part)
                    is_equal = isinstance(part.owner, ir.Compare) and part.owner.kind == "eq"
                    if held is not None and (self.is_exact or (is_equal and block is op.then)):
                        runs &= np.asarray(held, bool) == (block is op.then)
                    else:
                        self.is_exact = False
                    self.is_exact &= before
        return runs

    def number(self, value: ir.Value) -> Any:
        """Return a value at all points; None where it is not known."""
        if value in self.axes:
            return self.axes[value]
        match value.owner:
            case ir.Constant(value=number) if value.dtype.is_integer:
                return np.int64(number) if fits(number, ir.dtype("int64")) else None
            case op if op is None or op not in self.inside:
                self.is_exact = False
                return np.int64(1)
            case ir.Cast(operand=inner) if inner.dtype.is_integer and value.dtype.is_integer:
                return self.number(inner)
            case (
                ir.Binary(kind=kind, left=left, right=right)
                | ir.Compare(kind=kind, left=left, right=right)
            ) if kind in _FUNCTIONS:
                a, b = self.number(left), self.number(right)
                if a is None or b is None:
                    return None
                with np.errstate(divide="ignore"):
                    return _FUNCTIONS[kind](a, b)
        return None


def _parts(condition: ir.Value) -> list[ir.Value]:
    """Return the conditions that all hold where one does."""
    match condition.owner:
        case ir.Binary(kind="and", left=left, right=right):
            return [*_parts(left), *_parts(right)]
        case ir.If(condition=first, then=then, otherwise=otherwise) as branch:
            # Python's `and`, whose right side runs only where the left one holds.
            at = branch.results.index(condition)
            ends = then.ops[-1], otherwise.ops[-1]
            if all(isinstance(end, ir.Yield) for end in ends):
                second, no = (list(end.operand_values())[at] for end in ends)
                if constant_of(no) == 0:
                    return [*_parts(first), *_parts(second)]
    return [condition]


def constant_of(value: ir.Value) -> int | None:
    """Return a number that is known at compile time; None for any other value."""
    return int(value.owner.value) if isinstance(value.owner, ir.Constant) else None


def same(a: ir.Value, b: ir.Value) -> bool:
    """Return whether two indices are the same value, or computed in the same way of the same."""
    one, other = a.owner, b.owner
    if a is b or one is None or other is None:
        return a is b
    if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
        return one.value == other.value and a.dtype == b.dtype
    return (
        type(one) is type(other)
        and isinstance(one, ir.ScalarOp | ir.Load)
        and a.type == b.type
        and getattr(one, "kind", None) == getattr(other, "kind", None)
        and all(map(same, one.operand_values(), other.operand_values()))
    )
