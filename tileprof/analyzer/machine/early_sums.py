"""Sums over threads that a loop makes in each turn, only to add them up.

In: a kernel's machine code.  Out: for a loop, registers that it adds to in each turn and reads for
nothing else, whose addends come from other threads by nothing but additions; the instructions that
bring these.

    loop:  FADD R6, R2, R3 ; SHFL.BFLY R4, R6 ; FADD R6, R6, R4 ; … ; FADD R21, R21, R6

What is added up may be added in any order: each thread can add up its own numbers over all turns,
and threads meet once, behind the loop. Where the addend is used for something else as well, as in a
softmax that goes along, or is multiplied or compared on its way, threads have to meet each time,
and so they have where a loop exchanges anything but such sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.machine.repeats import parsed
from tileprof.binary.instructions import Instruction
from tileprof.binary.register_effects import effects

__all__ = ["EarlySums", "early_sums"]

_ADDS = ("FADD", "IADD3", "VIADD", "IADD", "DADD", "HADD2")
_FUSED = "FFMA"
_COPIES = ("MOV", "IMAD.MOV.U32", "IMAD.MOV", "SEL", "FSEL")
_LANES, _SHARED, _STORES = ("SHFL", "REDUX"), ("LDS",), ("STS",)


@dataclass(frozen=True, slots=True)
class EarlySums:
    """Of a loop."""

    loop: range
    sums: tuple[int, ...]
    """Places of additions to what is carried from turn to turn."""
    exchanges: tuple[int, ...]
    """Places of what brings numbers of other threads, barriers included."""
    adds: tuple[int, ...]
    """Places of additions on the way."""
    apart: int
    """Additions of a thread's own numbers before it meets others, those of products included: as
    many registers more hold these numbers apart."""


def early_sums(code: KernelCode) -> EarlySums | None:
    """Return the innermost loop with the most samples that has such sums; None for none."""
    if not code.named(*_LANES):
        return None
    found = (_of(code, loop) for loop in loops_of(code) if is_innermost(code, loop))
    return max(
        (each for each in found if each is not None), key=lambda each: code.n(each.loop),
        default=None,
    )  # fmt: skip


def _of(code: KernelCode, loop: range) -> EarlySums | None:
    lines = parsed(code)
    if not any(lines[index].name in _LANES for index in loop):
        return None
    reads, writes = dict[str, list[int]](), dict[str, list[int]]()
    for index in loop:
        does = effects(lines[index])
        for name in set(does.reads):
            reads.setdefault(name, []).append(index)
        for name in set(does.writes):
            writes.setdefault(name, []).append(index)
    sums, adds, lanes, shared = list[int](), set[int](), set[int](), set[int]()
    fused = set[int]()
    for index in loop:
        each = lines[index]
        does = effects(each)
        own = [name for name in does.writes if name.startswith("R")]
        if each.name not in _ADDS or each.predicate or len(own) != 1 or own[0] not in does.reads:
            continue
        if reads[own[0]] != [index] or writes[own[0]] != [index]:
            continue
        way = _Way(lines, loop, writes)
        for name in does.reads:
            if name != own[0]:
                way.back(name, index)
        if way.lanes or way.shared:
            sums.append(index)
            adds, lanes, shared = adds | way.adds, lanes | way.lanes, shared | way.shared
            fused |= way.fused
    if not sums:
        return None
    if shared:  # what was stored there is a sum as well, of as many threads
        for index in [index for index in loop if lines[index].name in _STORES]:
            way = _Way(lines, loop, writes)
            way.back(lines[index].operands[-1].partition(".")[0], index)
            adds, lanes, shared = adds | way.adds, lanes | way.lanes, shared | way.shared | {index}
        for index in [index for index in loop if lines[index].name in _SHARED]:
            shared.add(index)
        shared |= {index for index in loop if lines[index].name == "BAR"}
    if any(lines[index].name in _LANES and index not in lanes for index in loop):
        return None  # threads meet in the loop anyway
    met = sum(lines[index].name in (*_LANES, *_SHARED) for index in lanes | shared)
    apart = max(0, len(adds) + len(fused) - met)
    return EarlySums(loop, tuple(sums), tuple(sorted(lanes | shared)), tuple(sorted(adds)), apart)


class _Way:
    """What an addend is made of, back to where it is no sum any more."""

    def __init__(
        self, lines: tuple[Instruction, ...], loop: range, writes: dict[str, list[int]]
    ) -> None:
        self.lines, self.loop, self.writes = lines, loop, writes
        self.adds, self.lanes, self.shared = set[int](), set[int](), set[int]()
        self.fused = set[int]()

    def back(self, name: str, before: int) -> None:
        """Follow a register back from an instruction that reads it."""
        made = [index for index in self.writes.get(name, ()) if index < before]
        if not made or made[-1] in self.adds | self.lanes | self.shared | self.fused:
            return
        at = made[-1]
        each = self.lines[at]
        if each.name == _FUSED:
            self.fused.add(at)
            self.back(each.operands[-1].partition(".")[0], at)
            return
        if each.name in _SHARED:
            self.shared.add(at)
            return
        if each.name in _ADDS:
            self.adds.add(at)
        elif each.name in _LANES:
            self.lanes.add(at)
        elif each.name not in _COPIES and each.opcode not in _COPIES:
            return
        for read in effects(each).reads:
            if read.startswith("R"):
                self.back(read, at)
