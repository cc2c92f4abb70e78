"""The functions of a program or a library, as the symbol tables of its file say.

In: the path of an ELF file.  Out: the function at an address.  Layout: the ELF-64 specification.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_SYMBOLS, _NOTES, _NO_BITS, _DYNAMIC_SYMBOLS = 2, 7, 8, 11
_FUNCTION, _CHOSEN_AT_LOADING = 2, 10
_BUILD_ID = 3
_ENTRY = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
     ("size", "<u8")]
)  # fmt: skip
_LONGEST_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of one file, in the order of their addresses."""

    starts: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    names: npt.NDArray[np.uint32]
    """Offset of each one's name among the texts."""
    file: mmap.mmap
    texts: int
    """Offset of the texts in the file: too many to hold in memory, for a library as PyTorch's."""
    build_id: str
    """The linker's identification of the file, in hexadecimal; '' without one."""
    has_lines: bool
    """Whether the file says which line of source code an instruction is of."""

    def name_at(self, address: int) -> str:
        """Return the mangled name of the function that holds an address, '' where none does."""
        at = int(np.searchsorted(self.starts, np.uint64(address), side="right")) - 1
        if at < 0 or address - int(self.starts[at]) >= int(self.sizes[at]):
            return ""
        return _text(self.file, self.texts + int(self.names[at]))


def read_functions(path: str) -> Functions | None:
    """Read a file's symbols; None where it cannot be read or is no 64-bit ELF file."""
    try:
        with open(path, "rb") as file:
            return _parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, struct.error, IndexError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class _Section:
    name: int
    kind: int
    start: int
    size: int
    link: int


def _parse(data: mmap.mmap) -> Functions:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not an ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count, names_at = struct.unpack_from("<HH", data, 0x3C)
    sections = []
    for number in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * number)
        if fields[1] != _NO_BITS and fields[4] + fields[5] > len(data):
            raise ValueError("a section ends beyond the file")
        sections.append(_Section(fields[0], fields[1], fields[4], fields[5], fields[6]))
    names = {_text(data, sections[names_at].start + each.name) for each in sections}
    kinds = {each.kind: each for each in reversed(sections)}
    symbols = kinds.get(_SYMBOLS) or kinds.get(_DYNAMIC_SYMBOLS)
    entries: Any = np.zeros(0, _ENTRY)
    texts = 0
    if symbols is not None:
        held = data[symbols.start : symbols.start + symbols.size]
        entries = np.frombuffer(held, _ENTRY, len(held) // _ENTRY.itemsize)
        texts = sections[symbols.link].start
    kind = entries["info"] & 15
    is_function = ((kind == _FUNCTION) | (kind == _CHOSEN_AT_LOADING)) & (entries["section"] != 0)
    entries = entries[is_function & (entries["value"] != 0)]
    # Of several names of one function, the one that covers most of it comes last.
    entries = entries[np.lexsort((entries["size"], entries["value"]))]
    starts = entries["value"]
    sizes = entries["size"].copy()
    # Functions written in assembler may lack a size: they end where the next one begins.
    following = np.append(starts[1:], starts[-1:])
    sizes[sizes == 0] = (following - starts)[sizes == 0]
    lines = bool(names & {".debug_line", ".zdebug_line"})
    names_of = entries["name"].copy()
    return Functions(starts.copy(), sizes, names_of, data, texts, _build_id(data, sections), lines)


def _build_id(data: mmap.mmap, sections: list[_Section]) -> str:
    for section in sections:
        at, end = section.start, section.start + section.size
        while section.kind == _NOTES and at + 12 <= end:
            name_size, size, kind = struct.unpack_from("<III", data, at)
            content = at + 12 + (name_size + 3 & ~3)
            if kind == _BUILD_ID and data[at + 12 : at + 16] == b"GNU\0":
                return data[content : content + size].hex()
            at = content + (size + 3 & ~3)
    return ""


def _text(data: mmap.mmap, start: int) -> str:
    end = data.find(b"\0", start, start + _LONGEST_NAME)
    return data[start:end].decode(errors="replace") if end > start else ""
