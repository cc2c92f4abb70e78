"""Register layouts: which thread holds which element of a fragment, and in which register.

A layout is linear: the number of a register, of a lane (0..31) and of a warp are written in binary,
and each bit that is set adds its basis vector, in elements, to the coordinates.  In the bit-matrix
form of "Linear Layouts" (arXiv 2505.23819) the vectors are the columns; they meet in no bit, so
that adding is the same as exclusive or.  An extent that is no power of two gets a digit of another
count: `11x(0,16)` steps 0, 16, …, 160.

    regs (0,1) (8,0) 11x(0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)

A vector of zeros means that threads hold copies.  Coordinates beyond the shape are padding: the
register is there and means nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.errors import InternalError
from tileprof.once import cached_property

Coordinates = tuple[int, ...]


class Digit(NamedTuple):
    """A digit of a register, lane or warp number: it has `radix` values, each adds `step`."""

    radix: int
    step: Coordinates

    @property
    def is_copy(self) -> bool:
        """Whether it moves nothing: threads or registers hold the same element."""
        return not any(self.step)

    def __str__(self) -> str:
        radix = "" if self.radix == 2 else f"{self.radix}x"
        return f"{radix}({','.join(map(str, self.step))})"


def weighted(digits: Iterable[Digit], first: int = 1) -> Iterator[tuple[Digit, int]]:
    """Each digit of a number with what its values count there; those of the first count `first`."""
    for digit in digits:
        yield digit, first
        first *= digit.radix


def _bits(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Digits that count to a power of two as single bits; those that count to 1 vanish."""
    made: list[Digit] = []
    for digit in digits:
        count = digit.radix
        if count == 2 or count & (count - 1):
            made.append(digit)
        elif count > 2:
            bits = range(count.bit_length() - 1)
            made += [Digit(2, tuple(s << bit for s in digit.step)) for bit in bits]
    return tuple(made)


