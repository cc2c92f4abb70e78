"""One SASS instruction: its text in parts, and the scheduling that its encoding carries.

In: what nvdisasm prints and the 16 bytes of the encoding.  Out: `Instruction`.  The fields of the
encoding (stall, barriers, waits) are not documented by NVIDIA; they are those that public
assemblers for Volta and later agree on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BYTES = 16
"""Size of one instruction, in bytes, on every architecture since Volta."""
NEVER = ("@!PT", "@!UPT")
NO_BARRIER = 7

_GLUED = re.compile(r"(U?[RP](?:\d+|[ZT])|\[[^]]*\]|desc\[[^]]*\]\[[^]]*\])(\[.*)")
"""`R9[R7]`, `[UR8][UR6]`, `desc[UR6][R2.64][R7]`: operands with nothing between them."""


@dataclass(frozen=True, slots=True)
class Control:
    """Scheduling of an instruction; scoreboards are numbered 0 to 5."""

    stall: int
    """Cycles before the next instruction of the warp may issue."""
    yields: bool
    """True where the scheduler should prefer another warp next."""
    write_barrier: int | None
    """The scoreboard that its result signals."""
    read_barrier: int | None
    """The scoreboard that signals that its operands have been read."""
    waits: tuple[int, ...]
    """Scoreboards that it waits for before it issues."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a function."""

    offset: int
    """Bytes from the start of the function."""
    predicate: str
    """`@P0`, `@!UP1`, or nothing."""
    opcode: str
    """Opcode with its modifiers: `LDG.E.128`."""
    operands: tuple[str, ...]
    encoding: int
    """The 128 bits, as one number."""

    @property
    def name(self) -> str:
        """The opcode without modifiers: `LDG`."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Modifiers after the name: `("E", "128")`."""
        return tuple(self.opcode.split(".")[1:])

    @property
    def never_executes(self) -> bool:
        """True where the predicate is constantly false (padding that ptxas puts in)."""
        return self.predicate in NEVER

    @property
    def text(self) -> str:
        """The instruction as one reads it."""
        parts = (self.predicate, self.opcode, ", ".join(self.operands))
        return " ".join(part for part in parts if part)

    @property
    def control(self) -> Control:
        """The scheduling fields of the encoding."""
        bits = self.encoding >> 105
        write, read, waits = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
        return Control(
            stall=bits & 15,
            yields=not bits >> 4 & 1,
            write_barrier=None if write == NO_BARRIER else write,
            read_barrier=None if read == NO_BARRIER else read,
            waits=tuple(i for i in range(6) if waits >> i & 1),
        )


def words(text: str) -> frozenset[str]:
    """Return a set of names, written with spaces between them."""
    return frozenset(text.split())


def split_operands(text: str) -> tuple[str, ...]:
    """Return the operands of an instruction; a comma inside of brackets parts nothing.

    nvdisasm of CUDA 12 and 13.0 leaves out commas before brackets; operands are found all the same.
    """
    if "(" not in text and "[" not in text and "{" not in text:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return tuple(one for part in (*parts, text[start:].strip()) for one in _apart(part))


def _apart(part: str) -> tuple[str, ...]:
    """Return the text between two commas as the operands that it consists of."""
    found = _GLUED.fullmatch(part)
    if found is None:
        return (part,)
    first, then = found[1], found[2]
    # Where data go comes first; LDGSTS has it last there.
    return (then, first) if first.startswith("desc") else (first, *_apart(then))
