"""Launches in a row of a tile kernel that do the same on parts of their tensors.

In: a kernel.  Out: `Cut` for each such row. Launches are alike if they do the same but for how
indices are worked out, where the first part has no sum that others have; they are parts of one if
they read and write the same tensors, and none reads what they write.

    launch [%c4, %c128] body(%bx, %by) { … %bx + 0 … }        four launches of 512 blocks, in place
    launch [%c4, %c128] body(%bx, %by) { … %bx + 4 … }        of one of 2,048
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from tileprof.analyzer.tiles.effects import Effect, Effects, effects_of
from tileprof.kernel_ir import EXPLANATIONS, Op, TileKernel

_INDEX = "index"
_BY_PART = ("in_bounds",)
"""Attributes of an access that parts of one launch may differ in: the last ones reach beyond."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Launches that could be one."""

    first: Op
    number: int
    """Which of the kernel's launches that is, from 0."""
    count: int


@lru_cache(maxsize=2)
def cut_launches(kernel: TileKernel) -> tuple[Cut, ...]:
    """All rows of two launches or more."""
    launches = [op for op in kernel.body.ops if op.name == "launch"]
    if len(launches) < 2:
        return ()
    effects = effects_of(kernel)
    held = [(op, effects.of(op)) for op in launches]
    found, number = list[Cut](), 0
    for _, group in groupby(held, key=lambda each: _key(*each)):
        row = list(group)
        if len(row) > 1 and _apart(effects, *row[0]):
            found.append(Cut(row[0][0], number, len(row)))
        number += len(row)
    return tuple(found)


def _apart(effects: Effects, launch: Op, effect: Effect) -> bool:
    """Whether launches of the same tensors do not wait for one another's results."""
    known = all(effects.of(each).known for block in launch.blocks for each in block.ops)
    return known and not effect.read & effect.written


def _key(op: Op, effect: Effect) -> Hashable:
    own = {name for each in op.walk() for name in each.results}
    return _shape(op), effect.read - own, effect.written - own


def _counts(op: Op) -> bool:
    """Whether an op is more than an index, or a constant, which stands where it is first used."""
    return op.name != "constant" and (op.type.dtype != _INDEX or op.name == "load")


def _shape(op: Op) -> Hashable:
    """What an op is, without its values, and without indices inside."""
    ignored = (*EXPLANATIONS, *_BY_PART)
    said = sorted((k, repr(v)) for k, v in op.attributes.items() if k not in ignored)
    parts = tuple(tuple(_shape(each) for each in block.ops if _counts(each)) for block in op.blocks)
    lists = tuple(map(len, op.lists))
    return op.name, repr(op.words), len(op.operands), lists, tuple(said), op.types, parts
