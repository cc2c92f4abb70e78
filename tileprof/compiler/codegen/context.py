"""State of emission: names, values, buffers, and memory of the block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.errors import InternalError

if TYPE_CHECKING:
    from .fusion import Mirror

from .buffers import Buffer, Extent, Tile
from .places import Place
from .values import Values

__all__ = ["Context", "Place"]


@dataclass
class Context(Values):
    """State of the emission of one function."""

    buffers: dict[ir.Value, Buffer] = field(default_factory=dict)
    arena: dict[ir.OpBase, int] = field(default_factory=dict)
    """Offset in bytes of each buffer of the block."""
    scratch: int = 0
    """Offset of the memory that a tile op may use and leave."""
    arena_size: int = 0
    mirrors: dict[ir.OpBase, tuple[Mirror, Tile]] = field(default_factory=dict)
    """Stores that also do the work of a copy, and where to."""

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
        return Tile(buffer, offsets, view.sizes, self.fits(view, buffer.shape))

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

    def fail_unless(self, condition: str, place: Place, indices: list[Extent]) -> None:
        """A statement that stops the launch where the condition does not hold."""
        number = self.place(place)
        point = [text for _, text in self.point]
        arguments = ", ".join(["worker", str(number), *map(str, indices), *point])
        self.writer.line(f"if (TP_UNLIKELY(!({condition}))) return tp_fail({arguments});")


def aligned(size: int) -> int:
    """Rounded up to a cache line."""
    return (size + 63) // 64 * 64
