"""Bytes that come from memory where blocks read panels in some order.

In: what each block reads; the order of blocks, how many run at once.  Out: bytes.

A block reads panels: all tiles that one view goes through in the block's loops. Blocks that run at
once go through their panels in step, so a panel that several read comes once. A panel of an earlier
wave is still there if the waves since then, this one included, read less than the L2 holds.

An index that is itself loaded may be any: what all blocks of the same other indices may read is a
slice, of which each asks for some at random. What is asked for again is there as far as the L2
holds the slices of one wave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.numbers.shared import L2_KEEPS
from tileprof.analyzer.tiles.values import Numbers


@dataclass(frozen=True, eq=False)
class Panels:
    """What each block reads through one view."""

    tensor: str
    number: Numbers
    """By block, in the order of the grid, first axis fastest: blocks with one number share it."""
    size: npt.NDArray[np.float64]
    """By number, bytes."""
    asked: float = 0.0
    """Of these, what each block reads somewhere in them; 0 where it reads all."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The blocks of a launch and what they read."""

    grid: tuple[int, ...]
    panels: tuple[Panels, ...]

    def order(self, group: int, axes: Sequence[int] = ()) -> Numbers:
        """Blocks in the order in which they begin: `group` rows of the second axis go down before
        the next column of the first. `axes` tells which axis is first, second, …, if not these."""
        blocks = np.arange(math.prod(self.grid))
        if len(self.grid) < 2:
            return blocks
        numbers = blocks.reshape(self.grid[::-1]).transpose()
        numbers = numbers.transpose(tuple(axes)) if axes else numbers
        columns, rows = numbers.shape[:2]
        plane, inside = np.divmod(blocks, columns * rows)
        first = inside // (columns * group) * group
        height = np.minimum(rows - first, group)
        column, row = np.divmod(inside % (columns * group), height)
        begun = plane * columns * rows + (first + row) * columns + column
        return np.asarray(numbers.transpose().reshape(-1)[begun])

    @property
    def once(self) -> float:
        """Bytes of panels that blocks read whole, each once: no order reads less."""
        return sum(float(each.size.sum()) for each in self.panels if not each.asked)

    def read(self, group: int, running: int, axes: Sequence[int] = ()) -> float:
        """Bytes that come from memory, where so many blocks run at once."""
        order = self.order(group, axes)
        whole_ones = [each for each in self.panels if not each.asked]
        slices = (each for each in self.panels if each.asked)
        scattered = sum(_scattered(each, order, running) for each in slices)
        return scattered + _panels_read(whole_ones, order, running)


def _scattered(panels: Panels, order: Numbers, running: int) -> float:
    """Bytes of elements that are read at random, each wave of its own slices."""
    waves = (order[begin : begin + running] for begin in range(0, len(order), running))
    at_once = np.mean([panels.size[np.unique(panels.number[wave])].sum() for wave in waves])
    asked, whole = panels.asked * len(order), float(panels.size.sum())
    once = whole * -math.expm1(-asked / whole)
    return once + (asked - once) * max(0.0, 1 - L2_KEEPS / float(at_once))


def _panels_read(held: Sequence[Panels], order: Numbers, running: int) -> float:
    """Bytes of panels that blocks read whole."""
    last = [np.full(len(each.size), -1) for each in held]
    passed, whole = [0.0], 0.0
    for wave, begin in enumerate(range(0, len(order), running)):
        now = [np.unique(each.number[order[begin : begin + running]]) for each in held]
        passed.append(passed[-1] + sum(p.size[n].sum() for p, n in zip(held, now)))
        until = np.array(passed)
        for panels, used, before in zip(held, now, last):
            gone = (before[used] < 0) | (until[-1] - until[before[used] + 1] > L2_KEEPS)
            whole += float(panels.size[used][gone].sum())
            before[used] = wave
    return whole
