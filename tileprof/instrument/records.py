"""The record that a running kernel writes at the begin and the end of a site, stated once.

A worker (a thread of the CPU backend, the interpreter) owns one buffer: a header, then records in
the order in which they were written.  Python reads it through `HEADER` and `RECORD`; emitted code
writes it through the text of `c_struct()`, which is printed from the same table.

Rules of the format
- A full buffer keeps what it has; each further record is counted in `lost`.
- A worker finishes a block before it starts the next, so the records of a block lie together.
- Sites nest: within a block, a begin and the end that closes it enclose whole other pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof.errors import ProfileFileError

Bytes = NDArray[np.uint8]
Records = NDArray[Any]
"""A one-dimensional array of `RECORD`."""

MAGIC = int.from_bytes(b"TPRECORD", "little")
VERSION = 1

Fields = tuple[tuple[str, str, str], ...]
_HEADER: Fields = (
    ("magic", "u64", "the bytes TPRECORD"),
    ("version", "u32", "of this layout"),
    ("record_bytes", "u32", "size of one record"),
    ("capacity", "u64", "records that fit"),
    ("written", "u64", "records that are there"),
    ("lost", "u64", "records that found the buffer full"),
    ("worker", "u32", "which thread wrote it"),
    ("reserved", "u32", "0"),
)
_RECORD: Fields = (
    ("clock", "u64", "nanoseconds, from any one zero"),
    ("block", "u32", "linear index of the block, first grid axis fastest"),
    ("tag", "u32", "site * 2 + edge; edge 0 begins, 1 ends"),
)
C_TYPES = {"u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t"}


def numpy_type(layout: Fields) -> np.dtype[Any]:
    """Return the type of an array of such structs."""
    return np.dtype([(name, f"<u{int(type_[1:]) // 8}") for name, type_, _ in layout])


HEADER = numpy_type(_HEADER)
RECORD = numpy_type(_RECORD)


def c_struct() -> str:
    """Return the layout as C11 / C++ source: two structs, and the function that writes one record.

    `tp_note(buffer, clock, block, tag)` is the only function with which emitted code adds a record.
    """
    structs = "\n".join(
        f"typedef struct {{\n{_members(layout)}\n}} {name};"
        for name, layout in (("TpRecord", _RECORD), ("TpHeader", _HEADER))
    )
    return f"""#include <stdint.h>
{structs}
static inline void tp_note(TpHeader *buffer, uint64_t clock, uint32_t block, uint32_t tag) {{
  if (buffer->written < buffer->capacity) {{
    TpRecord *record = (TpRecord *)(buffer + 1) + buffer->written++;
    record->clock = clock;
    record->block = block;
    record->tag = tag;
  }} else {{
    buffer->lost++;
  }}
}}
"""


def _members(layout: Fields) -> str:
    return "\n".join(f"  {C_TYPES[type_]} {name}; /* {note} */" for name, type_, note in layout)


def allocate(capacity: int, *, worker: int = 0) -> Bytes:
    """Return an empty buffer for `capacity` records, as bytes to hand to a worker."""
    buffer = np.empty(HEADER.itemsize + capacity * RECORD.itemsize, np.uint8)
    header = buffer[: HEADER.itemsize].view(HEADER)
    header[0] = (MAGIC, VERSION, RECORD.itemsize, capacity, 0, 0, worker, 0)
    return buffer


def make_records(clock: Any, block: Any, tag: Any) -> Records:
    """Return records from their fields, each an array or a number, in the order of writing."""
    clock, block, tag = np.broadcast_arrays(clock, block, tag)
    made = np.empty(clock.size, RECORD)
    made["clock"], made["block"], made["tag"] = clock.ravel(), block.ravel(), tag.ravel()
    return made


def append(buffer: Bytes, records: Records) -> None:
    """Write records into a buffer; what does not fit is counted as lost."""
    header = buffer[: HEADER.itemsize].view(HEADER)
    at = int(header["written"][0])
    kept = min(len(records), int(header["capacity"][0]) - at)
    buffer[HEADER.itemsize :].view(RECORD)[at : at + kept] = records[:kept]
    header["written"] += np.uint64(kept)
    header["lost"] += np.uint64(len(records) - kept)


def read(buffer: Bytes) -> Records:
    """Return a buffer's records, sharing its memory; ProfileFileError where it is not whole."""
    header = _header(buffer)
    written, capacity = int(header["written"]), int(header["capacity"])
    if written > capacity:
        raise ProfileFileError(
            f"a record buffer for {capacity:,} records says that {written:,} were written: it went"
            " round, and which records are the oldest is not known",
            hint="Write with a larger capacity; a full buffer must stop and count what it loses.",
        )
    there = (len(buffer) - HEADER.itemsize) // RECORD.itemsize
    if written > there:
        raise ProfileFileError(
            f"a record buffer is cut short: {written:,} records were written, {there:,} are there",
            hint="Read it after the launch has ended, and whole.",
        )
    end = HEADER.itemsize + written * RECORD.itemsize
    return buffer[HEADER.itemsize : end].view(RECORD)


def read_lost(buffer: Bytes) -> int:
    """Return how many records found the buffer full."""
    return int(_header(buffer)["lost"])


def _header(buffer: Bytes) -> Any:
    if len(buffer) < HEADER.itemsize:
        raise ProfileFileError(
            f"{len(buffer)} bytes are no record buffer: its header alone has {HEADER.itemsize}",
            hint="Read the buffer whole.",
        )
    header = buffer[: HEADER.itemsize].view(HEADER)[0]
    if int(header["magic"]) != MAGIC:
        raise ProfileFileError(
            "these bytes are no record buffer: they do not start with TPRECORD",
            hint="Pass what an instrumented kernel wrote.",
        )
    found = (int(header["version"]), int(header["record_bytes"]))
    if found != (VERSION, RECORD.itemsize):
        raise ProfileFileError(
            f"records of version {found[0]} with {found[1]} bytes each cannot be read;"
            f" this is version {VERSION} with {RECORD.itemsize}",
            hint="Read them with the tileprof that wrote them.",
        )
    return header
