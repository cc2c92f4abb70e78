"""What machine instructions do to whole numbers, for all lanes at once.

In: an instruction's modifiers and its sources, 32-bit words by lane.  Out: the low word of its
result, or None where it is not worked out (a carry is needed, or a form is not known). Names and
meanings are those of NVIDIA's binary utilities and of public disassemblies: LEA shifts and adds,
SHF shifts a pair of words, LOP3 looks up three bits in a table, SGXT extends a sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Lanes: TypeAlias = npt.NDArray[np.int64]
"""A word for each lane, from 0 to 2^32 - 1."""
_Work: TypeAlias = Callable[[Sequence[str], Sequence[Lanes]], Lanes | None]
WORD = 0xFFFFFFFF


def from_halves(high: str, low: str) -> int:
    """The word that two 16-bit floats are: compilers write some numbers so. ValueError for none."""
    bits = [int(np.float16(float(each)).view(np.uint16)) for each in (high, low)]
    return bits[0] << 16 | bits[1]


def _signed(value: Lanes) -> Lanes:
    return np.where(value >> 31 & 1, value - (1 << 32), value)


def _product(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    if "X" in modifiers or len(v) < 3:
        return None
    if "HI" not in modifiers:
        return _signed(v[0]) * _signed(v[1]) + v[2]
    if "U32" in modifiers:
        wide = v[0].astype(np.uint64) * v[1].astype(np.uint64)
        return (wide >> np.uint64(32)).astype(np.int64) + v[2]
    return (_signed(v[0]) * _signed(v[1]) >> 32) + v[2]


def _sum(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    return None if "X" in modifiers else np.sum(v, axis=0)


def _shifted_sum(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    """LEA: (a << n) + b; with HI the high word of (c, a) << n, or of a with its sign."""
    if "X" in modifiers or len(v) < 3:
        return None
    n = v[-1] & 31
    if "HI" not in modifiers:
        return (v[0] << n) + v[1]
    if "SX32" in modifiers:
        return (_signed(v[0]) >> (32 - n)) + v[1]
    return ((v[2] << n) | (v[0] >> (32 - n))) + v[1] if len(v) > 3 else None


def _shift(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    """SHF: a pair of words, the low one first, by n in between."""
    if len(v) < 3:
        return None
    low, n, high = v[0], v[1] & 31, v[2]
    if "L" in modifiers:
        return None if "HI" in modifiers else low << n
    if "HI" in modifiers:
        return (_signed(high) if "S32" in modifiers else high) >> n
    return low >> n | high << (32 - n)


def _logic(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    """LOP3: the bit of a table that three bits choose."""
    if "LUT" not in modifiers or len(v) < 4:
        return None
    table, out = int(v[3][0]), np.zeros_like(v[0])
    for row in range(8):
        if table >> row & 1:
            a, b, c = (v[i] if row >> (2 - i) & 1 else ~v[i] for i in range(3))
            out |= a & b & c
    return out


def _extended(modifiers: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    bits = int(v[1][0]) & 31 if len(v) > 1 else 0
    if not bits:
        return None
    low = v[0] & ((1 << bits) - 1)
    return low if "U32" in modifiers else np.where(low >> (bits - 1), low - (1 << bits), low)


def _copy(_: Sequence[str], v: Sequence[Lanes]) -> Lanes | None:
    return v[0] if v else None


WORK: Mapping[str, _Work] = {
    "IMAD": _product, "IADD3": _sum, "VIADD": _sum, "IADD": _sum, "LEA": _shifted_sum,
    "SHF": _shift, "LOP3": _logic, "SGXT": _extended, "MOV": _copy, "R2UR": _copy,
}  # fmt: skip
"""By opcode without modifiers, and without the U of those on uniform registers."""
