"""The layout of a GPU's records, stated once: tables, from which NumPy reads and CUDA writes.

In: nothing.  Out: NumPy types of the arena's head, of a slot's head, of a record and of a launch's
argument; and `cuda_text()`, which prints them as structs beside the functions of `slots.cuh`.
What the fields are for is in `slots.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from .records import C_TYPES, Fields, numpy_type

VERSION: Final = 1

_ARENA: Fields = (
    ("claimed", "u64", "slots that were given to warps"),
    ("released", "u64", "of these, slots that the host has read"),
    ("lost", "u64", "claims that found no free slot"),
    ("admitted", "u64", "claims that may take a ticket, and those about to be refused"),
    ("slots", "u32", "a power of two"),
    ("capacity", "u32", "records of a slot, a power of two"),
    ("records_at", "u32", "where the records begin"),
    ("version", "u32", "of this layout"),
    ("reserved0", "u64", "0"),
    ("reserved1", "u64", "0"),
)
_SLOT: Fields = (
    ("ready", "u32", "the low bits of ticket + 1, written last"),
    ("tag", "u32", "of the launch"),
    ("block", "u32", "number of the block"),
    ("warp", "u16", "number of the warp in its block"),
    ("flags", "u16", "bit 0: goes round"),
    ("sm", "u32", "multiprocessor"),
    ("wanted", "u32", "records that the warp made"),
    ("begin_ns", "u64", "globaltimer"),
    ("end_ns", "u64", "globaltimer"),
    ("begin_clock", "u64", "cycles of the multiprocessor"),
    ("end_clock", "u64", "cycles of the multiprocessor"),
    ("kept", "u32", "records that are there"),
    ("ticket", "u32", "its low bits"),
)
_RECORD: Fields = (
    ("clock", "u32", "cycles, the low bits"),
    ("state", "u32", "in which the warp is from here on"),
)
_RECORDING: Fields = (
    ("arena", "u64", "address; 0: nothing is recorded"),
    ("tag", "u32", "of the launch"),
    ("others", "u32", "blocks whose number is first in these bits are recorded"),
    ("first", "u32", "see others"),
    ("warps", "u32", "bit i: warp i is recorded; bit 31: all from 31 on"),
    ("limit", "u32", "records after which a slot is full; 0xFFFFFFFF: it goes round"),
    ("mask", "u32", "bytes of a slot's records - 1"),
    ("turns", "u64", "address of a count of these blocks, most of which then pass; 0: all record"),
)
_STRUCTS = (("TpArena", _ARENA), ("TpSlot", _SLOT), ("TpRecord", _RECORD))


ARENA = numpy_type(_ARENA)
SLOT = numpy_type(_SLOT)
RECORD = numpy_type(_RECORD)
RECORDING = numpy_type(_RECORDING)
RELEASED_AT: Final = 8
"""Offset of `released` in an arena, in bytes."""


@cache
def cuda_text() -> str:
    """Return the header `records.cuh`: the layout as structs, and what a warp does.

    `tp_begin(recording)` by a whole warp, of which lane 0 records, or `tp_begin_alone(recording)`
    by one thread; then `tp_mark(warp, state)`; at last `tp_end(warp)`.
    """
    structs = "\n".join(
        f"struct {name} {{\n{_members(layout)}\n}};"
        for name, layout in (*_STRUCTS, ("TpRecording", _RECORDING))
    )
    return (Path(__file__).parent / "slots.cuh").read_text().replace("// STRUCTS\n", f"{structs}\n")


def _members(layout: Fields) -> str:
    return "\n".join(f"  {C_TYPES[type_]} {name};  // {note}" for name, type_, note in layout)
