"""How far the tiles of a kernel reach beyond its tensors, as its IR has them.

In: a kernel's IR as text.  Out: for each matrix product, and each guarded access to global memory,
the part of its tiles that is inside. Indices are bounded by intervals: sums and products of block
indices, loop variables and constants. Where a bound is known at launch only, or an index may be
negative (the rim of a window), nothing is said of that dimension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

__all__ = ["Outside", "Padded", "padded_ops"]

_Interval: TypeAlias = tuple[int, int]
_PARAMETER = re.compile(r"(%\w+): (?:out )?global<([\d, ]+), \w+")
_RESULT = re.compile(r"^(%\w+) = (\w+) (.*)$")
_NAMED = re.compile(r"%\w+")
_RANGES = re.compile(r"^(?:launch|parallel) \[([^\]]*)\].* body\((.*)\) \{$")
_LOOP = re.compile(r"^for \w+ (%\w+), (%\w+), %\w+.* body\((%\w+): index\) \{$")
_ACCESS = re.compile(r"\b(view|load|store|atomic)\b[^\[]*?(%\w+), \[([^\]]*)\]")
_SIZES = re.compile(r"sizes = \[([\d, ]+)\]")
_COPY = re.compile(r"^copy (%\w+), (%\w+)")
_GEMM = re.compile(r"^gemm (%\w+), (%\w+), %\w+(.*)$")
_MATRIX = 2
"""Dimensions of an operand."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A dimension of a tensor that tiles reach beyond."""

    tensor: str
    dim: int
    extent: int
    reach: int
    """Where the last tile ends."""


@dataclass(frozen=True, slots=True)
class Padded:
    """An op with tiles that are partly outside."""

    op: str
    """`gemm`, `load X`, `store X`, `atomic X`, or `copy X` for either direction."""
    number: int
    """Among the products of the kernel."""
    inside: float
    """Of its work, the part that is inside of all tensors."""
    beyond: tuple[Outside, ...]

    @property
    def tensor(self) -> str:
        """The first that it reaches beyond."""
        return self.beyond[0].tensor


def padded_ops(ir: str) -> tuple[Padded, ...]:
    """The ops with tiles that reach beyond their tensors, those that waste most first."""
    return tuple(sorted(_Reader().read(ir), key=lambda each: each.inside))


@dataclass
class _Reader:
    """What is known at a line of the IR."""

    extents: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By tensor."""
    known: dict[str, _Interval] = field(default_factory=dict)
    views: dict[str, tuple[Outside | None, ...]] = field(default_factory=dict)
    """By view, or by the buffer that it is copied to: what its two dimensions reach beyond."""
    guards: list[bool] = field(default_factory=list)
    """Of each block that is open, whether it is that of an `if`."""
    products: int = 0

    def read(self, ir: str) -> Iterator[Padded]:
        header, _, body = ir.partition("\n")
        for name, shape in _PARAMETER.findall(header):
            self.extents[name] = tuple(map(int, shape.split(",")))
        for line in map(str.strip, body.splitlines()):
            self._nested(line)
            self._ranges(line)
            self._value(line)
            yield from self._access(line)
            yield from self._product(line)

    def _nested(self, line: str) -> None:
        if line.startswith("}") and self.guards:
            self.guards.pop()
        if line.endswith("{"):
            self.guards.append(line.startswith("if ") or "otherwise" in line)

    def _ranges(self, line: str) -> None:
        if found := _RANGES.match(line):
            names = _NAMED.findall(found[2])
            for name, extent in zip(names, _NAMED.findall(found[1])):
                self._between(name, (0, 0), self.known.get(extent))
        elif found := _LOOP.match(line):
            self._between(found[3], self.known.get(found[1]), self.known.get(found[2]))

    def _between(self, name: str, low: _Interval | None, stop: _Interval | None) -> None:
        if low is not None and stop is not None and stop[1] > low[0]:
            self.known[name] = low[0], stop[1] - 1

    def _value(self, line: str) -> None:
        found = _RESULT.match(line)
        if not found:
            return
        name, kind, rest = found.groups()
        if kind == "constant" and (number := re.match(r"(-?\d+) : index", rest)):
            self.known[name] = int(number[1]), int(number[1])
            return
        given = [self.known.get(each) for each in _NAMED.findall(rest)]
        if len(given) == 2 and given[0] is not None and given[1] is not None:
            bounds = _combined(kind, given[0], given[1])
            if bounds is not None:
                self.known[name] = bounds

    def _access(self, line: str) -> Iterator[Padded]:
        found = _ACCESS.search(line)
        if not found or found[2] not in self.extents:
            return
        kind, tensor, name = found[1], found[2], line.partition(" ")[0]
        sizes = _SIZES.search(line)
        lengths = tuple(map(int, sizes[1].split(","))) if sizes else ()
        guarded = "in_bounds = true" not in line or any(self.guards)
        beyond = self._beyond(tensor, _NAMED.findall(found[3]), lengths) if guarded else ()
        if kind == "view":
            wide = tuple(each for each, length in zip(beyond, lengths) if length > 1)
            self.views[name] = wide if len(wide) == _MATRIX else beyond[-_MATRIX:]
            kind = "copy"
        if any(beyond):
            yield _padded(f"{kind} {tensor[1:]}", self.products, beyond)

    def _beyond(
        self, tensor: str, indices: list[str], lengths: tuple[int, ...]
    ) -> tuple[Outside | None, ...]:
        found = list[Outside | None]()
        for dim, (index, extent) in enumerate(zip(indices, self.extents[tensor])):
            low, high = self.known.get(index, (-1, 0))
            reach = high + (lengths[dim] if lengths else 1)
            outside = Outside(tensor[1:], dim, extent, reach)
            found.append(outside if low >= 0 and reach > extent else None)
        return tuple(found)

    def _product(self, line: str) -> Iterator[Padded]:
        if copied := _COPY.match(line):
            self.views[copied[2]] = self.views.get(copied[1], ())
        if not (found := _GEMM.match(line)):
            return
        # The dimension that is summed over is one of both operands, and counts once.
        kept = slice(-2, -1) if "transpose_b = true" in found[3] else slice(-1, None)
        beyond = (*self.views.get(found[1], ()), *self.views.get(found[2], ())[kept])
        if any(beyond):
            yield _padded("gemm", self.products, beyond)
        self.products += 1


def _combined(kind: str, a: _Interval, b: _Interval) -> _Interval | None:
    """The interval of a sum, a difference, a product, or the lesser of two."""
    if kind == "add":
        return a[0] + b[0], a[1] + b[1]
    if kind == "sub":
        return a[0] - b[1], a[1] - b[0]
    if kind == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if kind == "mul":
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    return None


def _padded(op: str, number: int, beyond: tuple[Outside | None, ...]) -> Padded:
    held = tuple(each for each in beyond if each is not None)
    return Padded(op, number, prod(each.extent / each.reach for each in held), held)
