"""Ops that speak to the host: failures and prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.types import Dim

PlaceKind = Literal["element", "tile", "assert", "print", "step"]


@dataclass(frozen=True, slots=True)
class Place:
    """An op that can fail or print; emitted code names it by its number."""

    kind: PlaceKind
    location: Location | None
    message: str = ""
    buffer: str = ""
    shape: tuple[Dim, ...] = ()
    """Shape of the buffer; names are symbols of the kernel."""
    rank: int = 0
    """Indices that come with a failure."""
    access: str = ""
    """`read` or `written`, of one element."""
    sizes: tuple[int | str, ...] = ()
    """Sizes of the tile."""
    dtype: ir.DType | None = None
    """Type of the printed values."""
    point: tuple[str, ...] = ()
    """Variables of the parallel loops around it, whose values follow the indices."""
