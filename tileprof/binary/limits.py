"""Limits for reading cubins: a file may come from anyone, and at worst it is refused.

The limits are chosen so that a file of 10 MB takes at most 1 GB and 10 s.  Cubins of compilers
stay far below these limits: their sections do not overlap, and their line tables have at most one
row for an instruction.
"""

from __future__ import annotations

from tileprof.errors import CubinError

MOST_FILE_BYTES = 512 << 20
MOST_NAME_BYTES = 1 << 16
"""Length of one name; mangled names of C++ templates have some thousands."""
MOST_NAMES_BYTES = 64 << 20
"""Length of all names that are read from one string table."""
DEEPEST_INLINING = 256
"""Calls within each other that one instruction was inlined from."""
MOST_LINKS = 4_000_000
"""Places in all chains of a line table together."""
MOST_BLOCKS = 50_000
"""Basic blocks of a function."""
MOST_EDGES = 500_000
MOST_LOOP_BLOCKS = 2_000_000
"""Blocks in all loops of a function, each counted in every loop around it."""
MOST_CODE_AT_ONCE = 2 << 20
"""Bytes of code that one command shows: about 300 bytes of text for each 16 of them."""

WAIT_FACTOR = 10.0
"""Time that nvdisasm may take, as a multiple of the processor time that it may take.  On a machine
with much else to do, 0.3 s of processor time were seen to take 8 s."""


def most_rows(code_bytes: int) -> int:
    """Return how many rows a line table may have for so much code."""
    return code_bytes // 4 + 4096


def disassembly_bytes(code_bytes: int) -> int:
    """Return how much nvdisasm may print: it takes about 15 times the code."""
    return 64 * code_bytes + (4 << 20)


def disassembly_seconds(code_bytes: int) -> float:
    """Return how much processor time nvdisasm may take: it takes 0.3 s and about 3 s a megabyte."""
    return 8 + 30 * code_bytes / 1e6


def too_much(what: str) -> CubinError:
    """Return the error about a cubin that asks for more than it can need."""
    return CubinError(f"the cubin is damaged or made to be hard to read: {what}")
