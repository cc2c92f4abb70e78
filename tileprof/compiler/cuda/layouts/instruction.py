"""The instruction that does a matrix product, and how the block's threads divide the tile.

    wgmma m64n256k16 ss groups=2x1     warp groups along M and N; A from shared memory or registers
    mma m16n8k16 warps=2x4             warps along M and N
    fma 4x8 warps=2x4 vector=4         lanes and warps along M and N; neighbours along N in a thread

The text is the attribute `lowering` of a `gemm`.  Units (warp groups, warps, lanes) that are left
over hold copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tileprof.errors import InternalError

__all__ = ["Fma", "Instruction", "Mma", "Wgmma", "parse_instruction", "pieces"]


@dataclass(frozen=True, slots=True)
class Wgmma:
    """wgmma.mma_async: four warps multiply 64×k by k×n; `n` is that of the widest piece."""

    n: int
    k: int
    a_in_registers: bool
    rows: int
    """Warp groups along M."""
    columns: int
    """Warp groups along N."""

    m = 64
    """Rows of one instruction."""

    def __str__(self) -> str:
        mode = "rs" if self.a_in_registers else "ss"
        return f"wgmma m64n{self.n}k{self.k} {mode} groups={self.rows}x{self.columns}"


@dataclass(frozen=True, slots=True)
class Mma:
    """mma.sync: a warp multiplies 16×k by k×8."""

    k: int
    rows: int
    """Warps along M."""
    columns: int
    """Warps along N."""

    m = 16
    """Rows of one instruction."""

    def __str__(self) -> str:
        return f"mma m16n8k{self.k} warps={self.rows}x{self.columns}"


@dataclass(frozen=True, slots=True)
class Fma:
    """Scalar multiplications and additions."""

    lane_rows: int
    lane_columns: int
    rows: int
    """Warps along M."""
    columns: int
    """Warps along N."""
    vector: int
    """Neighbours along N that a thread holds together."""

    def __str__(self) -> str:
        lanes = f"{self.lane_rows}x{self.lane_columns}"
        return f"fma {lanes} warps={self.rows}x{self.columns} vector={self.vector}"


Instruction = Wgmma | Mma | Fma
_WGMMA = re.compile(r"wgmma m64n(\d+)k(\d+) (ss|rs) groups=(\d+)x(\d+)")
_MMA = re.compile(r"mma m16n8k(\d+) warps=(\d+)x(\d+)")
_FMA = re.compile(r"fma (\d+)x(\d+) warps=(\d+)x(\d+) vector=(\d+)")


@cache
def parse_instruction(text: str) -> Instruction:
    """The instruction that `str` printed."""
    if found := _WGMMA.fullmatch(text):
        n, k, rows, columns = (int(found[at]) for at in (1, 2, 4, 5))
        return Wgmma(n, k, found[3] == "rs", rows, columns)
    if found := _MMA.fullmatch(text):
        return Mma(*map(int, found.groups()))
    if found := _FMA.fullmatch(text):
        return Fma(*map(int, found.groups()))
    raise InternalError(f"`{text}` is no instruction for a matrix product")


def pieces(n: int, *, integers: bool = False) -> tuple[int, ...] | None:
    """Widths of the wgmma instructions that cover `n` columns, as wide and as even as they can be;
    None where no widths do.  They are multiples of 8 up to 256; of 16 beyond 24 for integers."""
    if n % 8 or n < 8:
        return None
    if integers and n // 8 % 2 and n > 24:
        rest = pieces(n - 24, integers=True)
        return None if rest is None else (*rest, 24)
    unit = 16 if integers and n > 24 else 8
    count = -(-n // 256)
    units, more = divmod(n // unit, count)
    return tuple((units + (at < more)) * unit for at in range(count))
