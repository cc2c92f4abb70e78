"""Number of blocks that run at once: as many as keep their buffers and temporaries in the cache."""

from __future__ import annotations

import math

from tileprof import ir

from .facts import evaluate

__all__ = ["batch_size"]

TARGET = 2 << 20
"""Bytes of buffers and temporaries of a batch."""
MOST = 1 << 16
"""Blocks at most."""
GUESS = 256
"""The extent of a `parallel` that is not known before its block runs."""


def batch_size(launch: ir.Launch, known: dict[ir.Value, object]) -> int:
    """Blocks of a launch to run at once; `known` are the values outside it."""
    return max(1, min(TARGET // max(_bytes(launch.body, known), 1), MOST))


def _bytes(block: ir.Block, known: dict[ir.Value, object], points: int = 1) -> int:
    """Bytes that a block of ops holds for one block of the grid: its buffers, and one temporary of
    8 bytes for each point of its largest `parallel`."""
    buffers, temporaries = 0, 0
    for op in block.ops:
        match op:
            case ir.Alloc(shape=shape, dtype=dtype):
                buffers += math.prod(shape) * dtype.bytes * points
            case ir.Parallel(extents=extents, body=body):
                sizes = [evaluate(e, known) for e in extents]
                box = points * math.prod(max(GUESS if s is None else s, 1) for s in sizes)
                temporaries = max(temporaries, box * 8 + _bytes(body, known, box))
            case _:
                inner = [_bytes(b, known, points) for b in op.blocks()]
                temporaries = max(temporaries, *inner, 0)
    return buffers + temporaries
