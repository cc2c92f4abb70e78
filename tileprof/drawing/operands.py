"""Requests of matrices in shared memory: operands of `mma.sync`, by ldmatrix or word by word, and
fragments that stmatrix writes or ldmatrix reads.

In: a product whose instruction is chosen, or a copy.  Out: where the lanes of each instruction read
or write, relative to the operand.  The rules are those of `emit.gemm.mma` and `emit.tilecopy`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.emit.gemm.matrices import ROW, Matrices, find_matrices
from tileprof.compiler.cuda.emit.loops.points import leader
from tileprof.compiler.cuda.layouts import RegisterLayout, parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.matrix import Operand, is_k_major, matrix_dims, step_layout
from tileprof.compiler.cuda.layouts.shared import SharedLayout
from tileprof.compiler.cuda.target import Target
from tileprof.ir import instructions

from .transactions import Ints

_WARP = 32


@dataclass(frozen=True, eq=False)
class MatrixAccess:
    """Accesses of one operand by all warps of a block."""

    places: Ints
    """Index of the first element that each lane names: int64[instructions, warps, 32, rank]."""
    lanes: int
    """Lanes that give an address: 32, or 8 for each matrix of an ldmatrix."""
    bytes: int
    """Bytes that a lane names: 16 for ldmatrix."""
    by_matrices: bool


def operand_reads(op: ir.Gemm, which: Operand, layout: SharedLayout, threads: int) -> MatrixAccess:
    """Return how a product reads an operand of shared memory with a layout."""
    value = op.a if which == "a" else op.b
    size = value.dtype.bytes
    held = step_layout(op, threads, which)
    found = find_matrices(held, value.dtype) if _is_aligned(layout, size) else None
    rows, columns = matrix_dims(value)
    along = columns if is_k_major(op, which) else rows
    steps = op.mnk[2] * size // ROW // 2
    table = held.table().transpose(1, 0, 2) if found is None else _rows(found)
    places = np.repeat(table[None], steps, axis=0)
    places[..., along] += (np.arange(steps) * (2 * ROW // size))[:, None, None]
    places = places.reshape(-1, threads // _WARP, _WARP, table.shape[-1])
    if found is None:
        return MatrixAccess(places, _WARP, size, by_matrices=False)
    return MatrixAccess(places, 8 * found.at_once, ROW, by_matrices=True)


@dataclass(frozen=True, eq=False)
class FragmentCopy:
    """A copy between a whole fragment and a whole buffer of shared memory."""

    held: RegisterLayout
    matrices: MatrixAccess | None
    """Access of shared memory by stmatrix or ldmatrix; None where threads do it, element by element
    in the order of the fragment."""


def fragment_copy(op: ir.OpBase, target: Target) -> FragmentCopy | None:
    """Return how a target makes a copy of a fragment; None for another op, and for parts."""
    if not isinstance(op, ir.Copy) or not isinstance(op.lowering, instructions.Matrices | None):
        return None
    ends = {each.buffer.space: each.owner for each in (op.source, op.target)}
    fragment, shared = ends.get("fragment"), ends.get("shared")
    if not isinstance(fragment, ir.Alloc) or not isinstance(shared, ir.Alloc):
        return None
    if fragment.shape != shared.shape or not fragment.layout:
        return None
    held = parse_layout(fragment.layout, fragment.shape)
    layout = parse_shared(shared.layout, shared.shape, shared.dtype)
    return FragmentCopy(held, _copied_matrices(op, held, layout, target))


def _copied_matrices(
    op: ir.Copy, held: RegisterLayout, layout: SharedLayout, target: Target
) -> MatrixAccess | None:
    kinds, is_store = (op.source.dtype, op.target.dtype), op.source.buffer.space == "fragment"
    narrows = kinds[0].name == "float32" and kinds[1].name in ("float16", "bfloat16")
    if kinds[0] != kinds[1] and not (is_store and narrows):
        return None
    if is_store and (not target.has_tma or leader(held)):
        return None
    found = find_matrices(held, kinds[1]) if _is_aligned(layout, kinds[1].bytes) else None
    if found is None:
        return None
    table = _rows(found)
    places = table.reshape(len(table), -1, _WARP, table.shape[-1])
    return MatrixAccess(places, 8 * found.at_once, ROW, by_matrices=True)


def _rows(found: Matrices) -> Ints:
    """Return the row that each thread names: int64[instructions, threads, rank]."""
    first = found.lanes.table()[:, 0]
    counts = [range(run.count) for run in found.runs]
    moved = [
        sum((np.array(run.step) * at for run, at in zip(found.runs, each)), np.zeros(1, int))
        for each in itertools.product(*counts)
    ]
    return np.stack([first + each for each in moved])


def _is_aligned(layout: SharedLayout, size: int) -> bool:
    """Return whether rows of matrices are at addresses that ldmatrix takes."""
    pitch = layout.swizzle or layout.panel * size
    return pitch % ROW == 0 and all(stride % ROW == 0 for stride in layout.lead_strides())
