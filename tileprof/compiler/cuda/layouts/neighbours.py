"""Accesses of one point that lie next to each other, and that one instruction can make.

    a = x[2 * j]            elements 0 and 1 of pair j: one access of 2 elements for each point,
    b = x[2 * j + 1]        and of 2p elements for p consecutive points

In: accesses of one loop body that may stand in one place.  Out: windows of them.  The elements of
a window are consecutive and fill a power of two; loads of one element are a window, too.  Whether a
window may be made at once, which depends on its alignment, is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.ir.sums import Sum, sum_of

Access = ir.Load | ir.Store
Terms = Mapping[ir.Value, int]


@dataclass(frozen=True, slots=True)
class Address:
    """Place of an access in its buffer: `fixed`, and `constant` + Σ factor · value elements."""

    terms: Terms
    constant: int
    fixed: tuple[Hashable, ...] = ()
    """Indices along dimensions whose strides are not known."""
    guards: Hashable = ()
    """Conditions under which the access is made."""
    manner: Hashable = ()
    """Form of the access, as far as it has to be that of its neighbours."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Consecutive elements of a point, `size` of them."""

    members: tuple[tuple[Access, int], ...]
    """Accesses with the place of their element in the window; the first one's is 0."""
    size: int
    address: Address
    """Address of the first element."""

    @property
    def first(self) -> Access:
        """Return an access of the first element."""
        return self.members[0][0]


def address_of(
    op: Access, strides: Sequence[int | str], guards: Hashable = (), manner: Hashable = ()
) -> Address:
    """Return where an access is.  strides: elements between neighbours of each dimension; a text
    for a dimension along which nothing is known, whose indices neighbours share."""
    total = Sum()
    fixed: list[Hashable] = []
    for index, stride in zip(op.indices, strides, strict=True):
        held = sum_of(index)
        if isinstance(stride, int):
            total = total.plus(held, stride)
        else:
            fixed.append((frozenset(held.terms.items()), held.constant))
    return Address(total.terms, total.constant, tuple(fixed), guards, manner)


def windows(
    accesses: Iterable[tuple[Access, Address]], fits: Callable[[Window], bool]
) -> Iterator[Window]:
    """Yield windows of at least two accesses, each access in one of them at most; the widest that
    fit, from low addresses to high ones.  Loads of the same element share a window, which may have
    no other one; stores to the same element stand in none, because their order matters."""
    alike: dict[Hashable, list[tuple[Access, Address]]] = {}
    for op, address in accesses:
        place = op.buffer, address.fixed, frozenset(address.terms.items())
        key = isinstance(op, ir.Load), place, address.guards, address.manner
        alike.setdefault(key, []).append((op, address))
    for found in alike.values():
        at: dict[int, list[Access]] = {}
        for op, address in found:
            at.setdefault(address.constant, []).append(op)
        if isinstance(found[0][0], ir.Store) and len(at) < len(found):
            continue
        yield from _windows(at, found[0][1], fits)


def _windows(
    at: Mapping[int, Sequence[Access]], like: Address, fits: Callable[[Window], bool]
) -> Iterator[Window]:
    """Yield windows of accesses that differ in the constant of their addresses."""
    taken = min(at) - 1
    for start in sorted(at):
        if start <= taken:
            continue
        size = WIDEST_ACCESS // at[start][0].buffer.dtype.bytes
        while size > 0:
            if all(start + k in at for k in range(size)):
                members = tuple((op, k) for k in range(size) for op in at[start + k])
                made = Window(members, size, replace(like, constant=start))
                if len(members) > 1 and fits(made):
                    yield made
                    taken = start + size - 1
                    break
            size //= 2
