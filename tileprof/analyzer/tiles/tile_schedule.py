"""What a tile kernel reads from memory, by the order of its blocks.

In: a kernel, which tells what each block reads.  Out: `Schedule`, which tells
what comes from memory in some order of blocks.

Loads of single elements in a `parallel` are panels as well: all that one load reads over the
points. Those whose index no sum or product tells are left out. An index that is itself loaded may
be any. Of loops in turn each has its part of a tensor's tiles, and the parts add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tileprof.analyzer.tiles.panels import Panels, Schedule
from tileprof.analyzer.tiles.values import Value, values_of
from tileprof.kernel_ir import COPIES, Op, TileKernel


@lru_cache(maxsize=4)
def schedule_of(kernel: TileKernel) -> Schedule | None:
    """What a kernel of one launch says; None where extents are known at launch only, or loops turn
    as often as a block says, or where nothing is read by tiles."""
    launches = sum(1 for _ in kernel.named("launch"))
    if launches != 1 or not values_of(kernel).grid:
        return None
    reader = _Reader(kernel)
    try:
        for op, _ in kernel.nested:
            reader.read(op)
    except _Unknown:
        return None
    return Schedule(reader.values.grid, tuple(reader.panels)) if reader.panels else None


class _Unknown(Exception):
    """A number that the text does not tell."""


class _Reader:
    """Ops, one after the other."""

    def __init__(self, kernel: TileKernel) -> None:
        self.values = values_of(kernel)
        self.extents = kernel.extents
        self.panels: list[Panels] = []
        self.views: dict[str, Panels] = {}
        self.loaded: set[tuple[str, ...]] = set()
        self.indices: dict[str, frozenset[str]] = {}
        """By value that was loaded, the loops that its indices go with."""

    def read(self, op: Op) -> None:
        """One more."""
        if op.name == "for":
            self._turns(op.arguments)
        elif op.name == "load" and op.lists:
            self._load(op)
            self.indices[op.result] = self._loops_of(op.listed)
        elif op.name == "view" and op.source in self.extents:  # else of a buffer of the block
            sizes, bits = op.numbers("sizes"), op.type.bits
            self.views[op.result] = self._panels(op.source, op.listed, sizes, bits)
        elif op.name in COPIES and op.source in self.views:
            self.panels.append(self.views[op.source])

    def _turns(self, names: Sequence[str]) -> int:
        """Of loops in each other."""
        held = [self.values.turns.get(name) for name in names]
        known = [int(each) for each in held if each is not None and not each.ndim]
        if len(known) < len(held):
            raise _Unknown
        return math.prod(known)

    def _load(self, op: Op) -> None:
        tensor, names, held = op.source, op.listed, self.values.held
        if tensor not in self.extents or (tensor, *names) in self.loaded:
            return  # of a buffer of the block; or what is read twice at once, and comes once
        at_random = [name not in held and name in self.indices for name in names]
        known = [name for name, loaded in zip(names, at_random) if not loaded]
        if any(name not in held or not held[name].apart for name in known):
            return
        self.loaded.add((tensor, *names))
        starts = ["" if loaded else name for name, loaded in zip(names, at_random)]
        sizes = tuple(n if loaded else 1 for n, loaded in zip(self.extents[tensor], at_random))
        panels = self._panels(tensor, starts, sizes, op.type.bits)
        if any(at_random):
            points = self._turns([*self._loops_of(names)])
            panels = replace(panels, asked=points * op.type.bits / 8)
        self.panels.append(panels)

    def _loops_of(self, names: Sequence[str]) -> frozenset[str]:
        held = self.values.held
        loops = (
            held[each].loops if each in held else self.indices.get(each, frozenset[str]())
            for each in names
        )
        return frozenset[str]().union(*loops)

    def _value(self, name: str) -> Value:
        if name and name not in self.values.held:
            raise _Unknown
        return self.values.held[name] if name else Value(np.array(0))

    def _panels(
        self, tensor: str, at: Sequence[str], sizes: tuple[int, ...], bits: int
    ) -> Panels:  # fmt: skip
        starts = [self._value(each) for each in at]
        blocks = math.prod(self.values.grid)
        rows = np.stack([np.broadcast_to(each.first, blocks) for each in starts], axis=1)
        unique, number = np.unique(rows, axis=0, return_inverse=True)
        room = np.array(self.extents[tensor]) - unique
        tile = np.clip(np.minimum(room, sizes), 0, None).prod(axis=1) * bits / 8
        loops = frozenset[str]().union(*(each.loops for each in starts))
        return Panels(tensor, number.reshape(-1), tile * self._turns([*loops]))
