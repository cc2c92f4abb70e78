"""Which addresses the lanes of a warp have, worked out from machine code.

In: the code of a kernel, and the extents of its blocks.  Out: by access, the addresses of the first
threads of a block, modulo 2^32, as far as they follow from thread indices and values that all of
them share. What a kernel is given (pointers, extents, strides) and its block's index are taken for
numbers that are aligned to everything, so only how far lanes are apart means something. What each
lane loaded for itself is not known, nor is what depends on it.

Instructions are followed in their order. Where a branch steps over some, or leads back to a loop's
begin, what differs between the two ways is not known, unless lanes are as far apart by both.

Of 606 accesses of kernels whose compiler counted their sectors (sm_90, CUDA 12 and 13) 536 were
worked out, each with as many sectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.jumps import skipped, targets
from tileprof.analyzer.machine.lane_arithmetic import WORD, WORK, Lanes, from_halves
from tileprof.analyzer.machine.repeats import parsed
from tileprof.analyzer.numbers.machine import LANES_GIVEN, LANES_ROUNDS, LANES_SHARED
from tileprof.binary.instructions import Instruction
from tileprof.binary.occupancy import WARP
from tileprof.binary.register_effects import effects

__all__ = ["Block", "Lanes", "addresses"]

Block: TypeAlias = tuple[int, int, int]
"""Threads of a block along x, y and z."""
_State: TypeAlias = dict[str, Lanes | None]
_APART = ("ATOM", "LDSM", "LDL", "ELECT", "MATCH", "CALL", "SHFL")
"""Instructions that may give each lane something else though all give them the same."""
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_PART = re.compile(r"-?0x[0-9a-f]+|U?R(?:\d+|Z)(?:\.\w+)*")
_PLAIN = re.compile(r"(-|~)?(U?R)(\d+|Z)(?:\.reuse)?(?:\.U32)?")
_CONSTANT = re.compile(r"c\[0x\w+\]\[(0x[0-9a-f]+)\]")
_PREDICATE = re.compile(r"!?U?P[\dT]")


@lru_cache(maxsize=8)
def addresses(code: KernelCode, block: Block, threads: int = WARP) -> Mapping[int, list[Lanes]]:
    """By place of an instruction with addresses that are known, those of a block's first threads.

    A copy from global to shared memory has two: where to, and where from.
    """
    walk = _Walk(code, block, threads)
    for _ in range(LANES_ROUNDS):
        if not walk.changes():
            return walk.found
    return {}


class _Walk:
    """Rounds over the instructions of a kernel."""

    def __init__(self, code: KernelCode, block: Block, threads: int) -> None:
        x, y, z = block
        lanes = np.arange(min(threads, x * y * z), dtype=np.int64)
        self.own = {
            "SR_TID.X": lanes % x, "SR_TID.Y": lanes // x % y, "SR_TID.Z": lanes // (x * y),
            "SR_LANEID": lanes % WARP, "SRZ": 0 * lanes,
        }  # fmt: skip
        self.zero, self.same = self.own["SRZ"], np.full_like(lanes, LANES_SHARED)
        self.code = parsed(code)
        self.effects = [effects(each) for each in self.code]
        self.loops = [(to, end) for end, to in targets(code).items() if to <= end]
        self.ends: dict[int, list[int]] = {}
        """By place of the last instruction of loops, their begins."""
        for to, end in self.loops:
            self.ends.setdefault(end, []).append(to)
        self.ways: dict[int, list[range]] = {}
        """By place, what branches to it step over."""
        for _, inside in skipped(code):
            self.ways.setdefault(inside.stop, []).append(inside)
        self.branches = {inside.start - 1 for ways in self.ways.values() for inside in ways}
        self.unsure: dict[int, set[str]] = {to: set() for to, _ in self.loops}
        """By begin of a loop, registers of which its turns leave something else."""
        self.found: dict[int, list[Lanes]] = {}

    def changes(self) -> bool:
        """Go over all instructions; whether more registers turned out to be unsure."""
        state, changed = _State(), False
        at_branch, at_begin = dict[int, _State](), dict[int, _State]()
        self.found = {}
        for index, each in enumerate(self.code):
            for inside in self.ways.get(index, ()):
                self._join(state, at_branch[inside.start - 1], inside)
            if index in self.unsure:
                state.update(dict.fromkeys(self.unsure[index]))
                at_begin[index] = dict(state)
            self._step(index, each, state)
            if index in self.branches:
                at_branch[index] = dict(state)
            for to in self.ends.get(index, ()):
                unlike = self._unlike(at_begin[to], state, range(to, index + 1))
                changed |= bool(unlike - self.unsure[to])
                self.unsure[to] |= unlike
        return changed

    def _unlike(self, before: _State, after: _State, inside: range) -> set[str]:
        """Registers that these instructions leave otherwise than they found them."""
        written = {name for index in inside for name in self.effects[index].writes}
        return {name for name in written if not _alike(before.get(name), after.get(name))}

    def _join(self, state: _State, before: _State, inside: range) -> None:
        """What is known behind instructions that a branch may have left out."""
        branch = self.code[inside.start - 1]
        for name in self._unlike(before, state, inside):
            state[name] = self._either(before.get(name), state.get(name), branch, before)

    def _either(
        self, a: Lanes | None, b: Lanes | None, guarded: Instruction, state: _State
    ) -> Lanes | None:  # fmt: skip
        """One of two values; all lanes have it where all go the same way."""
        guard = guarded.predicate.lstrip("@!")
        together = guard.startswith("UP") or self._shared(state.get(guard))
        return self.same if together and self._shared(a) and self._shared(b) else None

    def _shared(self, value: Lanes | None) -> bool:
        return value is self.same or (value is not None and bool((value == value[0]).all()))

    def _step(self, index: int, each: Instruction, state: _State) -> None:
        """What an instruction does to registers, and its addresses."""
        if each.never_executes:
            return
        brackets = [*self._brackets(each, state)]
        known = [lanes for lanes in brackets if lanes is not None]
        if known and len(known) == len(brackets):
            self.found[index] = known
        writes = self.effects[index].writes
        results = dict.fromkeys(writes, self._unknown(each, self.effects[index].reads, state))
        words = [name for name in writes if name.lstrip("U").startswith("R")]
        if words and (result := self._result(each, state)) is not None:
            results[words[0]] = result
        for name, value in results.items():
            if each.predicate and not _equal(state.get(name), value):
                value = self._either(state.get(name), value, each, state)
            state[name] = value

    def _unknown(
        self, each: Instruction, reads: tuple[str, ...], state: _State
    ) -> Lanes | None:  # fmt: skip
        """A result that is not worked out: the same in lanes that give the same."""
        if each.name.startswith("U") and len(self.zero) <= WARP:
            return self.same  # uniform registers are a warp's
        own = each.name.startswith(_APART) or each.name.endswith("GMMA")
        special = each.operands[-1] if each.operands else ""
        if own or (special.startswith("SR_") and ("MASK" in special or special in self.own)):
            return None
        unset = self.same if len(self.zero) <= WARP else None
        held = (state.get(name, unset if name.startswith("U") else None) for name in reads)
        return self.same if all(map(self._shared, held)) else None

    def _result(self, each: Instruction, state: _State) -> Lanes | None:
        """The low word of a result that is worked out."""
        name = each.name if each.name == "ULDC" else each.name.removeprefix("U")
        sources = [text for text in each.operands if not _PREDICATE.fullmatch(text)][1:]
        if name in ("S2R", "CS2R", "S2UR"):
            return self.own.get(sources[-1])
        if name in ("LDC", "ULDC"):
            return self._value(sources[-1], state)
        if name == "HFMA2" and [text.lstrip("-") for text in sources[:2]] == ["RZ", "RZ"]:
            return self.zero + from_halves(*sources[2:4])
        values = [self._value(source, state) for source in sources]
        known = [value for value in values if value is not None]
        if name == "SHFL" and known and values[0] is not None:
            return values[0] if _by_warp(values[0]) else None
        if name not in WORK or len(known) < len(values):
            return None
        done = WORK[name](each.modifiers, known)
        return None if done is None else done & WORD

    def _value(self, operand: str, state: _State) -> Lanes | None:
        """A register, a constant, or a number, of each lane."""
        if _NUMBER.fullmatch(operand):
            return self.zero + (int(operand, 16) & WORD)
        if constant := _CONSTANT.fullmatch(operand):
            return self.zero + LANES_GIVEN * (int(constant[1], 16) // 2 | 1)
        plain = _PLAIN.fullmatch(operand)
        if plain is None:
            return None
        held = self.zero if plain[3] == "Z" else state.get(plain[2] + plain[3])
        if held is None or not plain[1]:
            return held
        return (-held if plain[1] == "-" else ~held) & WORD

    def _brackets(self, each: Instruction, state: _State) -> Iterator[Lanes | None]:
        """The addresses of its operands in brackets, of global memory last."""
        if each.name in ("LDC", "ULDC") or any("gdesc" in text for text in each.operands):
            return
        for operand in sorted(each.operands, key=lambda text: text.startswith("desc")):
            if "[" in operand and not operand.startswith("c["):
                yield self._address(operand[operand.rindex("[") + 1 : operand.rindex("]")], state)

    def _address(self, text: str, state: _State) -> Lanes | None:
        total = self.zero
        for part in _PART.findall(text):
            name, *modifiers = part.split(".")
            held = self._value(name, state)
            if held is None:
                return None
            scale = next((int(each[1:]) for each in modifiers if re.match(r"X\d", each)), 1)
            total = (total + held * scale) & WORD
        return total


def _equal(a: Lanes | None, b: Lanes | None) -> bool:
    return a is b or (a is not None and b is not None and bool((a == b).all()))


def _alike(a: Lanes | None, b: Lanes | None) -> bool:
    """Whether lanes are as far apart in both."""
    if a is None or b is None:
        return a is b
    return a is b or bool((((a - b) & WORD) == ((a[0] - b[0]) & WORD)).all())


def _by_warp(value: Lanes) -> bool:
    """Whether the lanes of each warp have the same."""
    return bool((value == np.repeat(value[::WARP], WARP)[: len(value)]).all())
