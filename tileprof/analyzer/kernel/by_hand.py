"""Tiles that the warps of a loop copy by themselves, through registers, before they use them.

In: a loop of a kernel's code.  Out: loads whose registers are stored to shared memory, and what the
loop spends because nothing is on its way meanwhile.

All warps of a block load, store, and meet at a barrier, and only then use the tile: latency, the
copy's instructions, and the waits for the last warp follow the products of the turn before, and
nothing overlaps. So all of it goes where tiles come by themselves, and products stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.machine.code import COPIES, PRODUCTS, KernelCode

MATRIX = (*PRODUCTS, "HMMA", "IMMA", "DMMA", "QMMA")
"""Matrix products, of a warp group or of a warp."""
_LOADED = re.compile(r"\bLDG(\S*) (R\d+),")
_STORED = re.compile(r"\bSTS(\S*) \[.*\], (R\d+)")
_LONG, _MEET = "long_scoreboard", "barrier"


def has_products(code: KernelCode, loop: range) -> bool:
    """Whether it multiplies matrices."""
    return any(code.instructions[index].name in MATRIX for index in loop)


def through_registers(code: KernelCode, loop: range) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The loads of a loop whose registers it stores to shared memory, and these stores.

    None where it has copies that run ahead, or no barrier, without which nobody else uses them;
    and none of those that are on their way during a product.
    """
    inside = [code.instructions[index] for index in loop]
    if any(each.name in COPIES for each in inside) or all(e.name != "BAR" for e in inside):
        return (), ()
    loaded = {m[2]: each.index for each in inside if (m := _LOADED.search(each.text))}
    stored = [(m[2], each.index) for each in inside if (m := _STORED.search(each.text))]
    products = [each.index for each in inside if each.name in MATRIX]
    pairs = [(loaded[register], at) for register, at in stored if register in loaded]
    kept = [(load, at) for load, at in pairs if not _covers(load, at, products)]
    return tuple(sorted({load for load, _ in kept})), tuple(at for _, at in kept)


def _covers(load: int, store: int, products: Collection[int]) -> bool:
    """Whether a product is begun between a load and its store, which may be the next turn's."""
    if load < store:
        return any(load < each < store for each in products)
    return any(each > load or each < store for each in products)


def lost(code: KernelCode, loop: range, own: Collection[int]) -> Weights:
    """By row, samples of a loop that its copies take: the instructions `own` of them, waits for
    what is loaded, and for other warps that wait for it.

    A warp that waits for its products does that at them, or at `WARPGROUP`.
    """
    products = {i for i in loop if code.instructions[i].name in (*MATRIX, "WARPGROUP")}
    others = [index for index in loop if index not in products]
    mask = code.rows(set(own) - products) | code.rows(loop, (_LONG,))
    mask |= code.rows([*others, *_after_barriers(code, loop)], (_MEET,))
    return np.asarray(code.taken(mask))


def _after_barriers(code: KernelCode, loop: range) -> list[int]:
    """What comes next after each barrier of the block, `WARPGROUP.ARRIVE` left out: it is where
    samples of the wait are."""
    found, open_ = list[int](), False
    for index in loop:
        each = code.instructions[index]
        if each.name == "BAR":
            open_ = True
        elif open_ and each.opcode != "WARPGROUP.ARRIVE":
            found.append(index)
            open_ = False
    return found
