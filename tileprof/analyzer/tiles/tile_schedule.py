"""What a tile kernel reads from memory, by the order of its blocks.

In: a kernel's IR as text, which tells what each block reads.  Out: `Schedule`, which tells what
comes from memory in some order of blocks.

Loads of single elements in a `parallel` are panels as well: all that one load reads over the
points. Those whose index no sum or product tells are left out. An index that is itself loaded may
be any.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tileprof.analyzer.tiles.panels import Numbers, Panels, Schedule

__all__ = ["schedule_of"]

_MOST_BLOCKS = 1 << 18
_CONSTANT = re.compile(r"(%\w+) = constant (-?\d+) : index")
_BINARY = re.compile(r"(%\w+) = (\w+) (%\w+), (%\w+) : index")
_LAUNCH = re.compile(r"launch \[([^\]]*)\].* body\((.*)\) \{")
_LOOP = re.compile(r"for (\w+) (%\w+), (%\w+), (%\w+).* body\((%\w+): index\) \{")
_VIEW = re.compile(
    r"(%\w+) = view (%\w+), \[([^\]]*)\] \{sizes = \[([\d, ]+)\].*\} : global<.*, [a-z]+(\d+)\w*"
)
_COPY = re.compile(r"copy (%\w+), %\w+")
_POINTS = re.compile(r"^ *parallel \[([^\]]*)\].* body\((.*)\) \{")
_LOAD = re.compile(r"(%\w+) = load (%\w+), \[([^\]]*)\].*: [a-z]+(\d+)\w*$")
_ONTO = ("add", "sub", "mul")
"""Operations that keep what differs apart."""
_PARAMETER = re.compile(r"(%\w+): (?:out )?global<([\d, ]+), \w+")
_OPERATIONS: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide,
    "floormod": np.mod, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@lru_cache(maxsize=4)
def schedule_of(ir: str) -> Schedule | None:
    """What a kernel of one launch says; None where extents are known at launch only, or where
    nothing is read by tiles."""
    reader = _Reader()
    try:
        for line in ir.splitlines():
            reader.line(line)
    except _Unknown:
        return None
    if reader.launches != 1 or not reader.panels:
        return None
    return Schedule(reader.grid, tuple(reader.panels))


class _Unknown(Exception):
    """A number that the text does not tell."""


@dataclass(frozen=True, eq=False)
class _Value:
    """By block, a number where all loops are at their first turn; the loops that it goes with."""

    first: Numbers
    loops: frozenset[str] = frozenset()
    apart: bool = True
    """Whether each turn of them has a number of its own."""


class _Reader:
    """Lines of IR, one after the other."""

    def __init__(self) -> None:
        self.launches = 0
        self.grid: tuple[int, ...] = ()
        self.panels: list[Panels] = []
        self.values: dict[str, _Value] = {}
        self.turns: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.views: dict[str, Panels] = {}
        self.loaded: set[tuple[str, ...]] = set()
        self.indices: dict[str, frozenset[str]] = {}

    def line(self, text: str) -> None:
        """One more."""
        if text.startswith("kernel "):
            found = _PARAMETER.findall(text)
            self.shapes = {name: _numbers(shape) for name, shape in found}
        elif m := _CONSTANT.search(text):
            self.values[m[1]] = _Value(np.array(int(m[2])))
        elif m := _LAUNCH.search(text):
            self._launch(m[1].split(", "), re.findall(r"%\w+", m[2]))
        elif m := _LOOP.search(text):
            self._loop(m[2], m[3], m[4], m[5])
        elif m := _POINTS.search(text):
            self._points(m[1].split(", "), re.findall(r"%\w+", m[2]))
        elif m := _LOAD.search(text):
            self._load(m[2], m[3].split(", "), int(m[4]))
            self.indices[m[1]] = self._loops_of(m[3].split(", "))
        elif m := _BINARY.search(text):
            self._binary(m[1], m[2], m[3], m[4])
        elif m := _VIEW.search(text):
            self._view(m[1], m[2], m[3].split(", "), _numbers(m[4]), int(m[5]))
        elif (m := _COPY.search(text)) and m[1] in self.views:
            self.panels.append(self.views[m[1]])

    def _value(self, name: str) -> _Value:
        if name not in self.values:
            raise _Unknown
        return self.values[name]

    def _number(self, name: str) -> int:
        held = self._value(name)
        if held.loops or held.first.ndim:
            raise _Unknown
        return int(held.first)

    def _launch(self, extents: list[str], names: list[str]) -> None:
        self.launches += 1
        self.grid = tuple(self._number(each) for each in extents)
        if math.prod(self.grid) > _MOST_BLOCKS:
            raise _Unknown
        left = np.arange(math.prod(self.grid))
        for name, extent in zip(names, self.grid):
            self.values[name] = _Value(left % extent)
            left = left // extent

    def _loop(self, start: str, stop: str, step: str, name: str) -> None:
        begin, end, by = (self._number(each) for each in (start, stop, step))
        self.turns[name] = max(0, -(-(end - begin) // by))
        self.values[name] = _Value(np.array(begin), frozenset([name]))

    def _binary(self, name: str, kind: str, a: str, b: str) -> None:
        if kind in _OPERATIONS and a in self.values and b in self.values:
            left, right = self.values[a], self.values[b]
            first = _OPERATIONS[kind](left.first, right.first)
            loops = left.loops | right.loops
            apart = left.apart and right.apart and (kind in _ONTO or not loops)
            self.values[name] = _Value(np.asarray(first), loops, apart)

    def _points(self, extents: list[str], names: list[str]) -> None:
        for name, extent in zip(names, extents):
            held = self.values.get(extent)
            if held is not None and not held.loops and not held.first.ndim:
                self.turns[name] = int(held.first)
                self.values[name] = _Value(np.array(0), frozenset([name]))

    def _load(self, tensor: str, names: list[str], bits: int) -> None:
        if tensor not in self.shapes or not self.launches or (tensor, *names) in self.loaded:
            return  # of a buffer of the block; or what is read twice at once, and comes once
        at_random = [name not in self.values and name in self.indices for name in names]
        known = [name for name, loaded in zip(names, at_random) if not loaded]
        if any(name not in self.values or not self.values[name].apart for name in known):
            return
        self.loaded.add((tensor, *names))
        shape = self.shapes[tensor]
        starts = ["" if loaded else name for name, loaded in zip(names, at_random)]
        sizes = tuple(n if loaded else 1 for n, loaded in zip(shape, at_random))
        panels = self._panels(tensor, starts, sizes, bits)
        if any(at_random):
            points = math.prod(self.turns[each] for each in self._loops_of(names))
            panels = replace(panels, asked=points * bits / 8)
        self.panels.append(panels)

    def _loops_of(self, names: list[str]) -> frozenset[str]:
        held = (
            self.values[each].loops if each in self.values else self.indices.get(each, frozenset())
            for each in names
        )
        return frozenset[str]().union(*held)

    def _view(
        self, name: str, tensor: str, at: list[str], sizes: tuple[int, ...], bits: int
    ) -> None:
        if tensor in self.shapes and self.launches:  # else of a buffer of the block
            self.views[name] = self._panels(tensor, at, sizes, bits)

    def _panels(self, tensor: str, at: list[str], sizes: tuple[int, ...], bits: int) -> Panels:
        starts = [self._value(each) if each else _Value(np.array(0)) for each in at]
        blocks = math.prod(self.grid)
        rows = np.stack([np.broadcast_to(each.first, blocks) for each in starts], axis=1)
        unique, number = np.unique(rows, axis=0, return_inverse=True)
        room = np.array(self.shapes[tensor]) - unique
        tile = np.clip(np.minimum(room, sizes), 0, None).prod(axis=1) * bits / 8
        loops = frozenset[str]().union(*(each.loops for each in starts))
        size = tile * math.prod(self.turns[each] for each in loops)
        return Panels(tensor, number.reshape(-1), size)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(", "))
