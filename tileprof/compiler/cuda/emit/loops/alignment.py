"""Multiples that the addresses of a loop's points are known to be.

In: a loop with a layout, and indices.  Out: nothing where an index or the first element of an
access is a multiple of a power of two in every launch, the conditions under which it is one where
that needs numbers that are known at launch only, and None where nothing says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren
from tileprof.compiler.cuda.emit.buffers import GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.lowering import stride_divisors
from tileprof.compiler.cuda.target import WIDEST_ACCESS

from .guards import Guard, Place, changes_at


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


@dataclass(frozen=True, eq=False, slots=True)
class Alignment:
    """Alignment of accesses and guards in one parallel loop with a layout."""

    op: ir.Parallel
    layout: RegisterLayout
    text: Callable[[ir.Value], str | None]
    """Name of a value from outside of the loop."""
    inner: Collection[ir.Value]
    """Everything that is computed inside."""
    dim: int
    """Dimension along which consecutive registers of a thread hold neighbours."""
    digits: int
    """Register digits that count these neighbours; a vector has 2 to the power of them."""
    moving: Collection[ir.Value]
    """Everything that follows from the loop variable of `dim`."""

    def of_access(
        self,
        op: ir.Load | ir.Store | ir.Atomic,
        buffer: GlobalBuffer | SharedBuffer,
        width: int,
        points: int | None = None,
    ) -> list[Multiple] | None:
        """Conditions under which the first element of `width` is at a multiple of them; None where
        nothing says so.  points: of how many each access is, if not of `width`."""
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
            strides = divisors = shared_strides(buffer)
        for index, stride, step in zip(op.indices, strides, divisors, strict=True):
            if ir.constant_of(index) == 0:
                continue
            needed = self.multiple(index, width // math.gcd(width, step), points)
            if not isinstance(stride, int) and needed != []:
                # The stride may be a multiple, too, and is the same for all points.
                needed = [Multiple(stride, width)]
            if needed is None:
                return None
            conditions += needed
        return conditions

    def multiple(
        self, value: ir.Value, of: int, points: int | None = None
    ) -> list[Multiple] | None:
        """Conditions under which an index is a multiple of a power of two; None for never known.
        points: of how many each access is, if not of as many as fit into a vector."""
        if of == 1:
            return []
        owner = value.owner
        if isinstance(owner, ir.Constant):
            return [] if int(owner.value) % of == 0 else None
        if value in self.op.body.args:
            dim = self.op.body.args.index(value)
            return [] if self._steps(dim, of, points or 1 << self.digits) else None
        found: list[Multiple] | None = None
        match owner:
            case ir.Binary(kind="add" | "sub", left=left, right=right):
                a, b = self.multiple(left, of, points), self.multiple(right, of, points)
                found = None if a is None or b is None else a + b
            case ir.Binary(kind="mul", left=left, right=right):
                for one, other in ((left, right), (right, left)):
                    if isinstance(other.owner, ir.Constant) and found is None:
                        factor = math.gcd(of, int(other.owner.value))
                        found = self.multiple(one, of // factor, points)
        if found == [] or value in self.inner:
            return found
        text = self.text(value)
        return found if text is None else [Multiple(text, of)]

    def _steps(self, dim: int, of: int, points: int) -> bool:
        """Whether the first coordinates along `dim` of so many points are multiples of `of`."""
        layout = self.layout
        registers = [d for d in layout.registers if not d.is_copy]
        if dim == self.dim:
            if of > points:
                return False
            registers = registers[self.digits :]
        return all(d.step[dim] % of == 0 for d in (*registers, *layout.lanes, *layout.warps))

    def uniform(self, guards: Iterable[Guard], width: int) -> list[Multiple] | None:
        """Conditions under which guards are the same for `width` points; None for never known."""
        found: list[Multiple] = []
        for guard in guards:
            if guard.condition not in self.moving:
                continue
            places = changes_at(guard.condition, self.moving, self.coefficient)
            needed = None if places is None else [self._divides(p, width) for p in places]
            if needed is None or None in needed:
                return None
            found += [multiple for each in needed for multiple in each or ()]
        return found

    def _divides(self, place: Place, width: int) -> list[Multiple] | None:
        """Conditions under which a place is a multiple of the width; None for never known."""
        if not place.offset:
            return self.multiple(place.value, width)
        made = place.value.owner
        fixed = isinstance(made, ir.Constant) and (int(made.value) + place.offset) % width == 0
        return [] if fixed else None

    def coefficient(self, value: ir.Value) -> int | None:
        """Return how much an index goes up with the moving variable; None where it is no sum."""
        if value not in self.moving:
            return 0
        match value.owner:
            case None:
                return 1
            case ir.Binary(kind="add" | "sub" as kind, left=left, right=right):
                a, b = self.coefficient(left), self.coefficient(right)
                if a is None or b is None:
                    return None
                return a + b if kind == "add" else a - b
        return None


def shared_strides(buffer: SharedBuffer) -> list[int]:
    """Strides in elements, as far as alignment goes: swizzles keep chunks of 16 bytes."""
    layout, size = buffer.layout, buffer.dtype.bytes
    row = WIDEST_ACCESS // size if layout.swizzle else layout.panel
    strides = [*(s // size for s in layout.lead_strides()), row, 1]
    return strides[len(strides) - len(layout.shape) :]
