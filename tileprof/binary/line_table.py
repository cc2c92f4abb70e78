"""Source lines from `.debug_line`: DWARF 2 to 4, with NVIDIA's opcode for inlined calls.

In: an `Elf`.  Out: for each function, rows of (offset, chain), where a chain leads from the line
itself to the kernel through the calls that were inlined.

The line program is the standard's.  NVIDIA adds the extended opcode 0x90: two numbers, the row
(from 1, in the same sequence) that holds the call, 0 for none, and the callee's name as an offset
into `.debug_str`.  Both stay in force until the next one.  Tests compare with `nvdisasm -gi`; its
text is not used here, since it leaves a chain out where only the call differs, and names no
functions.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from tileprof.errors import CubinError

from . import limits
from .elf import Elf, Names, Section, text_at

END_SEQUENCE, SET_ADDRESS, INLINED_CALL = 1, 2, 0x90
LONGEST_NUMBER = 10
"""Bytes of a number of 64 bits, 7 bits each."""
STANDARD_ARGUMENTS = {1: 0, 2: 1, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 0, 9: 1, 10: 0, 11: 0, 12: 1}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of source text; `function` is the (mangled) name of the function it stands in."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


Chain = tuple[Line, ...]
"""Source lines from the innermost outwards; empty where nothing is known."""


@dataclass(frozen=True, slots=True)
class LineTable:
    """The lines of one function, by offset of the instruction."""

    starts: tuple[int, ...] = ()
    chains: tuple[Chain, ...] = ()

    def chain(self, offset: int) -> Chain:
        """Return the chain of the instruction at an offset."""
        at = bisect_right(self.starts, offset) - 1
        return self.chains[at] if at >= 0 else ()


@dataclass(slots=True)
class _Row:
    address: int
    file: int
    line: int
    context: int
    name: int


@dataclass(slots=True)
class _Sequence:
    """One run of the line program: the code of one section."""

    section: int
    rows: list[_Row] = field(default_factory=list)
    end: int = 0


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def take(self, layout: str) -> int:
        value = int(struct.unpack_from(layout, self.data, self.at)[0])
        self.at += struct.calcsize(layout)
        return value

    def unsigned(self) -> int:
        """Read a ULEB128 number."""
        value = shift = 0
        for _ in range(LONGEST_NUMBER):
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise ValueError("a number does not end")

    def signed(self) -> int:
        """Read an SLEB128 number."""
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        """Read a zero-terminated string."""
        found = text_at(self.data, self.at)
        self.at += len(found.encode()) + 1
        return found


def line_tables(elf: Elf) -> dict[int, LineTable]:
    """Return line tables by index of code section; empty where the cubin has none."""
    section = elf.section(".debug_line")
    if section is None:
        return {}
    names = elf.section(".debug_str")
    try:
        return _decode(elf, section, names.data if names else b"")
    except (struct.error, IndexError, ValueError, ArithmeticError) as error:
        raise CubinError(f"the cubin's line table is damaged: {error}") from None


def _decode(elf: Elf, section: Section, names: bytes) -> dict[int, LineTable]:
    targets = _addresses(elf, section)
    code = sum(s.size for s in elf.sections if s.name.startswith(".text."))
    budget = _Budget(limits.most_rows(code))
    functions = Names(names)
    found: dict[int, list[tuple[int, Chain]]] = {}
    reader = _Reader(section.data)
    while reader.at < len(section.data):
        unit = _Unit(reader, targets, budget)
        for sequence in unit.sequences():
            rows = found.setdefault(sequence.section, [])
            rows += _chains(sequence, unit.files, functions, budget)
    return {index: _table(rows) for index, rows in found.items()}


def _addresses(elf: Elf, section: Section) -> dict[int, tuple[int, int]]:
    """Offset in the line table of an address -> (section, offset in it) that it stands for."""
    found = {}
    for each in elf.relocations(section):
        symbol = elf.symbols[each.symbol]
        addend = each.addend
        if addend is None:
            addend = struct.unpack_from("<Q", section.data, each.offset)[0]
        found[each.offset] = (symbol.section, symbol.value + addend)
    return found


@dataclass(slots=True)
class _Budget:
    """Number of rows that may still be read from a line table."""

    rows: int
    links: int = limits.MOST_LINKS

    def row(self) -> None:
        """Count a row; raise an error where there are too many."""
        self.rows -= 1
        if self.rows < 0:
            raise limits.too_much("its line table has many more rows than there are instructions")

    def chain(self, length: int) -> None:
        """Count the places of a chain."""
        self.links -= length
        if length > limits.DEEPEST_INLINING or self.links < 0:
            raise limits.too_much("calls are inlined into each other without end")


class _Unit:
    """One unit of the line table: its header, then its program."""

    def __init__(
        self, reader: _Reader, targets: dict[int, tuple[int, int]], budget: _Budget
    ) -> None:
        self.reader = reader
        self.budget = budget
        self.targets = targets
        length = reader.take("<I")
        self.end = reader.at + length
        version = reader.take("<H")
        if not 2 <= version <= 4:
            raise ValueError(f"version {version} of DWARF is not known")
        program = reader.take("<I") + reader.at
        self.step = reader.take("<B")
        if version == 4:
            reader.take("<B")
        reader.take("<B")
        self.line_base, self.line_range = reader.take("<b"), reader.take("<B")
        self.opcode_base = reader.take("<B")
        self.arguments = dict(STANDARD_ARGUMENTS)
        self.arguments.update({i: reader.take("<B") for i in range(1, self.opcode_base)})
        self.files = _files(reader)
        if program < reader.at:
            # Going back would read the same names again and again.
            raise ValueError("a program begins before its tables end")
        reader.at = program

    def sequences(self) -> Iterator[_Sequence]:
        """Run the program to the end of the unit."""
        while self.reader.at < self.end:
            yield self._sequence()

    def _sequence(self) -> _Sequence:
        reader, row = self.reader, _Row(0, 1, 1, 0, 0)
        found = _Sequence(-1)

        def emit() -> None:
            self.budget.row()
            found.rows.append(_Row(row.address, row.file, row.line, row.context, row.name))

        while reader.at < self.end:
            opcode = reader.take("<B")
            if opcode == 0:
                if self._extended(row, found):
                    break
            elif opcode >= self.opcode_base:
                address, line = divmod(opcode - self.opcode_base, self.line_range)
                row.address += address * self.step
                row.line += self.line_base + line
                emit()
            elif opcode == 1:
                emit()
            else:
                self._standard(opcode, row)
        return found

    def _standard(self, opcode: int, row: _Row) -> None:
        reader = self.reader
        match opcode:
            case 2:
                row.address += reader.unsigned() * self.step
            case 3:
                row.line += reader.signed()
            case 4:
                row.file = reader.unsigned()
            case 8:
                row.address += (255 - self.opcode_base) // self.line_range * self.step
            case 9:
                row.address += reader.take("<H")
            case _:
                for _ in range(self.arguments[opcode]):
                    reader.unsigned()

    def _extended(self, row: _Row, found: _Sequence) -> bool:
        """Run one extended opcode; True where it ends the sequence."""
        reader = self.reader
        end = reader.unsigned() + reader.at
        opcode = reader.take("<B")
        if opcode == END_SEQUENCE:
            found.end = row.address
        elif opcode == SET_ADDRESS:
            found.section, row.address = self.targets.get(reader.at, (-1, 0))
        elif opcode == INLINED_CALL:
            row.context, row.name = reader.unsigned(), reader.unsigned()
        reader.at = end
        return opcode == END_SEQUENCE


def _files(reader: _Reader) -> list[str]:
    """Return file names by number; the first, of number 0, means unknown."""
    folders, files = [""], [""]
    while folder := reader.text():
        folders.append(folder)
    while name := reader.text():
        folder = folders[reader.unsigned()]
        reader.unsigned(), reader.unsigned()
        files.append(f"{folder}/{name}" if folder and not name.startswith("/") else name)
    return files


def _chains(
    sequence: _Sequence, files: list[str], names: Names, budget: _Budget
) -> Iterator[tuple[int, Chain]]:
    chains: list[Chain] = []
    for number, row in enumerate(sequence.rows):
        inside = 0 < row.context <= number
        file = files[row.file] if row.file < len(files) else ""
        function = names.at(row.name) if inside and row.name < len(names.table) else ""
        outer = chains[row.context - 1] if inside else ()
        budget.chain(1 + len(outer))
        chains.append((Line(file, row.line, function), *outer))
        yield row.address, chains[-1]
    yield sequence.end, ()


def _table(rows: list[tuple[int, Chain]]) -> LineTable:
    """Return rows in order; of several at one offset the last counts, but an end hides nothing."""
    by_start: dict[int, Chain] = {}
    for start, chain in rows:
        if chain or start not in by_start:
            by_start[start] = chain
    starts = sorted(by_start)
    return LineTable(tuple(starts), tuple(by_start[start] for start in starts))
