"""Tiles that are brought together with those of a loop's first iteration.

    copy Q → q  (loads and stores)           copy Q → q  (cp.async)
    for k (pipelined S)                      load of the first iterations, q in the first group
      gemm q, A_s                      ⇒     for k
                                               wait until the group of k is there
                                               gemm q, A_s

A product of the loop reads such a tile.  Nothing touches it before the loop waits for the tiles of
an iteration, so that no thread has to wait for it where it stands.  Where the loop may not run, a
wait stands behind it (`grouped_copies.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tileprof import ir
from tileprof.ir.memory import base

from .roles import written_globals


def copies_with_first(
    launch: ir.Launch, runs_ahead: Callable[[ir.For], bool]
) -> dict[ir.Copy, ir.For]:
    """Return the copies that loops which run ahead by cp.async may wait for, with these loops."""
    found: dict[ir.Copy, ir.For] = {}
    written = written_globals(launch)
    for block in _blocks(launch.body):
        for at, loop in enumerate(block.ops):
            if not isinstance(loop, ir.For) or not runs_ahead(loop):
                continue
            read = {base(v) for o in ir.walk(loop.body) if isinstance(o, ir.Gemm)
                    for v in (o.a, o.b)}  # fmt: skip
            touched: set[ir.Value] = set()
            for op in reversed(block.ops[:at]):
                if (
                    isinstance(op, ir.Copy)
                    and op.target in read - touched
                    and base(op.source).buffer.space == "global"
                    and base(op.source) not in written
                ):
                    found.setdefault(op, loop)
                touched |= {base(t.value) for t in op.all_accesses()}
    return found


def _blocks(block: ir.Block) -> Iterator[ir.Block]:
    yield block
    for op in ir.walk(block):
        yield from op.blocks()
