"""A kernel on a GPU, as far as a picture shows it: layouts, instructions, conflicts.

In: a kernel and the name of a target.  Out: a `Machine`; no GPU is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout, parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.cost import wavefronts
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import KernelError
from tileprof.remarks import Remark
from tileprof.remarks.layouts import GlobalAccess, SharedAccess
from tileprof.runtime.cuda.tensor_maps import fitting
from tileprof.runtime.events.access import AccessKind

from .launch_facts import LaunchFacts
from .pipelines import Pipeline, pipelines_of

DEFAULT_TARGET = "sm_90a"
_KIND: dict[str, AccessKind] = {"load": "read", "store": "write", "atomic": "atomic"}
"""Kind of access by the name of its op."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one warp's request, counted by the compiler from the addresses of its lanes."""

    line: int
    access: AccessKind
    buffer: str
    space: ir.Space
    """`global`: sectors of 32 bytes; `shared`: wavefronts, more than needed where banks meet."""
    width: int
    """Bytes of each lane."""
    taken: int
    needed: int
    """Fewest that the bytes need."""


@dataclass(frozen=True, slots=True)
class Note:
    """A decision of the compiler about an op of a line."""

    line: int
    subject: str
    decision: str
    against: str
    """Faster candidates, with the reason against each; '' where there are none."""
    missed: bool
    """Whether a change of the program would give a faster form."""


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer of the lowered kernel, and the layout that the compiler chose."""

    name: str
    space: ir.Space
    dtype: ir.DType
    shape: tuple[int, ...]
    """Extents, with those of a ring's slots first."""
    layout: str
    """Text of the layout in the IR; '' for rows."""

    @property
    def registers(self) -> RegisterLayout | None:
        """Layout of a fragment."""
        held = self.space == "fragment" and self.layout
        return parse_layout(self.layout, self.shape) if held else None

    @property
    def shared(self) -> SharedLayout | None:
        """Layout of a shared buffer."""
        return parse_shared(self.layout, self.shape, self.dtype) if self.space == "shared" else None


