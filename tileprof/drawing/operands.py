"""Requests for operands of `mma.sync` in shared memory: ldmatrix, or words one by one.

In: a product whose instruction is chosen.  Out: where the lanes of each instruction read, relative
to the operand.  The rules are those of `emit.gemm.mma`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.emit.gemm.matrices import ROW, find_matrices
from tileprof.compiler.cuda.layouts.matrix import Operand, is_k_major, matrix_dims, step_layout
from tileprof.compiler.cuda.layouts.shared import SharedLayout

from .transactions import Ints

_WARP = 32


@dataclass(frozen=True, eq=False)
class OperandReads:
    """Reads of one operand by all warps of a block."""

    places: Ints
    """Index of the first element that each lane reads: int64[instructions, warps, 32, rank]."""
    lanes: int
    """Lanes that give an address: 32, or 8 for each matrix of an ldmatrix."""
    bytes: int
    """Bytes that a lane names: 16 for ldmatrix."""
    by_matrices: bool


def operand_reads(op: ir.Gemm, which: Operand, layout: SharedLayout, threads: int) -> OperandReads:
    """Return how a product reads an operand of shared memory with a layout."""
    value = op.a if which == "a" else op.b
    size = value.dtype.bytes
    held = step_layout(op, threads, which)
    found = find_matrices(held, value.dtype) if _is_aligned(layout, size) else None
    rows, columns = matrix_dims(value)
    along = columns if is_k_major(op, which) else rows
    steps = op.mnk[2] * size // ROW // 2
    if found is None:
        table = held.table().transpose(1, 0, 2)
    else:
        first = found.lanes.table()[:, 0]
        counts = [range(run.count) for run in found.runs]
        moved = [
            sum((np.array(run.step) * at for run, at in zip(found.runs, each)), np.zeros(1, int))
            for each in itertools.product(*counts)
        ]
        table = np.stack([first + each for each in moved])
    places = np.repeat(table[None], steps, axis=0)
    places[..., along] += (np.arange(steps) * (2 * ROW // size))[:, None, None]
    places = places.reshape(-1, threads // _WARP, _WARP, table.shape[-1])
    if found is None:
        return OperandReads(places, _WARP, size, by_matrices=False)
    return OperandReads(places, 8 * found.at_once, ROW, by_matrices=True)


def _is_aligned(layout: SharedLayout, size: int) -> bool:
    """Return whether rows of matrices are at addresses that ldmatrix takes."""
    pitch = layout.swizzle or layout.panel * size
    return pitch % ROW == 0 and all(stride % ROW == 0 for stride in layout.lead_strides())
