"""The ELF container of a cubin: sections, symbols and relocations, with nothing but `struct`.

In: bytes.  Out: `Elf`; `CubinError` says what the bytes are when they are no cubin.  Layout: the
ELF-64 specification; machine 190 is "NVIDIA CUDA architecture".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tileprof.errors import CubinError
from tileprof.once import cached_property

from . import limits

CUDA_MACHINE = 190
NO_BITS = 8
SYMBOL_TABLE = 2
FUNCTION = 2
RELOCATION_SECTIONS = {4: "<QQq", 9: "<QQ"}
"""Section type -> layout of one entry: RELA holds an addend, REL leaves it in place."""
AGAIN = "Write or copy it again."
MAKE = "`nvcc -cubin -arch sm_90a FILE.cu` makes a cubin."
EXTRACT = "`cuobjdump -xelf all FILE` takes the cubins out of it."


@dataclass(frozen=True, slots=True)
class Section:
    """One section; `size` counts bytes that take no room in the file (shared memory) too."""

    index: int
    name: str
    kind: int
    flags: int
    info: int
    link: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; `section` is the index of the section that holds it."""

    index: int
    name: str
    value: int
    size: int
    kind: int
    """2 is a function, 3 a section."""
    other: int
    section: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """Place of an address in a section: that of `symbol`, plus `addend` (None: in place)."""

    offset: int
    symbol: int
    addend: int | None


@dataclass(frozen=True)
class Elf:
    """The parts of a cubin."""

    abi_version: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    @cached_property
    def _by_name(self) -> dict[str, Section]:
        # Of several sections of one name the first counts.
        return {each.name: each for each in reversed(self.sections)}

    @cached_property
    def _by_target(self) -> dict[int, list[Section]]:
        found: dict[int, list[Section]] = {}
        for section in self.sections:
            if section.kind in RELOCATION_SECTIONS:
                found.setdefault(section.info, []).append(section)
        return found

    @cached_property
    def functions(self) -> dict[int, list[Symbol]]:
        """Index of a section -> the functions in it."""
        found: dict[int, list[Symbol]] = {}
        for symbol in self.symbols:
            if symbol.kind == FUNCTION:
                found.setdefault(symbol.section, []).append(symbol)
        return found

    @cached_property
    def constant_bytes(self) -> dict[str, int]:
        """Name of a function -> bytes of its constant banks."""
        found: dict[str, int] = {}
        for each in self.sections:
            if each.name.startswith(".nv.constant"):
                name = each.name.partition(".nv.constant")[2][2:]
                found[name] = found.get(name, 0) + each.size
        return found

    def section(self, name: str) -> Section | None:
        """Return the section of that name, if there is one."""
        return self._by_name.get(name)

    def relocations(self, target: Section) -> Iterator[Relocation]:
        """Yield the relocations of a section."""
        for section in self._by_target.get(target.index, ()):
            layout = RELOCATION_SECTIONS[section.kind]
            for offset, info, *addend in struct.iter_unpack(layout, section.data):
                yield Relocation(offset, info >> 32, addend[0] if addend else None)


def parse_elf(data: bytes) -> Elf:
    """Return the ELF of a cubin; `CubinError` where the bytes are something else, or cut short."""
    _refuse_others(data)
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise CubinError(f"the cubin is cut short or damaged: {error}", hint=AGAIN) from None


def _refuse_others(data: bytes) -> None:
    if not data:
        raise CubinError("the file is empty, so it is not a cubin", hint=AGAIN)
    if data[:4] == b"\x50\xed\x55\xba":
        raise CubinError("this is a fatbin, a container of cubins and PTX", hint=EXTRACT)
    if data[:4] != b"\x7fELF":
        raise _foreign(data)
    if len(data) < 64 or data[4] != 2:
        raise CubinError(
            "the cubin is cut short or damaged: it has no whole 64-bit ELF header", hint=AGAIN
        )
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != CUDA_MACHINE:
        raise CubinError(f"this is a program or library of a host (ELF {machine})", hint=EXTRACT)


def _foreign(data: bytes) -> CubinError:
    try:
        text = data[:4096].decode()
    except UnicodeDecodeError:
        return CubinError("this is not a cubin: it does not begin as an ELF file does", hint=MAKE)
    if ".version" in text and ".target" in text:
        way_out = "`ptxas -arch sm_90a -lineinfo FILE -o FILE.cubin` makes a cubin of it."
        return CubinError("this is PTX text, not a cubin", hint=way_out)
    return CubinError("this is text, not a cubin", hint=MAKE)


def _parse(data: bytes) -> Elf:
    flags = struct.unpack_from("<I", data, 0x30)[0]
    table = struct.unpack_from("<Q", data, 0x28)[0]
    count, names_at = struct.unpack_from("<HH", data, 0x3C)
    if table + 64 * count > len(data):
        raise ValueError(f"its sections are listed up to byte {table + 64 * count} of {len(data)}")
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    total = sum(header[5] for header in headers if header[1] != NO_BITS)
    if total > len(data):
        raise limits.too_much(f"its sections have {total:,} of {len(data):,} bytes and overlap")
    names = Names(_contents(data, headers[names_at]))
    sections = tuple(_section(i, header, names, data) for i, header in enumerate(headers))
    return Elf(data[8], flags, sections, tuple(_symbols(sections)))


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, start, size = header[1], header[4], header[5]
    if kind == NO_BITS:
        return b""
    if start + size > len(data):
        raise ValueError(f"a section ends at byte {start + size} of {len(data)}")
    return data[start : start + size]


def _section(index: int, header: tuple[int, ...], names: Names, data: bytes) -> Section:
    name, kind, flags, _, _, size, link, info, *_ = header
    return Section(index, names.at(name), kind, flags, info, link, size, _contents(data, header))


def _symbols(sections: tuple[Section, ...]) -> Iterator[Symbol]:
    for table in sections:
        if table.kind != SYMBOL_TABLE:
            continue
        names = Names(sections[table.link].data)
        for i, entry in enumerate(struct.iter_unpack("<IBBHQQ", table.data)):
            name, info, other, section, value, size = entry
            yield Symbol(i, names.at(name), value, size, info & 15, other, section)


@dataclass(slots=True)
class Names:
    """A string table, in which each name is read once."""

    table: bytes
    _known: dict[int, str] = field(default_factory=dict)
    _bytes: int = 0

    def at(self, start: int) -> str:
        """Return the zero-ended string at an offset."""
        found = self._known.get(start)
        if found is None:
            found = self._known[start] = text_at(self.table, start)
            self._bytes += len(found)
            if self._bytes > limits.MOST_NAMES_BYTES:
                raise limits.too_much(f"its names have more than {limits.MOST_NAMES_BYTES:,} bytes")
        return found


def text_at(table: bytes, start: int) -> str:
    """Return the zero-ended string of a string table."""
    end = table.find(b"\0", start, start + limits.MOST_NAME_BYTES)
    if end < 0:
        raise ValueError("a name does not end")
    return table[start:end].decode()
