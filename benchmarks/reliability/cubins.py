"""Mutated cubins: each is refused with a sentence, or read as `tileprof inspect` reads it.

    python -m benchmarks.reliability.cubins --runs 20000 --jobs 16 -o out.json

One mutant of 50 is disassembled as well (nvdisasm takes about 0.1 s).  Seed n gives the same mutant
each time: `--seed n --runs 1 --jobs 1`.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

from tileprof.binary.cubin import Function, _parse
from tileprof.binary.line_table import line_tables

from .mutants import Mutate, Read, flipped, main_of

__all__ = ["kept", "main", "prepare"]

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "data" / "fuzz" / "cubins"
DISASSEMBLED = 50
"""One mutant of so many is disassembled."""
VALUES = (0, 1, 2, 8, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
_HEADER = ((0x28, "Q"), (0x30, "I"), (0x3A, "H"), (0x3C, "H"), (0x3E, "H"), (8, "B"), (18, "H"))
_SECTION = ((0, "I"), (4, "I"), (8, "Q"), (24, "Q"), (32, "Q"), (40, "I"), (44, "I"))


def kept() -> list[bytes]:
    """Return the cubins that mutants are made from."""
    data = ROOT / "tests" / "binary" / "data"
    paths = [*sorted(CORPUS.glob("*.cubin")), *sorted(data.glob("*.cubin"))]
    return [path.read_bytes() for path in paths]


def prepare() -> tuple[Mutate, Read]:
    """How a mutant is made, and how it is read."""
    seeds = kept()

    def mutate(draw: random.Random) -> Any:
        content = draw.choice(seeds)
        if draw.randrange(2):
            content = _field(content, draw)
        if draw.randrange(2):
            content = _inside(content, draw)
        return content if draw.randrange(3) else flipped(content, draw)

    def read(content: Any, draw: random.Random) -> str:
        # The cache of what was read would keep all mutants.
        cubin = _parse.__wrapped__(content)
        functions = list(cubin.functions.values())
        for each in functions[:50]:
            _ = each.resources, each.procedures, each.lines
        line_tables(cubin.elf)
        if draw.randrange(DISASSEMBLED) or not functions:
            return "read"
        cubin.read_code()
        for each in functions[:3]:
            _disassembled(each)
        return "disassembled"

    return mutate, read


def _disassembled(function: Function) -> None:
    """Read what is derived from the instructions of a function."""
    for loop in function.loops:
        function.chain(loop.start), function.depth(loop.start), function.loop(loop.start)
        _ = sum(1 for _ in function.inside(loop))
    for each in function.instructions[:: max(1, len(function.instructions) // 20)]:
        function.slice(each.offset, limit=50)
    _ = function.spills(), function.mix, function.constants, function.count("LDG")


def _field(content: bytes, draw: random.Random) -> bytes:
    """A field of the header or of a section's header changed."""
    made = bytearray(content)
    (table,) = struct.unpack_from("<Q", made, 0x28)
    (count,) = struct.unpack_from("<H", made, 0x3C)
    at, kind = draw.choice(_HEADER)
    if draw.randrange(8) and count:
        at, kind = draw.choice(_SECTION)
        at += table + 64 * draw.randrange(count)
    size = struct.calcsize(kind)
    value = draw.choice((*VALUES, draw.randrange(len(made)), len(made)))
    if at + size <= len(made):
        struct.pack_into(f"<{kind}", made, at, value & ((1 << 8 * size) - 1))
    return bytes(made)


def _inside(content: bytes, draw: random.Random) -> bytes:
    """Bytes of one section changed: that of names, lines, attributes or code."""
    (table,) = struct.unpack_from("<Q", content, 0x28)
    (count,) = struct.unpack_from("<H", content, 0x3C)
    if not count or table + 64 * count > len(content):
        return content
    at = table + 64 * draw.randrange(count)
    start, size = struct.unpack_from("<QQ", content, at + 24)
    part = content[start : start + size]
    changed = flipped(part, draw)
    changed = (changed + bytes(len(part)))[: len(part)]
    return content[:start] + changed + content[start + len(part) :]


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the campaign of a command line."""
    return main_of("cubins", prepare, argv)


if __name__ == "__main__":
    main()
