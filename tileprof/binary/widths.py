"""Widths of operands: how many registers an operand of an instruction stands for.

In: an instruction.  Out: `Widths` of its results and sources, in 32-bit registers.  SASS names only
the first register of a group; the size follows from the opcode's modifiers, and for matrix
instructions from the shape: M × N elements over the lanes that share them.

Approximate: texture and surface instructions (taken as one register each), sparse matrix metadata,
and instructions of Blackwell's tensor memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .instructions import Instruction, words

WARP, WARPGROUP = 32, 128
DOUBLES = ("F64", "S64", "U64", "64")
MEMORY = words("LD LDG LDS LDL LDC LDCU ULDC ST STG STS STL ATOM ATOMG ATOMS RED REDG SYNCS")
FLOAT64 = words("DADD DMUL DFMA DMNMX DSETP")
MATRIX_SHAPE = re.compile(r"(16|8)(8)(\d+)")
GROUP_SHAPE = re.compile(r"64x(\d+)x(\d+)")
ELEMENT_BITS = {"TF32": 32, "S8": 8, "U8": 8, "S4": 4, "U4": 4, "E4M3": 8, "E5M2": 8, "XOR": 1}


@dataclass(frozen=True, slots=True)
class Widths:
    """Registers of each result, and of the sources in order; `sources` may be shorter."""

    result: int = 1
    sources: tuple[int, ...] = ()
    other: int = 1
    """Width of sources that `sources` does not reach, in 32-bit registers."""

    def source(self, index: int) -> int:
        """Return registers of the source at an index, counted after the results."""
        return self.sources[index] if index < len(self.sources) else self.other


def widths(instruction: Instruction) -> Widths:
    """Return the widths of an instruction's register operands (addresses apart)."""
    name, modifiers = instruction.name, instruction.modifiers
    if name in MEMORY:
        data = _data_width(modifiers)
        return Widths(data, other=data)
    if name in ("LDSM", "STSM"):
        count = int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1
        return Widths(count, other=count)
    if name in FLOAT64:
        return Widths(2, other=2)
    if name.endswith("MMA"):
        return _matrix(name, modifiers)
    return _arithmetic(name, modifiers)


def _data_width(modifiers: tuple[str, ...]) -> int:
    if "256" in modifiers or "128" in modifiers:
        return 4
    return 2 if any(each in DOUBLES for each in modifiers) else 1


def _arithmetic(name: str, modifiers: tuple[str, ...]) -> Widths:
    match name:
        case "IMAD" | "UIMAD" if "WIDE" in modifiers:
            return Widths(2, (1, 1, 2))
        case "IMAD" | "UIMAD" if "HI" in modifiers:
            return Widths(1, (1, 1, 2))
        case "I2F":
            return Widths(1 + ("F64" in modifiers), other=1 + bool({"S64", "U64"} & {*modifiers}))
        case "F2I":
            return Widths(1 + bool({"S64", "U64"} & {*modifiers}), other=1 + ("F64" in modifiers))
        case "F2F":
            types = [each for each in modifiers if each[0] in "FB" and each[1:2].isdigit()]
            return Widths(1 + (types[:1] == ["F64"]), other=1 + (types[1:2] == ["F64"]))
        case "FRND" if "F64" in modifiers:
            return Widths(2, other=2)
        case "CS2R":
            return Widths(1 if "32" in modifiers else 2)
        case "LEPC":
            return Widths(2)
        case "RET" | "BRX" | "JMX" | "JMP" | "CALL":
            # An address in a pair of registers.
            return Widths(other=2)
        case "UBLKCP" | "UBLKRED" | "UBLKPF":
            return Widths()
    return Widths(2, other=2) if "64" in modifiers else Widths()


def _matrix(name: str, modifiers: tuple[str, ...]) -> Widths:
    """Return the widths of a matrix instruction: results and accumulators, A, B."""
    if found := next(filter(None, map(GROUP_SHAPE.fullmatch, modifiers)), None):
        n, k = map(int, found.groups())
        accumulator = _share(64 * n, _accumulator_bits(modifiers), WARPGROUP)
        a = _share(64 * k, _element_bits(name, modifiers), WARPGROUP)
        return Widths(accumulator, (a, 1, accumulator))
    if found := next(filter(None, map(MATRIX_SHAPE.fullmatch, modifiers)), None):
        m, n, k = map(int, found.groups())
        bits = _element_bits(name, modifiers)
        accumulator = _share(m * n, _accumulator_bits(modifiers, name), WARP)
        a = _share(m * k // (2 if "SP" in modifiers else 1), bits, WARP)
        return Widths(accumulator, (a, _share(n * k, bits, WARP), accumulator))
    return Widths()


def _share(elements: int, bits: int, lanes: int) -> int:
    """Return registers of one lane."""
    return max(elements * bits // (lanes * 32), 1)


def _element_bits(name: str, modifiers: tuple[str, ...]) -> int:
    if name == "DMMA":
        return 64
    narrow = {"QGMMA": 8, "IGMMA": 8, "BGMMA": 1, "QMMA": 8}.get(name, 16)
    return next((ELEMENT_BITS[each] for each in modifiers if each in ELEMENT_BITS), narrow)


def _accumulator_bits(modifiers: tuple[str, ...], name: str = "") -> int:
    if name == "DMMA":
        return 64
    types = [each for each in modifiers if each in ("F32", "F16")]
    return 16 if types[:1] == ["F16"] else 32