@dataclass(frozen=True, slots=True)
class Machine:
    """A kernel on a target."""

    target: str
    problem: str
    """Why the kernel cannot run there; '' where it can."""
    costs: tuple[Cost, ...] = ()
    notes: tuple[Note, ...] = ()
    buffers: tuple[Held, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    laid_out: ir.Kernel | None = None
    """The kernel whose loops and buffers have layouts, which the interpreter can still run; None
    where it cannot run on the target."""
    lowered: ir.Kernel | None = None
    """The kernel after all passes."""
    unaligned: frozenset[int] = frozenset()
    """Positions of parameters that it is compiled for as ones that are not aligned."""
    program: CudaProgram | None = None
    """The program that a launch runs; None where the kernel cannot run on the target."""


def machine_of(
    kernel: ir.Kernel,
    target: str,
    controls: Controls | None = None,
    facts: LaunchFacts | None = None,
) -> Machine:
    """Lower a kernel that the common passes have seen, with its author's `controls`, for launches
    of which these facts hold: as the launch does, which takes a variant that can copy all rows.
    UsageError for a target that is unknown."""
    found = find_target(target)
    forms: dict[str, ir.Kernel] = {}

    def compiled(unaligned: frozenset[int]) -> CudaProgram:
        return compile_cuda(kernel, found, controls, unaligned, observe=forms.__setitem__)

    unaligned = facts.unaligned if facts is not None else frozenset()
    try:
        if facts is None:
            made = compiled(unaligned)
        else:
            unaligned, made = fitting(
                compiled, lambda program: program.source.launches, facts.symbols, unaligned
            )
    except KernelError as error:
        return Machine(target, str(error))
    costs = tuple(dict.fromkeys(cost for each in made.remarks for cost in _cost(each)))
    notes = tuple(
        Note(_line(each), each.subject, str(each.decision), each.against, each.severity == "missed")
        for each in made.remarks
        if not isinstance(each.decision, GlobalAccess | SharedAccess) or each.severity == "missed"
    )
    buffers = tuple(dict.fromkeys(_buffers(made.kernel)))
    return Machine(
        target, "", costs, notes, buffers, pipelines_of(made.kernel), forms["layouts"], made.kernel,
        unaligned, made,
    )  # fmt: skip


def _line(remark: Remark) -> int:
    return remark.location.line if remark.location is not None else 0


def _cost(remark: Remark) -> Iterator[Cost]:
    made, kind = remark.decision, _KIND.get(remark.op)
    if kind is None:
        return
    match made:
        case GlobalAccess(width=width, sectors=taken, needed=needed):
            yield Cost(_line(remark), kind, remark.name, "global", width, taken, needed)
        case SharedAccess(width=width, wavefronts=taken, needed=needed):
            yield Cost(_line(remark), kind, remark.name, "shared", width, taken, needed)
        case _:
            pass


def _buffers(kernel: ir.Kernel) -> Iterator[Held]:
    for op in kernel.ops():
        if isinstance(op, ir.Alloc) and op.shape and op.space in ("shared", "fragment"):
            name = op.result.name or "buffer"
            yield Held(name, op.space, op.dtype, op.shape, op.layout)


Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Holders:
    """Place of each element of a fragment, row-major."""

    thread: Ints
    """Least thread that holds it."""
    register: Ints
    """Number of its register in that thread."""
    copies: int
    """Threads and registers that hold each element."""


def holders(layout: RegisterLayout) -> Holders:
    """Return which thread and register hold each element of a fragment."""
    table = layout.table()
    registers = table.shape[1]
    inside = (table < np.array(layout.shape)).all(axis=-1).reshape(-1)
    places = table.reshape(-1, layout.rank)[inside]
    number = np.ravel_multi_index(tuple(places.T), layout.shape) if layout.rank else inside[:0]
    held = np.flatnonzero(inside)
    total = math.prod(layout.shape)
    thread, register = np.zeros(total, np.int64), np.zeros(total, np.int64)
    # Of several holders the last one written stays, which is that of the least thread.
    thread[number[::-1]], register[number[::-1]] = (
        held[::-1] // registers,
        held[::-1] % registers,
    )
    return Holders(thread, register, max(len(places) // max(total, 1), 1))


def addresses(layout: SharedLayout, rows: Ints, columns: Ints) -> Ints:
    """Return the byte of each element of the first tile in these rows and columns, as NumPy
    broadcasts them; a buffer of one dimension has no rows."""
    places = np.zeros(
        (*np.broadcast_shapes(rows.shape, columns.shape), len(layout.shape)), np.int64
    )
    places[..., -1] = columns
    if len(layout.shape) > 1:
        places[..., -2] = rows
    return layout.address(places)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A request of a warp on a shared buffer, in its layout and in plain rows."""

    name: str
    taken: int
    """Wavefronts in the layout."""
    in_rows: int
    """Wavefronts without padding or swizzle."""
    needed: int


def patterns(layout: SharedLayout) -> list[Pattern]:
    """Return what typical requests of one warp take: a row, a column, and a matrix of 8 rows of 16
    bytes as tensor cores load it."""
    plain = SharedLayout(layout.shape, layout.dtype)
    size, chunk = layout.dtype.bytes, max(16 // layout.dtype.bytes, 1)
    lanes = np.arange(32)
    asked: list[tuple[str, Ints, Ints, int]] = []
    if layout.columns >= 32:
        asked.append(("32 neighbours of a row", lanes * 0, lanes, size))
    if layout.rows >= 32:
        asked.append(("32 rows of a column", lanes, lanes * 0, size))
    if layout.rows >= 8 and layout.columns >= chunk:
        eight = np.where(lanes < 8, lanes, -1)
        asked.append(("8 rows of 16 bytes (ldmatrix)", eight, lanes * 0, 16))
    return [
        Pattern(name, *_counted(layout, plain, rows, columns, width))
        for name, rows, columns, width in asked
    ]


def _counted(
    layout: SharedLayout, plain: SharedLayout, rows: Ints, columns: Ints, width: int
) -> tuple[int, int, int]:
    asked = np.maximum(rows, 0), columns
    taken, needed = wavefronts(np.where(rows < 0, -1, addresses(layout, *asked)), width)
    return taken, wavefronts(np.where(rows < 0, -1, addresses(plain, *asked)), width)[0], needed
