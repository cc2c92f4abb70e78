"""A tile kernel as ops with their operands, attributes and blocks: what its text says, no more.

In: nothing; `text` makes it.  Out: `TileKernel`. What an index is, or how often a loop turns, is
asked elsewhere (`values`).

    launch [%c4] {threads = [128]} body(%bx: index) {      Op launch, lists (%c4), a block with %bx
      %0 = constant 64 : index                             Op constant, words (64), results (%0)
      %t = view %A, [%bx, %0] {sizes = [1, 64]} : …        Op view, operands (%A), lists (%bx, %0)
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tileprof.once import cached_property

__all__ = ["COPIES", "PRODUCTS", "Attribute", "Block", "Op", "Parameter", "TileKernel", "Type"]

Attribute: TypeAlias = "str | tuple[Attribute, ...]"
COPIES = ("copy", "async_copy")
"""Ops that copy a tile; those of a kernel whose instructions are chosen go on meanwhile."""
PRODUCTS = ("gemm", "async_gemm")
"""Ops that multiply tiles."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Type:
    """Of a value."""

    dtype: str = ""
    """Of its elements; of a single value its own."""
    space: str = ""
    """`global`, `shared`, … of a buffer."""
    shape: tuple[str, ...] = ()
    """Numbers, and names of what is known at launch only."""

    @property
    def extents(self) -> tuple[int, ...] | None:
        """The shape of a buffer where all of it is known when it compiles."""
        known = self.space and all(each.isdigit() for each in self.shape)
        return tuple(map(int, self.shape)) if known else None

    @property
    def bits(self) -> int:
        """Of an element; a `bool` takes a byte."""
        found = _NUMBER.search(self.dtype)
        return int(found[0]) if found else 8


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor, or a number, that a kernel is given."""

    type: Type
    out: bool
    """Whether the kernel only writes it."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What stands between braces."""

    name: str = ""
    arguments: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """A line, with the blocks that it opens."""

    name: str
    """The mnemonic: `view`, or the operation of a scalar: `add`."""
    results: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """What stands without a name: the kind of a loop, the number of a constant."""
    operands: tuple[str, ...] = ()
    """Values; `_` where one is left out."""
    lists: tuple[tuple[str, ...], ...] = ()
    """Values in brackets: indices, extents."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    type: Type = Type()
    """Of the first result."""
    blocks: tuple[Block, ...] = ()

    @property
    def result(self) -> str:
        """The first one, or nothing."""
        return self.results[0] if self.results else ""

    @property
    def word(self) -> str:
        """The first one, or nothing."""
        return self.words[0] if self.words else ""

    @property
    def source(self) -> str:
        """The first operand, or nothing."""
        return self.operands[0] if self.operands else ""

    @property
    def listed(self) -> tuple[str, ...]:
        """The first values in brackets."""
        return self.lists[0] if self.lists else ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of its first block: indices of a launch, a `parallel` or a loop."""
        return self.blocks[0].arguments if self.blocks else ()

    def number(self, attribute: str) -> int:
        """An attribute that is a number; 0 where there is none."""
        held = self.attributes.get(attribute, "")
        return int(held) if isinstance(held, str) and held.isdigit() else 0

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """An attribute that is a list of numbers."""
        held = self.attributes.get(attribute, ())
        return tuple(int(each) for each in held if isinstance(each, str) and each.isdigit())

    def says(self, attribute: str) -> bool:
        """Whether an attribute is true."""
        return self.attributes.get(attribute) == "true"

    def walk(self) -> Iterator[Op]:
        """It and all ops inside, in order."""
        yield self
        for block in self.blocks:
            for each in block.ops:
                yield from each.walk()


@dataclass(frozen=True, eq=False)
class TileKernel:
    """A kernel, as its text has it; without text, nothing."""

    parameters: Mapping[str, Parameter]
    body: Block

    @cached_property
    def nested(self) -> tuple[tuple[Op, tuple[Op, ...]], ...]:
        """All ops in order, outer before inner, each with those around it, the outermost first."""
        return tuple(_nested(self.body, ()))

    def named(self, *names: str) -> Iterator[Op]:
        """The ops of these names, in order."""
        return (op for op, _ in self.nested if op.name in names)

    @cached_property
    def types(self) -> Mapping[str, Type]:
        """By value."""
        found = {name: each.type for name, each in self.parameters.items()}
        return found | {op.result: op.type for op, _ in self.nested if op.results}

    @cached_property
    def extents(self) -> Mapping[str, tuple[int, ...]]:
        """By tensor, those whose extents are all known when it compiles."""
        held = {name: each.type.extents for name, each in self.parameters.items()}
        return {name: extents for name, extents in held.items() if extents}


def _nested(block: Block, around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    for op in block.ops:
        yield op, around
        for each in op.blocks:
            yield from _nested(each, (*around, op))
