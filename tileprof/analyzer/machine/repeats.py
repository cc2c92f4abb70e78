"""Accesses of global memory that are at the same addresses in each turn of a loop.

In: a kernel's machine code.  Out: for a loop, the loads and stores whose addresses none of its
turns changes; loads of one address that stand side by side.

A register is the same in each turn of a loop if it is made there from registers that are. Whatever
the loop writes is taken for changed where a turn begins, so only what is made anew within a turn
counts as the same; of an inner loop, what both ways into it agree on. What is read from shared or
local memory, or got from an atomic, may be anything; what is loaded from an address that stays the
same does not change. What a branch steps over is the same only if all turns take the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import subroutines, targets
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers.machine import (
    REPEATS_CARRIED,
    REPEATS_COUNTED,
    REPEATS_EVERY,
    REPEATS_ROUNDS,
)
from tileprof.analyzer.numbers.shared import COLD
from tileprof.binary.instructions import Instruction, split_operands
from tileprof.binary.register_effects import effects

__all__ = [
    "COMPUTES", "Repeated", "address_in", "address_of", "alike", "bracket_of", "changed_in",
    "parsed", "repeated_in", "repetition", "repetitions", "turns_of", "width_in",
]  # fmt: skip

_LOADS = ("LDG", "LDGSTS")
_STORES = ("STG",)
_BULK = ("UTMALDG", "UBLKCP")
_ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
_UNKNOWN = (*_ATOMICS, "ATOMS", "LD", "LDS", "LDSM", "LDL", "CALL", "CS2R.32", "UTMALDG")
_READ_SHARED = ("LDS", "LDSM")
_TO_SHARED = ("STS", "STSM", "ATOMS", "LDGSTS", *_BULK)
COMPUTES = re.compile(r"[FHD](ADD|MUL|FMA|MNMX)|HADD2|HMUL2|MUFU|\w*MMA$")
"""Names of opcodes whose results are numbers that a program computes: no addresses, no moves."""
_TEXT = re.compile(r"(@!?U?P\w+)?\s*(\S+)\s*(.*)")
_REGISTER = re.compile(r"\b(U?R)(\d+)((?:\.\w+)*)")


@dataclass(frozen=True)
class Repeated:
    """What turns of a loop do again."""

    loop: range
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    every: bool
    """Whether that is what the loop loads, and all that it stores, and nothing is carried from a
    turn to the next one but its count: then each turn does the same as the one before."""
    innermost: bool


@lru_cache(maxsize=4)
def parsed(code: KernelCode) -> tuple[Instruction, ...]:
    """Return the instructions of a kernel with their operands apart."""
    return tuple(_read(each.text) for each in code.instructions)


def _read(text: str) -> Instruction:
    found = _TEXT.match(text.strip())
    assert found is not None
    return Instruction(0, found[1] or "", found[2], split_operands(found[3].strip()), 0)


def address_of(each: Instruction) -> frozenset[str]:
    """Return the registers that an access's address in global memory is made of."""
    brackets = [text for text in each.operands if "[" in text and not text.startswith("c[")]
    described = [text for text in brackets if text.startswith("desc")] or brackets
    return address_in(described[0]) if described else frozenset()


def address_in(operand: str) -> frozenset[str]:
    """Return the registers of an address in brackets."""
    found = set[str]()
    for kind, number, modifiers in _REGISTER.findall(operand[operand.rindex("[") :]):
        found.add(f"{kind}{number}")
        if ".64" in modifiers:
            found.add(f"{kind}{int(number) + 1}")
    return frozenset(found)


def repeated_in(code: KernelCode, loop: range) -> Repeated | None:
    """Return what each turn of a loop does again; None for nothing."""
    held = parsed(code)
    ran = [index for index in loop if held[index].name in (*_LOADS, *_STORES) and code.n([index])]
    if not ran:
        return None
    changed = changed_in(code, loop)
    same = [index for index in ran if index in changed and not changed[index]]
    loads = [index for index in same if held[index].name in _LOADS]
    stores = [index for index in same if held[index].name in _STORES]
    loads = [index for index in loads if not _ends(code, loop, index)]
    if not (loads or stores):
        return None
    loaded = [index for index in ran if held[index].name in _LOADS]
    part = code.n(loads, (ISSUED,)) / max(code.n(loaded, (ISSUED,)), 1)
    every = part >= REPEATS_EVERY and not code.n([i for i in loop if held[i].name in _BULK])
    stored = [index for index in ran if held[index].name in _STORES]
    every = every and len(stores) == len(stored) and not _carries(code, loop)
    return Repeated(loop, tuple(loads), tuple(stores), every, is_innermost(code, loop))


@lru_cache(maxsize=4)
def repetitions(code: KernelCode) -> tuple[Repeated, ...]:
    """Return what turns of loops do again, of all loops that take time."""
    held = (repeated_in(code, loop) for loop in loops_of(code) if code.n(loop) >= COLD * code.whole)
    return tuple(each for each in held if each is not None)


def repetition(code: KernelCode) -> Repeated | None:
    """Return the longest loop each of whose turns does what the one before did; None for none."""
    whole = [each for each in repetitions(code) if each.every]
    return max(whole, key=lambda each: len(each.loop), default=None)


def turns_of(code: KernelCode, loop: range) -> float:
    """Return how often a loop turns, at least twice, by what issues in it and before it."""
    inner = {i for each in loops_of(code) if each[0] in loop and each != loop for i in each}
    own = [index for index in loop if index not in inner]
    outside = code.where(lambda each: each.depth == 0 and each.index < loop.start)
    issued, before = (code.n(where, (ISSUED,)) for where in (own, outside))
    if min(issued, before) < REPEATS_COUNTED:
        return 2.0
    error = 2 * math.sqrt(1 / issued + 1 / before)
    return max(2.0, (1 - error) * (issued / len(own)) / (before / len(outside)))


