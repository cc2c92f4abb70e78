"""The binary layout of records, from Python and from C, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tileprof.errors import ProfileFileError
from tileprof.instrument.records import (
    HEADER,
    RECORD,
    allocate,
    append,
    c_struct,
    make_records,
    read,
    read_lost,
)

STORED = bytes.fromhex(
    "54505245434f5244"  # TPRECORD
    "0100000010000000"  # version 1, 16 bytes a record
    "0200000000000000"  # capacity 2
    "0200000000000000"  # written 2
    "0100000000000000"  # lost 1
    "0300000000000000"  # worker 3
    "6400000000000000"  # clock 100
    "0700000004000000"  # block 7, site 2 begins
    "c800000000000000"  # clock 200
    "0700000005000000"  # block 7, site 2 ends
)


def test_stored_bytes_are_what_python_writes() -> None:
    """A buffer has these bytes and no others; a third record is counted as lost."""
    buffer = allocate(2, worker=3)
    append(buffer, make_records([100, 200, 300], 7, [4, 5, 6]))
    assert bytes(buffer) == STORED


def test_stored_bytes_are_read_back() -> None:
    """Clock, block and tag of each record, and the number lost."""
    buffer = np.frombuffer(STORED, np.uint8)
    assert read(buffer).tolist() == [(100, 7, 4), (200, 7, 5)]
    assert read_lost(buffer) == 1


PROGRAM = """
#include <stdio.h>
int main(void) {
  union { TpHeader header; unsigned char bytes[48 + 32]; } b = {{%s}};
  tp_note(&b.header, 100, 7, 4);
  tp_note(&b.header, 200, 7, 5);
  tp_note(&b.header, 300, 7, 6);
  fwrite(&b, 1, sizeof b, stdout);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_stored_bytes_are_what_c_writes(tmp_path: Path) -> None:
    """The printed C struct and its function give the same bytes as Python."""
    header = allocate(2, worker=3)[: HEADER.itemsize].view(HEADER)[0].tolist()
    source = tmp_path / "write.c"
    source.write_text(c_struct() + PROGRAM % ", ".join(f"{v}u" for v in header))
    subprocess.run(["cc", "-std=c11", "-o", tmp_path / "write", source], check=True)
    assert subprocess.run([tmp_path / "write"], capture_output=True, check=True).stdout == STORED


def test_c_struct(golden: Callable[[str], None]) -> None:
    """The C text that emitted kernels include."""
    golden(c_struct())


def test_sizes_keep_records_aligned() -> None:
    """Both sizes are multiples of 16: a record never straddles a cache line it could avoid."""
    assert (HEADER.itemsize, RECORD.itemsize) == (48, 16)


def _with(at: int, value: bytes) -> bytes:
    return STORED[:at] + value + STORED[at + len(value) :]


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (STORED[:20], "20 bytes are no record buffer: its header alone has 48"),
        (STORED[:-1], "a record buffer is cut short: 2 records were written, 1 are there"),
        (_with(0, b"X"), "these bytes are no record buffer: they do not start with TPRECORD"),
        (_with(8, b"\x09"), "records of version 9 with 16 bytes each cannot be read; this is"),
        (_with(24, b"\x05"), "a record buffer for 2 records says that 5 were written: it went"),
    ],
    ids=["header cut", "records cut", "foreign", "newer", "went round"],
)
def test_bad_bytes_are_refused_with_a_sentence(stored: bytes, message: str) -> None:
    """Bytes that cannot be trusted say why, and what to do."""
    with pytest.raises(ProfileFileError) as caught:
        read(np.frombuffer(stored, np.uint8))
    assert caught.value.message.startswith(message)
    assert caught.value.hint
