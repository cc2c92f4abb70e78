"""Rows of a tile in the order in which the threads that multiply by them need the sums.

    copy K[k·192, 0] → K_s (tma)                 copy K[k·192, 0] → K_s (tma dealt)
    gemm Q_s, K_sᵀ, %s (wgmma ss)          ⇒     gemm Q_s, K_sᵀ, %s (wgmma ss dealt)
    parallel (i, j): %w[i, j] = f(%s[i, j])
    gemm %w, V_s, %o (wgmma rs)

A thread holds two neighbours of each row of sums, and as an operand of 8 bits four.  In the
author's order threads would exchange all weights: two selections, two shuffles and two permutations
for every eight of them.  A column of sums belongs to a row of the tile; so pairs of rows are dealt
into two halves of the tile, even pairs first, and a thread then computes what it multiplies.

The copy engine writes each half by itself, as a box of a tensor whose rows are counted by four.

In: a launch after `choose`.  Out: the same, with such tiles and products marked; layouts follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import accumulator_layout, operand_layout
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.target import BOX_RANK
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Tma, Wgmma
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks.products import DealtRows

from .copies import multiple, tensor_of

_UNIT = 32
"""Rows of a tile are a multiple of this: columns that one instruction multiplies 8-bit weights by,
so that each half is a multiple of the 8 rows after which swizzles repeat."""
_QUADS = 4
"""Rows after which the order repeats."""

Users = Mapping[ir.Value, Sequence[ir.OpBase]]


def deal_rows(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with the rows of such tiles dealt."""
    return per_launch(kernel, lambda launch: _dealt(launch, kernel, lowering))


def _dealt(launch: ir.Launch, kernel: ir.Kernel, lowering: Lowering) -> ir.Launch:
    users = ir.users(ir.walk(launch.body))
    found: set[ir.OpBase] = set()
    for op in ir.walk(launch.body):
        if not isinstance(op, ir.Gemm) or not isinstance(op.lowering, Wgmma):
            continue
        copy = _load(op, users, kernel)
        weights = None if copy is None else _weights(op, launch, users)
        if copy is not None and weights is not None:
            found |= {op, copy}
            made = DealtRows(buffer_name(op.b), buffer_name(weights))
            lowering.remarks.add("copy", buffer_name(op.b), copy.span, made)
    if not found:
        return launch

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in found or not isinstance(new, ir.Gemm | ir.Copy):
            return None
        assert isinstance(new.lowering, Wgmma | Tma)
        new.lowering = replace(new.lowering, dealt=True)
        return list(builder.emit(new).results)

    return with_originals(launch, rule)


def _load(op: ir.Gemm, users: Users, kernel: ir.Kernel) -> ir.Copy | None:
    """The copy that fills the product's second operand, where nothing else uses that and boxes can
    count its rows by four."""
    tile, instruction = op.b, op.lowering
    if not isinstance(tile.owner, ir.Alloc) or not isinstance(instruction, Wgmma):
        return None
    others = [each for each in users[tile] if each is not op]
    if len(users[tile]) != 2 or len(others) != 1 or not op.transpose_b or instruction.columns > 1:
        return None
    copy, rows = others[0], tile.buffer.static_shape[-2]
    if not isinstance(copy, ir.Copy) or copy.lowering != Tma() or copy.target is not tile:
        return None
    tensor = tensor_of(copy.source, kernel)
    if tensor is None or tile.buffer.rank != 2 or rows % _UNIT:
        return None
    axes = [d for d, size in enumerate(tensor.sizes[:-1]) if size != 1]
    if len(axes) != 1 or len(tensor.sizes) + 1 > BOX_RANK:
        return None
    extent, view = tensor.type.shape[axes[0]], copy.source.owner
    first = multiple(view.offsets[axes[0]]) if isinstance(view, ir.View) else _QUADS
    if not isinstance(extent, int) or extent % _QUADS or first % _QUADS:
        return None
    return copy


def _weights(op: ir.Gemm, launch: ir.Launch, users: Users) -> ir.Value | None:
    """The operand of another product that is computed from this one's sums, element by element,
    where threads need it as they would hold the sums of dealt rows, and in no other order."""
    sums, instruction, threads = op.c, op.lowering, launch.block_threads
    if not isinstance(sums.owner, ir.Alloc) or sums.buffer.space != "fragment":
        return None
    others = [user for user in users[sums] if user is not op]
    by_element = all(isinstance(o, ir.Load | ir.Store | ir.Fill | ir.Reduce) for o in others)
    if not by_element or len(others) + 1 < len(users[sums]) or not isinstance(instruction, Wgmma):
        return None
    plain = accumulator_layout(op, threads)
    dealt = accumulator_layout(replace(op, lowering=replace(instruction, dealt=True)), threads)
    dims = range(sums.buffer.rank)
    for made in _computed_from(sums, launch):
        for product in users[made]:
            if isinstance(product, ir.Gemm) and product.a is made:
                if not isinstance(product.lowering, Wgmma):
                    continue
                needed = operand_layout(product, threads, "a")
                fits = (needed.register_weights(dims, each) is not None for each in (plain, dealt))
                if tuple(fits) == (False, True):
                    return made
    return None


def _computed_from(sums: ir.Value, launch: ir.Launch) -> Iterator[ir.Value]:
    """The buffers of which some loop writes the element whose number it has of the sums."""
    for loop in ir.walk(launch.body):
        if isinstance(loop, ir.Parallel):
            inside = list(ir.walk(loop.body))
            read = [tuple(o.indices) for o in inside if isinstance(o, ir.Load) and o.buffer is sums]
            for op in inside:
                if isinstance(op, ir.Store) and tuple(op.indices) in read:
                    yield op.buffer
