"""Proof that one write, over all numbers of the counters around it, reaches every element.

Counters are the variables of loops that are known to run, and the indices of a launch's blocks.  In
each dimension the write's first index must be a sum of counters that leaves out nothing:

    C[bx * 64 + i], 0 ≤ i < 64, 0 ≤ bx < 4       i reaches 0 to 63, bx * 64 + i reaches 0 to 255

and no counter may choose in two dimensions, as in C[i, i].  A write that passes the upper edge of a
global buffer is guarded, so counters may reach further than the buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Linear
from tileprof.compiler.passes.ranges import Ranges

from .disjoint import Box

Repeated: TypeAlias = ir.For | ir.Parallel | ir.Launch
"""An op whose body runs for each number of its counters."""


def counters(op: Repeated, ranges: Ranges) -> dict[Atom, int]:
    """Return how many numbers from 0 on each counter of a loop or a launch takes, where that is
    known."""
    if isinstance(op, ir.For) and (ranges.of(op.start).known, ranges.of(op.step).known) != (0, 1):
        return {}
    found: dict[Atom, int] = {}
    for arg in op.body.args:
        value = ranges.of(arg)
        if value.constant or list(value.terms.values()) != [1]:
            continue
        (atom,) = value.terms
        # Otherwise the highest number is a bound that it may not reach.
        if [last.known for last in atom.uppers] == [atom.high]:
            found[atom] = atom.high + 1
    return found


def runs(op: Repeated, ranges: Ranges) -> bool:
    """Return whether a loop is known to run to its end, at least once; a launch does."""
    if isinstance(op, ir.Launch):
        return True
    if any(isinstance(inner, ir.Break | ir.Continue) for inner in ir.walk(op.body)):
        return False
    if isinstance(op, ir.Parallel):
        return all(ranges.of(extent).low >= 1 for extent in op.extents)
    return (ranges.of(op.stop) - ranges.of(op.start)).low >= 1


def covers(box: Box, extents: tuple[Linear, ...], counts: Mapping[Atom, int]) -> bool:
    """Return whether a write at every number of its counters reaches each element of a buffer.

    Args:
        box: what the write covers, in the buffer's dimensions.
        extents: of the buffer.
        counts: how many numbers from 0 on each counter takes.
    """
    used: set[Atom] = set()
    for start, size, extent in zip(box.starts, box.sizes, extents, strict=True):
        if not start.terms and not start.constant and size.key() == extent.key():
            continue
        reach = size.known
        if reach is None or start.constant:
            return False
        for atom, factor in sorted(start.terms.items(), key=lambda term: term[1]):
            count = counts.get(atom)
            if count is None or atom in used or type(factor) is not int or not 0 < factor <= reach:
                return False
            used.add(atom)
            reach += factor * (count - 1)
        if reach < extent.high:
            return False
    return True
