"""Rows of tiles in shared memory that no statement of a kernel accesses.

In: a kernel.  Out: by buffer, the bytes behind the last row that anything reads or writes.

    %x = alloc shared [97008]       view %x, [0] of 2064; load %x, [%i + %tap], at most 2063
                                    rows from 2064 on are never used
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

from tileprof.analyzer.tiles.padding import combined
from tileprof.kernel_ir import Op, TileKernel

_ACCESSES = ("load", "store", "view", "atomic")


@lru_cache(maxsize=16)
def unused_bytes(kernel: TileKernel) -> Mapping[str, int]:
    """Return such bytes by buffer; none for a buffer of which some use is not known."""
    buffers = {
        op.result: op for op in kernel.named("alloc")
        if "shared" in op.words and op.result in kernel.types
    }  # fmt: skip
    known = dict[str, tuple[int, int]]()
    used = dict.fromkeys(buffers, 0)
    for op, _ in kernel.nested:
        _learn(op, known)
        for name in {*op.operands, op.source} & set(used):
            if op.name not in _ACCESSES or not op.listed or op.result == name:
                del used[name]
                continue
            low, high = known.get(op.listed[0], (-1, 0))
            sizes = op.numbers("sizes")
            if low < 0:
                del used[name]
            else:
                used[name] = max(used[name], high + (sizes[0] if sizes else 1))
    found = dict[str, int]()
    for name, rows in used.items():
        held = kernel.types[name]
        extents = held.extents or ()
        if extents and 0 < rows < extents[0]:
            found[name] = (extents[0] - rows) * prod(extents[1:]) * held.bits // 8
    return found


def _learn(op: Op, known: dict[str, tuple[int, int]]) -> None:
    """Keep between which numbers a value is."""
    given = [known.get(each) for each in op.operands]
    if op.name in ("launch", "parallel"):
        for name, extent in zip(op.arguments, op.listed):
            if (stop := known.get(extent)) is not None:
                known[name] = 0, stop[1] - 1
    elif op.name == "for" and len(given) > 1 and op.arguments:
        if given[0] is not None and given[1] is not None:
            known[op.arguments[0]] = given[0][0], max(given[0][0], given[1][1] - 1)
    elif op.index is not None:
        known[op.result] = op.index, op.index
    elif len(given) == 2 and (bounds := combined(op.name, *given)) is not None:
        known[op.result] = bounds
