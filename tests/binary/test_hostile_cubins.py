"""Cubins that are made to be hard to read: each is refused, or read within limits."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tileprof import binary
from tileprof.binary.elf import parse_elf, text_at
from tileprof.binary.line_table import line_tables
from tileprof.errors import CubinError, Location, source_lines

SPILL = Path(__file__).parent / "data" / "spill.sm_90a.cubin"


def elf(sections: list[tuple[int, int, int, int]], body: bytes) -> bytes:
    """An ELF of sections (name, kind, start, size); the first one has the names."""
    head = bytearray(64)
    head[:9] = b"\x7fELF\x02\x01\x01\x33\x07"
    struct.pack_into("<H", head, 18, 190)
    struct.pack_into("<Q", head, 0x28, 64 + len(body))
    struct.pack_into("<I", head, 0x30, 90)
    struct.pack_into("<HH", head, 0x3C, len(sections), 0)
    table = b"".join(struct.pack("<IIQQQQIIQQ", n, k, 0, 0, at, size, 0, 0, 0, 0)
                     for n, k, at, size in sections)  # fmt: skip
    return bytes(head) + body + table


def test_sections_that_overlap_are_refused() -> None:
    """60,000 sections of 100 kB each would take 6 GB."""
    names = (0, 3, 64, 100_000)
    with pytest.raises(CubinError, match="its sections have 6,000,000,000 of"):
        parse_elf(elf([names] * 60_000, bytes(100_000)))


def test_names_that_overlap_are_refused() -> None:
    """Each is the end of the one before, so that all together are much longer than the file."""
    body = b"a" * 65_000 + bytes(1)
    names = (0, 3, 64, len(body))
    with pytest.raises(CubinError, match="its names have more than"):
        parse_elf(elf([names, *[(n, 8, 0, 0) for n in range(3_000)]], body))


def test_a_name_without_an_end_is_refused() -> None:
    """Looking for the end takes no longer than a name can be."""
    with pytest.raises(ValueError, match="a name does not end"):
        text_at(b"a" * 100_000, 0)


def line_program(program: bytes, *, header: int | None = None) -> bytes:
    """A line table with one file."""
    tables = bytes([4, 1, 0, 10, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1]) + b"\0" + b"a.cu\0\0\0\0" + b"\0"
    inner = struct.pack("<HI", 2, len(tables) if header is None else header) + tables + program
    return struct.pack("<I", len(inner)) + inner


def with_lines(table: bytes) -> bytes:
    """A cubin of nothing but a line table and names."""
    names = b"\0.debug_line\0"
    sections = [(0, 3, 64, len(names)), (1, 1, 64 + len(names), len(table))]
    return elf(sections, names + table)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (b"\x01" * 10_000, "many more rows than there are instructions"),
        (
            b"".join(b"\0\x04\x90" + struct.pack("<BBB", 0x80 | n & 127, n >> 7, 0) + b"\x01"
                     for n in range(1, 1000)),
            "inlined into each other without end",
        ),
        (b"\x02" + b"\xff" * 1000, "a number does not end"),
    ],
)  # fmt: skip
def test_line_tables_without_end_are_refused(program: bytes, sentence: str) -> None:
    """Rows, calls within each other, numbers."""
    line_program_of = with_lines(line_program(b"\x01" + program))
    with pytest.raises(CubinError, match=sentence):
        line_tables(parse_elf(line_program_of))


def test_a_line_table_that_goes_back_is_refused() -> None:
    """It would read the same names again and again."""
    with pytest.raises(CubinError, match="a program begins before its tables end"):
        line_tables(parse_elf(with_lines(line_program(b"\x01", header=0))))


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    os.mkfifo(tmp_path / "a.cubin")
    with pytest.raises(CubinError, match="is not a file"):
        binary.read(tmp_path / "a.cubin")


def test_a_place_in_a_device_or_a_pipe_has_no_text(tmp_path: Path) -> None:
    """A line table may name anything."""
    os.mkfifo(tmp_path / "pipe.py")
    assert source_lines("/dev/zero") == source_lines(str(tmp_path / "pipe.py")) == []
    assert Location("/dev/zero", 1).excerpt() == ""


def test_a_disassembly_without_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The output of nvdisasm is limited in bytes, its run in wall time and in processor time."""
    from tileprof.binary import disassembly, limits

    tool = tmp_path / "nvdisasm"
    monkeypatch.setattr(disassembly, "find_nvdisasm", lambda: tool)
    tool.write_text("#!/bin/sh\nexec yes\n")
    tool.chmod(0o755)
    with pytest.raises(CubinError, match="nvdisasm prints more than"):
        disassembly.disassemble(SPILL.read_bytes(), {"k": bytes(16)})
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    with monkeypatch.context() as patch:
        patch.setattr(limits, "disassembly_seconds", lambda size: 0.02)
        with pytest.raises(CubinError, match="did not end within"):
            disassembly.disassemble(SPILL.read_bytes(), {"k": bytes(16)})
    # The limit that the system holds it to, and the signal with which it does.
    bounded = "while [ $(ulimit -t) = unlimited ]; do sleep 0.01; done"  # just after its begin
    tool.write_text(f"#!/bin/sh\n{bounded}\nulimit -t > limit\nkill -XCPU $$\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CubinError, match="did not end within 8 s"):
        disassembly.disassemble(SPILL.read_bytes(), {"k": bytes(16)})
    assert (tmp_path / "limit").read_text() == "9\n"
