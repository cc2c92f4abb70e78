"""What emission carries along: names, values, buffers, and places that speak to the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from tileprof import ir
from tileprof.errors import InternalError, Location
from tileprof.ir.types import Dim

if TYPE_CHECKING:
    from .fusion import Mirror

from .buffers import Buffer, Extent, Tile
from .expressions import bare, render
from .ranges import Interval, interval
from .types import value_type
from .writer import Names, Writer

__all__ = ["Context", "Place"]

PlaceKind = Literal["element", "tile", "assert", "print", "step"]


@dataclass(frozen=True, slots=True)
class Place:
    """An op that can fail or print; emitted code names it by its number."""

    kind: PlaceKind
    location: Location | None
    message: str = ""
    buffer: str = ""
    shape: tuple[Dim, ...] = ()
    """Of the buffer; names are symbols of the kernel."""
    rank: int = 0
    """Indices that come with a failure."""
    access: str = ""
    """`read` or `written`, of one element."""
    sizes: tuple[int | str, ...] = ()
    """Of the tile."""
    dtype: ir.DType | None = None
    """Of the printed values."""
    point: tuple[str, ...] = ()
    """Variables of the parallel loops around it, whose values follow the indices."""


@dataclass
class Context:
    """State of the emission of one function."""

    writer: Writer
    names: Names
    places: list[Place]
    headers: set[str]
    uses: dict[ir.Value, list[ir.OpBase]]
    """The ops that use a value, over the whole kernel."""
    symbols: dict[str, str] = field(default_factory=dict)
    """The symbols of the kernel as C++ names."""
    values: dict[ir.Value, str] = field(default_factory=dict)
    """Scalars as C++ expressions."""
    buffers: dict[ir.Value, Buffer] = field(default_factory=dict)
    arena: dict[ir.OpBase, int] = field(default_factory=dict)
    """Offset in bytes of each buffer of the block."""
    scratch: int = 0
    """Where memory begins that a tile op may use and leave."""
    arena_size: int = 0
    known: dict[ir.Value, Interval] = field(default_factory=dict)
    inside: set[ir.OpBase] = field(default_factory=set)
    """Accesses that a condition around them has shown to be inside."""
    point: list[tuple[str, str]] = field(default_factory=list)
    """The variables of the parallel loops around, as the author and as C++ name them."""
    mirrors: dict[ir.OpBase, tuple[Mirror, Tile]] = field(default_factory=dict)
    """Stores that also do the work of a copy, and where to."""
    inline: set[ir.OpBase] = field(default_factory=set)
    """Ops whose text stands where their result is used."""

    # -- scalars

    def text(self, value: ir.Value) -> str:
        """A scalar as an operand."""
        found = self.values.get(value)
        if found is not None:
            return found
        if isinstance(value.owner, ir.Constant):
            return render(value.owner, ())
        raise InternalError(f"the C++ emitter reached {value!r} before its definition")

    def bare(self, value: ir.Value) -> str:
        """A scalar as a whole expression."""
        return bare(self.text(value))

    def index(self, value: ir.Value) -> Extent:
        """An index: a number where it is known."""
        owner = value.owner
        if isinstance(owner, ir.Constant):
            return int(owner.value)
        return self.bare(value)

    def interval(self, value: ir.Value) -> Interval:
        """Fixed bounds of an index."""
        return interval(value, self.known)

    def define(self, value: ir.Value, text: str) -> None:
        """A statement that gives a value a name; a value that nobody uses gets none."""
        if not self.uses.get(value):
            return
        name = self.names.fresh(value.name)
        self.writer.line(f"const {value_type(value.dtype)} {name} = {text};")
        self.values[value] = name

    # -- buffers

    def buffer(self, value: ir.Value) -> Buffer:
        """The memory of a buffer that is no view."""
        return self.buffers[value]

    def tile(self, value: ir.Value) -> Tile:
        """A buffer or a view as an operand of a tile op."""
        view = value.owner
        if not isinstance(view, ir.View):
            buffer = self.buffers[value]
            rank = len(buffer.shape)
            return Tile(buffer, (0,) * rank, buffer.shape, (True,) * rank)
        if isinstance(view.base.owner, ir.View):
            raise InternalError("a view of a view reached the C++ emitter")
        buffer = self.buffers[view.base]
        offsets = tuple(self.index(o) for o in view.offsets)
        fits = tuple(
            self._fits(offset, size, extent)
            for offset, size, extent in zip(view.offsets, view.sizes, buffer.shape, strict=True)
        )
        return Tile(buffer, offsets, view.sizes, fits)

    def _fits(self, offset: ir.Value, size: int, extent: Extent) -> bool:
        high = self.interval(offset)[1]
        return isinstance(extent, int) and high is not None and high + size <= extent

    def take(self, bytes: int) -> str:
        """A pointer to memory for the tile op at hand."""
        at = self.scratch
        self.scratch = at + aligned(bytes)
        self.arena_size = max(self.arena_size, self.scratch)
        return f"(worker->arena + {at})" if at else "worker->arena"

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Memory taken inside is free again after."""
        before = self.scratch
        try:
            yield
        finally:
            self.scratch = before

    # -- failures

    def place(self, place: Place) -> int:
        """The number of a place; equal ones share it."""
        place = replace(place, point=tuple(name for name, _ in self.point))
        if place in self.places:
            return self.places.index(place)
        self.places.append(place)
        return len(self.places) - 1

    def fail_unless(self, condition: str, place: Place, indices: list[Extent]) -> None:
        """A statement that stops the launch where the condition does not hold."""
        number = self.place(place)
        point = [text for _, text in self.point]
        arguments = ", ".join(["worker", str(number), *map(str, indices), *point])
        self.writer.line(f"if (TP_UNLIKELY(!({condition}))) return tp_fail({arguments});")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names given inside end with it."""
        with self.names.scope():
            yield


def aligned(size: int) -> int:
    """Rounded up to a cache line."""
    return (size + 63) // 64 * 64
