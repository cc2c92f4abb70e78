"""Random scalar expressions that every device computes alike (see `strategies.py`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st

from tileprof import ir

__all__ = ["FLOATS", "INDEX", "INTEGERS", "SUMS", "Choices", "Expressions", "HypothesisChoices"]
__all__ += ["RandomChoices", "Tile", "special_numbers"]

PLACES = ["add", "mul", "floordiv", "floormod", "truncdiv", "shr", "shl", "max"]
"""Operations that keep an index from being negative."""
INDEX = ir.dtype("index")
FLOATS = [ir.dtype(n) for n in ("float32", "float64", "float16", "bfloat16", "float8_e4m3")]
INTEGERS = [ir.dtype(n) for n in ("int32", "int8", "uint8", "int64")]
SUMS = [ir.dtype(n) for n in ("float32", "float64", "int32")]
"""Types in which sums are taken: in a narrow float their order would show."""


class Choices(Protocol):
    """Where random choices come from."""

    def number(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`, both included."""

    def pick(self, choices: Sequence[Any]) -> Any:
        """Choose one of these."""


class HypothesisChoices:
    """Choices that Hypothesis records and shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`, both included."""
        return self._draw(st.integers(low, high))

    def pick(self, choices: Sequence[Any]) -> Any:
        """Choose one of these."""
        return self._draw(st.sampled_from(choices))


class RandomChoices:
    """Choices that follow from a seed; a fifth of Hypothesis's time."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """Choose a number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def pick(self, choices: Sequence[Any]) -> Any:
        """Choose one of these."""
        return self._random.choice(choices)


def special_numbers(dtype: ir.DType) -> list[int | float]:
    """Numbers at which executions may come to differ: the ends of a type's range, and for floats
    NaN, infinities, zeros of both signs and the neighbours of zero."""
    kind = dtype.to_numpy()
    if dtype.is_integer:
        low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
        high = low + (1 << dtype.bits) - 1
        return [low, low + 1, high - 1, high]
    tiny = float(np.frombuffer((1).to_bytes(kind.itemsize, "little"), kind).astype(np.float64)[0])
    return [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, tiny, -tiny]


@dataclass(frozen=True)
class Tile:
    """A buffer of a block, wholly written."""

    value: ir.Value
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.buffer.static_shape


