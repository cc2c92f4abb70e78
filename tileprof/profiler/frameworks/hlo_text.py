"""Parser of the text of HLO modules, XLA's programs after all of its optimisations.

In: the text that XLA prints, of any version since 2024, on CPUs and GPUs.  Out: computations with
their instructions: shape, operation, operands and attributes. Layouts are left out, as they change
no size. What cannot be parsed raises `Unknown`: a program whose text is another one has no work.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

_BITS = {
    "pred": 8, "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4,
    "s8": 8, "u8": 8, "s16": 16, "u16": 16, "f16": 16, "bf16": 16, "s32": 32, "u32": 32, "f32": 32,
    "s64": 64, "u64": 64, "f64": 64, "c64": 64, "c128": 128, "token": 0, "opaque": 0,
}  # fmt: skip
"""Bits of an element of each type; every other type whose name begins with `f8` has 8."""
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_INSTRUCTION = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_HEADER = re.compile(r"\s*(ENTRY )?%?([\w.\-]+)\b.*\{\s*$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_NAME = re.compile(r"%?([\w.\-]+)$")
_POSITIONS = re.compile(r"/\*index=\d+\*/")
"""Comments that count the parts of long tuples."""
_OPENING = {"(": ")", "[": "]", "{": "}"}


class Unknown(Exception):
    """A text is not one that this module can read, or its work is not known."""


@dataclass(frozen=True, slots=True)
class Array:
    """Type and extents of an array."""

    kind: str
    """XLA's name of the element type: `f32`, `bf16`, `pred`."""
    extents: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.extents)

    @property
    def bits(self) -> int:
        """Bits of one element; Unknown for a type that is not known."""
        found = _BITS.get(self.kind, 8 if self.kind.startswith("f8") else None)
        if found is None:
            raise Unknown(f"elements of type {self.kind}")
        return found

    @property
    def bytes(self) -> int:
        """Bytes of all elements, where those of less than a byte are packed."""
        return self.bytes_of(self.elements)

    @property
    def floating(self) -> bool:
        """Whether elements are floating-point or complex numbers."""
        return self.kind[0] in "fc" or self.kind.startswith("bf")

    def bytes_of(self, elements: int) -> int:
        """Return the bytes of so many elements."""
        return -(-elements * self.bits // 8)


Shape: TypeAlias = "Array | tuple[Shape, ...]"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a computation."""

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...] = ()
    """Names of instructions of the same computation."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes by name, as text; a value that is a string is without its quotes."""
    literal: str = ""
    """Text in the parentheses of a constant or parameter: its value or its number."""

    @property
    def array(self) -> Array:
        """The shape of one that is no tuple; Unknown for others."""
        if isinstance(self.shape, tuple):
            raise Unknown(f"{self.name} is a tuple")
        return self.shape

    @property
    def leaves(self) -> tuple[Array, ...]:
        """All arrays of the shape, in order."""
        return tuple(_leaves(self.shape))

    @property
    def called(self) -> str:
        """Name of the computation that it runs; '' for none."""
        found = self.attributes.get("calls") or self.attributes.get("to_apply") or ""
        return found.lstrip("%")


@dataclass(frozen=True, slots=True)
class Computation:
    """Instructions by name, each after its operands, and the name of the one that is the result."""

    name: str
    instructions: Mapping[str, Instruction]
    root: str

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters in their order."""
        found = [each for each in self.instructions.values() if each.opcode == "parameter"]
        return tuple(sorted(found, key=lambda each: int(each.literal)))


@dataclass(frozen=True, slots=True)
class Module:
    """Computations by name, and the name of the one that the program begins in."""

    computations: Mapping[str, Computation]
    entry: str


def parse(text: str) -> Module:
    """Parse the text of a module; Unknown where it is not one."""
    computations: dict[str, Computation] = {}
    entry = name = root = ""
    inside: dict[str, Instruction] | None = None
    for line in text.splitlines():
        if inside is None:
            header = None if line.startswith("HloModule") else _HEADER.match(line)
            if header is not None:
                name, root, inside = header[2], "", {}
                entry = name if header[1] else entry
        elif line.lstrip().startswith("}"):
            if not root:
                raise Unknown(f"{name} has no result")
            computations[name] = Computation(name, inside, root)
            inside = None
        elif found := _INSTRUCTION.match(line):
            try:
                made = _instruction(found[2], _POSITIONS.sub("", line[found.end() :]))
            except (IndexError, ValueError) as error:
                raise Unknown(f"{found[2]} cannot be read: {error}") from error
            inside[made.name] = made
            root = made.name if found[1] else root
    if inside is not None or entry not in computations:
        raise Unknown("the text ends within a computation, or has none to begin in")
    return Module(computations, entry)


def split(text: str, separator: str = ",") -> list[str]:
    """Split at separators that are in no brackets and no string; parts have no space around."""
    parts, at, begin = list[str](), 0, 0
    while at < len(text):
        if text[at] in _OPENING or text[at] == '"':
            at = _closing(text, at)
        elif text[at] == separator:
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    parts.append(text[begin:].strip())
    return [each for each in parts if each]


def _instruction(name: str, text: str) -> Instruction:
    shape, end = _shape(text, 0)
    opcode = _OPCODE.match(text, end)
    if opcode is None:
        raise ValueError("no operation behind the shape")
    opened = opcode.end() - 1
    closed = _closing(text, opened)
    within = text[opened + 1 : closed]
    attributes = dict[str, str]()
    for each in split(text[closed + 1 :].lstrip(" ,")):
        key, equals, value = each.partition("=")
        if equals and key not in attributes:
            quoted = len(value) > 1 and value[0] == value[-1] == '"'
            attributes[key] = value[1:-1] if quoted else value
    if opcode[1] in ("constant", "parameter", "iota"):
        return Instruction(name, shape, opcode[1], (), attributes, within.strip())
    operands = []
    for each in split(within):
        found = _NAME.search(each)
        if found is None:
            raise ValueError(f"operand `{each}`")
        operands.append(found[1])
    return Instruction(name, shape, opcode[1], tuple(operands), attributes)


def _shape(text: str, at: int) -> tuple[Shape, int]:
    """Return the shape at a place of the text, and where it ends, its layout included."""
    while text[at] == " ":
        at += 1
    if text[at] == "(":
        end = _closing(text, at)
        return tuple(_shape(part, 0)[0] for part in split(text[at + 1 : end])), end + 1
    found = _ARRAY.match(text, at)
    if found is None:
        raise ValueError("no shape")
    # Extents that are known only when the program runs have a limit, as `<=128`.
    extents = tuple(int(each.lstrip("<= ")) for each in found[2].split(",") if each.strip())
    end = found.end()
    if text[end : end + 1] == "{":
        end = _closing(text, end) + 1
    return Array(found[1], extents), end


def _leaves(shape: Shape) -> Iterator[Array]:
    if isinstance(shape, Array):
        yield shape
        return
    for each in shape:
        yield from _leaves(each)


def _closing(text: str, at: int) -> int:
    """Return where the bracket or string that begins at a place ends."""
    if text[at] == '"':
        at += 1
        while text[at] != '"':
            at += 2 if text[at] == "\\" else 1
        return at
    waiting = [_OPENING[text[at]]]
    while waiting:
        at += 1
        if text[at] == '"':
            at = _closing(text, at)
        elif text[at] in _OPENING:
            waiting.append(_OPENING[text[at]])
        elif text[at] == waiting[-1]:
            waiting.pop()
    return at
