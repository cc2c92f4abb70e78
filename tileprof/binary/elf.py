"""The ELF container of a cubin: sections, symbols and relocations, with nothing but `struct`.

In: bytes.  Out: `Elf`; `CubinError` says what the bytes are when they are no cubin.  Layout: the
ELF-64 specification; machine 190 is "NVIDIA CUDA architecture".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.errors import CubinError

__all__ = ["Elf", "Section", "Symbol", "parse_elf"]

CUDA_MACHINE = 190
NO_BITS = 8
SYMBOL_TABLE = 2
RELOCATION_SECTIONS = {4: "<QQq", 9: "<QQ"}
"""Section type -> layout of one entry: RELA holds an addend, REL leaves it in place."""
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
    """Where an address goes into a section: that of `symbol`, plus `addend` (None: in place)."""

    offset: int
    symbol: int
    addend: int | None


@dataclass(frozen=True, slots=True)
class Elf:
    """The parts of a cubin."""

    abi_version: int
    flags: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    def section(self, name: str) -> Section | None:
        """The section of that name, if there is one."""
        return next((each for each in self.sections if each.name == name), None)

    def relocations(self, target: Section) -> Iterator[Relocation]:
        """The relocations of a section."""
        for section in self.sections:
            layout = RELOCATION_SECTIONS.get(section.kind)
            if layout is None or section.info != target.index:
                continue
            for offset, info, *addend in struct.iter_unpack(layout, section.data):
                yield Relocation(offset, info >> 32, addend[0] if addend else None)


def parse_elf(data: bytes) -> Elf:
    """The ELF of a cubin; `CubinError` where the bytes are something else, or cut short."""
    _refuse_others(data)
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise CubinError(
            f"the cubin is cut short or damaged: {error}", hint="Write or copy it again."
        ) from None


def _refuse_others(data: bytes) -> None:
    if not data:
        raise CubinError("the file is empty, so it is no cubin")
    if data[:4] == b"\x50\xed\x55\xba":
        raise CubinError("this is a fatbin, a container of cubins and PTX", hint=EXTRACT)
    if data[:4] != b"\x7fELF":
        raise _foreign(data)
    if len(data) < 64 or data[4] != 2:
        raise CubinError("the cubin is cut short or damaged: it has no whole 64-bit ELF header")
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != CUDA_MACHINE:
        raise CubinError(f"this is a program or library of a host (ELF {machine})", hint=EXTRACT)


def _foreign(data: bytes) -> CubinError:
    try:
        text = data[:4096].decode()
    except UnicodeDecodeError:
        return CubinError("this is no cubin: it does not begin as an ELF file does")
    if ".version" in text and ".target" in text:
        way_out = "`ptxas -arch sm_90a -lineinfo FILE -o FILE.cubin` makes a cubin of it."
        return CubinError("this is PTX text, not a cubin", hint=way_out)
    return CubinError("this is text, not a cubin")


def _parse(data: bytes) -> Elf:
    flags = struct.unpack_from("<I", data, 0x30)[0]
    table = struct.unpack_from("<Q", data, 0x28)[0]
    count, names_at = struct.unpack_from("<HH", data, 0x3C)
    if table + 64 * count > len(data):
        raise ValueError(f"its sections are listed up to byte {table + 64 * count} of {len(data)}")
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    names = _contents(data, headers[names_at])
    sections = tuple(_section(i, header, names, data) for i, header in enumerate(headers))
    return Elf(data[8], flags, sections, tuple(_symbols(sections)))


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, start, size = header[1], header[4], header[5]
    if kind == NO_BITS:
        return b""
    if start + size > len(data):
        raise ValueError(f"a section ends at byte {start + size} of {len(data)}")
    return data[start : start + size]


def _section(index: int, header: tuple[int, ...], names: bytes, data: bytes) -> Section:
    name, kind, flags, _, _, size, link, info, *_ = header
    return Section(
        index, text_at(names, name), kind, flags, info, link, size, _contents(data, header)
    )


def _symbols(sections: tuple[Section, ...]) -> Iterator[Symbol]:
    for table in sections:
        if table.kind != SYMBOL_TABLE:
            continue
        names = sections[table.link].data
        for i, entry in enumerate(struct.iter_unpack("<IBBHQQ", table.data)):
            name, info, other, section, value, size = entry
            yield Symbol(i, text_at(names, name), value, size, info & 15, other, section)


def text_at(table: bytes, start: int) -> str:
    """The zero-ended string of a string table."""
    return table[start : table.index(b"\0", start)].decode()
