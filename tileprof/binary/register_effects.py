"""Registers that an instruction reads and writes.

In: an instruction.  Out: `Effects`: names of single registers, `R4`, `UR5` (uniform), `P0`, `UP1`
(predicates), `B0` (convergence barriers).  RZ, PT and their like hold nothing and are left out.

The rule: results come first: predicates, then one register, then carry predicates.  Compares write
two predicates and no register; stores and control flow write nothing.

Approximate: widths as `widths` says; the coordinates of tensor copies; a call stands for nothing
(what the callee reads and writes is seen where the flow of control goes through it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from .instructions import Instruction, words
from .widths import Widths, widths

REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P|B)(\d+)\b")
PLAIN_PREDICATE = re.compile(r"(?:U?P\d|U?PT|PR)")
PLAIN_REGISTER = re.compile(r"(?:U?R(?:\d+|Z)|B\d+)(?:\.\w+)*")
NO_RESULT = words(
    "ST STG STS STL STSM STAS RED REDG REDAS BAR MEMBAR ERRBAR CCTL CCTLL CCTLT DEPBAR LDGDEPBAR "
    "LDGSTS ARRIVES BRA BRX BRXU JMP JMX JMXU BSYNC BREAK CALL RET EXIT KILL NANOSLEEP WARPSYNC "
    "YIELD NOP BPT RTT ACQBULK PREEXIT CGAERRBAR FENCE SETCTAID SETLMEMBASE WARPGROUP WARPGROUPSET "
    "PMTRIG SUST SURED R2B"
)
NO_RESULT_BEGINNINGS = ("UTMA", "UBLK", "UCGABAR", "UTC")
COMPARES = ("SETP", "SETP2", "PLOP3")
PREDICATES = 7
"""P0 to P6; the eighth is constant."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Registers read and written, in the order of the operands."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def effects(instruction: Instruction) -> Effects:
    """Return what an instruction reads and writes; nothing, where it never executes."""
    if instruction.never_executes:
        return Effects((), ())
    return _effects(instruction.predicate, instruction.opcode, instruction.operands)


@lru_cache(maxsize=65536)
def _effects(predicate: str, opcode: str, operands: tuple[str, ...]) -> Effects:
    instruction = Instruction(0, predicate, opcode, operands, 0)
    name = instruction.name
    reads = [*_plain(predicate)]
    if name in ("P2R", "R2P"):
        return _packed(instruction, reads)
    count, sizes = result_count(instruction), widths(instruction)
    writes: list[str] = []
    for i, operand in enumerate(operands):
        if i < count:
            writes += _group(operand, sizes.result)
        elif "[" in operand:
            reads += _address(instruction, i, operand)
        else:
            reads += _group(operand, _source_width(instruction, operands, i - count, sizes))
    return Effects(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)))


def result_count(instruction: Instruction) -> int:
    """Return how many of the first operands are results."""
    name, operands = instruction.name, instruction.operands
    if name in NO_RESULT or name.startswith(NO_RESULT_BEGINNINGS):
        return 0
    if name.endswith(COMPARES):
        return min(2, len(operands))
    if name in ("VOTE", "VOTEU"):
        return len(operands) - 1
    if name == "FCHK":
        return 1
    if "ENL2" in instruction.modifiers and name.startswith("LD"):
        return 2
    return _leading(operands)


def _leading(operands: tuple[str, ...]) -> int:
    """Return the number of leading results: predicates, one register, carry predicates."""
    at = _skip_predicates(operands, 0)
    if at < len(operands) and PLAIN_REGISTER.fullmatch(operands[at]):
        at = _skip_predicates(operands, at + 1)
    return at


def _skip_predicates(operands: tuple[str, ...], at: int) -> int:
    while at < len(operands) and PLAIN_PREDICATE.fullmatch(operands[at]):
        at += 1
    return at


def _source_width(
    instruction: Instruction, operands: tuple[str, ...], index: int, sizes: Widths
) -> int:
    # With A in shared memory one operand describes A and B, so C is the second source.
    if instruction.name.endswith("GMMA") and index == 1 and operands[1].startswith("gdesc"):
        return sizes.result
    return sizes.source(index)


def _plain(operand: str) -> list[str]:
    return [kind + number for kind, number in REGISTER.findall(operand)]


def _group(operand: str, width: int) -> Iterator[str]:
    """Yield the registers of an operand that names the first of `width`; predicates stand alone."""
    for kind, number in REGISTER.findall(operand):
        size = width if kind in ("R", "UR") else 1
        yield from (f"{kind}{int(number) + i}" for i in range(size))


def _address(instruction: Instruction, index: int, operand: str) -> Iterator[str]:
    """Yield the registers of an operand in brackets: an address, a descriptor, a constant."""
    name = instruction.name
    for found in REGISTER.finditer(operand):
        kind, number = found[1], int(found[2])
        wide = operand.startswith(".64", found.end())
        before = operand[: found.start()]
        if name.startswith("UTMA"):
            size = _tensor_copy(instruction, index)
        elif name.startswith("UBLK"):
            # Two addresses of global memory, or an address and a barrier of shared memory; what is
            # copied from shared memory has one address.
            size = 1 if index == 1 and instruction.modifiers[:2] == ("G", "S") else 2
        elif before.endswith("gdesc["):
            # Two descriptors of 64 bits; one where A comes from registers.
            size = 4 if index == 1 else 2
        elif before.endswith(("desc[", "cx[")) or (kind == "UR" and ".64" in before):
            size = 2
        else:
            size = 2 if wide else 1
        yield from (f"{kind}{number + i}" for i in range(size))


def _tensor_copy(instruction: Instruction, index: int) -> int:
    """A tensor copy's first operand: shared address, barrier (loads), a coordinate a dimension."""
    if index > 0:
        return 2
    rank = next((int(each[0]) for each in instruction.modifiers if each[1:] == "D"), 1)
    return rank + (2 if instruction.name == "UTMALDG" else 1)


def _packed(instruction: Instruction, reads: list[str]) -> Effects:
    """P2R and R2P: predicates as bits of a register, chosen by a mask."""
    mask = int(instruction.operands[-1], 0) if instruction.operands[-1][:1].isdigit() else 127
    predicates = tuple(f"P{i}" for i in range(PREDICATES) if mask >> i & 1)
    first, *rest = instruction.operands
    others = [name for operand in rest for name in _plain(operand)]
    if instruction.name == "P2R":
        return Effects((*reads, *predicates, *others), tuple(_plain(first)))
    return Effects((*reads, *others), predicates)
