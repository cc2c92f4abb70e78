"""Accesses of a parallel loop that are made for several points at once, and their widths.

A load or store is one of `width` elements where its last index goes up by 1 with the loop variable
that a thread's consecutive registers follow, its other indices do not, and the address of the first
element is a multiple of the access.  What that needs of numbers that are known at launch only
becomes a condition of the fast path.  Loads move in front of all points, stores behind a vector's
(`movable.py`); out of an `if` they take its condition with them, which must be the same for all
elements (`guards.py`).  Neighbours that a point asks for one by one, such as `x[2 * j]` and
`x[2 * j + 1]`, are one access (`layouts/neighbours.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.layouts.neighbours import Window, windows
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.ir.sums import sum_of

from .alignment import Alignment, Multiple
from .guards import Guard
from .movable import Access, Body


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """A load in front of the points, or a store or sum behind them."""

    op: Access
    buffer: GlobalBuffer | SharedBuffer | FragmentBuffer
    width: int
    """Elements of one instruction."""
    conditions: tuple[Multiple, ...] = ()
    """Conditions on the launch under which it is aligned."""
    slice: tuple[ir.OpBase, ...] = ()
    """The ops of the body that compute its indices."""
    guards: tuple[Guard, ...] = ()
    """Guards that decide whether it is made, outermost first."""
    repeats: int = 1
    """Consecutive points that ask for the same element, of which the first one loads it."""
    step: int = 1
    """Elements of each point, which lie next to each other."""
    follows: bool = True
    """Whether the elements of the next point come next."""
    members: tuple[Member, ...] = ()
    """Accesses that are made together, neighbours and loads of the same element, with `op` as the
    first; none where `op` is alone."""

    @property
    def ops(self) -> tuple[Access, ...]:
        """Return the accesses that are made."""
        return tuple(m.alone.op for m in self.members) or (self.op,)

    @property
    def places(self) -> tuple[tuple[Access, int], ...]:
        """Return the accesses that are made, and where among those of its point each one's
        element is."""
        return tuple((m.alone.op, m.place) for m in self.members) or ((self.op, 0),)


@dataclass(frozen=True, slots=True)
class Member:
    """An access that is made together with its neighbours."""

    alone: VectorAccess
    """The access as it is made by itself."""
    place: int
    """Place of its element among those of its point."""


@dataclass(kw_only=True)
class Planner(Body):
    """The accesses of one parallel loop with a layout."""

    layout: RegisterLayout
    text: Callable[[ir.Value], str | None]
    """Name of a value from outside of the loop."""
    vectorize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dim, self.digits = self._vector()
        self.width = 1 << self.digits
        """Points of a vector: what the first `digits` register digits count."""
        self.moving = self._dependents(self.op.body.args[self.dim])
        self.alignment = Alignment(
            self.op, self.layout, self.text, self.inner, self.dim, self.digits, self.moving
        )

    def _vector(self) -> tuple[int, int]:
        """Along which dimension, and how many, register digits count consecutive elements."""
        layout = self.layout
        rest = [d for d in layout.registers if not d.is_copy]
        dim = next((d for d, s in enumerate(rest[0].step) if s), 0) if rest else layout.rank - 1
        count = 0
        while count < len(rest):
            unit = tuple((1 << count) * (d == dim) for d in range(layout.rank))
            if rest[count] != (2, unit):
                break
            count += 1
        others = (*layout.lanes, *layout.warps)
        count = min(count, self._widest().bit_length() - 1)
        while count and (
            any(d.step[dim] % (1 << count) for d in (*rest[count:], *others))
            or (layout.covered[dim] != layout.shape[dim] and layout.shape[dim] % (1 << count))
        ):
            count -= 1
        return dim, count

    def _widest(self) -> int:
        """Elements of the smallest type in an access of full width."""
        sizes = [
            o.buffer.dtype.bytes
            for o in self.ops
            if (isinstance(o, ir.Load) or self._may_follow(o)) and o.buffer.buffer.space != "local"
        ]
        return WIDEST_ACCESS // min(sizes, default=WIDEST_ACCESS)

    # -- the two lists

    def loads(self) -> list[VectorAccess]:
        """Loads that are made in front of all points, in order; of width 1 where they are no
        vectors, for global memory only."""
        alone: dict[Access, VectorAccess] = {}
        for op in self.ops:
            if isinstance(op, ir.Load) and op in self.movable:
                access = self._access(op, self.movable)
                if access is None:
                    continue
                if access.width == 1 and self._is_global(op.buffer) and not access.guards:
                    access = replace(access, repeats=self._repeats(op.indices))
                alone[op] = access
        joined = self._joined(alone)
        found: list[VectorAccess] = []
        for op, access in alone.items():
            made = joined.get(op, access)
            if made.width > 1 or (self._is_global(op.buffer) and not made.guards):
                found.append(made)
        return list(dict.fromkeys(found))

    def stores(
        self, loads: Iterable[VectorAccess], packs: Callable[[ir.Store], bool]
    ) -> list[VectorAccess]:
        """Stores and sums of vectors, in order; `loads` are those in front, `packs` says which
        stores to fragments convert a vector at once."""
        if self.leaves:
            return []
        held: set[ir.OpBase] = {op for a in loads for op in a.ops}
        written = set().union(*map(self._written, self.ops))
        free = held | {m for m in self.movable if self._memory(m.buffer) not in written}
        alone: dict[Access, VectorAccess] = {
            op: access
            for op in self.ops
            if self._may_follow(op) and (access := self._access(op, free)) is not None
        }
        joined = self._joined(alone)
        while True:
            found = self._behind(held, free, packs, {**alone, **joined})
            kept = {
                op: access
                for op, access in joined.items()
                if found.keys() >= {*access.ops} and self._in_order(access.ops)
            }
            if len(kept) == len(joined):
                return list(dict.fromkeys(found.values()))
            # Those that stay with their points keep others in their places.
            joined = kept

    def _behind(
        self,
        held: Collection[ir.OpBase],
        free: Collection[ir.OpBase],
        packs: Callable[[ir.Store], bool],
        known: Mapping[Access, VectorAccess],
    ) -> dict[ir.OpBase, VectorAccess]:
        """Return what can be made behind a vector's points, in order: how, for each op.  known:
        how each is made as far as nothing behind it touches the memory."""
        found: list[tuple[ir.OpBase, VectorAccess]] = []
        touched: set[object] = set()
        for op in reversed(self.ops):
            if self._may_follow(op) and self._memory(op.buffer) not in touched:
                access = known.get(op)
                if access is None and self.width > 1 and isinstance(op, ir.Store) and packs(op):
                    access = self._packed(op, free)
                if access is not None and access.width > 1:
                    found.insert(0, (op, access))
                    continue
            if op not in held:
                touched |= {self._memory(t.value) for t in op.all_accesses()}
        return dict(found)

    def is_whole(self, access: VectorAccess) -> bool:
        """Whether each vector of the access is inside or outside of its buffer as a whole."""
        if access.members:
            return self._is_whole_window(access)
        if not isinstance(access.buffer, GlobalBuffer):
            return True
        last, extent = access.op.indices[-1], access.buffer.shape[-1]
        fits = isinstance(extent, int) and extent % access.width == 0
        return fits and self.alignment.multiple(last, access.width) == []

    def _is_whole_window(self, access: VectorAccess) -> bool:
        """Return the same for accesses of several elements of a point: along each dimension that
        tells their elements apart, these fill a multiple of what an instruction takes."""
        assert isinstance(access.buffer, GlobalBuffer | SharedBuffer)
        points = max(access.width // access.step, 1)
        variable = self.op.body.args[self.dim]
        for dim, (first, extent) in enumerate(
            zip(access.op.indices, access.buffer.shape, strict=True)
        ):
            size = 1
            numbers = [ir.constant_of(op.indices[dim]) for op in access.ops]
            if any(op.indices[dim] is not first for op in access.ops):
                if all(isinstance(n, int) and isinstance(extent, int) and 0 <= n < extent
                       for n in numbers):  # fmt: skip
                    continue
                size = access.step
            if points > 1:
                size = max(sum_of(first).terms.get(variable, 0) * points, size)
            if size == 1:
                continue
            if not isinstance(extent, int) or extent % size:
                return False
            if self.alignment.multiple(first, size, points) != []:
                return False
        return True

    def decides_once(self, guards: Iterable[Guard]) -> bool:
        """Whether the guards are the same for all points of a vector, whatever is launched."""
        return self.alignment.uniform(guards, self.width) == []

    def branches(self) -> list[ir.If]:
        """Those around accesses of global memory in which points of one vector may differ."""
        return [
            op
            for op in self.ops
            if isinstance(op, ir.If)
            and not self.decides_once([Guard(op.condition, holds=True)])
            and any(self._is_global(t.value) for o in ir.walk(op.then) for t in o.accesses())
        ]

    def _packed(self, op: ir.Store, movable: Collection[ir.OpBase]) -> VectorAccess | None:
        """A store of a vector's elements to consecutive registers."""
        buffer, guards = self.buffers[op.buffer], self._guards(op, movable)
        assert isinstance(buffer, FragmentBuffer), buffer
        if guards is None or not self.decides_once(guards):
            return None
        return VectorAccess(op, buffer, self.width, guards=guards)

    # -- one access

    def _access(self, op: Access, movable: Collection[ir.OpBase]) -> VectorAccess | None:
        """Return how the access is made; None where it stays with its point."""
        buffer = self.buffers.get(op.buffer)
        if not isinstance(buffer, GlobalBuffer | SharedBuffer) or not op.indices:
            return None
        needed, guards = self._slice(op.indices, movable), self._guards(op, movable)
        if needed is None or guards is None:
            return None
        width, conditions = self._width(op, buffer)
        once = tuple(dict.fromkeys(conditions))
        return VectorAccess(op, buffer, width, once, tuple(needed), guards)

    def _width(self, op: Access, buffer: GlobalBuffer | SharedBuffer) -> tuple[int, list[Multiple]]:
        """Elements of one access, and the conditions that it needs."""
        *lead, last = op.indices
        if not self.vectorize or self.moving & set(lead) or self.alignment.coefficient(last) != 1:
            return 1, []
        width = min(self.width, WIDEST_ACCESS // buffer.dtype.bytes)
        while width > 1:
            aligned = self.alignment.of_access(op, buffer, width)
            same = self.alignment.uniform(self.guards.get(op, ()), width)
            if aligned is not None and same is not None:
                return width, aligned + same
            width //= 2
        return 1, []

    # -- neighbours of a point

    def _joined(self, alone: Mapping[Access, VectorAccess]) -> dict[Access, VectorAccess]:
        """Return which of the accesses are made together with others, and how."""
        made: dict[Window, VectorAccess] = {}

        def fits(window: Window) -> bool:
            access = self._together(window, alone)
            if access is not None:
                made[window] = access
            return access is not None

        known = [
            (op, address)
            for op in alone
            if self.vectorize
            and isinstance(op, ir.Load | ir.Store)
            and (address := self.address(op)) is not None
        ]
        return {op: made[w] for w in windows(known, fits) for op in made[w].ops}

    def _together(
        self, window: Window, alone: Mapping[Access, VectorAccess]
    ) -> VectorAccess | None:
        """Return how a window is accessed at once, for as many points as possible; None where it is
        not aligned."""
        first, terms = window.first, window.address.terms
        members = tuple(Member(alone[op], k) for op, k in window.members)
        if window.size == 1:
            return replace(alone[first], members=members)
        if self.varying.isdisjoint(terms):
            # What all points ask for stays in registers.
            return None
        variable = self.op.body.args[self.dim]
        moving = self.moving & {*terms, *(v for i in first.indices for v in sum_of(i).terms)}
        follows = moving == {variable} and terms.get(variable) == window.size
        buffer = alone[first].buffer
        assert isinstance(buffer, GlobalBuffer | SharedBuffer)
        most = min(self.width, WIDEST_ACCESS // buffer.dtype.bytes // window.size)
        points = most if follows else 1
        while points:
            width = points * window.size
            needed = self.alignment.of_access(first, buffer, width, points)
            same = self.alignment.uniform(self.guards.get(first, ()), points) if points > 1 else []
            if needed is not None and same is not None and (follows or _of_address(needed)):
                conditions = tuple(dict.fromkeys(needed + same))
                return replace(
                    alone[first], width=width, conditions=conditions, repeats=1,
                    step=window.size, follows=follows, members=members,
                )  # fmt: skip
            points //= 2
        return None

    def for_each_point(self, access: VectorAccess) -> VectorAccess | None:
        """Return an access of several elements of a point as one for each point alone; None where
        it is not aligned in all launches."""
        assert isinstance(access.buffer, GlobalBuffer | SharedBuffer)
        size = access.step
        if size > 1 and self.alignment.of_access(access.op, access.buffer, size, 1) != []:
            return None
        return replace(access, width=size, conditions=())

    def _repeats(self, indices: Sequence[ir.Value]) -> int:
        """Return how many consecutive points of a vector ask for one element: a power of two."""
        count = self.width
        while count > 1 and not all(self._repeat(each, count) for each in indices):
            count //= 2
        return count

    def _repeat(self, value: ir.Value, count: int) -> bool:
        """Whether a value is the same for each `count` consecutive points of a vector."""
        if value not in self.moving:
            return True
        match value.owner:
            case None:
                return False
            case ir.Binary(kind="floordiv" | "shr" as kind, left=left, right=right) if (
                isinstance(right.owner, ir.Constant) and self.alignment.coefficient(left) == 1
            ):
                by = int(right.owner.value)
                by = 1 << min(max(by, 0), 62) if kind == "shr" else by
                return by % count == 0 and self.alignment.multiple(left, count) == []
            case ir.Load() as made:
                return made in self.movable and all(self._repeat(i, count) for i in made.indices)
            case made:
                return is_pure(made) and all(
                    self._repeat(each, count) for each in made.operand_values()
                )


def _of_address(conditions: Iterable[Multiple]) -> bool:
    """Return whether nothing but where a buffer begins is asked for."""
    return all(c.is_address for c in conditions)
