"""Blocks that wait for a lock of global memory: a part of `barrier-imbalance`.

Static: a loop around a compare-and-swap that does nothing else than ask again: no arithmetic of
numbers, no load of data, no product. (A loop that adds by compare-and-swap computes what it swaps.)

Dynamic: samples in that loop, those of other warps that wait for the answer at a barrier there
included. While it turns its block does nothing: of the time t, the samples' part f goes at most.
Without locks more blocks work at once, so what is left takes longer than before, up to some times:

    time that stays = (1 - f) (1 + k f) t
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, sampled
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.rules.numbers.waiting import LOCKS_LONGER

_ASKS = re.compile(r"ATOMG?\..*\bCAS\b|ATOMG?\..*\bEXCH\b")
_WORKS = re.compile(
    r"[FD](ADD|MUL|FMA|MNMX|SETP)|H(ADD|MUL|MNMX|SETP)2|HFMA2(?!\.MMA)|V?IMNMX|F2F|I2F|PRMT|MUFU"
    r"|LDG|STG|REDG?\b|[HIQB]G?MMA"
)
"""What loops do that compute with data; HFMA2.MMA makes constants."""
_AUTHOR = (
    "Leave the lock out where no two blocks store to the same place; else use an atomic for each"
    " element, have each block store to a place of its own and add up afterwards, or take a lock"
    " for each place, and hold it for the store alone."
)


def waiting_loops(code: KernelCode) -> list[range]:
    """Return the loops that ask for a lock, and do nothing else."""
    return [
        loop for loop in loops_of(code)
        if is_innermost(code, loop)
        and any(_ASKS.match(code.instructions[index].opcode) for index in loop)
        and not any(_WORKS.match(code.instructions[index].opcode) for index in loop)
    ]  # fmt: skip


def find(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Waits for locks that take more than a little."""
    loops = waiting_loops(code)
    where = [index for loop in loops for index in loop]
    taken = code.taken(code.rows(where))
    if not where or not code.whole or code.share(taken) < COLD:
        return
    share = min(code.share(taken), LONGEST_SAVING)
    low, mid, high = (max(0.0, 1 - (1 - share) * (1 + longer * share)) for longer in LOCKS_LONGER)
    asks = next(i for i in where if _ASKS.match(code.instructions[i].opcode))
    at = code.instructions[asks]
    text = f"a loop asks again by {at.opcode.split('.STRONG')[0]} until it has a lock"
    yield Draft(
        "suggestion", "blocks wait for a lock that others hold", case.at(at),
        (Evidence("static", text), sampled(code, taken, "do")), _AUTHOR, "",
        Saving(low, mid, min(high, LONGEST_SAVING), samples=int(taken.sum())),
        known=True,
    )  # fmt: skip
