"""Accesses of a parallel loop that are made for several points at once, and their widths.

A load or store is one of `width` elements where its last index goes up by 1 with the loop variable
that a thread's consecutive registers follow, its other indices do not, and the address of the first
element is a multiple of the access.  What that needs of numbers that are known at launch only
becomes a condition of the fast path.  Loads move in front of all points, stores behind a vector's,
where nothing between touches the memory; out of an `if` they take its condition with them, which
must be the same for all elements (`guards.py`).  Sums in global memory move as stores do, where the
target adds several neighbours at once and nobody asks what was there before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.emit.buffers import Buffer, FragmentBuffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.lowering import stride_divisors
from tileprof.compiler.cuda.target import ADDED_TOGETHER, WIDEST_ACCESS
from tileprof.ir.memory import base

from .guards import Guard, Place, changes_at, unfolded

Access = ir.Load | ir.Store | ir.Atomic


@dataclass(frozen=True, slots=True)
class Multiple:
    """A condition of alignment: a number that is known at launch only is a multiple of another; as
    text it is one in C++."""

    number: Extent
    of: int
    is_address: bool = False

    def __str__(self) -> str:
        held = f"(uint64_t){self.number}" if self.is_address else paren(self.number)
        return f"{held} % {self.of} == 0"


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


@dataclass
class Planner:
    """The accesses of one parallel loop with a layout."""

    op: ir.Parallel
    layout: RegisterLayout
    buffers: Mapping[ir.Value, Buffer]
    text: Callable[[ir.Value], str | None]
    """Name of a value from outside of the loop."""
    aliased: bool = False
    """Whether different tensors may share memory."""
    vectorize: bool = True
    adds: bool = False
    """Whether neighbours in global memory can be added at once."""
    ops: list[ir.OpBase] = field(init=False)
    """Those of the body and of branches, in order."""
    guards: dict[ir.OpBase, tuple[Guard, ...]] = field(init=False)
    """Guards of the ops in branches."""
    inner: set[ir.Value] = field(init=False)
    """Everything that is computed inside."""
    read: set[ir.Value] = field(init=False)
    """Everything that an op inside goes on with."""

    def __post_init__(self) -> None:
        self.ops, self.guards = unfolded(self.op.body)
        self.inner = set(self.op.body.args)
        self.read = set()
        for each in ir.walk(self.op.body):
            self.inner |= set(each.results)
            self.read |= set(each.operand_values())
            for block in each.blocks():
                self.inner |= set(block.args)
        self.dim, self.digits = self._vector()
        self.width = 1 << self.digits
        """Points of a vector: what the first `digits` register digits count."""
        self.leaves = _leaves(self.op.body)
        """Whether a point may end before its last op."""
        self.moving = self._dependents(self.op.body.args[self.dim])
        self.movable = set(self._movable())
        """Loads that read in front of all points what they read in their place."""

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

    def _dependents(self, variable: ir.Value) -> set[ir.Value]:
        found = {variable}
        for each in ir.walk(self.op.body):
            if any(v in found for v in each.operand_values()) or any(
                v in found for o in each.inner_ops() for v in o.results
            ):
                found |= set(each.results)
        return found

    # -- the two lists

    def loads(self) -> list[VectorAccess]:
        """Loads that are made in front of all points, in order; of width 1 where they are no
        vectors, for global memory only."""
        found: list[VectorAccess] = []
        for op in self.ops:
            if isinstance(op, ir.Load) and op in self.movable:
                access = self._access(op, self.movable)
                if access is None:
                    continue
                if access.width > 1:
                    found.append(access)
                elif self._is_global(op.buffer) and not access.guards:
                    found.append(replace(access, repeats=self._repeats(op.indices)))
        return found

    def stores(
        self, loads: Iterable[VectorAccess], packs: Callable[[ir.Store], bool]
    ) -> list[VectorAccess]:
        """Stores and sums of vectors, in order; `loads` are those in front, `packs` says which
        stores to fragments convert a vector at once."""
        found: list[VectorAccess] = []
        if self.leaves:
            return found
        held: set[ir.OpBase] = {a.op for a in loads}
        written = set().union(*map(self._written, self.ops))
        free = held | {m for m in self.movable if self._memory(m.buffer) not in written}
        touched: set[object] = set()
        for op in reversed(self.ops):
            if self._may_follow(op) and self._memory(op.buffer) not in touched:
                access = self._access(op, free)
                if access is None and self.width > 1 and isinstance(op, ir.Store) and packs(op):
                    access = self._packed(op, free)
                if access is not None and access.width > 1:
                    found.insert(0, access)
                    continue
            if op not in held:
                touched |= {self._memory(t.value) for t in op.all_accesses()}
        return found

    def is_whole(self, access: VectorAccess) -> bool:
        """Whether each vector of the access is inside or outside of its buffer as a whole."""
        if not isinstance(access.buffer, GlobalBuffer):
            return True
        last, extent = access.op.indices[-1], access.buffer.shape[-1]
        fits = isinstance(extent, int) and extent % access.width == 0
        return fits and self._multiple(last, access.width) == []

    def decides_once(self, guards: Iterable[Guard]) -> bool:
        """Whether the guards are the same for all points of a vector, whatever is launched."""
        return self._uniform(guards, self.width) == []

    def branches(self) -> list[ir.If]:
        """Those around accesses of global memory in which points of one vector may differ."""
        return [
            op
            for op in self.ops
            if isinstance(op, ir.If)
            and not self.decides_once([Guard(op.condition, holds=True)])
            and any(self._is_global(t.value) for o in ir.walk(op.then) for t in o.accesses())
        ]

    def computing(self, indices: Sequence[ir.Value]) -> list[ir.OpBase] | None:
        """The ops that compute indices from nothing in memory, in order; None where there is more
        to it."""
        return self._slice(indices, ())

    def _packed(self, op: ir.Store, movable: Collection[ir.OpBase]) -> VectorAccess | None:
        """A store of a vector's elements to consecutive registers."""
        buffer, guards = self.buffers[op.buffer], self._guards(op, movable)
        assert isinstance(buffer, FragmentBuffer), buffer
        if guards is None or not self.decides_once(guards):
            return None
        return VectorAccess(op, buffer, self.width, guards=guards)

    def _movable(self) -> Iterator[ir.Load]:
        if self.leaves:
            return
        written: set[object] = set()
        found: set[ir.OpBase] = set()
        for op in self.ops:
            if isinstance(op, ir.Load) and self._memory(op.buffer) not in written:
                local = op.buffer.buffer.space == "local"
                bound = self._slice(op.indices, found) is None or self._guards(op, found) is None
                if not local and not bound:
                    found.add(op)
                    yield op
            written |= self._written(op)

    def _may_follow(self, op: ir.OpBase) -> TypeGuard[ir.Store | ir.Atomic]:
        """Whether it is a store, or a sum that can be made together with its neighbours'."""
        if not isinstance(op, ir.Atomic):
            return isinstance(op, ir.Store)
        silent = op.kind == "add" and op.result not in self.read
        known = op.buffer.dtype.name in ADDED_TOGETHER and self._is_global(op.buffer)
        return self.adds and silent and known

    def _is_global(self, value: ir.Value) -> bool:
        return isinstance(self.buffers.get(value), GlobalBuffer)

    def _written(self, op: ir.OpBase) -> set[object]:
        return {self._memory(t.value) for t in op.all_accesses() if t.writes}

    def _memory(self, value: ir.Value) -> object:
        """Return what names the memory of a buffer; equal for buffers that may overlap."""
        value = base(value)
        return "global" if self.aliased and value.buffer.space == "global" else value

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

    def _guards(self, op: ir.OpBase, movable: Collection[ir.OpBase]) -> tuple[Guard, ...] | None:
        """The guards of an op with what computes them; None where that cannot be run elsewhere."""
        found: list[Guard] = []
        for guard in self.guards.get(op, ()):
            needed = self._slice([guard.condition], movable)
            if needed is None:
                return None
            found.append(replace(guard, slice=tuple(needed)))
        return tuple(found)

    def _slice(
        self, indices: Sequence[ir.Value], movable: Collection[ir.OpBase]
    ) -> list[ir.OpBase] | None:
        """The ops that compute the indices, in order; None where they cannot be run elsewhere."""
        wanted = set(indices)
        found: list[ir.OpBase] = []
        for op in reversed(self.ops):
            if not wanted & set(op.results):
                continue
            if not is_pure(op) and op not in movable:
                return None
            found.insert(0, op)
            wanted |= set(op.operand_values())
        return found

    def _width(self, op: Access, buffer: GlobalBuffer | SharedBuffer) -> tuple[int, list[Multiple]]:
        """Elements of one access, and the conditions that it needs."""
        *lead, last = op.indices
        if not self.vectorize or self.moving & set(lead) or self._coefficient(last) != 1:
            return 1, []
        width = min(self.width, WIDEST_ACCESS // buffer.dtype.bytes)
        while width > 1:
            aligned = self._aligned(op, buffer, width)
            same = self._uniform(self.guards.get(op, ()), width)
            if aligned is not None and same is not None:
                return width, aligned + same
            width //= 2
        return 1, []

    def _uniform(self, guards: Iterable[Guard], width: int) -> list[Multiple] | None:
        """Conditions under which guards are the same for `width` points; None for never known."""
        found: list[Multiple] = []
        for guard in guards:
            if guard.condition not in self.moving:
                continue
            places = changes_at(guard.condition, self.moving, self._coefficient)
            needed = None if places is None else [self._divides(p, width) for p in places]
            if needed is None or None in needed:
                return None
            found += [multiple for each in needed for multiple in each or ()]
        return found

    def _divides(self, place: Place, width: int) -> list[Multiple] | None:
        """Conditions under which a place is a multiple of the width; None for never known."""
        if not place.offset:
            return self._multiple(place.value, width)
        made = place.value.owner
        fixed = isinstance(made, ir.Constant) and (int(made.value) + place.offset) % width == 0
        return [] if fixed else None

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
                isinstance(right.owner, ir.Constant) and self._coefficient(left) == 1
            ):
                by = int(right.owner.value)
                by = 1 << min(max(by, 0), 62) if kind == "shr" else by
                return by % count == 0 and self._multiple(left, count) == []
            case ir.Load() as made:
                return made in self.movable and all(self._repeat(i, count) for i in made.indices)
            case made:
                return is_pure(made) and all(
                    self._repeat(each, count) for each in made.operand_values()
                )

    def _coefficient(self, value: ir.Value) -> int | None:
        """Return how much an index goes up with the moving variable; None where it is no sum."""
        if value not in self.moving:
            return 0
        match value.owner:
            case None:
                return 1
            case ir.Binary(kind="add" | "sub" as kind, left=left, right=right):
                a, b = self._coefficient(left), self._coefficient(right)
                if a is None or b is None:
                    return None
                return a + b if kind == "add" else a - b
        return None

    def _aligned(
        self, op: Access, buffer: GlobalBuffer | SharedBuffer, width: int
    ) -> list[Multiple] | None:
        """Conditions under which the first element of `width` is at a multiple of them; None where
        nothing says so."""
        conditions: list[Multiple] = []
        if isinstance(buffer, GlobalBuffer):
            size = width * buffer.dtype.bytes
            if buffer.strides[-1] != 1 or (size > buffer.alignment and not buffer.looks):
                return None
            strides: Sequence[Extent] = buffer.strides
            divisors = stride_divisors(op.buffer.buffer)
            if size > buffer.alignment:
                conditions.append(Multiple(buffer.pointer, size, is_address=True))
        else:
            strides = divisors = _shared_strides(buffer)
        for index, stride, step in zip(op.indices, strides, divisors, strict=True):
            if ir.constant_of(index) == 0:
                continue
            needed = self._multiple(index, width // math.gcd(width, step))
            if not isinstance(stride, int) and needed != []:
                # The stride may be a multiple, too, and is the same for all points.
                needed = [Multiple(stride, width)]
            if needed is None:
                return None
            conditions += needed
        return conditions

    def _multiple(self, value: ir.Value, of: int) -> list[Multiple] | None:
        """Conditions under which an index is a multiple of a power of two; None for never known."""
        if of == 1:
            return []
        owner = value.owner
        if isinstance(owner, ir.Constant):
            return [] if int(owner.value) % of == 0 else None
        if value in self.op.body.args:
            dim = self.op.body.args.index(value)
            return [] if self._steps(dim, of) else None
        found: list[Multiple] | None = None
        match owner:
            case ir.Binary(kind="add" | "sub", left=left, right=right):
                a, b = self._multiple(left, of), self._multiple(right, of)
                found = None if a is None or b is None else a + b
            case ir.Binary(kind="mul", left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(other.owner, ir.Constant) and found is None:
                        factor = math.gcd(of, int(other.owner.value))
                        found = self._multiple(one, of // factor)
        if found == [] or value in self.inner:
            return found
        text = self.text(value)
        return found if text is None else [Multiple(text, of)]

    def _steps(self, dim: int, of: int) -> bool:
        """Whether the first coordinates of vectors along `dim` are multiples of `of`."""
        layout = self.layout
        registers = [d for d in layout.registers if not d.is_copy]
        if dim == self.dim:
            if of > self.width:
                return False
            registers = registers[self.digits :]
        return all(d.step[dim] % of == 0 for d in (*registers, *layout.lanes, *layout.warps))


def slow_accesses(
    planner: Planner,
    loads: Iterable[VectorAccess],
    stores: Sequence[VectorAccess],
    inside: Collection[ir.OpBase],
) -> tuple[list[VectorAccess], list[VectorAccess]]:
    """Return loads and stores for points that may be outside, or that are not aligned: whole where
    a vector is inside or outside as a whole, else one by one.  inside: accesses that are known to
    be inside."""

    def holds(access: VectorAccess) -> bool:
        known = access.op.in_bounds or access.op in inside
        return not access.conditions and (known or planner.is_whole(access))

    moved = [a if holds(a) else replace(a, width=1) for a in loads]
    moved = [
        a for a in moved if a.width > 1 or (isinstance(a.buffer, GlobalBuffer) and not a.guards)
    ]
    single = {a.op.buffer for a in stores if not holds(a)}
    return moved, [a for a in stores if a.op.buffer not in single]


def _shared_strides(buffer: SharedBuffer) -> list[int]:
    """Strides in elements, as far as alignment goes: swizzles keep chunks of 16 bytes."""
    layout, size = buffer.layout, buffer.dtype.bytes
    row = WIDEST_ACCESS // size if layout.swizzle else layout.panel
    strides = [*(s // size for s in layout.lead_strides()), row, 1]
    return strides[len(strides) - len(layout.shape) :]


def _leaves(body: ir.Block) -> bool:
    """Whether a point may end before its last op: what follows is then under a condition."""
    for op in body.ops:
        if isinstance(op, ir.Continue | ir.Break):
            return True
        if not isinstance(op, ir.For | ir.While) and any(_leaves(b) for b in op.blocks()):
            return True
    return False
