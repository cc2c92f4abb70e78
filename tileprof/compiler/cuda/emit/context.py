"""State of the emission of one `__global__` function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tileprof import ir
from tileprof.binary.occupancy import WARP
from tileprof.compiler.codegen.buffers import Extent
from tileprof.compiler.codegen.places import Place
from tileprof.compiler.codegen.types import value_type
from tileprof.compiler.codegen.values import Values
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.source import RowsSpec, TensorMapSpec
from tileprof.compiler.cuda.target import Target
from tileprof.errors import InternalError

from .buffers import Buffer, FragmentBuffer, GlobalBuffer, LocalBuffer, SharedBuffer
from .gemm.wgmma_header import WgmmaShape
from .loops.points import Frame

if TYPE_CHECKING:
    from .marks import Marks

INT32 = 1 << 31
Role = Literal["block", "producer", "consumer"]
Telling = Literal["report", "notes"]
EmitBlock = Callable[["Context", ir.Block], None]
"""Emits the ops of a block."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a buffer: `sizes` elements a dimension from `offsets`; `inside` says for each
    dimension whether its end is known to lie inside of the buffer."""

    buffer: Buffer
    offsets: tuple[Extent, ...]
    sizes: tuple[Extent, ...]
    inside: tuple[bool, ...]


@dataclass(slots=True)
class RingState:
    """The barriers of a ring and the names of a role's position in it."""

    full: str
    empty: str
    stages: int
    bytes: int
    slot: str
    phase: str
    previous: str = ""
    """The slot before this one, where releases lag."""
    cluster: int = 1
    """Blocks that fill its slots together."""


@dataclass
class Context(Values):
    """State of the emission of one function."""

    target: Target = field(kw_only=True)
    controls: Controls = field(kw_only=True)
    threads: int = field(kw_only=True)
    """Threads that run the current role; fragments spread over those of the consumers."""
    role: Role = "block"
    buffers: dict[ir.Value, Buffer] = field(default_factory=dict)
    rings: dict[ir.Value, RingState] = field(default_factory=dict)
    multiplies: bool = False
    """Whether warps of the launch have roles, or multiply: see `unit.py`."""
    crowded: bool = False
    """Whether registers are scarce in the loop around."""
    elects: bool = False
    """Whether the hardware names the thread that starts bulk stores."""
    maps: list[TensorMapSpec] = field(default_factory=list)
    rows: list[RowsSpec] = field(default_factory=list)
    wgmma: dict[WgmmaShape, None] = field(default_factory=dict)
    """Instructions that the text calls, in order of use."""
    registers: dict[ir.Value, dict[int, int]] = field(default_factory=dict)
    points: Frame | None = None
    """The parallel loop around."""
    raw: dict[ir.Value, str] = field(default_factory=dict)
    """Loaded scalars as they lie in memory, where that text may stand for them."""
    unrolled: set[ir.OpBase] = field(default_factory=set)
    """Loops whose variable numbers registers."""
    aliased: bool = False
    """Whether a tensor that is written may overlap another."""
    marks: Marks | None = None
    """Emitter of marks, where there are any."""
    tells: set[Telling] = field(default_factory=set)
    """Messages of the function to the host: `report` where it prints or can stop its launch,
    `notes` where it notes failed checks."""

    # -- scalars

    def type_of(self, value: ir.Value) -> str:
        """`int` for an index that fits, else as the cpu backend has it."""
        if value.dtype.kind != "index":
            return value_type(value.dtype)
        low, high = self.interval(value)
        fits = low is not None and high is not None and low >= -INT32 and high < INT32
        return "int" if fits else "int64_t"

    # -- buffers

    def buffer(self, value: ir.Value) -> Buffer:
        """The memory of a buffer that is no view."""
        found = self.buffers.get(value)
        if found is None:
            raise InternalError(f"the CUDA emitter reached {value!r} before its definition")
        return found

    def shared(self, value: ir.Value) -> SharedBuffer:
        """A buffer in shared memory."""
        found = self.buffer(value)
        assert isinstance(found, SharedBuffer), found
        return found

    def fragment(self, value: ir.Value) -> FragmentBuffer:
        """A buffer in registers."""
        found = self.buffer(value)
        assert isinstance(found, FragmentBuffer), found
        return found

    def tile(self, value: ir.Value) -> Tile:
        """A buffer or a view as an operand of a tile op; views of views add up."""
        view = value.owner
        if not isinstance(view, ir.View):
            held = self.buffer(value)
            rank = len(held.shape)
            return Tile(held, (0,) * rank, tuple(held.shape), (True,) * rank)
        if isinstance(view.base.owner, ir.View):
            raise InternalError("a view of a view reached the CUDA emitter")
        held = self.buffer(view.base)
        offsets = tuple(self.index(o) for o in view.offsets)
        inside = (True,) * len(offsets) if view.in_bounds else self.fits(view, held.shape)
        return Tile(held, offsets, tuple(view.sizes), inside)

    # -- statements

    @property
    def one_thread(self) -> str:
        """The condition of the thread that starts bulk stores and waits for them, always the same.
        Where it was elected, the assembler knows that it is one of its warp; for any other it
        writes a loop over lanes around each store."""
        if not self.elects:
            return "tp_thread == 0"
        self.headers.add("barriers.cuh")
        return "tp_warp == 0 && tp_elect()"

    def barrier(self) -> str:
        """The statement at which all threads of the role meet."""
        self.headers.add("barriers.cuh")
        if self.role == "block" and self.threads == WARP:
            # The threads of one warp meet without the unit that counts warps.
            return "tp_warp_barrier();"
        # Barrier 0 is that of the whole block, which a role must not use.
        return "tp_barrier();" if self.role == "block" else f"tp_barrier(1, {self.threads});"

    def fail_unless(self, condition: str, place: Place, indices: Sequence[Extent]) -> None:
        """A statement that ends the launch where the condition does not hold."""
        self.tells.add("report")
        self._say_unless("tp_fail", condition, place, indices)

    def note_unless(self, condition: str, place: Place, indices: Sequence[Extent]) -> None:
        """A statement that notes the launch as failed where the condition does not hold; it goes
        on, without the access."""
        self.tells.add("notes")
        self._say_unless("tp_note", condition, place, indices)

    def _say_unless(
        self, function: str, condition: str, place: Place, indices: Sequence[Extent]
    ) -> None:
        self.headers.add("report.cuh")
        number = self.place(place)
        values = ", ".join(str(v) for v in (*indices, *(text for _, text in self.point)))
        tail = f", {values}" if values else ""
        self.writer.line(f"if (!({condition})) {function}(report, {number}{tail});")

    def local(self, value: ir.Value) -> LocalBuffer:
        """A buffer of one thread."""
        found = self.buffer(value)
        assert isinstance(found, LocalBuffer), found
        return found

    def is_global(self, value: ir.Value) -> bool:
        """Whether a buffer or view lies in global memory."""
        base = value.owner.base if isinstance(value.owner, ir.View) else value
        return isinstance(self.buffer(base), GlobalBuffer)
