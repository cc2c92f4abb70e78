"""How far the tiles of a kernel reach beyond its tensors, as its IR has them.

In: a kernel.  Out: for each matrix product, and each guarded access to global
memory, the part of its tiles that is inside. Indices are bounded by intervals: sums and products of
block indices, loop variables and constants. Where a bound is known at launch only, or an index may
be negative (the rim of a window), nothing is said of that dimension.

What is inside is a part of all tiles along a dimension, from its begin to where the last one ends.
So a product whose loop was rotated or peeled is one, though its text has it two or three times, of
which only the last piece reaches beyond.

    for 0 … 31: gemm %Q_shared, %K_shared, %scores       up to 4,096 of 4,100 rows of K
    for 32 … 33: gemm %Q_shared, %K_shared, %scores      up to 4,224: 97 % of the product is inside
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TypeAlias

from tileprof.analyzer.numbers.tiles import PADDING_MATRIX
from tileprof.analyzer.tiles.values import turns_of, values_of
from tileprof.kernel_ir import COPIES, PRODUCTS, Op, TileKernel

_Interval: TypeAlias = tuple[int, int]
ACCESSES = ("view", "load", "store", "atomic")
"""Ops whose last operand may be a tensor, and whose indices say where."""


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
    """`gemm`, `load`, `store`, `atomic`, or `copy` for either direction."""
    name: str
    """Tensor that it accesses; empty for a product."""
    number: int
    """Among the products of the kernel."""
    inside: float
    """Of its work, the part that is inside of all tensors."""
    beyond: tuple[Outside, ...]

    @property
    def tensor(self) -> str:
        """The first that it reaches beyond."""
        return self.beyond[0].tensor


def padded_ops(kernel: TileKernel, launch: int | None = None) -> tuple[Padded, ...]:
    """The ops with tiles that reach beyond their tensors, those that waste most first.

    Of several launches only one is looked at: the one of that number, else that of the most blocks.
    """
    reader = _Reader(kernel, launch)
    products = (_padded("gemm", "", each.number, each.beyond) for each in reader.products.values())
    found = [*reader.accesses, *(each for each in products if each.beyond)]
    return tuple(sorted(found, key=lambda each: each.inside))


def products_inside(kernel: TileKernel) -> float:
    """Of the work of all matrix products, the part that is inside; 1 where there are none."""
    products = _Reader(kernel).products.values()
    whole = sum(each.work for each in products)
    inside = (_padded("gemm", "", 0, each.beyond).inside * (each.work / whole) for each in products)
    return sum(inside) if whole else 1.0


@dataclass
class _Product:
    """All ops that multiply tiles of the same tensors, and add to the same buffer."""

    number: int
    """Of the op that reaches furthest."""
    work: float = 0.0
    """Multiplications; what goes with them, where it is not known how often loops turn."""
    beyond: dict[tuple[str, int], Outside] = field(default_factory=dict)
    """Padding in elements, keyed by (tensor, dimension)."""


class _Reader:
    """What a kernel accesses, op after op."""

    def __init__(self, kernel: TileKernel, launch: int | None = None) -> None:
        self.kernel = kernel
        self.known = bounds_of(kernel)
        self.views: dict[str, tuple[Outside | None, ...]] = {}
        """By view, or by the buffer that it is copied to: what its two dimensions reach beyond."""
        self.tensors: dict[str, str] = {}
        """By the same, whose tile it is."""
        self.accesses: list[Padded] = []
        self.products: dict[tuple[str, ...], _Product] = {}
        self.count = 0
        small = _other_launches(kernel, launch)
        for op, around in kernel.nested:
            if not small.isdisjoint(map(id, around)):
                continue
            if op.name in ACCESSES:
                self._access(op, guarded=any(each.name == "if" for each in around))
            elif op.name in COPIES and len(op.operands) > 1:
                self.views[op.operands[1]] = self.views.get(op.source, ())
                self.tensors[op.operands[1]] = self.tensors.get(op.source, op.operands[1])
            elif op.name in PRODUCTS and len(op.operands) > 2:
                self._product(op, around)

    def _access(self, op: Op, guarded: bool) -> None:
        tensor = op.operands[-1] if op.operands else ""
        if tensor not in self.kernel.extents:
            return
        lengths, kind = op.numbers("sizes"), op.name
        outside = guarded or not op.says("in_bounds")
        beyond = self._beyond(tensor, op.listed, lengths) if outside else ()
        if kind == "view":
            wide = tuple(each for each, length in zip(beyond, lengths) if length > 1)
            self.views[op.result] = (
                wide if len(wide) == PADDING_MATRIX else beyond[-PADDING_MATRIX:]
            )
            self.tensors[op.result], kind = tensor, "copy"
        if held := {(each.tensor, each.dim): each for each in beyond if each}:
            self.accesses.append(_padded(kind, tensor[1:], self.count, held))

    def _beyond(
        self, tensor: str, indices: tuple[str, ...], lengths: tuple[int, ...]
    ) -> tuple[Outside | None, ...]:
        found = list[Outside | None]()
        for dim, (index, extent) in enumerate(zip(indices, self.kernel.extents[tensor])):
            low, high = self.known.get(index, (-1, 0))
            reach = high + (lengths[dim] if lengths else 1)
            outside = Outside(tensor[1:], dim, extent, reach)
            found.append(outside if low >= 0 and reach > extent else None)
        return tuple(found)

    def _product(self, op: Op, around: tuple[Op, ...]) -> None:
        a, b, target = op.operands[:3]
        # The dimension that is summed over is one of both operands, and counts once.
        kept = slice(-2, -1) if op.says("transpose_b") else slice(-1, None)
        first, second = (self.views.get(each, ()) for each in (a, b))
        key = target, *(self.tensors.get(each, each) for each in (a, b))
        held = self.products.setdefault(key, _Product(self.count))
        held.work += self._work(op, around)
        for each in (*first, *second[kept if first else slice(None)]):
            if each and each.reach > _reach(held.beyond, each):
                held.beyond[each.tensor, each.dim], held.number = each, self.count
        self.count += 1

    def _work(self, op: Op, around: tuple[Op, ...]) -> float:
        """Multiplications of an op over all turns of the loops around it."""
        a, target = (self.kernel.types.get(op.operands[which]) for which in (0, 2))
        rows, columns = (each.extents if each else None for each in (a, target))
        summed = rows[-PADDING_MATRIX:][0 if op.says("transpose_a") else -1] if rows else 1
        loops = [each for each in around if each.name == "for"]
        return prod(columns or ()) * summed * turns_of(values_of(self.kernel), loops)


def _other_launches(kernel: TileKernel, launch: int | None) -> frozenset[int]:
    """Of several launches, those that are not the one asked for, or that of the most blocks, by
    `id`.

    They prepare for it, and what they waste is not of its time.
    """
    launches = list(kernel.named("launch"))
    if len(launches) < 2:
        return frozenset()
    if launch is not None:
        return frozenset(id(op) for number, op in enumerate(launches) if number != launch)
    numbers = {op.result: op.index for op, _ in kernel.nested if op.index is not None}
    blocks = [prod(numbers.get(name) or 1 for name in op.listed) for op in launches]
    return frozenset(id(op) for op, each in zip(launches, blocks) if each < max(blocks))


def _reach(beyond: Mapping[tuple[str, int], Outside], other: Outside) -> int:
    """How far tiles are known to reach along the same dimension."""
    held = beyond.get((other.tensor, other.dim))
    return held.reach if held else 0


@lru_cache(maxsize=4)
def bounds_of(kernel: TileKernel) -> Mapping[str, _Interval]:
    """Return the least and the greatest number that each index value is, keyed by value; those that
    are not known are left out."""
    known = dict[str, _Interval]()
    for op, _ in kernel.nested:
        given = [known.get(each) for each in op.operands]
        if op.name in ("launch", "parallel", "for"):
            firsts: list[_Interval | None] = given[:1] if op.name == "for" else [(0, 0)]
            stops = given[1:2] if op.name == "for" else [known.get(each) for each in op.listed]
            for name, low, stop in zip(op.arguments, firsts * len(stops), stops):
                if low is not None and stop is not None and stop[1] > low[0]:
                    known[name] = low[0], stop[1] - 1
        elif (number := op.index) is not None:
            known[op.result] = number, number
        elif len(given) == 2 and (bounds := combined(op.name, *given)) is not None:
            known[op.result] = bounds
    return known


def combined(kind: str, a: _Interval | None, b: _Interval | None) -> _Interval | None:
    """The interval of a sum, a difference, a product, or the lesser of two."""
    if a is None or b is None:
        return None
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


def _padded(op: str, name: str, number: int, beyond: Mapping[tuple[str, int], Outside]) -> Padded:
    held = tuple(beyond.values())
    return Padded(op, name, number, prod(each.extent / each.reach for each in held), held)
