"""Scalars during emission: what each IR value is called in the text, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.errors import InternalError

from .buffers import Extent, row_major
from .expressions import bare, render
from .places import Place
from .ranges import Interval, interval
from .types import value_type
from .writer import Names, Writer


@dataclass
class Values:
    """Names, scalars and places of one function under emission."""

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
    known: dict[ir.Value, Interval] = field(default_factory=dict)
    _found: dict[ir.Value, Interval] = field(default_factory=dict, init=False)
    """Bounds that follow from `_found_of` entries of `known`."""
    _found_of: int = field(default=0, init=False)
    inside: set[ir.OpBase] = field(default_factory=set)
    """Accesses that a condition around them has shown to be inside."""
    point: list[tuple[str, str]] = field(default_factory=list)
    """The variables of the parallel loops around, as the author and as C++ name them."""
    inline: set[ir.OpBase] = field(default_factory=set)
    """Ops whose text stands where their result is used."""

    def text(self, value: ir.Value) -> str:
        """A scalar as an operand."""
        found = self.values.get(value)
        if found is not None:
            return found
        if isinstance(value.owner, ir.Constant):
            return render(value.owner, ())
        raise InternalError(f"the emitter reached {value!r} before its definition")

    def bare(self, value: ir.Value) -> str:
        """A scalar as a whole expression."""
        return bare(self.text(value))

    def index(self, value: ir.Value) -> Extent:
        """An index: a number where it is known."""
        owner = value.owner
        if isinstance(owner, ir.Constant):
            return int(owner.value)
        return self.bare(value)

    def extents(self, dims: Sequence[ir.Dim]) -> tuple[Extent, ...]:
        """Numbers, and symbols by their C++ names."""
        return tuple(d if isinstance(d, int) else self.symbols[d] for d in dims)

    def strides(self, type_: ir.BufferType) -> tuple[Extent, ...]:
        """Strides in elements of a buffer type, row-major where it names none."""
        if type_.strides is None:
            return row_major(self.extents(type_.shape))
        return self.extents(type_.strides)

    def bound(self, op: ir.Parallel) -> None:
        """Note the bounds of the variables of a loop over points."""
        for variable, extent in zip(op.body.args, op.extents, strict=True):
            high = self.interval(extent)[1]
            self.known[variable] = (0, None if high is None else high - 1)

    def interval(self, value: ir.Value) -> Interval:
        """Fixed bounds of an index."""
        if len(self.known) != self._found_of:
            self._found, self._found_of = {}, len(self.known)
        return interval(value, self.known, self._found)

    def fits(self, view: ir.View, shape: Sequence[Extent]) -> tuple[bool, ...]:
        """Whether each dimension of a view is known to end inside of a buffer of that shape."""
        made = []
        for offset, size, extent in zip(view.offsets, view.sizes, shape, strict=True):
            high = self.interval(offset)[1]
            made.append(isinstance(extent, int) and high is not None and high + size <= extent)
        return tuple(made)

    def type_of(self, value: ir.Value) -> str:
        """The C++ type of a scalar."""
        return value_type(value.dtype)

    def define(self, value: ir.Value, text: str) -> None:
        """A statement that gives a value a name; a value that nobody uses gets none."""
        if not self.uses.get(value):
            return
        name = self.names.fresh(value.name)
        self.writer.line(f"const {self.type_of(value)} {name} = {text};")
        self.values[value] = name

    def place(self, place: Place) -> int:
        """The number of a place; equal ones share it."""
        place = replace(place, point=tuple(name for name, _ in self.point))
        if place in self.places:
            return self.places.index(place)
        self.places.append(place)
        return len(self.places) - 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names given inside end with it."""
        with self.names.scope():
            yield
