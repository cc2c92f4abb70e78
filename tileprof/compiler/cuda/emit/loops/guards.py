"""Branches inside the points of a loop: what stands in them, and where their conditions change.

    if row < m and j < n { y[row, j] = x[row, j] }     guards of both accesses: `row < m and j < n`

A comparison of a variable that goes up by 1 changes once; where that is at a multiple of a vector's
width, no vector has points on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.inlining import flat
from tileprof.ir.rewriter import clone, rebuilt


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition of a branch."""

    condition: ir.Value
    holds: bool
    """Whether the branch is the one for conditions that hold."""
    slice: tuple[ir.OpBase, ...] = ()
    """The ops of the points that compute it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A number that must be a multiple of the width: `value + offset`."""

    value: ir.Value
    offset: int = 0


def unfolded(
    block: ir.Block, guards: tuple[Guard, ...] = ()
) -> tuple[list[ir.OpBase], dict[ir.OpBase, tuple[Guard, ...]]]:
    """The ops of a block with those of its branches behind each `if`, and the guards of these."""
    ops: list[ir.OpBase] = []
    found: dict[ir.OpBase, tuple[Guard, ...]] = {}
    for op in flat(block):
        ops.append(op)
        if guards:
            found[op] = guards
        if isinstance(op, ir.If):
            for branch, holds in ((op.then, True), (op.otherwise, False)):
                inside, theirs = unfolded(branch, (*guards, Guard(op.condition, holds)))
                ops += inside
                found |= theirs
    return ops, found


def changes_at(
    condition: ir.Value,
    moving: Collection[ir.Value],
    coefficient: Callable[[ir.Value], int | None],
) -> list[Place] | None:
    """Return the places that have to be multiples of a width so that a condition is the same for as
    many consecutive points; None where it may change anywhere.

    `coefficient` gives how much an index goes up from point to point.
    """
    match condition.owner:
        case ir.Binary(kind="and" | "or" | "xor", left=left, right=right):
            found: list[Place] = []
            for each in (left, right):
                places = changes_at(each, moving, coefficient) if each in moving else []
                if places is None:
                    return None
                found += places
            return found
        case ir.Unary(kind="not", operand=operand):
            return changes_at(operand, moving, coefficient)
        case ir.Compare(kind="lt" | "ge", left=left, right=right):
            return _crossing(left, right, coefficient)
        case ir.Compare(kind="gt" | "le", left=left, right=right):
            return _crossing(right, left, coefficient)
    return None


def _crossing(
    low: ir.Value, high: ir.Value, coefficient: Callable[[ir.Value], int | None]
) -> list[Place] | None:
    """Return the places where `low < high`, or its contrary, changes; None: not known."""
    if low.dtype.kind != "index":
        return None
    if coefficient(low) == 1 and coefficient(high) == 0:
        return [Place(low), Place(high)]
    if coefficient(low) == 0 and coefficient(high) == 1:
        # The contrary of `high < low + 1`.
        return [Place(high), Place(low, 1)]
    return None


def opened(loop: ir.Parallel, taken: Collection[ir.OpBase]) -> ir.Parallel:
    """A copy of a loop in which the first branches of `taken` stand in place of these."""

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if op not in taken:
            return None
        assert isinstance(new, ir.If)
        inside = new.then.ops
        last = inside[-1] if inside else None
        given = last.values if isinstance(last, ir.Yield) else []
        builder.block.ops += inside[:-1] if isinstance(last, ir.Yield) else inside
        return given

    made = clone(loop, {}, {"body": rebuilt(loop.body, {}, rule)})
    assert isinstance(made, ir.Parallel)
    return made
