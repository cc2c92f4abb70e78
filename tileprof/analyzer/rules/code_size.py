"""Loops too long for the caches of instructions, and warps that wait for instructions.

Static: bytes of the loop. Dynamic: samples at which the next instruction was not there yet.

The reference asks for samples of `no_instructions`. On an H200 each jump brings some, with
`branch_resolving` beside them: at the instruction that is jumped to and the one behind it (4 % of a
loop of 19 instructions that fits anywhere). These are left out: they are the price of a jump, which
a longer body lessens, so the advice would be the wrong one. What is left are instructions that
come late in a row. In a loop longer than the nearest cache that is its length; elsewhere it is code
that runs for the first time, as in short kernels, and no number is told.

Samples at which nobody issued go away: others of them cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.jumps import loop_around, loops, targets

__all__ = ["RULE"]

_REASON = ("no_instructions", "no_instruction")
"""CUPTI's name, and that of ncu."""
_AFTER_A_JUMP = 2
"""Instructions that come late because of it."""
_INSTRUCTION = 16
"""Bytes."""
_NEAREST = 12 * 1024
"""Bytes of a scheduler's own cache: of Volta, by Jia et al. 2018 (arXiv 1804.06826), table 3.1; it
is not known of Hopper. Only what was measured tells a cost."""
_NEXT = 128 * 1024
"""Bytes of the cache behind it, from the same table: a longer loop is fetched anew each turn."""
_COLD, _NOTABLE, _MUCH = 0.01, 0.03, 0.1
_UNROLLED = (
    "Unroll the loop less, or let parts of it be loops or functions of their own, until its code"
    " fits."
)
_FIRST_TIME = (
    "Code that runs once is fetched once: give a block more work (a persistent kernel), or have"
    " less code before its loops."
)
_COMPILER = "The factor of unrolling was chosen without the size of the code that it makes."


def find(case: KernelCase) -> Iterator[Draft]:
    """A kernel whose instructions come late."""
    code = case.code
    if code is None or not code.instructions:
        return
    late = _straight(code)
    count = code.n(late, _REASON)
    share = count / code.whole if code.whole else 0.0
    loop = _loop(code, late) if count else _longest(code)
    size = len(loop) * _INSTRUCTION
    static = Evidence("static", f"{size / 1024:.1f} KB of code in the loop")
    place = _place(case, code, loop)
    measured = Evidence(
        "samples", f"{percent(share)} of the samples wait for an instruction", count
    )
    if size > _NEXT and not code.whole:
        yield Draft("warning", "a loop longer than the caches of instructions", place, (static,),
                    _UNROLLED, _COMPILER)  # fmt: skip
    elif size > _NEXT and share < _COLD:
        yield Draft("ignore", "a long loop that costs nothing", place, (static, measured),
                    "Leave it: its instructions are there in time.", confidence="high")  # fmt: skip
    elif share >= _NOTABLE and size > _NEAREST:
        idle = code.n(late, _REASON, idle=True) / count
        taken = code.taken(code.rows(late, _REASON))
        yield Draft("suggestion", "a loop longer than the cache of instructions", place,
                    (static, measured), _UNROLLED, _COMPILER,
                    eliminated(taken, code.whole, idle))  # fmt: skip
    elif share >= _MUCH:
        yield Draft("symptom", "warps wait for instructions", place, (measured,), _FIRST_TIME)


def _straight(code: KernelCode) -> list[int]:
    """Instructions that come behind others, and not behind a jump."""
    jumped = {to + k for to in targets(code).values() for k in range(_AFTER_A_JUMP)}
    return code.where(lambda each: each.index not in jumped)


def _loop(code: KernelCode, late: list[int]) -> range:
    """Around the instruction that is late most often."""
    mask = code.rows(late, _REASON)
    waits = np.bincount(code.at[mask], weights=code.counts[mask])
    return loop_around(code, int(waits.argmax()))


def _longest(code: KernelCode) -> range:
    """The longest innermost loop."""
    found = loops(code)
    inner = (
        each
        for each in found
        if not any(o != each and o[0] in each and o[-1] in each for o in found)
    )
    return max(inner, key=len, default=range(0))


def _place(case: KernelCase, code: KernelCode, loop: range) -> Place:
    hot = code.hottest(loop or range(len(code.instructions)))
    assert hot is not None
    ends = (code.instructions[each].offset for each in (loop[0], loop[-1])) if loop else (0, 0)
    first, last = ends
    where = case.user_line(hot.place)
    return case.place(where, case.op_at(hot.place), (first, last) if loop else None)


RULE = KernelRule("icache-unroll", find)
