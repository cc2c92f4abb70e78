"""Instructions that a GPU backend chooses for copies and matrix products.

They are typed attributes of ops (`Copy.lowering`, `Gemm.lowering`), printed as text and read back:

    wgmma m64n256k16 ss groups=2x1     warp groups along M and N; A from shared memory or registers
    wgmma m64n192k32 ss groups=2x1 dealt
    mma m16n8k16 warps=2x4             warps along M and N
    fma 4x8 warps=2x4 vector=4         lanes and warps along M and N; neighbours along N in a thread
    tma, tma multicast=2, tma reduce=add, tma dealt
    cp.async 16                        bytes of a thread and instruction
    matrix

Units (warp groups, warps, lanes) that a product leaves over hold copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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
    dealt: bool = False
    """Whether rows of B lie as `Tma.dealt` says; the instruction's columns are in that order."""

    m = 64
    """Rows of one instruction."""

    def __str__(self) -> str:
        mode = "rs" if self.a_in_registers else "ss"
        more = " dealt" if self.dealt else ""
        return f"wgmma m64n{self.n}k{self.k} {mode} groups={self.rows}x{self.columns}{more}"


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


ProductInstruction = Wgmma | Mma | Fma


@dataclass(frozen=True, slots=True)
class Tma:
    """A box of a tensor map, copied between global and shared memory by the copy engine."""

    multicast: int = 1
    """Blocks of a cluster that load the tile together, a slice of its rows each."""
    reduce: str = ""
    """Operation that combines the tile with global memory (`add`); '' replaces its content."""
    dealt: bool = False
    """Whether pairs of the tile's rows are dealt into two halves in shared memory: rows 0, 1, 4, 5,
    8, 9, … and then rows 2, 3, 6, 7, …"""

    def __str__(self) -> str:
        shared = f" multicast={self.multicast}" if self.multicast > 1 else ""
        more = " dealt" if self.dealt else ""
        return f"tma{shared}{f' reduce={self.reduce}' if self.reduce else ''}{more}"


@dataclass(frozen=True, slots=True)
class CpAsync:
    """cp.async: each thread copies contiguous bytes from global to shared memory."""

    bytes: int
    """Bytes of a thread and instruction: 4, 8 or 16."""

    def __str__(self) -> str:
        return f"cp.async {self.bytes}"


@dataclass(frozen=True, slots=True)
class Matrices:
    """ldmatrix, stmatrix and the like: warps move 8×8 matrices between fragments and shared
    memory."""

    def __str__(self) -> str:
        return "matrix"


CopyInstruction = Tma | CpAsync | Matrices

_WGMMA = re.compile(r"wgmma m64n(\d+)k(\d+) (ss|rs) groups=(\d+)x(\d+)( dealt)?")
_MMA = re.compile(r"mma m16n8k(\d+) warps=(\d+)x(\d+)")
_FMA = re.compile(r"fma (\d+)x(\d+) warps=(\d+)x(\d+) vector=(\d+)")
_TMA = re.compile(r"tma(?: multicast=(\d+))?(?: reduce=(\w+))?( dealt)?")
_CP_ASYNC = re.compile(r"cp\.async (4|8|16)")


def product_instruction(held: object) -> ProductInstruction:
    """Read the instruction of a matrix product that `str` printed; ValueError for anything else."""
    text = str(held)
    if found := _WGMMA.fullmatch(text):
        n, k, rows, columns = (int(found[at]) for at in (1, 2, 4, 5))
        return Wgmma(n, k, found[3] == "rs", rows, columns, bool(found[6]))
    if found := _MMA.fullmatch(text):
        return Mma(*map(int, found.groups()))
    if found := _FMA.fullmatch(text):
        return Fma(*map(int, found.groups()))
    raise ValueError(f"`{text:.80}` is not an instruction for a matrix product")


def copy_instruction(held: object) -> CopyInstruction:
    """Read the instruction of a copy that `str` printed; ValueError for anything else."""
    text = str(held)
    if found := _TMA.fullmatch(text):
        return Tma(int(found[1] or 1), found[2] or "", bool(found[3]))
    if found := _CP_ASYNC.fullmatch(text):
        return CpAsync(int(found[1]))
    if text == str(Matrices()):
        return Matrices()
    raise ValueError(f"`{text:.80}` is not an instruction for a copy")


def pieces(n: int, *, integers: bool = False) -> tuple[int, ...] | None:
    """Return the widths of the wgmma instructions that cover `n` columns, as wide and as even as
    they can be; None where no widths do.  They are multiples of 8 up to 256; of 16 beyond 24 for
    integers."""
    if n % 8 or n < 8:
        return None
    if integers and n // 8 % 2 and n > 24:
        rest = pieces(n - 24, integers=True)
        return None if rest is None else (*rest, 24)
    unit = 16 if integers and n > 24 else 8
    count = -(-n // 256)
    units, more = divmod(n // unit, count)
    return tuple((units + (at < more)) * unit for at in range(count))
