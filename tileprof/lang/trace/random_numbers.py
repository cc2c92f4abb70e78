"""Positions in a random sequence from which a kernel draws its numbers.

`T.rng_init` names a sequence and a place in it.  A draw outside of `T.Parallel` takes the next
number.  A loop over points takes the next numbers for all its points at once: each point takes the
number of its place in row-major order, whichever thread runs it.  So a number depends on the seed
and on the program alone, and is the same on every device.

In: draws, in the order of the program.  Out: for each the position of its number in the sequence,
as an int where it is known at compile time and as a 64-bit value otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileprof.errors import KernelError
from tileprof.ir.types import uint32, uint64
from tileprof.lang.context import Loop
from tileprof.lang.regions import Region
from tileprof.lang.static import is_number
from tileprof.lang.values import Expr, Var

from .warps import Warps

_NARROW = 1 << 32


@dataclass
class Sequence:
    """A sequence of random numbers, and how far a kernel has come in it."""

    seed: Any
    """Key of the generator, below 2^64: an int or a value of the kernel."""
    number: Any
    """Number of the sequence among those of the seed, as the seed."""
    start: Any
    """Position of the first number, as the seed."""
    depth: int
    """Open blocks where the sequence began."""
    taken: Var
    """Numbers taken in loops, and since them."""
    static: int = 0
    """Numbers taken otherwise."""
    counted: bool = False
    """Whether `taken` was written."""


@dataclass(frozen=True)
class _Points:
    """The open loop over points."""

    region: Region
    extents: tuple[Any, ...]


class RandomNumbers(Warps):
    """Positions in sequences of random numbers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._loops: dict[Region, Loop] = {}
        """The loop of each region of one."""

    _sequence: Sequence | None = None
    _over: _Points | None = None
    _drawn = 0
    """Numbers that each point of the open loop takes."""

    def begin_sequence(self, seed: Any, number: Any, start: Any) -> None:
        """Begin to take numbers of a sequence."""
        self.need_tile_place("`T.rng_init`")
        launch = self.inner("launch")
        if number is None:
            assert launch is not None
            number = 0
            for arg, extent in reversed([*zip(launch.block.args, self.grid_extents)]):
                number = number * Expr(extent, self.top) + Expr(arg, launch)
            for axis in sorted(self.thread_numbers, reverse=True):
                number = number * self.block_shape[axis] + self.thread_number(axis)
        taken = self.alloc_var(uint64, 0)
        self._sequence = Sequence(seed, number, start, len(self.regions), taken)

    def sequence(self, what: str) -> Sequence:
        """Return the sequence that a draw takes its number from; an error if there is none."""
        held = self._sequence
        if held is None or not held.taken.buffer.home.visible:
            self.fail(
                KernelError,
                f"{what} before `T.rng_init`",
                "Name the seed first, inside of `with T.Kernel(…)`: `T.rng_init(seed)`.",
            )
        return held

    def draw(self, what: str) -> Any:
        """Return the position of the next number: an int, or a value of 32 or 64 bits."""
        held = self.sequence(what)
        if self._over is None:
            return self._next(held)
        return self._of_point(held, self._over, what)

    def _next(self, held: Sequence) -> Any:
        position = self._first(held)
        if self._repeats(held):
            position = self._wide(held)
            self.store_var(held.taken, self.load_var(held.taken) + 1)
            held.counted = True
        else:
            held.static += 1
        return self._wide(held, -1) if position is None else position

    def _of_point(self, held: Sequence, points: _Points, what: str) -> Any:
        times, iteration = self._iterations(what, points.region)
        place, size = self._place(points), self._size(points)
        if not (is_number(iteration) and self._drawn + iteration == 0):
            place = (iteration + self._drawn) * size + place
        self._drawn += times
        first = None if self._repeats(held, points.region) else self._first(held)
        if first is not None and is_number(size) and first + size * self._drawn < _NARROW:
            return self.cast(place, uint32) + first
        return self._wide(held) + self.cast(place, uint64)

    def _first(self, held: Sequence) -> int | None:
        """Return the position of the next number where it is known at compile time."""
        return None if held.counted or not is_number(held.start) else held.start + held.static

    def _wide(self, held: Sequence, further: int = 0) -> Any:
        start = self.cast(held.start, uint64) + (held.static + further)
        return self.load_var(held.taken) + start if held.counted or self._repeats(held) else start

    def _repeats(self, held: Sequence, around: Region | None = None) -> bool:
        """Return whether a loop in which the sequence did not begin stands around this place."""
        end = len(self.regions) if around is None else self.regions.index(around)
        return any(r.kind in ("for", "while") for r in self.regions[held.depth : end])

    def _iterations(self, what: str, around: Region) -> tuple[int, Any]:
        """Return how often a draw of a point is repeated by loops of that point, and the number of
        the repetition."""
        times, iteration = 1, 0
        for region in self.regions[self.regions.index(around) + 1 :]:
            loop = self._loops.get(region)
            if region.kind == "while" or (region.kind == "for" and loop is None):
                self._refuse_unknown(what)
            if loop is None:
                continue
            if not all(is_number(n) for n in (loop.start, loop.stop, loop.step)):
                self._refuse_unknown(what)
            each = len(range(loop.start, loop.stop, loop.step))
            (arg,) = region.block.args
            iteration = iteration * each + (Expr(arg, region) - loop.start) // loop.step
            times *= each
        return times, iteration

    def _refuse_unknown(self, what: str) -> None:
        self.fail(
            KernelError,
            f"{what} in a loop inside of `T.Parallel` whose length is known only when the kernel "
            "runs",
            "How many numbers a point takes has to be known: use a loop of constant length.",
        )

    def _place(self, points: _Points) -> Any:
        place: Any = 0
        for arg, extent in zip(points.region.block.args, points.extents):
            place = place * extent + Expr(arg, points.region)
        return place

    def _size(self, points: _Points) -> Any:
        size: Any = 1
        for extent in points.extents:
            size = size * extent
        return size

    # -- loops

    def open_loop(self, loop: Loop, names: Any) -> tuple[Region, Any]:
        """Open the body of a loop and note how long it is."""
        region, held = super().open_loop(loop, names)
        self._loops[region] = loop
        return region, held

    def begin_points(self, region: Region, loop: Loop) -> None:
        """Note the loop over points that begins."""
        super().begin_points(region, loop)
        self._over, self._drawn = _Points(region, tuple(loop.stop)), 0

    def after_points(self) -> None:
        """Go on behind the numbers that the points took."""
        super().after_points()
        points, drawn = self._over, self._drawn
        self._over, self._drawn = None, 0
        held = self._sequence
        if not drawn or points is None or held is None:
            return
        size = self._size(points)
        if is_number(size) and not self._repeats(held):
            held.static += size * drawn
            return
        self.store_var(held.taken, self.load_var(held.taken) + self.cast(size * drawn, uint64))
        held.counted = True
