"""Loops too long for the instruction caches, and warps that wait for instructions.

Static: bytes of the loop. Dynamic: samples at which the next instruction was not there yet.

The reference asks for samples of `no_instructions`. On an H200 each jump brings some, with
`branch_resolving` beside them: at the instruction that is jumped to and the one behind it (4 % of a
loop of 19 instructions that fits anywhere). These are left out: they are the price of a jump, which
a longer body lessens, so the advice would be the wrong one. What is left are instructions that
come late in a row. In a loop longer than the nearest cache that is its length; elsewhere it is code
that runs for the first time, as in short kernels, and no number is told.

Samples at which nobody issued go away: others of them cost nothing. No instruction goes, so nothing
issues more often than the loop's busiest pipe takes its instructions: results a cycle and
multiprocessor are those of the CUDA programming guide (arithmetic throughput, 9.0). On an H200
integer rounds without the defect reached 0.98 and 0.99 of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel.launches import busy_share
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.jumps import targets
from tileprof.analyzer.machine.loops import is_innermost, loop_around, loops_of
from tileprof.analyzer.numbers.shared import COLD, FEWEST_SAMPLES
from tileprof.analyzer.rules.numbers.work import (
    CODE_SIZE_AFTER_A_JUMP,
    CODE_SIZE_CYCLES,
    CODE_SIZE_INSTRUCTION,
    CODE_SIZE_MUCH,
    CODE_SIZE_NEAREST,
    CODE_SIZE_NEXT,
    CODE_SIZE_NOTABLE,
    CODE_SIZE_REACHED,
)
from tileprof.analyzer.tiles.tile_loops import unrolled
from tileprof.errors import Location

_REASON = ("no_instructions", "no_instruction")
"""CUPTI's name, and that of ncu."""
_UNROLLED = (
    "Unroll the loop less, or move parts of it into loops or functions of their own, until its "
    "code fits the instruction cache."
)
_FIRST_TIME = (
    "Code that runs once per block is fetched once per block: give each block more work (a "
    "persistent kernel), or shorten the code before its loops."
)
_COMPILER = "The unroll factor was chosen without regard to the resulting code size."


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel whose instructions come late."""
    code = case.code
    if code is None or not code.instructions:
        return
    late = _straight(code)
    count = code.n(late, _REASON)
    share = count / code.whole if code.whole else 0.0
    loop = _loop(code, late) if count else _longest(code)
    if not loop and len(code.instructions) * CODE_SIZE_INSTRUCTION > CODE_SIZE_NEXT:
        loop = range(len(code.instructions))  # unrolled to the end: each block fetches all anew
    size = len(loop) * CODE_SIZE_INSTRUCTION
    static, place = _shown(case, _place(case, code, loop), size)
    measured = Evidence(
        "samples", f"{percent(share)} of the samples wait for an instruction", count
    )
    if size > CODE_SIZE_NEXT and not code.whole:
        yield Draft("warning", "a loop longer than the instruction caches", place, (static,),
                    _UNROLLED, _COMPILER)  # fmt: skip
    elif size > CODE_SIZE_NEXT and share < COLD:
        yield Draft("ignore", "a long loop that costs nothing", place, (static, measured),
                    "Leave it: its instructions arrive in time.", confidence="high")  # fmt: skip
    elif share >= CODE_SIZE_NOTABLE and size > CODE_SIZE_NEAREST:
        yield Draft("suggestion", "a loop longer than the instruction cache", place,
                    (static, measured), _UNROLLED, _COMPILER,
                    _saving(code, loop, late))  # fmt: skip
    elif share >= CODE_SIZE_MUCH:
        yield Draft("symptom", "warps wait for instructions", place, (measured,), _FIRST_TIME)


def _saving(code: KernelCode, loop: range, late: list[int]) -> Saving | None:
    """What goes, as far as pipes let the loop be faster; None where too few samples tell it.

    It is not told by rows: what issues instead is reckoned with already.
    """
    taken = code.taken(code.rows(late, _REASON))
    found = eliminated(taken, code.whole, code.n(late, _REASON, idle=True) / float(taken.sum()))
    if found.samples < FEWEST_SAMPLES:
        return None
    busy, least = busy_share(code), _issuing(code, loop)
    mid = min(found.mid, max(0.0, 1 - busy / (CODE_SIZE_REACHED * least)))
    high = max(mid, min(found.high, 1 - busy / least))
    return Saving(min(found.low, mid / 2), mid, high, samples=found.samples)


def _issuing(code: KernelCode, loop: range) -> float:
    """Return the share of cycles in which the loop's busiest pipe lets a scheduler issue."""
    cycles = dict[str, int]()
    for index in loop:
        pipe, each = CODE_SIZE_CYCLES.get(code.instructions[index].name, ("", 1))
        cycles[pipe] = cycles.get(pipe, 0) + each
    return min(1.0, len(loop) / max(cycles.values(), default=1)) if loop else 1.0


def _straight(code: KernelCode) -> list[int]:
    """Instructions that come behind others, and not behind a jump."""
    jumped = {to + k for to in targets(code).values() for k in range(CODE_SIZE_AFTER_A_JUMP)}
    return code.where(lambda each: each.index not in jumped)


def _loop(code: KernelCode, late: list[int]) -> range:
    """Around the instruction that is late most often."""
    mask = code.rows(late, _REASON)
    waits = np.bincount(code.at[mask], weights=code.counts[mask])
    return loop_around(code, int(waits.argmax())) or range(0)


def _longest(code: KernelCode) -> range:
    """The longest innermost loop."""
    inner = (each for each in loops_of(code) if is_innermost(code, each))
    return max(inner, key=len, default=range(0))


def _shown(case: KernelCase, place: Place, size: int) -> tuple[Evidence, Place]:
    """How long it is; the line that unrolls it, where that is known, instead of one of its body."""
    text, at = f"{size / 1024:.1f} KB of code per iteration", place.location
    known = unrolled(case.tiles, case.cuda) if at else ()
    around = [each for each in known if at and at.line in each.lines]
    longest = max(around, key=lambda each: each.turns, default=None)
    if longest is None or at is None:
        return Evidence("static", text), place
    text += f", where line {longest.line} unrolls {longest.turns} iterations"
    here = Location(at.file, longest.line)
    return Evidence("static", text), replace(place, location=here, op=case.op_at(here))


def _place(case: KernelCase, code: KernelCode, loop: range) -> Place:
    hot = code.hottest(loop or range(len(code.instructions)))
    assert hot is not None
    ends = (code.instructions[each].offset for each in (loop[0], loop[-1])) if loop else (0, 0)
    first, last = ends
    where = case.user_line(hot.place)
    return case.place(where, case.op_at(hot.place), (first, last) if loop else None)


RULE = KernelRule("icache-unroll", find)
