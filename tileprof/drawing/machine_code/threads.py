"""Threads of some blocks, an instruction at a time, those that are furthest behind first.

In: machine code and registers.  Out: nothing; memory has counted what it was asked for.

Lanes of a warp that went different ways meet where the code says so (BSSY and BSYNC, WARPSYNC).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tileprof.binary.instructions import Instruction

from . import arithmetic, floats
from . import memory as memories
from .arithmetic import Run
from .memory import Memory
from .operands import (
    At,
    Lanes,
    UnknownOperandError,
    is_predicate,
    predicate,
    source,
    target_predicate,
)

LEFT_OUT = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA", "HMMA", "IMMA", "UBLKCP", "UBLKRED"})
"""Opcodes of tensor cores and bulk copies, whose results are left out."""
_NOTHING = LEFT_OUT | frozenset({
    "NOP", "DEPBAR", "LDGDEPBAR", "MEMBAR", "FENCE", "ERRBAR", "CCTL", "UTMACMDFLUSH", "UTMAPF",
    "WARPGROUP", "ARRIVES", "BMOV", "NANOSLEEP", "YIELD", "PREEXIT", "ACQBULK", "CGAERRBAR",
    "UCGABAR_ARV", "UCGABAR_WAIT", "CCTLL", "UTMACCTL", "BPT",
})  # fmt: skip
"""Opcodes that change no register that an address follows from, or wait for what is done here at
once."""
_STEPS = 60_000
"""Instructions of one group of blocks after which their threads go round for ever."""
Control = Callable[[Instruction, NDArray[np.int64]], None]


class EndlessError(Exception):
    """A launch that does not come to its end here, or not in the time that it is given."""


@dataclass(eq=False)
class Threads:
    """All threads of some blocks."""

    code: dict[int, Instruction]
    lines: dict[int, int]
    lanes: Lanes
    memory: Memory
    block_threads: int
    most: int
    """Instructions of threads that may run."""
    at: NDArray[np.int64] = field(init=False)
    """Offset of the next instruction of each thread."""
    unknown: Counter[str] = field(init=False, default_factory=Counter)
    """Opcodes whose results are not known here."""

    def __post_init__(self) -> None:
        count = self.lanes.count
        self.at = np.zeros(count, np.int64)
        self.alive = np.ones(count, np.bool_)
        self.waits = np.zeros(count, np.bool_)
        self.barrier = np.full(count, -1, np.int64)
        self.meets = np.full(count, -1, np.int64)
        """Convergence barrier that a thread waits at; 99 for WARPSYNC."""
        self.parts = np.zeros((32, count), np.bool_)
        self.arrived = np.zeros((16, self.memory.blocks), np.int64)
        self.needed = np.zeros((16, self.memory.blocks), np.int64)
        self._ready: dict[int, tuple[Run | None, Control | None]] = {}

    def run(self) -> None:
        """Run until all have ended; EndlessError where they do not."""
        for _ in range(_STEPS):
            able = self.alive & ~self.waits
            if not able.any():
                if not self.alive.any():
                    return
                self._release_someone()
                continue
            here = int(self.at[able].min())
            chosen = able & (self.at == here)
            self.most -= int(chosen.sum())
            if self.most < 0:
                raise EndlessError("the launch is too long to run on the processor")
            self._step(here, slice(None) if chosen.all() else np.flatnonzero(chosen))
        where = Counter(hex(each) for each in self.at[self.alive].tolist()).most_common(3)
        raise EndlessError(f"the threads do not come to their end: {where}, {dict(self.unknown)}")

    def _release_someone(self) -> None:
        """Let lanes go on that wait for lanes that never come: those that wait in a warp."""
        held = self.meets >= 0
        if not held.any():
            raise EndlessError("all threads wait")
        first = self.at[held].min()
        free = held & (self.at == first)
        self.meets[free], self.waits[free] = -1, False

    def _step(self, here: int, at: At) -> None:
        op = self.code[here]
        self.at[at] = here + 16
        if op.predicate:
            numbers = np.arange(self.lanes.count)[at]
            text = op.predicate.lstrip("@")
            takes = np.broadcast_to(predicate(text)(self.lanes, at), numbers.shape)
            at = some = numbers[takes]
            if not len(some):
                return
        run, control = self._found(op)
        if control is not None:
            control(op, np.arange(self.lanes.count)[at])
        elif run is not None:
            try:
                run(self.lanes, at)
            except UnknownOperandError as error:
                self.unknown[f"{op.text} ({error})"] += 1
                self._ready[op.offset] = None, None

    def _found(self, op: Instruction) -> tuple[Run | None, Control | None]:
        if op.offset not in self._ready:
            self._ready[op.offset] = self._prepared(op)
        return self._ready[op.offset]

    def _prepared(self, op: Instruction) -> tuple[Run | None, Control | None]:
        name = op.name
        control = getattr(self, f"_do_{name.lower()}", None)
        if control is not None:
            return None, control
        if name in _NOTHING:
            return None, None
        try:
            if name in memories.TABLE:
                line = self.lines.get(op.offset, 0)
                return memories.TABLE[name](op, self.memory, line), None
            for table in (arithmetic.TABLE, floats.TABLE):
                for each in (name, name.removeprefix("U")):
                    if each in table:
                        return table[each](op), None
        except (UnknownOperandError, ValueError, IndexError, KeyError) as error:
            self.unknown[f"{op.text} ({error})"] += 1
            return None, None
        self.unknown[op.opcode] += 1
        return None, None

    # -- control flow

    def _jump(self, op: Instruction, at: NDArray[np.int64]) -> None:
        flags = [each for each in op.operands if is_predicate(each)]
        for each in flags:
            at = at[np.broadcast_to(predicate(each)(self.lanes, at), at.shape)]
        goal = next(each for each in reversed(op.operands) if each.startswith("0x"))
        self.at[at] = int(goal, 16)

    def _do_bra(self, op: Instruction, at: NDArray[np.int64]) -> None:
        if "DIV" in op.modifiers:
            return
        self._jump(op, at)

    _do_jmp = _do_bra

    def _do_exit(self, op: Instruction, at: NDArray[np.int64]) -> None:
        for each in op.operands:
            if is_predicate(each):
                at = at[np.broadcast_to(predicate(each)(self.lanes, at), at.shape)]
        self.alive[at] = False
        self.parts[:, at] = False
        self._meet()
        self._open()

    def _do_bssy(self, op: Instruction, at: NDArray[np.int64]) -> None:
        self.parts[int(op.operands[0][1:]), at] = True

    def _do_break(self, op: Instruction, at: NDArray[np.int64]) -> None:
        name = next(each for each in op.operands if each.startswith("B"))
        for each in op.operands:
            if is_predicate(each):
                at = at[np.broadcast_to(predicate(each)(self.lanes, at), at.shape)]
        self.parts[int(name[1:]), at] = False
        self._meet()

    def _do_bsync(self, op: Instruction, at: NDArray[np.int64]) -> None:
        self.meets[at], self.waits[at] = int(op.operands[0][1:]), True
        self._meet()

    def _do_warpsync(self, op: Instruction, at: NDArray[np.int64]) -> None:
        self.meets[at], self.waits[at] = 99, True
        self._meet()

    def _meet(self) -> None:
        """Let warps go on all of whose lanes that take part have come."""
        held = self.meets[self.meets >= 0]
        for number in np.unique(held).tolist():
            here = (self.meets == number).reshape(-1, 32)
            part = self.alive if number == 99 else self.parts[number]
            missing = (part.reshape(-1, 32) & ~here).any(axis=1)
            free = (here & ~missing[:, None]).reshape(-1)
            self.meets[free], self.waits[free] = -1, False
            if number != 99:
                self.parts[number][free] = False

    def _do_bar(self, op: Instruction, at: NDArray[np.int64]) -> None:
        number, count = (
            np.broadcast_to(source(each).bits(self.lanes, at), at.shape)
            for each in (*op.operands, "0x0")[:2]
        )
        blocks = at // self.block_threads
        np.add.at(self.arrived, (number & 15, blocks), 1)
        self.needed[number & 15, blocks] = count
        if "ARV" not in op.modifiers:
            self.barrier[at], self.waits[at] = number & 15, True
        self._open()

    def _open(self) -> None:
        """Let blocks go on at barriers to which all threads have come."""
        used = np.flatnonzero(self.arrived.any(axis=1)).tolist()
        alive = self.alive.reshape(-1, self.block_threads).sum(axis=1) if used else 0
        for number in used:
            needed = np.where(self.needed[number] > 0, self.needed[number], alive)
            full = (self.arrived[number] >= needed) & (self.arrived[number] > 0)
            if full.any():
                free = (self.barrier == number) & np.repeat(full, self.block_threads)
                self.barrier[free], self.waits[free] = -1, False
                self.arrived[number][full] = 0

    def _do_usetmaxreg(self, op: Instruction, at: NDArray[np.int64]) -> None:
        for each in op.operands:
            if is_predicate(each):
                target_predicate(each)(self.lanes, at, True)

    def _do_syncs(self, op: Instruction, at: NDArray[np.int64]) -> None:
        memories.check_barrier(op, self.lanes, at)
        if "PHASECHK" in op.modifiers:
            for each in op.operands:
                if is_predicate(each):
                    target_predicate(each)(self.lanes, at, True)
                    return
