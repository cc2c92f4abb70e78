"""Loops of tile kernels: those that give some threads more work than others, or are unrolled.

In: a kernel, and the CUDA made of it.  Out: loops in whose turns nothing is done but `parallel` of
fewer elements than threads, or nothing but one element, though over all turns there is work for
all: their lines, and how many threads have work. What is kept in fragments of so few elements is
computed by all warps alike, or by some while the others wait. The lines of loops that turn as often
as each element says, and of those that are unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileprof.analyzer.tiles.cuda_lines import lines_of
from tileprof.analyzer.tiles.values import Values, values_of
from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel

_KINDS = ("serial", "unroll")
_TOGETHER = (*COPIES, *PRODUCTS, "reduce", "scan", "fill", "atomic", "tile_atomic")
"""Ops that all threads of a block do together, whatever their extents."""


@dataclass(frozen=True, slots=True)
class NarrowLoop:
    """A loop with work for some of a block's threads in each turn."""

    lines: frozenset[int]
    """Of the kernel's source."""
    threads: int
    elements: int
    """The most that a turn works on at once."""
    turns: int


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop whose turns stand one behind the other."""

    line: int
    lines: frozenset[int]
    """It with its body."""
    turns: int


def narrow_loops(kernel: TileKernel, code: str) -> Iterator[NarrowLoop]:
    """The outermost of them."""
    values = values_of(kernel)
    for launch in kernel.named("launch"):
        threads = math.prod(launch.numbers("threads"))
        for loop, elements in _outermost(kernel, _inside(launch), threads, values):
            turns = _turns(loop, values)
            if lines := _lines(kernel, code, loop):
                yield NarrowLoop(frozenset(lines), threads, elements, turns)


def unrolled(kernel: TileKernel, code: str) -> Iterator[Unrolled]:
    """All of them."""
    for loop in _loops(kernel):
        if loop.word == "unroll" and (lines := _lines(kernel, code, loop)):
            yield Unrolled(lines[0], frozenset(lines), _turns(loop, values_of(kernel)))


def uneven_lines(kernel: TileKernel, code: str) -> frozenset[int]:
    """The lines of loops inside of a `parallel` that turn more often for some of its elements."""
    known = values_of(kernel).turns
    uneven = (
        op
        for op, around in kernel.nested
        if _is_loop(op) and op.arguments[0] not in known
        and any(each.name == "parallel" for each in around)
    )  # fmt: skip
    return frozenset(line for loop in uneven for line in _lines(kernel, code, loop))


def _loops(kernel: TileKernel) -> list[Op]:
    return [op for op in kernel.named("for") if _is_loop(op)]


def _is_loop(op: Op) -> bool:
    return op.name == "for" and op.word in _KINDS and bool(op.arguments)


def _inside(op: Op) -> Iterator[Op]:
    return (each for block in op.blocks for each in block.ops)


def _outermost(
    kernel: TileKernel, ops: Iterator[Op], threads: int, values: Values
) -> Iterator[tuple[Op, int]]:
    """Yield loops with how many elements each of their turns works on."""
    for op in ops:
        elements = _elements(kernel, op, values) if _is_loop(op) else 0
        if 0 < elements < threads <= elements * _turns(op, values) and _alone(op):
            yield op, elements
        elif op.name == "parallel":
            points = math.prod(values.number(name) or 0 for name in op.listed)
            if 0 < points < threads:
                yield from ((each, points) for each in _inside(op) if _is_loop(each))
        else:
            yield from _outermost(kernel, _inside(op), threads, values)


def _alone(op: Op) -> bool:
    """Whether nothing is done there but loops and parallels."""
    return all(
        (_is_loop(each) or each.name in ("parallel", "if")) and _alone(each)
        if each.blocks
        else each.name not in _TOGETHER
        for each in _inside(op)
    )


def _elements(kernel: TileKernel, op: Op, values: Values) -> int:
    """Return the most elements that a turn of a loop works on at once: of the largest of its
    parallels, or the one that it stores by itself; 0 for none, or where an extent is not known."""
    found = [0]
    for each in _inside(op):
        if each.name == "store":
            held = kernel.types.get(each.operands[1])
            found.append(int(held is not None and held.space != "local"))
        elif each.name == "parallel":
            found.append(math.prod(values.number(name) or 0 for name in each.listed))
            if not found[-1]:
                return 0
        elif inner := _elements(kernel, each, values):
            found.append(inner)
    return max(found)


def _turns(loop: Op, values: Values) -> int:
    """How often a loop turns, 0 where that is not known, or not the same for all blocks."""
    known = values.turns.get(loop.arguments[0])
    return int(known) if known is not None and not known.ndim else 0


def _lines(kernel: TileKernel, code: str, loop: Op) -> Sequence[int]:
    """In the kernel's source, that of a loop first."""
    return lines_of(code, loop.arguments[0], [each.arguments[0] for each in _loops(kernel)])
