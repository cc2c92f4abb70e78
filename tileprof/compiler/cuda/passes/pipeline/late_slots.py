"""Slots that are freed an iteration late: which may be, and how many stages that takes.

In: a block with loads for a producer.  Out: answers; nothing is changed.  A product that reads a
slot may then run on while the next products are issued.
"""

from __future__ import annotations

import math

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.resources import product_cycles
from tileprof.compiler.cuda.tuning import LOAD_CYCLES
from tileprof.ir.memory import base

from .roles import is_ring_load, loads_of


def span_of_use(block: ir.Block, copy: ir.Copy) -> tuple[int, int]:
    """Positions of the ops of the block that first and last use the loaded tile."""
    used = [
        at
        for at, op in enumerate(block.ops)
        if op is not copy and any(base(v) is copy.target for v in _named(op))
    ]
    at = block.ops.index(copy)
    return (used[0], used[-1]) if used else (at, at)


def _named(op: ir.OpBase) -> list[ir.Value]:
    """The buffers that an op accesses, or takes a part of."""
    return [op.base] if isinstance(op, ir.View) else [t.value for t in op.all_accesses()]


def group_cycles(block: ir.Block) -> float:
    """Return the cycles of tensor cores for the products of warp groups in a block itself."""
    return product_cycles(o for o in block.ops if isinstance(o, ir.Gemm) and is_of_warp_groups(o))


def stages_to_hide_loads(loop: ir.For) -> int:
    """Return the stages with which a load lasts no longer than the products of the others, 0 for a
    loop whose slots are not freed late or that has no loads for a producer."""
    block = loop.body
    loads = [c for c in loads_of(block) if is_ring_load(c)]
    cycles = group_cycles(block)
    if not loads or not cycles or loop.schedule.once:
        return 0
    if not all(may_lag(block, c.target, span_of_use(block, c)[1]) for c in loads):
        return 0
    return 1 + math.ceil(LOAD_CYCLES / cycles)


def from_memory(block: ir.Block) -> bool:
    """Whether no product of a block has an operand in registers, which are computed meanwhile."""
    products = [op for op in block.ops if isinstance(op, ir.Gemm) and is_of_warp_groups(op)]
    return all(base(op.a).buffer.space == "shared" for op in products)


def may_lag(block: ir.Block, tile: ir.Value, last: int) -> bool:
    """Whether the slot is read by products of tensor cores alone, of one sum that nothing else in
    the block waits for, so that they may run on while the next ones are issued."""
    ops = list(enumerate(block.ops))
    products = {at: op for at, op in ops if at <= last and is_of_warp_groups(op)}
    readers = [at for at, op in ops if _reads(op, tile)]
    if not readers or any(at not in products for at in readers):
        return False
    sums = {base(products[at].c) for at in readers}
    return len(sums) == 1 and not any(
        base(t.value) in sums
        for at, op in ops[readers[0] :]
        if at not in readers
        for t in op.all_accesses()
    )


def _reads(op: ir.OpBase, tile: ir.Value) -> bool:
    return any(t.reads and base(t.value) is tile for t in op.all_accesses())
