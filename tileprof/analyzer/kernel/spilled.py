"""Samples that registers in local memory are guilty of.

In: a kernel's code.  Out: where it loads and stores local memory, and by row the samples at these,
of what waits for them, of what else waits for a place in the queue that they fill, and of constants
that a loop with spills makes anew each turn.

A spill may stand behind a barrier, or behind results of shared memory: such waits are as long
without it. Where it finds the queue of on-chip memory full, the part of the wait goes that spills
have of all that stands there. (An H200 had 0.29 of a kernel's samples at 46 spills, 0.25 of them at
a barrier, in that queue, or waiting for shared memory; with the spills it took 1.02 times as long.)

What an instruction waits for is told where it has a part of the samples that is worth it. In a
long body none may have: 470 spills in a loop of an H200 had 0.65 of the samples behind them, and no
instruction a hundredth. There a long scoreboard is that of the nearest load before whose register
the instruction names, or of the nearest store whose register it writes.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.machine.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.numbers.kernels import SPILLED_REACH

_SPILLS = ("LDL", "STL")
_QUEUED = (*_SPILLS, "LDG", "STG", "LDGSTS", "ATOM", "ATOMG", "RED", "REDG", "LD", "ST")
"""Instructions that stand in the queue of global and local memory."""
_ON_CHIP = (*_SPILLS, "LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL", "MUFU", "POPC", "F2F")
"""Instructions that stand in the queue of on-chip memory and special functions."""
_WAIT = "long_scoreboard"
_OTHERS = ("barrier", "short_scoreboard")
"""Reasons at a spill that are not its own: other warps, and results of shared memory."""
_MADE = ("MOV", "HFMA2", "UMOV")
_REGISTER = re.compile(r"\bR(\d+)\b")
_ADDRESS = re.compile(r"\[[^\]]*\]")


def spill_places(code: KernelCode) -> list[int]:
    """Places of loads and stores of local memory."""
    return code.named(*_SPILLS)


def spill_samples(code: KernelCode) -> Weights:
    """By row."""
    spills = spill_places(code)
    throttled = _part(code, _QUEUED) * code.taken(code.rows(reasons=("lg_throttle",)))
    at = code.taken(code.rows(spills) & ~code.rows(spills, _OTHERS))
    at[code.rows(spills, ("mio_throttle",))] *= _part(code, _ON_CHIP)
    own = np.maximum(at, code.waiting_for(spills))
    made = code.taken(code.rows(_made_anew(code, spills)))
    return np.maximum(np.maximum(own, made), np.maximum(_untold(code), throttled))


def _part(code: KernelCode, queued: Collection[str]) -> float:
    """Return the share of spills in all issued instructions of these names, 0 to 1."""
    every = code.n(code.named(*queued), (ISSUED,))
    return code.n(spill_places(code), (ISSUED,)) / every if every else 0.0


def _made_anew(code: KernelCode, spills: list[int]) -> list[int]:
    """Constants in loops with spills: where registers are left they stay in one."""
    loops = {loop_around(code, index) for index in spills}
    return code.where(
        lambda each: (
            each.depth > 0
            and each.name in _MADE
            and not set(_registers(each.text.partition(",")[2]))
            and loop_around(code, each.index) in loops
        )
    )


def _untold(code: KernelCode) -> Weights:
    """Long scoreboards of which nobody says what they wait for, and which are a spill's."""
    found = code.taken(code.rows(reasons=(_WAIT,)))
    told = {blame.offset for blame in code.function.blames if blame.stall == _WAIT}
    held = {index: _data(code.instructions[index]) for index in code.named(*_QUEUED)}
    stores = set(code.named("STL", "STG", "ST"))
    for row in np.flatnonzero(found).tolist():
        at = int(code.at[row])
        if at < 0 or code.instructions[at].offset in told:
            found[row] = 0.0
            continue
        named = _registers(code.instructions[at].text)
        before = (
            index for index in range(at - 1, max(-1, at - SPILLED_REACH), -1) if index in held
        )
        made = (i for i in before if not held[i].isdisjoint(named[:1] if i in stores else named))
        if code.instructions[next(made, at)].name not in _SPILLS:
            found[row] = 0.0
    return found


def _data(access: Instruction) -> frozenset[int]:
    """The registers that it moves: a load's first operand, a store's last."""
    named = _registers(_ADDRESS.sub("", access.text))
    first = named[-1 if access.name.startswith("ST") else 0] if named else 0
    return frozenset(range(first, first + max(1, width_of(access.opcode) // 4)) if named else ())


def _registers(text: str) -> list[int]:
    return [int(each) for each in _REGISTER.findall(text)]
