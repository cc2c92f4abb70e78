"""Tiles of shared memory that no thread would read where another one wrote.

    parallel [512] body(i)                          parallel [512] body(i)
      store (load A, [row, i]), S, [0, i]     ⇒       store (load A, [row, i]), F, [0, i]
    parallel [1, 512] body(i, j)                    parallel [1, 512] body(i, j)
      … load S, [i, j]                                … load F, [i, j]

Where every loop over such a tile goes over its elements in the same order, all of them can have one
layout: each thread then finds in its registers what it needs, and no barrier keeps loads of the
next iteration from running ahead.
In: elementwise ops as `parallel`, without layouts.  Out: the same, with these tiles as fragments.
A tile stays where it is if a reduction lies between what is written and what is read of it: it
would take registers meanwhile.  Where a tile of many bytes is kept, the assembler is told how many
blocks fitted before: with less shared memory, it would take registers that keep blocks away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.resources import occupancy
from tileprof.compiler.cuda.target import WORD
from tileprof.compiler.cuda.tuning import ADDRESS_REGISTERS, OWN_TILE_BYTES, OWN_TILE_ONCE
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks.layouts import EachItsOwn


def keep_own(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Keep tiles in registers that each thread would only read where it wrote."""
    return per_launch(kernel, lambda launch: _kept(launch, lowering))


def _kept(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    if any(isinstance(o, ir.Gemm) for o in ir.walk(launch.body)):
        # Layouts follow from the instructions of products: they suit no other accesses.
        return launch
    search = _Search(launch.block_threads)
    search.block(launch.body)
    chosen = search.own()
    if not chosen:
        return launch

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in chosen or not isinstance(new, ir.Alloc):
            return None
        made = ir.Alloc("fragment", new.shape, new.dtype, hint=new.result.name)
        return [builder.emit(made).result]

    for alloc in chosen:
        lowering.remarks.add("buffer", buffer_name(alloc.result), alloc.span, EachItsOwn())
    made = with_originals(launch, rule)
    asked = lowering.controls.registers or dict(launch.hints).get("blocks")
    if asked or not any(_bytes(a) > OWN_TILE_BYTES * launch.block_threads for a in chosen):
        return made
    residents = _residents(launch, chosen, lowering)
    return made.scheduled(replace(made.schedule, residents=residents))


def _residents(launch: ir.Launch, chosen: Sequence[ir.Alloc], lowering: Lowering) -> int:
    """Return the blocks that a multiprocessor holds with all tiles in shared memory, as far as it
    has registers for those that are kept; 0 where it is no more than one.

    A fragment that is only added up takes none: its elements are, as they are made.
    """
    ops = list(ir.walk(launch.body))
    allocs = [o for o in ops if isinstance(o, ir.Alloc)]
    read = {
        base(v)
        for o in ops
        if not isinstance(o, ir.Reduce | ir.Store)
        for v in o.operand_values()
        if isinstance(v.type, ir.BufferType)
    }
    held = [a for a in allocs if a.space == "fragment" and a.result in read]
    words = sum(map(_bytes, [*held, *chosen])) / WORD / launch.block_threads
    shared = sum(_bytes(a) for a in allocs if a.space == "shared")
    registers = round(words) + ADDRESS_REGISTERS
    if registers > lowering.target.registers_per_thread:
        return 0
    blocks = occupancy(registers, shared, launch.block_threads, lowering.target).blocks
    return blocks if blocks > 1 else 0


def _bytes(alloc: ir.Alloc) -> int:
    return math.prod(alloc.shape) * alloc.dtype.bytes


class _Search:
    """Follows the program; knows of each tile whether its elements have to be kept for long."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.filled: dict[ir.Alloc, int] = {}
        """Tiles that may be fragments, with the reductions before they were last filled."""
        self.others: set[ir.Value] = set()
        """Buffers that may not."""
        self.reductions = 0
        self.loops = 0
        """Number of loops around the op at hand."""

    def own(self) -> list[ir.Alloc]:
        """Tiles that may be fragments, in order."""
        return [a for a in self.filled if a.result not in self.others]

    def block(self, block: ir.Block) -> None:
        for op in block.ops:
            if isinstance(op, ir.Alloc) and self._is_small(op):
                self.filled[op] = -1
            elif isinstance(op, ir.Parallel):
                self._loop(op)
            else:
                self.others |= {base(v) for v in op.operand_values()}
                self.reductions += isinstance(op, ir.Reduce | ir.Scan)
                for inner in op.blocks():
                    self._inside(inner, loops=isinstance(op, ir.For | ir.While))

    def _inside(self, block: ir.Block, *, loops: bool) -> None:
        """A block that may not run, or run again: what it finds filled is what it left itself, or
        what was there before."""
        before, count = dict(self.filled), self.reductions
        if loops and any(isinstance(o, ir.Reduce | ir.Scan) for o in ir.walk(block)):
            # Unless it is filled first, a tile is kept for a whole iteration.
            self.filled = dict.fromkeys(self.filled, -1)
        self.loops += loops
        self.block(block)
        self.loops -= loops
        if self.reductions != count:
            # What was filled inside is not known to be so behind it.
            self.filled |= dict.fromkeys(before, -1)

    def _is_small(self, op: ir.Alloc) -> bool:
        return op.space == "shared" and not op.layout and _bytes(op) <= OWN_TILE_ONCE * self.threads

    def _is_crowded(self, access: ir.Load | ir.Store) -> bool:
        """Whether a large tile is accessed in a loop."""
        alloc = access.buffer.owner
        assert isinstance(alloc, ir.Alloc)
        return self.loops > 0 and _bytes(alloc) > OWN_TILE_BYTES * self.threads

    def _loop(self, op: ir.Parallel) -> None:
        accesses = [o for o in ir.walk(op.body) if isinstance(o, ir.Load | ir.Store | ir.Atomic)]
        for each in accesses:
            if each.buffer.owner not in self.filled:
                self.others.add(base(each.buffer))
            elif isinstance(each, ir.Atomic) or not _in_order(op, each) or self._is_crowded(each):
                self.others.add(each.buffer)
        read = {o.buffer for o in accesses if isinstance(o, ir.Load)}
        whole = {o.buffer for o in op.body.ops if isinstance(o, ir.Store)} - read
        for alloc, when in self.filled.items():
            if alloc.result in whole:
                self.filled[alloc] = self.reductions
            elif any(o.buffer is alloc.result for o in accesses) and when != self.reductions:
                self.others.add(alloc.result)


def _in_order(loop: ir.Parallel, op: ir.Load | ir.Store) -> bool:
    """Whether the points of a loop are the elements of the tile, in the order of both."""
    extents = map(ir.constant_of, loop.extents)
    points = [(v, e) for v, e in zip(loop.body.args, extents, strict=True) if e != 1]
    shape = op.buffer.buffer.static_shape
    elements = [(i, e) for i, e in zip(op.indices, shape, strict=True) if e != 1]
    return points == elements
