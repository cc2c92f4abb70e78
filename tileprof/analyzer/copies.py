"""Copies between a host and its device, in the tree of a program.

In: `Contexts`.  Out: masks of copies, and of gaps of the device that they have made; their rate.
"""

from __future__ import annotations

import numpy as np

from tileprof.analyzer.contexts import AFTER_COPY, Contexts, Mask

__all__ = ["PAGEABLE", "PINNED", "READS", "SIZES", "copies", "held_up", "rate"]

READS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")
SIZES = ("aten::nonzero", "aten::masked_select", "aten::unique", "aten::_unique2")
"""Operations that read a number of the device, and those that read how large a result is."""
PAGEABLE, PINNED = "pageable", "pinned"
"""Of which memory of the host a copy is, as its name says."""


def held_up(tree: Contexts) -> Mask:
    """Gaps of launches, not of copies, that came late after a copy held the host up."""
    return tree.idle(AFTER_COPY) & ~tree.compiling & ~tree.beside(tree.kind("memcpy"))


def copies(tree: Contexts, *words: str, again: bool = True) -> Mask:
    """Copies with these words in their names; with `again` those that are of each step."""
    named = tree.where(
        lambda symbol: symbol.kind == "memcpy" and all(word in symbol.name for word in words)
    )
    if again:
        reads = tree.where(lambda symbol: symbol.kind == "op" and symbol.name in READS + SIZES)
        named &= tree.steps.inside & ~tree.compiling & ~tree.below(reads)
        for node in np.flatnonzero(named).tolist():
            named[node] = tree.repeated(node, float(tree.count[node]))
    return named


def rate(tree: Contexts, nodes: Mask) -> float:
    """Of copies, in GB/s; 0 where nothing is known."""
    time, moved = (float(column[nodes].sum()) for column in (tree.own("time"), tree.own("bytes")))
    return moved / time if time else 0.0
