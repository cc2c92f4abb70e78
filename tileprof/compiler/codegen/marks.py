"""A kernel whose workers say what they are at, for the sampler of the thread pool.

In: a kernel after all passes.  Out: the same with a mark where another step begins.  A loop over
single elements is one step: a mark in it would cost more than what it stands for, and keep the
compiler from vectorising it.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.instrument.placement.marks import note_scopes
from tileprof.instrument.placement.placing import place_marks
from tileprof.ir.rewriter import inline_scopes

_PIECES = (*ir.TILE_OPS, ir.Parallel, ir.Print)
"""Ops that are worth a mark."""


def marked(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with marks, sites and states; as it is where it has no step."""
    made = place_marks(ir.rewrite(note_scopes(kernel), inline_scopes), "sample")
    for op in made.ops():
        if isinstance(op, ir.For | ir.While) and not _has_pieces(op):
            _unmark(op)
    return made


def _has_pieces(loop: ir.For | ir.While) -> bool:
    """Whether something in it takes long, or is a scope of the author's."""
    around = loop.span.scope if loop.span is not None else None
    for op in loop.inner_ops():
        scope = op.span.scope if op.span is not None else around
        if isinstance(op, _PIECES) or (scope != around and not isinstance(op, ir.Mark)):
            return True
    return False


def _unmark(op: ir.OpBase) -> None:
    for block in op.blocks():
        block.ops[:] = [inner for inner in block.ops if not isinstance(inner, ir.Mark)]
        for inner in block.ops:
            _unmark(inner)
