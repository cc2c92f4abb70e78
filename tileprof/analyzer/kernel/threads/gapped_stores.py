"""Stores of a thread's neighbouring bytes by several narrow instructions, and L2's work for them.

In: a kernel with its code.  Out: `Gapped`: places of stores between whose bytes the same thread's
other stores lie; the sectors that all stores ask L2 for, and those that their bytes fill.

    STG.E [R2], R4 ; STG.E [R2+0x8], R6 ; STG.E [R2+0x4], R5 ; STG.E [R2+0xc], R7

Stores that one thread does at offsets of one register, and that together fill 8, 16 or 32 bytes,
leave gaps in each request: lanes are as far apart as these bytes are many, so a request of w bytes
a lane touches as many sectors as its chunk has bytes, and L2 takes each sector once for each store.
Loads are left out: L1 keeps a sector for the ones that follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.global_memory import STORES, width_of, worked_out
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.repeats import address_in, bracket_of, parsed
from tileprof.analyzer.numbers.shared import LINE, SECTOR, WIDEST
from tileprof.binary.occupancy import WARP
from tileprof.binary.register_effects import effects

__all__ = ["Gapped", "gapped_stores"]

_OFFSET = re.compile(r"\+(-?0x[0-9a-f]+)\]$")


@dataclass(frozen=True, slots=True)
class Gapped:
    """Of all launches of a kernel."""

    where: frozenset[int]
    """Places of stores that leave gaps."""
    touched: float
    """Bytes of the sectors that all stores ask L2 for."""
    filled: float
    """Bytes of the sectors that would do."""
    width: int
    """Bytes a thread of the narrowest."""
    chunk: int
    """Bytes side by side that a thread stores by several of them, at most."""


@lru_cache(maxsize=8)
def gapped_stores(case: KernelCase) -> Gapped | None:
    """Return what a kernel's stores ask for; None where none leaves gaps."""
    code = case.sampled
    warps = case.extent("grid") * -(-case.extent("block") // WARP) * case.launches
    if code is None or not warps:
        return None
    chunks, known = _chunks(code), worked_out(case)
    touched, filled, where = 0.0, 0.0, set[int]()
    once = code.where(lambda each: each.depth == 0)
    issued = code.n(once, (ISSUED,)) / max(len(once), 1)
    for index in code.named(*STORES):
        if not code.n([index]):
            continue
        width = width_of(code.instructions[index].opcode)
        needed = WARP * width // SECTOR or 1
        chunk = chunks.get(index, width) if width < WIDEST else width
        sectors = needed * max(1, min(chunk, SECTOR) // width)
        if index in known:
            sectors, needed = known[index].sectors, known[index].needed
        looped = code.instructions[index].depth > 0 and issued > 0
        turns = code.n([index], (ISSUED,)) / issued if looped else 1.0
        touched, filled = touched + turns * sectors, filled + turns * needed
        if chunk > width and sectors > needed:
            where.add(index)
    if not where:
        return None
    widths = [width_of(code.instructions[index].opcode) for index in where]
    chunk = max(chunks[index] for index in where)
    part = warps * SECTOR
    return Gapped(frozenset(where), touched * part, filled * part, min(widths), chunk)


def _chunks(code: KernelCode) -> dict[int, int]:
    """By place of a store, the bytes side by side that its thread stores with it, within a line."""
    groups = dict[tuple[str, int], dict[int, int]]()
    versions = dict[str, int]()
    for index, each in enumerate(parsed(code)):
        if each.name in STORES and code.n([index]):
            bracket = bracket_of(each)
            found = _OFFSET.search(bracket)
            base = bracket[: found.start()] if found else bracket.removesuffix("]")
            version = sum(versions.get(name, 0) for name in address_in(bracket))
            offset = int(found[1], 16) if found else 0
            groups.setdefault((base, version), {})[index] = offset
        for name in effects(each).writes:
            versions[name] = versions.get(name, 0) + 1
    return {index: size for group in groups.values() for index, size in _sizes(code, group)}


def _sizes(code: KernelCode, group: dict[int, int]) -> list[tuple[int, int]]:
    """Stores of one register, by offset, with the bytes of their chunk."""
    made, chunk, end = list[tuple[int, int]](), list[int](), 0
    for index, offset in sorted(group.items(), key=lambda item: item[1]):
        width = width_of(code.instructions[index].opcode)
        if chunk and offset != end:
            made += _closed(chunk, end - group[chunk[0]])
            chunk = []
        chunk, end = [*chunk, index], offset + width
    return [*made, *_closed(chunk, end - group[chunk[0]])] if chunk else made


def _closed(chunk: list[int], size: int) -> list[tuple[int, int]]:
    """Stores that lie side by side; of as many as fill a line nobody knows how lanes are apart."""
    return [(index, size if size <= LINE else 0) for index in chunk]
