"""A tile kernel's IR as plain records: what a profile keeps of it, and what the analyzer asks.

In: a kernel of `ir`, by `ir.plain_kernel`; or a profile file.  Out: `TileKernel`.  What an index
is, or how many iterations a loop has, is asked elsewhere (`analyzer/tiles`).

    launch [%c4] {threads = [128]} body(%bx: index) {      Op launch, lists (%c4), a block with %bx
      %0 = constant 64 : index                             Op constant, words (64), results (%0)
      %t = view %A, [%bx, %0] {sizes = [1, 64]} : …        Op view, operands (%A), lists (%bx, %0)
    }

Profiles outlive a version of the IR, so an op here is a name with its parts: one that nobody knows
is an op like any other.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

from tileprof.once import cached_property

Attribute: TypeAlias = "str | int | float | bool | tuple[Attribute, ...] | None"
"""Numbers are finite: what is not stands as `inf`, `-inf` or `nan`."""
COPIES = ("copy", "async_copy")
"""Ops that copy a tile; those of a kernel whose instructions are chosen go on meanwhile."""
PRODUCTS = ("gemm", "async_gemm")
"""Ops that multiply tiles."""
EXPLANATIONS = ("reason",)
"""Attributes that are for people: what an op does is the same without them."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value."""

    dtype: str = ""
    """Element type of a buffer; the type itself of a single value."""
    space: str = ""
    """`global`, `shared`, … of a buffer."""
    shape: tuple[int | str, ...] = ()
    """Extents: numbers, and names of what is known at launch only."""

    @property
    def extents(self) -> tuple[int, ...] | None:
        """The shape of a buffer where all of it is known when it compiles."""
        known = tuple(each for each in self.shape if isinstance(each, int))
        return known if self.space and len(known) == len(self.shape) else None

    @property
    def bits(self) -> int:
        """Size of an element in bits; a `bool` takes a byte."""
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
    """A list of ops, with arguments: indices of loops and blocks."""

    name: str = ""
    arguments: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One step of a kernel, with the blocks that it opens."""

    name: str
    """The mnemonic: `view`, or the operation of a scalar: `add`."""
    results: tuple[str, ...] = ()
    words: tuple[Attribute, ...] = ()
    """What stands without a name: the kind of a loop, the number of a constant."""
    operands: tuple[str, ...] = ()
    """Values; `_` where one is left out."""
    lists: tuple[tuple[str, ...], ...] = ()
    """Values in brackets: indices, extents."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    types: tuple[Type, ...] = ()
    """Types of the results, in their order."""
    blocks: tuple[Block, ...] = ()
    line: int = 0
    """Line in the source of the kernel; 0 where it is not known."""

    @property
    def type(self) -> Type:
        """Type of the first result; one without a name where there is none."""
        return self.types[0] if self.types else Type()

    @property
    def result(self) -> str:
        """The first one, or nothing."""
        return self.results[0] if self.results else ""

    @property
    def word(self) -> Attribute:
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
        """Arguments of the first block: indices of a launch, a `parallel` or a loop."""
        return self.blocks[0].arguments if self.blocks else ()

    @property
    def index(self) -> int | None:
        """The number of a constant that counts; None for every other op."""
        counts = self.name == "constant" and self.type.dtype == "index"
        return self.word if counts and type(self.word) is int else None

    def number(self, attribute: str) -> int:
        """An attribute that is a number; 0 where there is none."""
        held = self.attributes.get(attribute)
        return held if _is_count(held) else 0

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """An attribute that is a list of numbers."""
        held = self.attributes.get(attribute)
        return tuple(filter(_is_count, held)) if isinstance(held, tuple) else ()

    def says(self, attribute: str) -> bool:
        """Whether an attribute is true."""
        return self.attributes.get(attribute) is True

    def walk(self) -> Iterator[Op]:
        """It and all ops inside, in order."""
        yield self
        for block in self.blocks:
            for each in block.ops:
                yield from each.walk()


@dataclass(frozen=True, eq=False)
class TileKernel:
    """A kernel: its parameters by name, and what it does."""

    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    body: Block = field(default_factory=Block)

    @cached_property
    def nested(self) -> tuple[tuple[Op, tuple[Op, ...]], ...]:
        """All ops in order, outer before inner, each with those around it, the outermost first."""
        return tuple(_nested(self.body, ()))

    def named(self, *names: str) -> Iterator[Op]:
        """The ops of these names, in order."""
        return (op for op, _ in self.nested if op.name in names)

    @cached_property
    def types(self) -> Mapping[str, Type]:
        """Types, keyed by value."""
        found = {name: each.type for name, each in self.parameters.items()}
        return found | {op.result: op.type for op, _ in self.nested if op.results}

    @cached_property
    def extents(self) -> Mapping[str, tuple[int, ...]]:
        """Extents, keyed by tensor, of those that are all known when it compiles."""
        held = {name: each.type.extents for name, each in self.parameters.items()}
        return {name: extents for name, extents in held.items() if extents}

    @cached_property
    def identity(self) -> Hashable:
        """What it computes and how: equal for kernels that differ by lines and by names of values.

        Values and extents stand by the order of their definition.
        """
        numbers = dict[str, int]()
        for name in self.parameters:
            numbers[name] = len(numbers)
        held = [(_type_identity(p.type, numbers), p.out) for p in self.parameters.values()]
        return tuple(held), _block_identity(self.body, numbers)


def _block_identity(block: Block, numbers: dict[str, int]) -> Hashable:
    for name in block.arguments:
        numbers[name] = len(numbers)
    ops = tuple(_op_identity(each, numbers) for each in block.ops)
    return block.name, len(block.arguments), ops


def _op_identity(op: Op, numbers: dict[str, int]) -> Hashable:
    """An op by numbers; a name without a definition stands for itself."""
    used = tuple(numbers.get(name, name) for name in op.operands)
    listed = tuple(tuple(numbers.get(name, name) for name in each) for each in op.lists)
    blocks = tuple(_block_identity(each, numbers) for each in op.blocks)
    for name in op.results:
        numbers[name] = len(numbers)
    types = tuple(_type_identity(each, numbers) for each in op.types)
    said = sorted((k, repr(v)) for k, v in op.attributes.items() if k not in EXPLANATIONS)
    # By `repr`: 1, 1.0 and True are three attributes.
    return op.name, repr(op.words), used, listed, tuple(said), types, blocks


def _type_identity(type: Type, numbers: dict[str, int]) -> Hashable:
    """A type; an extent that is known at launch only is the value of that name."""
    for each in type.shape:
        if isinstance(each, str):
            numbers.setdefault(f"%{each}", len(numbers))
    shape = tuple(("at launch", numbers[f"%{e}"]) if isinstance(e, str) else e for e in type.shape)
    return type.dtype, type.space, shape


def _is_count(held: Attribute) -> TypeGuard[int]:
    """Whether this is a number of things."""
    return type(held) is int and held >= 0


def _nested(block: Block, around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    for op in block.ops:
        yield op, around
        for each in op.blocks:
            yield from _nested(each, (*around, op))