@dataclass(frozen=True)
class RegisterLayout:
    """The layout of a fragment of `shape`; digits are listed fastest first."""

    shape: Coordinates
    registers: tuple[Digit, ...]
    lanes: tuple[Digit, ...]
    warps: tuple[Digit, ...]

    @classmethod
    def make(
        cls,
        shape: Sequence[int],
        registers: Iterable[Digit],
        lanes: Iterable[Digit],
        warps: Iterable[Digit],
    ) -> RegisterLayout:
        """A layout from digits of any count; equal layouts compare equal."""
        made = cls(tuple(shape), _bits(registers), _bits(lanes), _bits(warps))
        if made.count(made.lanes) != 32:
            raise InternalError(f"a layout has {made.count(made.lanes)} lanes: {made}")
        return made

    @staticmethod
    def count(digits: Iterable[Digit]) -> int:
        """Return how far digits count together."""
        return math.prod(digit.radix for digit in digits)

    @cached_property
    def registers_per_thread(self) -> int:
        """Elements that one thread holds, padding included."""
        return self.count(self.registers)

    @cached_property
    def threads(self) -> int:
        """Threads that it spreads over."""
        return 32 * self.count(self.warps)

    @property
    def rank(self) -> int:
        """Dimensions of the fragment."""
        return len(self.shape)

    @cached_property
    def covered(self) -> Coordinates:
        """The extents that the digits reach, at least the shape."""
        reach = [1] * self.rank
        for digit in (*self.registers, *self.lanes, *self.warps):
            for d, s in enumerate(digit.step):
                reach[d] += (digit.radix - 1) * s
        return tuple(reach)

    @cached_property
    def is_same_everywhere(self) -> bool:
        """Whether every thread holds one register with the same element."""
        return self.registers_per_thread == 1 and all(
            digit.is_copy for digit in (*self.lanes, *self.warps)
        )

    @property
    def is_padded(self) -> bool:
        """Whether some registers lie outside of the shape."""
        return self.covered != self.shape

    def table(self) -> npt.NDArray[np.int64]:
        """Coordinates by thread and register: int64[threads, registers, rank]."""
        lanes, warps = _offsets(self.lanes, self.rank), _offsets(self.warps, self.rank)
        threads = (warps[:, None, :] + lanes[None, :, :]).reshape(-1, self.rank)
        return threads[:, None, :] + _offsets(self.registers, self.rank)[None, :, :]

    @cached_property
    def lane_coordinates(self) -> npt.NDArray[np.int64]:
        """Coordinates of the first register of each lane of the first warp: int64[32, rank]."""
        return _offsets(self.lanes, self.rank)

    def register_offsets(self) -> npt.NDArray[np.int64]:
        """Return what each register adds to its thread's coordinates: int64[registers, rank]."""
        return _offsets(self.registers, self.rank)

    def vector(self, dim: int = -1) -> int:
        """Return how many neighbours along `dim` lie in consecutive registers of a thread."""
        dim %= self.rank
        width = 1
        for digit in self.registers:
            expected = tuple(width if d == dim else 0 for d in range(self.rank))
            if digit.step != expected:
                break
            width *= digit.radix
        return width

    def select(self, dims: Sequence[int | None], shape: Sequence[int]) -> RegisterLayout:
        """The layout of a fragment whose dimension k is indexed by dimension `dims[k]` of this one
        (None: by a constant).  Registers that then hold the same element are one."""

        def moved(digit: Digit) -> Digit:
            return Digit(digit.radix, tuple(0 if d is None else digit.step[d] for d in dims))

        registers = [m for m in map(moved, self.registers) if not m.is_copy]
        return RegisterLayout.make(shape, registers, map(moved, self.lanes), map(moved, self.warps))

    def reshape(self, shape: Sequence[int]) -> RegisterLayout | None:
        """The layout of the same elements, in row-major order, under another shape; None where a
        digit would not step evenly through it."""
        if self.is_padded:
            return None
        before, after = _row_major(self.shape), _row_major(shape)

        def moved(digit: Digit) -> Digit:
            flat = sum(s * stride for s, stride in zip(digit.step, before))
            return Digit(digit.radix, tuple(flat // by % e for e, by in zip(shape, after)))

        parts = (map(moved, digits) for digits in (self.registers, self.lanes, self.warps))
        made = RegisterLayout.make(shape, *parts)
        # Only digits that never carry from one extent into the next reach each extent exactly.
        return None if made.is_padded else made

    def register_weights(self, dims: Sequence[int | None], of: RegisterLayout) -> list[int] | None:
        """Return for each register digit the distance in registers of the fragment `of`, whose
        dimension k is indexed by dimension `dims[k]` here; None where some element would be in
        another thread, so that no such distances exist."""
        same = self.select(dims, of.shape)
        if (same.lanes, same.warps) != (of.lanes, of.warps):
            return None
        places = dict(weighted(of.registers))
        weights = []
        for digit in self.registers:
            step = tuple(0 if d is None else digit.step[d] for d in dims)
            if not any(step):
                weights.append(0)
            elif (held := places.get(Digit(digit.radix, step))) is not None:
                weights.append(held)
            else:
                return None
        return weights

    def __str__(self) -> str:
        shown = []
        for name in ("registers", "lanes", "warps"):
            digits = getattr(self, name)
            shown.append(" ".join([_SHORT[name], *map(str, digits)]))
        return " | ".join(shown)


_SHORT = {"registers": "regs", "lanes": "lanes", "warps": "warps"}
_DIGIT = re.compile(r"(?:(\d+)x)?\(([\d,]*)\)")


def _row_major(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next along each dimension."""
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def unit(rank: int, dim: int, by: int) -> Coordinates:
    """A step of `by` elements along one dimension."""
    return tuple(by if d == dim else 0 for d in range(rank))


def fragment_layout(value: ir.Value) -> RegisterLayout:
    """The layout of a fragment, also of one that is seen under another shape, after layouts."""
    owner = value.owner
    if isinstance(owner, ir.Reinterpret):
        made = fragment_layout(owner.base).reshape(value.buffer.static_shape)
        if made is None:
            raise InternalError(f"{owner!r} has no layout in registers")
        return made
    if not isinstance(owner, ir.Alloc):
        raise InternalError(f"{value!r} is not a fragment")
    return parse_layout(owner.layout, owner.shape)


@cache
def parse_layout(text: str, shape: Coordinates) -> RegisterLayout:
    """The layout of a fragment of `shape` that `str` printed."""
    parts = []
    for part, name in zip(text.split(" | "), _SHORT.values(), strict=True):
        if not part.startswith(name):
            raise InternalError(f"`{text}` is not a register layout")
        parts.append(
            tuple(
                Digit(int(count or 2), tuple(int(s) for s in step.split(",") if s))
                for count, step in _DIGIT.findall(part)
            )
        )
    return RegisterLayout(shape, *parts)


def _offsets(digits: Sequence[Digit], rank: int) -> npt.NDArray[np.int64]:
    """Return what each number that the digits can form adds to the coordinates."""
    table = np.zeros((1, rank), np.int64)
    for count, step in digits:
        steps = np.arange(count)[:, None] * np.array(step, np.int64).reshape(1, rank)
        table = (steps[:, None, :] + table[None, :, :]).reshape(-1, rank)
    return table


def blocked(
    shape: Sequence[int], threads: int, vector: int = 1, order: Sequence[int] | None = None
) -> RegisterLayout:
    """Neighbouring threads hold neighbouring groups of `vector` elements along the first dimension
    of `order` (default: the last first), then along the next; what is left over repeats in
    registers.  Threads that are not needed hold copies.

    `vector` is a power of two; `threads` a multiple of 32.
    """
    if threads % 32:
        raise InternalError(f"a fragment over {threads} threads")
    from .candidates import distributed

    along = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    return distributed(shape, threads, vector, along, along)
