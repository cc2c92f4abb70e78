"""What a block spends at the ends of its tile because shared memory does not hold two tiles' parts.

In: a kernel, the bytes of shared memory that a change frees.  Out: samples that go where a block
takes tile after tile.

A block of a persistent kernel begins once, and its loads of the next tile are under way while it
stores this one. One that has a single tile waits at its begin until barriers are there and others
have come, and at its exit until its stores have left shared memory. The compiler says how many
bytes a persistent block would need, and how many there are:

    launch: a block for each tile, not persistent: rings and stored chunks need 247,808 bytes, …
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, KernelCode
from tileprof.analyzer.machine.loops import loops_with
from tileprof.kernel_ir import TileKernel
from tileprof.remarks.launches import MemoryForStaged, PersistentCandidate


def fragment_bytes(kernel: TileKernel, names: Iterable[str]) -> int:
    """Of the largest of these fragments; 0 where none is known."""
    types = (kernel.types.get(f"%{name}") for name in names)
    known = (each for each in types if each is not None and each.extents)
    return max((prod(each.extents or ()) * each.bits // 8 for each in known), default=0)


def tile_ends(case: KernelCase, code: KernelCode, freed: int) -> Weights | None:
    """By row, waits before the first loop of products, and at the exit; None where so many bytes
    are not what keeps blocks from taking several tiles."""
    loops = loops_with(code, PRODUCTS)
    if not loops or not any(needed - freed <= held < needed for needed, held in _told(case)):
        return None
    begin = [index for index in range(loops[0][0]) if not code.instructions[index].depth]
    ends = code.rows([*begin, *code.named("EXIT")])
    return code.taken(ends & ~code.rows(reasons=(ISSUED,)))


def _told(case: KernelCase) -> Iterable[tuple[int, int]]:
    """Bytes that persistent blocks would need, and those that there are."""
    for remark in case.remarks:
        for reason in remark.reasons(MemoryForStaged, PersistentCandidate):
            yield reason.needed, reason.there
