"""Registers that went to memory: what is spilled, where, and what it was.

In: a function.  Out: `Spill`s.  ptxas marks its spill stores and reloads in the cubin (CUDA 12.8
and later), so local arrays of the program are distinguished.  For older cubins, accesses at a
constant distance from the stack pointer count, which takes an array with constant indices for a
spill.

A callee keeps its caller's registers on the stack too: those are `save`s, and are never marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .instructions import Instruction
from .line_table import Chain
from .register_effects import effects
from .slices import Flow

SLOT = re.compile(r"\[R1(?:\+(-?0x[0-9a-f]+))?\]")


@dataclass(frozen=True, slots=True)
class Spill:
    """One spill store or reload."""

    offset: int
    is_store: bool
    kind: str
    """`spill`, or `save` for a caller's register that a callee keeps."""
    register: str
    """The first register stored or loaded."""
    bytes: int
    """Number of bytes that one thread moves."""
    slot: int | None
    """Distance from the stack pointer."""
    depth: int
    """Number of loops around it."""
    chain: Chain
    """Source lines, innermost first."""
    sources: tuple[int, ...]
    """Defining instructions of a store's value; for a reload, the stores to its slot."""


@dataclass(frozen=True, slots=True)
class SpillSite:
    """Access to local memory, as a function's code shows it."""

    instruction: Instruction
    depth: int
    chain: Chain


def find_spills(
    sites: Sequence[SpillSite], marked: frozenset[int] | None, flow: Flow, *, nested: bool
) -> tuple[Spill, ...]:
    """Return the spills among accesses to local memory; `nested`: the function holds callees."""
    kept = [(site, kind) for site in sites if (kind := _kind(site, marked, flow, nested))]
    kept = list(_with_reloads(kept, sites, marked))
    stores: dict[int, list[int]] = {}
    for site, _ in kept:
        slot = _slot(site.instruction)
        if _is_store(site.instruction) and slot is not None:
            stores.setdefault(slot, []).append(site.instruction.offset)
    return tuple(_spill(site, kind, stores, flow) for site, kind in kept)


def _kind(site: SpillSite, marked: frozenset[int] | None, flow: Flow, nested: bool) -> str:
    """Return `spill`, `save`, or '' for an access of the program's own."""
    each = site.instruction
    if marked and each.offset in marked:
        return "spill"
    if _slot(each) is None:
        return ""
    if nested and _is_store(each):
        register = _data(each)[0]
        if not flow.definitions(each.offset, register, through_calls=False):
            return "save"
    return "" if marked is not None else "spill"


def _with_reloads(
    kept: list[tuple[SpillSite, str]], sites: Sequence[SpillSite], marked: frozenset[int] | None
) -> Iterator[tuple[SpillSite, str]]:
    """Yield the sites with the reloads of saved registers, which nothing else distinguishes."""
    kinds = {site.instruction.offset: kind for site, kind in kept}
    saved = {
        (_slot(site.instruction), _data(site.instruction)) for site, kind in kept if kind == "save"
    }
    for site in sites:
        each = site.instruction
        kind = kinds.get(each.offset, "")
        if not _is_store(each) and (_slot(each), _data(each)) in saved:
            kind = "spill" if marked and each.offset in marked else "save"
        if kind:
            yield site, kind


def _spill(site: SpillSite, kind: str, stores: dict[int, list[int]], flow: Flow) -> Spill:
    each, data, slot = site.instruction, _data(site.instruction), _slot(site.instruction)
    is_store = _is_store(each)
    if is_store:
        sources = flow.definitions(each.offset, data[0])
    else:
        sources = tuple(stores.get(slot, ())) if slot is not None else ()
    return Spill(
        each.offset,
        is_store,
        kind,
        data[0],
        4 * len(data),
        slot,
        site.depth,
        site.chain,
        sources,
    )


def _is_store(instruction: Instruction) -> bool:
    return instruction.name == "STL"


def _data(instruction: Instruction) -> tuple[str, ...]:
    """Return the registers that are stored or loaded."""
    found = effects(instruction)
    if not _is_store(instruction):
        return found.writes or ("RZ",)
    address = set(re.findall(r"U?R\d+", instruction.operands[0]))
    guard = set(re.findall(r"U?P\d", instruction.predicate))
    return tuple(r for r in found.reads if r not in address and r not in guard) or ("RZ",)


def _slot(instruction: Instruction) -> int | None:
    operand = next((each for each in instruction.operands if "[" in each), "")
    found = SLOT.fullmatch(operand)
    return int(found[1] or "0", 16) if found else None
