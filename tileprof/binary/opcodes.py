"""Kinds of instructions of which a function is made.

In: instructions.  Out: counts by class.  A class is the opcode's name, with the bits of one access
for what moves data: `LDG.128`, `STS.32`, `LDGSTS.128`; and each name belongs to a group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .instructions import Instruction, words

GROUPS: dict[str, frozenset[str]] = {
    group: words(names)
    for group, names in {
        "integer": "FLO",
        "matrix": "HGMMA QGMMA IGMMA BGMMA HMMA IMMA BMMA DMMA QMMA OMMA WARPGROUP",
        "tensor copy": "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED "
        "UBLKPF",
        "async copy": "LDGSTS LDGDEPBAR DEPBAR ARRIVES",
        "global memory": "LDG STG LD ST CCTL",
        "shared memory": "LDS STS LDSM STSM MOVM STAS",
        "local memory": "LDL STL",
        "constant memory": "LDC ULDC LDCU",
        "atomic": "ATOM ATOMG ATOMS RED REDG REDAS",
        "barrier": "BAR SYNCS MEMBAR ERRBAR FENCE WARPSYNC ACQBULK PREEXIT UCGABAR_ARV "
        "UCGABAR_WAIT CGAERRBAR NANOSLEEP",
        "warp": "SHFL VOTE VOTEU MATCH REDUX ELECT",
        "special function": "MUFU",
        "conversion": "I2F F2I F2F FRND I2FP F2FP F2IP I2I UF2FP",
        "control": "BRA BRX BRXU JMP JMX JMXU BSSY BSYNC BREAK BMOV CALL RET EXIT KILL YIELD BPT "
        "LEPC NOP",
    }.items()
}
"""Groups whose members do not share the beginning of a name."""
BEGINNINGS = (("floating point", ("F", "H", "D")), ("uniform", ("U", "R2UR", "S2UR")))
SIZED = words("LDG STG LD ST LDS STS LDL STL LDC ULDC LDCU LDGSTS ATOM ATOMG ATOMS RED REDG")
BITS = {"8": 8, "U8": 8, "S8": 8, "16": 16, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
WIDE_TYPES = ("F64", "U64", "S64")


def opcode_class(instruction: Instruction) -> str:
    """Return the class of an instruction: `HGMMA`, `LDG.128`."""
    name = instruction.name
    if name not in SIZED:
        return name
    bits = next((BITS[each] for each in instruction.modifiers if each in BITS), 0)
    wide = any(each in WIDE_TYPES for each in instruction.modifiers)
    return f"{name}.{bits or (64 if wide else 32)}"


def group_of(name: str) -> str:
    """Return the group of an opcode or class: `matrix`, `global memory`, …, else `integer`."""
    base = name.partition(".")[0]
    for group, names in GROUPS.items():
        if base in names:
            return group
    return next((group for group, starts in BEGINNINGS if base.startswith(starts)), "integer")


def opcode_mix(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return the count of each class, most frequent first; padding is left out."""
    counts = Counter(opcode_class(each) for each in instructions if not each.never_executes)
    counts.pop("NOP", None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
