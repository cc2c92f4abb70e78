"""Bytes that a kernel stores, and then loads or stores again.

In: a kernel's machine code.  Out: loads of addresses that the same thread stored to before, and
stores to addresses that it stored to before; places of what is between.

A thread that loads what it stored has it in a register: neither the load nor the way to memory and
back is needed. One that stores to the same address twice needs one of the two; where it loads in
between, what it stores again is what another thread of its block had stored, in another layout.
Addresses are alike if the same registers hold them and nothing wrote to these meanwhile, and no
branch leads to a place between from elsewhere; where a module's text says that a load is of the
pointers of a store, whichever threads these are of (`machine/triton/stored_values`). Accesses under
opposite conditions are no pair, nor are those of which the first is under the condition of a branch
that leads around the other.
Fences of the device say that others are handed something, so nothing is told of code that has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import targets
from tileprof.analyzer.machine.repeats import address_in, bracket_of, parsed, width_in
from tileprof.analyzer.machine.triton.stored_values import loaded_again
from tileprof.binary.register_effects import effects

__all__ = ["Reloads", "reloaded_bytes", "reloads_of"]

_LOAD, _STORE = "LDG", "STG"
_ENDS = ("CALL", "RET")
_LEAVES = ("BRA", "BRX", "EXIT")


@dataclass(frozen=True, slots=True)
class Reloads:
    """What a kernel moves again."""

    first: tuple[int, ...]
    """Places of the first stores."""
    loads: tuple[int, ...]
    """Places of loads of what was stored before."""
    stores: tuple[int, ...]
    """Places of stores to where was stored before."""
    barriers: tuple[int, ...]
    """Places of barriers between the first of all these and the last."""


@lru_cache(maxsize=4)
def reloads_of(code: KernelCode) -> Reloads | None:
    """Return what is moved again; None for nothing."""
    if not code.named(_STORE) or _hands_over(code):
        return None
    pairs = [*_pairs(code)] or [*_by_text(code)]
    loads = [*dict.fromkeys(i for _, i in pairs if code.instructions[i].name == _LOAD)]
    stores = [
        later for before, later in pairs if code.instructions[later].name == _STORE
        and any(before < each < later for each in code.named(_LOAD))
    ]  # fmt: skip
    if not (loads or stores):
        return None
    first = sorted({before for before, later in pairs if later in {*loads, *stores}})
    between = range(first[0], max(*loads, *stores, 0))
    bars = [index for index in code.named("BAR") if index in between]
    return Reloads(tuple(first), tuple(loads), tuple(stores), tuple(bars))


def _pairs(code: KernelCode) -> Iterator[tuple[int, int]]:
    """Yield stores with accesses of the same address behind them."""
    held = dict[tuple[str, str], int]()
    begins = {to for branch, to in targets(code).items() if to <= branch}
    lines = parsed(code)
    for index, each in enumerate(lines):
        if index in begins or each.name in _ENDS:
            held.clear()
        if each.name in (_LOAD, _STORE):
            key = (bracket_of(each), width_in(each))
            before = held.get(key)
            if before is not None and _both(lines[before].predicate, each.predicate):
                yield before, index
            if each.name == _STORE and code.n([index]):
                held.setdefault(key, index)
        if each.name in _LEAVES and not each.predicate:
            held.clear()
        written = {*effects(each).writes}
        if each.name in _LEAVES and each.predicate:
            # Lanes that stored under the condition of a branch are not here any more.
            held = {key: at for key, at in held.items() if lines[at].predicate != each.predicate}
        for old in [old for old in held if not written.isdisjoint(address_in(old[0]))]:
            del held[old]


def _by_text(code: KernelCode) -> Iterator[tuple[int, int]]:
    """Yield stores with loads of the same pointers, by a module's text."""
    by_line = dict[tuple[str, int], list[int]]()
    for index in code.named(_STORE, _LOAD):
        place = code.instructions[index].place
        if place is not None:
            by_line.setdefault((code.instructions[index].name, place.line), []).append(index)
    for stored, loaded in loaded_again(code.ttgir):
        loads = by_line.get((_LOAD, loaded), [])
        for before in by_line.get((_STORE, stored), []):
            yield from ((before, later) for later in loads if before < later and code.n([later]))


def reloaded_bytes(code: KernelCode) -> float:
    """Return the bytes that a thread of a kernel loads after they were stored.

    Where only stores come again behind a barrier, what is between loads as many: another thread of
    the block stored that.
    """
    found = reloads_of(code)
    if found is None or not (found.loads or found.barriers):
        return 0.0
    once = code.where(lambda each: each.depth == 0)
    issued = code.n(once, (ISSUED,)) / max(len(once), 1)

    def turns(index: int) -> float:
        looped = code.instructions[index].depth > 0 and issued > 0
        return code.n([index], (ISSUED,)) / issued if looped else 1.0

    return sum(
        int(width_in(parsed(code)[index]).lstrip("US")) / 8 * turns(index)
        for index in found.loads or found.stores
    )


def _hands_over(code: KernelCode) -> bool:
    """Whether it has a fence, other than for the threads of its block or their copies."""
    fences = (code.instructions[index].opcode.split(".") for index in code.named("MEMBAR"))
    return any(not {"CTA", "SM"} & {*parts} for parts in fences)


def _both(before: str, later: str) -> bool:
    """Whether the same lanes may do both: conditions are alike, or one of them has none."""
    return before == later or not (before and later)
