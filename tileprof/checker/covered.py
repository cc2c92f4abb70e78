"""Proof that the blocks of a launch together write every element of a buffer.

One write is enough, which every block makes, in loops that are known to run.  In each dimension its
first index must be a sum of counters (a block's index, a loop's variable) that leaves out nothing:

    C[bx * 64 + i], 0 ≤ i < 64, 0 ≤ bx < 4       i reaches 0 to 63, bx * 64 + i reaches 0 to 255

and no counter may choose in two dimensions, as in C[i, i].  A write that passes the upper edge of a
global buffer is guarded, so counters may reach further than the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileprof import ir
from tileprof.compiler.passes.affine import Atom, Linear
from tileprof.compiler.passes.ranges import Ranges

from .disjoint import Box


def counters(launch: ir.Launch, ranges: Ranges) -> dict[Atom, int]:
    """Return how many numbers from 0 on each counter of a launch takes, where that is known."""
    found: dict[Atom, int] = {}
    for op in (launch, *ir.walk(launch.body)):
        match op:
            case ir.Launch(body=body) | ir.Parallel(body=body):
                args = body.args
            case ir.For(start=start, step=step, body=body):
                first, by = ranges.of(start).known, ranges.of(step).known
                args = body.args if (first, by) == (0, 1) else []
            case _:
                continue
        for arg in args:
            value = ranges.of(arg)
            if value.constant or list(value.terms.values()) != [1]:
                continue
            (atom,) = value.terms
            # Otherwise the highest number is a bound that it may not reach.
            if [last.known for last in atom.uppers] == [atom.high]:
                found[atom] = atom.high + 1
    return found


def always(block: ir.Block, ranges: Ranges) -> Iterator[ir.OpBase]:
    """Yield the ops that run whenever a block of ops does, the ones in its loops included."""
    for op in block.ops:
        yield op
        if isinstance(op, ir.If | ir.While):
            continue
        if isinstance(op, ir.For | ir.Parallel) and not _runs(op, ranges):
            continue
        for inner in op.blocks():
            yield from always(inner, ranges)


def _runs(loop: ir.For | ir.Parallel, ranges: Ranges) -> bool:
    """Return whether a loop is known to run to its end, at least once."""
    if any(isinstance(op, ir.Break | ir.Continue) for op in ir.walk(loop.body)):
        return False
    if isinstance(loop, ir.Parallel):
        return all(ranges.of(extent).low >= 1 for extent in loop.extents)
    return (ranges.of(loop.stop) - ranges.of(loop.start)).low >= 1


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