@dataclass
class Expressions:
    """A kernel under construction: numbers at one point."""

    choices: Choices
    builder: ir.Builder
    inputs: list[ir.Value]
    counters: ir.Value
    """A buffer of integers for atomics."""
    given: ir.Value
    """A scalar argument."""
    extents: list[int]
    """Of the tiles that are made inside: few, so that tiles fit each other."""
    scalars: list[ir.Value] = field(default_factory=list)
    """Indices that are known and not negative: of blocks, of loops."""
    tiles: list[Tile] = field(default_factory=list)
    offsets: list[ir.Value] = field(default_factory=list)
    depth: int = 0
    special: bool = False
    """Whether constants and loops may be as special as `special_numbers`."""

    # -- small helpers

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.choices.pick(list(choices))

    def number(self, low: int, high: int) -> int:
        return self.choices.number(low, high)

    def maybe(self) -> bool:
        return self.number(0, 1) == 1

    def index(self, value: int) -> ir.Value:
        return self.builder.constant(value)

    def binary(self, kind: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        return self.builder.emit(ir.Binary(kind, left, right)).result

    def alloc(self, shape: tuple[int, ...], dtype: ir.DType) -> ir.Value:
        space = self.pick(["shared", "fragment"])
        return self.builder.emit(ir.Alloc(space, shape, dtype, hint="t")).result

    def inside(self, args: int, fill: Callable[[list[ir.Value]], None]) -> ir.Block:
        """A block that `fill` writes; tiles made in it end with it."""
        block = ir.Block([ir.Value(INDEX, "i") for _ in range(args)])
        tiles, scalars = list(self.tiles), list(self.scalars)
        with self.builder.inside(block):
            fill(block.args)
        self.tiles, self.scalars = tiles, scalars
        return block

    # -- expressions at one point

    def constant(self, dtype: ir.DType) -> ir.Value:
        if self.special and self.number(0, 4) == 0:
            return self.builder.constant(self.pick(special_numbers(dtype)), dtype)
        whole = self.number(0 if dtype.kind == "uint" else -6, 6)
        if dtype.is_integer and self.number(0, 5) == 0:
            # Next to the largest number, so that arithmetic wraps around.
            whole += (1 << (dtype.bits - (dtype.kind != "uint"))) - 7
        return self.builder.constant(whole / 4 if dtype.is_float else whole, dtype)

    def leaf(self, dtype: ir.DType, at: list[ir.Value], shape: tuple[int, ...]) -> ir.Value:
        """A number of a type at a point of a tile's shape."""
        same = [t for t in self.tiles if t.shape == shape and t.exact]
        kind = self.pick(["constant", "tile", "tile", "anywhere", "global", "index", "given"])
        if kind == "given":
            return self.converted(self.given, dtype)
        if kind == "tile" and same:
            tile = self.pick(same)
            found = self.builder.emit(ir.Load(tile.value, at)).result
            return found if tile.value.dtype == dtype else self.converted(found, dtype)
        if kind == "anywhere" and (exact := [t for t in self.tiles if t.exact]):
            tile = self.pick(exact)
            where = [self.place(at, extent) for extent in tile.shape]
            return self.converted(self.builder.emit(ir.Load(tile.value, where)).result, dtype)
        if kind == "global" and len(self.offsets) == len(at):
            source = self.pick(self.inputs)
            indices = [self.binary("add", o, i) for o, i in zip(self.offsets, at, strict=True)]
            if self.maybe():
                indices = [self.place(at, self.number(1, 12)) for _ in at]
            return self.converted(self.builder.emit(ir.Load(source, indices)).result, dtype)
        if kind == "index" and (at or self.scalars):
            small = self.binary("floormod", self.pick([*at, *self.scalars]), self.index(5))
            return self.builder.emit(ir.Cast(small, dtype)).result
        return self.constant(dtype)

    def place(self, at: list[ir.Value], extent: int) -> ir.Value:
        """An index below an extent, made of what is known here by one or two operations."""
        choices = [*at, *self.scalars, self.index(self.number(0, 5))]
        made = self.pick(choices)
        for kind in [self.pick(PLACES) for _ in range(self.number(0, 2))]:
            other = self.pick(choices) if kind in ("add", "mul") else self.index(self.number(1, 3))
            made = self.binary(kind, made, other)
        if self.maybe():
            return self.binary("min", made, self.index(extent - 1))
        return self.binary("floormod", made, self.index(extent))

    def converted(self, value: ir.Value, dtype: ir.DType) -> ir.Value:
        if value.dtype == dtype:
            return value
        if value.dtype.is_float and not dtype.is_float:
            # Only what is in range has a meaning.
            bound = self.builder.constant(3.0, value.dtype)
            zero = self.builder.constant(0.0, value.dtype)
            value = self.binary("min", self.binary("max", value, zero), bound)
        return self.builder.emit(ir.Cast(value, dtype)).result

    def condition(self, at: list[ir.Value], shape: tuple[int, ...]) -> ir.Value:
        kind = self.pick(["lt", "le", "eq", "ne", "gt", "ge"])
        dtype = self.pick([ir.dtype("float32"), ir.dtype("int32")])
        left, right = (self.leaf(dtype, at, shape) for _ in range(2))
        return self.builder.emit(ir.Compare(kind, left, right)).result

    def expression(
        self, dtype: ir.DType, at: list[ir.Value], shape: tuple[int, ...], depth: int = 2
    ) -> ir.Value:
        """An exact number of a type."""
        if depth == 0 or self.number(0, 3) == 0:
            return self.leaf(dtype, at, shape)
        left, right = (self.expression(dtype, at, shape, depth - 1) for _ in range(2))
        match self.pick(["binary", "binary", "unary", "select", "if", "rare"]):
            case "unary":
                kind = self.pick(["neg", "abs"] if dtype.kind != "uint" else ["not"])
                return self.builder.emit(ir.Unary(kind, left)).result
            case "select":
                chosen = ir.Select(self.condition(at, shape), left, right)
                return self.builder.emit(chosen).result
            case "if":
                return self.lazy(dtype, at, shape, left)
            case "rare":
                return self.rare(dtype, left, right)
        kinds = ["add", "sub", "mul", "min", "max"]
        kinds += [] if dtype.is_float else ["and", "or", "xor"]
        return self.binary(self.pick(kinds), left, right)

    def rare(self, dtype: ir.DType, left: ir.Value, right: ir.Value) -> ir.Value:
        if dtype.is_float:
            if self.maybe():
                return self.builder.emit(ir.Fma(left, right, self.constant(dtype))).result
            bound = self.builder.constant(self.pick([0.5, 1.5, -3.0]), dtype)
            return self.binary("div", left, bound)
        kind = self.pick(["floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"])
        return self.binary(kind, left, self.builder.constant(self.pick([1, 2, 3]), dtype))

    def lazy(
        self, dtype: ir.DType, at: list[ir.Value], shape: tuple[int, ...], other: ir.Value
    ) -> ir.Value:
        condition = self.condition(at, shape)

        def then(_: list[ir.Value]) -> None:
            self.builder.emit(ir.Yield([self.expression(dtype, at, shape, 1)]))

        def otherwise(_: list[ir.Value]) -> None:
            self.builder.emit(ir.Yield([other]))

        branch = ir.If(condition, self.inside(0, then), self.inside(0, otherwise))
        return self.builder.emit(branch).result
