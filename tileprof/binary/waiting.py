"""Waits of an instruction: what it waits for before it can issue, and through what.

In: a function and the offset of an instruction.  Out: `Wait`s, nearest first: who signals the
scoreboards in its mask, whose result of a fixed latency it needs, which products or copies its wait
is for, which bulk copies signal the mbarrier that it asks.

Paths are followed backwards through the control-flow graph until the same wait happened before:
what came earlier is done then. Where several producers are found, which one was the last to end is
not known, so all are reported. Who arrives at an mbarrier is known by its address, whose constant
part distinguishes rings of slots.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from .instructions import BYTES, Instruction, words
from .opcodes import group_of
from .register_effects import effects

if TYPE_CHECKING:
    from .cubin import Function

Kind = Literal["scoreboard", "operands", "latency", "wgmma", "copies", "mbarrier", "blocking"]

LONG = words("LDG LD LDL ATOM ATOMG TEX TLD TLD4 TXQ TXD TMML SULD SUATOM LDGSTS LDGMC")
"""Opcodes whose results come through L1TEX, so that waiting for them is a long scoreboard."""
BULK_COPIES = words("UTMALDG UBLKCP")
EXPECTS = ("ARRIVE", "TRANS64")
"""Modifiers of what announces the bytes of a bulk copy."""
VARIABLE = (
    "global memory", "shared memory", "local memory", "atomic", "special function", "conversion",
    "async copy", "tensor copy", "barrier",
)  # fmt: skip
"""Groups of instructions whose results are there when they are there."""
FIXED_CYCLES, MATRIX_CYCLES = 4, 33
"""After which a result of arithmetic, or of a tensor core, holds nothing up any more."""
BLOCKING = words("BAR MEMBAR NANOSLEEP DEPBAR")
"""These issue at once; who comes soon after is held up for them (measured on an H200)."""
SOON = 3
"""Number of instructions after one of those up to where it may be held up."""
MOST = 8
"""Largest number of producers reported for one wait."""


@dataclass(frozen=True, slots=True)
class Wait:
    """`consumer` cannot issue before `producer` (offsets) has done its part."""

    consumer: int
    producer: int
    kind: Kind
    through: str
    """`R4, scoreboard 0`; `wgmma group`; what passes from one to the other."""


def waits(function: Function, offset: int) -> tuple[Wait, ...]:
    """Return all that an instruction waits for, as far as its function shows."""
    each = function.instruction(offset)
    found = [*_scoreboards(function, each)]
    polls = [wait.producer for wait in found if _polls(function.instruction(wait.producer))]
    if _polls(each):
        polls.append(offset)
    for poll in polls:
        found += _mbarrier(function, offset, poll)
    if each.name == "WARPGROUP" and "DEPBAR" in each.modifiers:
        found += _wgmma(function, each)
    elif each.name == "DEPBAR":
        found += _copies(function, each)
    else:
        found += _blocking(function, each)
    return (*found, *_latency(function, each))


def is_long(instruction: Instruction) -> bool:
    """Return whether waiting for its result is a long-scoreboard stall, not a short one."""
    return instruction.name in LONG


# -- scoreboards


def _scoreboards(function: Function, each: Instruction) -> Iterator[Wait]:
    reads = set(effects(each).reads)
    for barrier in each.control.waits:
        found = _backwards(function, each.offset, functools.partial(_signal, barrier))
        # Of several that share a scoreboard, first those that something is needed of here.
        found.sort(key=lambda at: reads.isdisjoint(effects(function.instruction(at)).writes))
        for producer in found[:MOST]:
            made = function.instruction(producer)
            if made.control.write_barrier == barrier:
                through = f"{_passed(function, each, made)}scoreboard {barrier}"
                yield Wait(each.offset, producer, "scoreboard", through)
            else:
                through = f"operands read, scoreboard {barrier}"
                yield Wait(each.offset, producer, "operands", through)


def _signal(barrier: int, each: Instruction) -> tuple[bool, bool]:
    """Return whether an instruction signals a scoreboard, and whether it waits for it first."""
    control = each.control
    drained = each.name == "DEPBAR" and each.operands[:2] == (f"SB{barrier}", "0x0")
    return barrier in (control.write_barrier, control.read_barrier), (
        barrier in control.waits or drained
    )


def _passed(function: Function, consumer: Instruction, producer: Instruction) -> str:
    """Return the first register that one instruction has from another, as `R4, `, or ''."""
    shared = set(effects(producer).writes)
    for register in effects(consumer).reads:
        if register in shared and producer.offset in function.flow.definitions(
            consumer.offset, register
        ):
            return f"{register}, "
    return ""


# -- fixed latencies


def _latency(function: Function, each: Instruction) -> Iterator[Wait]:
    """Yield the result of a fixed latency for which the instruction before holds this one up."""
    start, reads = function.block(each.offset).start, set(effects(each).reads)
    if each.offset == start:
        return
    held = max(function.instruction(each.offset - BYTES).control.stall - 1, 0)
    passed = -held
    for at in range(each.offset - BYTES, start - BYTES, -BYTES):
        before = function.instruction(at)
        passed += max(before.control.stall, 1)
        if not held or passed >= MATRIX_CYCLES:
            return
        written = effects(before).writes
        if made := next((register for register in written if register in reads), None):
            limit = MATRIX_CYCLES if before.name.endswith("MMA") else FIXED_CYCLES
            if before.control.write_barrier is None and passed < limit and _is_fixed(before):
                yield Wait(each.offset, at, "latency", made)
                return
            reads -= set(written)


def _is_fixed(each: Instruction) -> bool:
    return each.name not in ("LDC", "SHFL", "S2R") and group_of(each.name) not in VARIABLE


# -- groups


def _wgmma(function: Function, each: Instruction) -> Iterator[Wait]:
    """Yield the last product of the newest group that has to be done."""
    pending = _count(each)
    if pending is None:
        return
    ends = _after_skipping(function, each.offset, pending, _ends_wgmma_group)
    for end in ends[:MOST]:
        yield Wait(each.offset, end, "wgmma", "wgmma group")


def _ends_wgmma_group(each: Instruction) -> bool:
    return each.name.endswith("GMMA") and any(o.startswith("gsb") for o in each.operands)


def _copies(function: Function, each: Instruction) -> Iterator[Wait]:
    """Yield the copies of the newest group that has to be there."""
    pending = _count(each)
    if pending is None:
        return
    for end in _after_skipping(function, each.offset, pending, lambda e: e.name == "LDGDEPBAR"):
        copies = _backwards(
            function, end, lambda e: (e.name == "LDGSTS", e.name in ("LDGDEPBAR", "DEPBAR"))
        )
        for copy in copies[:MOST]:
            if function.instruction(copy).name == "LDGSTS":
                yield Wait(each.offset, copy, "copies", "cp.async group")


def _count(each: Instruction) -> int | None:
    """Return how many groups `DEPBAR.LE SB0, 0x1` leaves pending."""
    last = each.operands[-1] if len(each.operands) > 1 else ""
    return int(last, 16) if last.startswith("0x") else None


def _after_skipping(
    function: Function, offset: int, skipped: int, ends: Callable[[Instruction], bool]
) -> list[int]:
    """Return the ends of groups met next before an offset after `skipped` of them."""

    def look(each: Instruction, left: int) -> tuple[bool, bool, int]:
        met = ends(each)
        found = met and not left
        return found, found, left - met

    return _walk(function, offset, look, skipped)


# -- mbarriers


def _polls(each: Instruction) -> bool:
    return each.name == "SYNCS" and "PHASECHK" in each.modifiers


def _mbarrier(function: Function, offset: int, poll: int) -> Iterator[Wait]:
    """Yield the arrivals at that mbarrier: bulk copies, and arrivals of threads."""
    asked = function.constants.of_bracket(function.instruction(poll))
    code = [each for each in function.reachable() if not each.never_executes]
    copies = [each for each in code if each.name in BULK_COPIES]
    alone = [each for each in code if _arrives_alone(each)]
    found = [each for each in copies if function.constants.of_barrier(each) == asked]
    found += [each for each in alone if function.constants.of_bracket(each) == asked]
    if not alone and not found:
        found = copies
    for each in found[:MOST]:
        yield Wait(offset, each.offset, "mbarrier", f"the mbarrier asked at {poll:#06x}")


def _arrives_alone(each: Instruction) -> bool:
    """Return whether threads or other copies arrive at an mbarrier."""
    if each.name == "ARRIVES":
        return True
    return each.name == "SYNCS" and "ARRIVE" in each.modifiers and each.modifiers != EXPECTS


# -- what blocks later


def _blocking(function: Function, each: Instruction) -> Iterator[Wait]:
    """Yield the nearest instruction right before that blocks those after it, and what it is for."""
    start = function.block(each.offset).start
    for at in range(each.offset - BYTES, max(start, each.offset - SOON * BYTES) - BYTES, -BYTES):
        before = function.instruction(at)
        if before.name in BLOCKING:
            yield Wait(each.offset, at, "blocking", before.opcode)
            if before.name == "DEPBAR":
                for copy in _copies(function, before):
                    yield replace(copy, consumer=each.offset)
            return


# -- walking


def _backwards(
    function: Function, offset: int, look: Callable[[Instruction], tuple[bool, bool]]
) -> list[int]:
    """Offsets before one, nearest first, that `look` takes; its second answer ends a path."""
    return _walk(function, offset, lambda each, state: (*look(each), state), 0)


def _walk(
    function: Function,
    offset: int,
    look: Callable[[Instruction, int], tuple[bool, bool, int]],
    state: int,
) -> list[int]:
    """Walk as `_backwards` does; `look` takes and returns a state, one for each path."""
    found: list[int] = []
    seen: set[tuple[int, int]] = set()
    work = [(function.block(offset), offset, state)]
    while work:
        block, end, state = work.pop(0)
        for at in range(end - BYTES, block.start - BYTES, -BYTES):
            taken, stop, state = look(function.instruction(at), state)
            if taken:
                found.append(at)
            if stop:
                break
        else:
            for index in block.predecessors:
                if (index, state) not in seen:
                    seen.add((index, state))
                    work.append((function.blocks[index], function.blocks[index].end, state))
    return list(dict.fromkeys(found))
