"""Text that the emitter makes of a kernel, and what a host needs to launch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.ir.types import Dim

from .target import RESIDENT_BLOCKS

MOST_BLOCKS = (1 << 31) - 1
"""Largest number of blocks of a launch: they are numbered along the first axis of CUDA's grid."""

MOST_TILES = MOST_BLOCKS - RESIDENT_BLOCKS
"""Largest number of tiles of a launch whose blocks loop over them: the number of the tile after the
last that a block takes has 31 bits, too."""

ArgumentKind = Literal[
    "pointer",
    "scalar",
    "symbol",
    "host",
    "map",
    "counter",
    "report",
    "notes",
    "recording",
    "sampling",
]


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """A TMA descriptor that the host encodes from an argument; sizes in elements."""

    param: int
    """Position of the tensor among the kernel's parameters."""
    dtype: ir.DType
    shape: tuple[Dim, ...]
    """Outermost first, as the parameter's type; names are symbols."""
    strides: tuple[Dim | tuple[Dim, ...], ...]
    """Elements between neighbours in each dimension; a tuple is a product of numbers and names.
    The last is 1."""
    box: tuple[int, ...]
    """Outermost first; each at most 256."""
    swizzle: Literal[0, 32, 64, 128]
    """Bytes of the swizzle; 0 for none."""


@dataclass(frozen=True, slots=True)
class RowsSpec:
    """Rows of a tensor that are copied in chunks of several elements each: the host looks whether
    they begin and end at whole chunks."""

    param: int
    """Position of the tensor among the kernel's parameters."""
    chunk: int
    """Elements of a chunk."""
    counts: tuple[Dim | tuple[Dim, ...], ...]
    """Elements between neighbours, or of a row, that have to be multiples of `chunk`, and are known
    at launch only; a tuple is a product."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a `__global__` function, in order.

    `pointer`, `scalar`: parameter `index` of the kernel; `symbol`: the value of symbol `index`
    (int64); `host`: value `index` of `CudaSource.host` (by its type); `map`: `maps[index]`, 128
    bytes by value, 64-byte aligned; `counter`: address of 32 bits that are 0 before and after each
    launch and belong to it meanwhile; `report`: address of the report buffer of a function that
    prints or can stop its launch; `notes`: that of one that only notes failed checks and goes on,
    so that nobody has to wait for it; `recording`: what `instrument.slots.recording` gives,
    `sampling`: what `instrument.samples.sampling` gives, both by value and 8-byte aligned.
    """

    kind: ArgumentKind
    index: int
    dtype: ir.DType | None = None
    """Type of a scalar, a symbol or a host value, as the function takes it."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One `__global__` function and its launch."""

    function: str
    arguments: tuple[Argument, ...]
    maps: tuple[TensorMapSpec, ...]
    grid: tuple[ir.Value, ...]
    """The extents of the author's grid as values of the kernel's body (host scalars)."""
    threads: int
    """Threads of a block, the producer's included."""
    shared: int
    """Bytes of dynamic shared memory."""
    cluster: int = 1
    """Blocks of a cluster along the first axis."""
    persistent: int = 0
    """0: one block for each tile, launched as a one-axis grid of the product of `grid`.
    n: at most n blocks for each SM, each looping over tiles, and no more blocks than tiles."""
    in_order: bool = True
    """Whether the number of a block tells its indices in the author's grid."""
    consumer_warps: int = 0
    """Warps of a block that do the kernel's work; those from this number on only load."""
    sampled_warps: int = 0
    """Warps that are sampled, from the first; 0: there is no sampler."""
    waits: bool = False
    """Whether it may start while the previous launch on the stream runs: it waits for the end of
    that by itself."""
    rows: tuple[RowsSpec, ...] = ()
    """Conditions of copies without a tensor map on extents that are known at launch only."""

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.threads // 32

    @property
    def records(self) -> bool:
        """Whether warps can record which state they are in."""
        return any(argument.kind == "recording" for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class CudaSource:
    """One CUDA C++ text with everything that its launch needs."""

    name: str
    text: str
    headers: tuple[tuple[str, str], ...]
    """Name and text of each header that it includes, those made for this kernel among them."""
    launches: tuple[LaunchSpec, ...]
    places: tuple[Place, ...]
    """Ops that can fail or print; the text names them by position."""
    host: tuple[ir.Value, ...] = ()
    """Values that the host computes from scalars and symbols and passes."""
    sites: tuple[ir.Site, ...] = ()
    """Kind of measurement inside; the text names `states` by position."""
    states: tuple[ir.State, ...] = ()

    @property
    def file(self) -> str:
        """Return what lines that come from no Python line belong to."""
        return f"{self.name}.cu"