def changed_in(
    code: KernelCode, loop: range, begin: Iterable[str] | None = None, source: int = -1
) -> dict[int, bool]:
    """By place of a global access, whether its address may change from a turn to the next.

    Args:
        code: of the kernel.
        loop: whose turns.
        begin: registers that are changed when a turn begins; without it, all that it writes.
        source: place of an instruction whose result counts as changed; then the branch back is in
            what is returned, with whether it depends on that.
    """
    held, back = parsed(code), targets(code)
    made = [effects(held[index]) for index in loop]
    first = {name for each in made for name in each.writes} if begin is None else set(begin)
    called = {name for i in subroutines(code) for name in effects(held[i]).writes}
    heads: dict[int, set[str]] = {}
    found: dict[int, bool] = {}
    for _ in range(REPEATS_ROUNDS):
        state, joins, moved = set(first), dict[int, set[str]](), False
        found = {}
        for index in loop:
            state |= joins.pop(index, set()) | heads.get(index, set())
            each, does = held[index], made[index - loop.start]
            reads = set(does.reads)
            if each.name in (*_LOADS, *_STORES):
                address = address_of(each)
                found[index] = not state.isdisjoint(address)
                reads = {*address, each.predicate.lstrip("@!")}
            elif index == loop[-1]:
                found[index] = not state.isdisjoint(reads)
            guard = each.predicate.lstrip("@!")
            anew = index == source or (source < 0 and _is_unknown(each))
            if each.name == "CALL":
                state |= called
            if anew or not state.isdisjoint(reads):
                state.update(does.writes)
            elif not guard or guard == "PT":
                state.difference_update(does.writes)
            to = back.get(index)
            if to is None or to not in loop or index == loop[-1]:
                continue
            if to > index:
                joined = joins.setdefault(to, set())
                joined |= state
                if guard in state:
                    joined.update(
                        name for at in range(index + 1, to)
                        for name in made[at - loop.start].writes
                    )  # fmt: skip
            elif to != loop.start and not state <= heads.get(to, set()):
                heads.setdefault(to, set()).update(state)
                moved = True
        if not moved:
            return found
    return {}


def _is_unknown(each: Instruction) -> bool:
    special = each.operands[-1] if each.operands else ""
    return each.name in _UNKNOWN or "CLOCK" in special or "TIMER" in special


def _ends(code: KernelCode, loop: range, load: int) -> bool:
    """Whether a loop goes on until a load has a certain value, as one that waits for a flag."""
    return changed_in(code, loop, (), load).get(loop[-1], True)


def _carries(code: KernelCode, loop: range) -> bool:
    """Whether a turn goes on from what the one before computed."""
    held, written, exposed = parsed(code), set[str](), set[str]()
    for index in loop:
        does = effects(held[index])
        exposed |= {name for name in does.reads if name not in written}
        if not held[index].predicate:
            written.update(does.writes)
    every = {name for index in loop for name in effects(held[index]).writes}
    carried = {name for name in exposed & every if name.lstrip("U").startswith("R")}
    adds = any(held[index].name in _ATOMICS and code.n([index]) for index in loop)
    adds = adds or _keeps_in_shared(code, loop)
    computed = any(
        not carried.isdisjoint(effects(held[index]).reads)
        for index in loop if COMPUTES.match(held[index].name)
    )  # fmt: skip
    return adds or computed or len(carried) > REPEATS_CARRIED


def _keeps_in_shared(code: KernelCode, loop: range) -> bool:
    """Return whether a loop stores to shared memory what it computes of values that it read there
    before any store of the same iteration: these are of the iteration before."""
    held, known, stored = parsed(code), set[str](), False
    for index in loop:
        each, does = held[index], effects(held[index])
        if each.name in _TO_SHARED:
            if not known.isdisjoint(does.reads):
                return True
            stored = True
        elif (each.name in _READ_SHARED and not stored) or not known.isdisjoint(does.reads):
            known.update(does.writes)
        elif not each.predicate:
            known.difference_update(does.writes)
    return False


def alike(code: KernelCode, name: str = "LDG") -> list[tuple[int, int]]:
    """Return loads with a later one of the same address, as wide, to which no branch leads; of
    those of this opcode. The later one may be under a condition that the first one is not under."""
    ends, found = {*targets(code).values()}, list[tuple[int, int]]()
    held = dict[tuple[str, str], dict[str, int]]()
    for index, each in enumerate(parsed(code)):
        if index in ends or each.name in ("BRA", "CALL", "RET", "EXIT"):
            held.clear()
        if each.name == name and code.n([index]):
            before = held.setdefault((bracket_of(each), width_in(each)), {})
            first = before.get(each.predicate, before.get(""))
            if first is not None:
                found.append((first, index))
            before[each.predicate] = index
        written = {*effects(each).writes}
        for key in [key for key in held if not written.isdisjoint(address_in(key[0]))]:
            del held[key]
    return found


def bracket_of(each: Instruction) -> str:
    """Return the operand in brackets that is an access's address in global memory."""
    brackets = [text for text in each.operands if "[" in text]
    return next((e for e in brackets if e.startswith("desc")), (*brackets, "[")[0])


def width_in(each: Instruction) -> str:
    """Return the modifier that says how much an access moves."""
    sizes = ("U8", "S8", "U16", "S16", "64", "128")
    return next((part for part in each.modifiers if part in sizes), "32")
