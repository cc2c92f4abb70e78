"""The text of a tile kernel's IR, read once: ops with operands, attributes and blocks.

In: text as `tileprof.ir.printer` writes it, of any pass: one op a line, blocks in braces.
Out: `TileKernel`. What is written of an op, and nothing else: what an index is, or how often a loop
turns, is asked elsewhere (`values`).

    launch [%c4] {threads = [128]} body(%bx: index) {      Op launch, lists (%c4), a block with %bx
      %0 = constant 64 : index                             Op constant, words (64), results (%0)
      %t = view %A, [%bx, %0] {sizes = [1, 64]} : …        Op view, operands (%A), lists (%bx, %0)
    }

The analyzer reads profiles, which outlive a version of the IR: an op that nobody knows is an op
like any other, and text that is cut off ends its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

__all__ = [
    "COPIES", "PRODUCTS", "Attribute", "Block", "Op", "Parameter", "TileKernel", "Type", "read",
]  # fmt: skip

COPIES = ("copy", "async_copy")
"""Ops that copy a tile; those of a kernel whose instructions are chosen go on meanwhile."""
PRODUCTS = ("gemm", "async_gemm")
"""Ops that multiply tiles."""
Attribute: TypeAlias = "str | tuple[Attribute, ...]"
_RESULTS = re.compile(r"(%\w+(?:, %\w+)*) = ")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%\w+|[\[\]{}=,:]|[^\s\[\]{}=,:"%]+')
_OPENS = re.compile(r"(.*?) ?\b([a-z]\w*)(?:\(([^()]*)\))? \{")
"""The end of a line that opens a block: what is before it, the block's name, its arguments."""
_TYPE = re.compile(r"(\w+)(?:<([^<>]*)>)?")
_STRIDES = re.compile(r", strides = \[[^\]]*\]")
_PARAMETER = re.compile(r"(%\w+): (out )?(\w+(?:<[^<>]*>)?)")
_VALUE = re.compile(r"%\w+")
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


def read(ir: str) -> TileKernel:
    """The kernel of a text."""
    lines = filter(None, map(str.strip, ir.splitlines()))
    parameters, ops = dict[str, Parameter](), list[Op]()
    for line in lines:
        if line.startswith("kernel "):
            found = _PARAMETER.findall(line)
            parameters = {name: Parameter(_type(text), bool(out)) for name, out, text in found}
        elif not line.startswith("}"):
            ops.append(_op(line, lines))
    return TileKernel(parameters, Block("", (), tuple(ops)))


def _nested(block: Block, around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    for op in block.ops:
        yield op, around
        for each in op.blocks:
            yield from _nested(each, (*around, op))


def _op(line: str, lines: Iterator[str]) -> Op:
    opened = _OPENS.fullmatch(line)
    head, blocks = opened[1] if opened else line, list[Block]()
    while opened:
        ops, last = list[Op](), ""
        for each in lines:
            if each.startswith("}"):
                last = each[1:].strip()
                break
            ops.append(_op(each, lines))
        blocks.append(Block(opened[2], tuple(_VALUE.findall(opened[3] or "")), tuple(ops)))
        opened = _OPENS.fullmatch(last)  # `} otherwise {`
    return _head(head, tuple(blocks))


def _head(text: str, blocks: tuple[Block, ...]) -> Op:
    named = _RESULTS.match(text)
    results = tuple(named[1].split(", ")) if named else ()
    words, operands, lists = list[str](), list[str](), list[tuple[str, ...]]()
    attributes, type = dict[str, Attribute](), Type()
    tokens = (each[0] for each in _TOKEN.finditer(text, named.end() if named else 0))
    for token in tokens:
        if token == "[":
            lists.append(tuple(each for each in _bracketed(tokens) if isinstance(each, str)))
        elif token == "{":
            attributes = _attributes(tokens)
        elif token == ":":
            type = _type(text.rpartition(" : ")[2])
            break
        elif token[0] == "%" or token == "_":
            operands.append(token)
        elif token != ",":
            words.append(token)
    name = words.pop(0) if words else ""
    return Op(name, results, tuple(words), tuple(operands), tuple(lists), attributes, type, blocks)


def _attributes(tokens: Iterator[str]) -> dict[str, Attribute]:
    """Up to the brace that closes them."""
    found, name = dict[str, Attribute](), ""
    for token in tokens:
        if token == "}":
            break
        if token == "=":
            found[name] = _attribute(next(tokens, ""), tokens)
        name = token
    return found


def _attribute(token: str, tokens: Iterator[str]) -> Attribute:
    return _bracketed(tokens) if token == "[" else token.strip('"')


def _bracketed(tokens: Iterator[str]) -> tuple[Attribute, ...]:
    """Up to the bracket that closes them."""
    found = list[Attribute]()
    for token in tokens:
        if token == "]":
            break
        if token != ",":
            found.append(_attribute(token, tokens))
    return tuple(found)


def _type(text: str) -> Type:
    found = _TYPE.match(text)
    if found is None or found[2] is None:
        return Type(found[1] if found else "")
    *shape, dtype = _STRIDES.sub("", found[2]).split(", ")
    return Type(dtype, found[1], tuple(shape))
