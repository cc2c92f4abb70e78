"""Least bytes and operations of a launch of a Triton kernel.

In: a compiled kernel, with the text of its program; the arguments of a launch.  Out: flops and
bytes. Each tensor that the kernel loads from counts once, and each that it stores to; atomic
operations count as both. Where the accesses of a launch have fewer elements than a tensor, these
count: a kernel that reads some rows of a table does not read the table.

A program that is not understood has no `Estimate`, and neither have arguments without a size. Where
the operations of matrix products depend on what is in memory, nothing is known of a launch: its
bytes alone would say little of how long it has to take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from tileprof.profiler.frameworks import triton_numbers as numbers
from tileprof.profiler.frameworks.triton_accesses import Access, Factors, Product, Work, work_of
from tileprof.profiler.frameworks.triton_ir import Unknown, parse
from tileprof.profiler.frameworks.triton_numbers import Interval, Launch

_MOST_LAUNCHES = 256
"""Different grids and numbers of a kernel whose limits are kept."""
_MOST_PROGRAMS = 1 << 18
"""Most programs whose trips are worked out one by one, which takes 20 ms or so."""

_FORMS = (("*", "!tt.ptr"), ("tensordesc", "!tt.tensordesc"))
"""First letters of pointers and descriptions, in a signature and in a program."""

Limits: TypeAlias = tuple[tuple[int, float, float], ...]
"""Position of a tensor among a launch's arguments, most bytes that are loaded and stored of it."""
Given: TypeAlias = Sequence[Any]
"""Arguments of a launch, after some that are none of the kernel's."""


class Estimate:
    """Work of a kernel's launches."""

    def __init__(self, work: Work, places: Sequence[int]) -> None:
        """Take the position in a launch of each argument of the kernel's program; -1: none."""
        self._work = work
        self._places = places
        self._tensors = sorted({each.argument for each in work.accesses})
        self.stored = frozenset(places[each.argument] for each in work.accesses if each.stores)
        """Positions in a launch of the tensors that are stored to."""
        around = [*(each.factors for each in work.accesses), *(p.factors for p in work.products)]
        factors = [each for factors in around for each in factors if each]
        used = sorted(numbers.leaves(factors, "argument"))
        self._numbers = [(at, places[at]) for at in used if places[at] >= 0]
        asked = [place for _, place in self._numbers]
        self._asked: Callable[[Given], Any] | None = itemgetter(*asked) if asked else None
        self._known: dict[Any, tuple[float, Limits] | None] = {}

    def of(self, grid: Any, given: Given) -> tuple[float, float] | None:
        """Return the flops and bytes of a launch; None where they are not known."""
        key = tuple(grid), None if self._asked is None else self._asked(given)
        try:
            found = self._known[key]
        except KeyError:
            try:
                found = self._limits(grid, given)
            except (RecursionError, OverflowError):
                found = None  # numbers of thousands of steps, or of more than 64 bits
            if len(self._known) >= _MOST_LAUNCHES:
                self._known.clear()
            self._known[key] = found
        if found is None:
            return None
        flops, limits = found
        moved, loaded = 0.0, dict[int, float]()
        for place, loads, stores in limits:
            tensor = given[place]
            try:
                size = tensor.nbytes
            except AttributeError:
                tensor = tensor.base  # of a descriptor, or of a tensor taken as another type
                size = tensor.nbytes
            if not tensor.is_contiguous():
                size = stored_bytes(tensor)
            if stores:
                moved += stores if stores < size else size
            if loads:
                # A tensor that is given twice is loaded once.
                at = tensor.data_ptr()
                more = (loads if loads < size else size) - loaded.get(at, 0.0)
                if more > 0:
                    loaded[at] = loaded.get(at, 0.0) + more
                    moved += more
        return flops, moved

    def _limits(self, grid: Any, given: Given) -> tuple[float, Limits] | None:
        x, y, z = (*(int(each) for each in grid), 1, 1)[:3]
        arguments = {
            at: int(given[place])
            for at, place in self._numbers
            if isinstance(given[place], int)
        }  # fmt: skip
        launch = Launch(arguments, (x, y, z))
        flops = 0.0
        for product in self._work.products:
            done = self._flops(product, launch)
            if done is None:
                return None
            flops += done
        limits = []
        for argument in self._tensors:
            of = [each for each in self._work.accesses if each.argument == argument]
            loads = _most((each for each in of if each.loads), launch)
            stores = _most((each for each in of if each.stores), launch)
            limits.append((self._places[argument], loads, stores))
        return flops, tuple(limits)

    def _flops(self, product: Product, launch: Launch) -> float | None:
        """Return the operations of a product in all programs; None where they are not known."""
        whole = math.prod(launch.grid)
        trips = _trips(product.factors, launch)
        if trips is None or not whole:
            return None if whole else 0.0
        if trips[0] == trips[1]:
            return float(product.flops * trips[0] * whole)
        if None in product.factors:
            return None
        factors = [each for each in product.factors if each]
        axes = sorted(numbers.leaves(factors, "program"))
        counted = math.prod(launch.grid[axis] for axis in axes)
        if not axes or counted > _MOST_PROGRAMS:
            return None
        known: dict[int, numbers.Each] = {}
        total: numbers.Each = 1
        for each in factors:
            found = numbers.by_program(each, launch, axes, known)
            if found is None:
                return None
            total = total * found
        # Whether it is one number or one for each program.
        total = int(np.broadcast_to(total, counted).sum())
        return float(product.flops * total * (whole // counted))


def estimate(kernel: Any, before: int) -> Estimate | None:
    """Return what is known of a compiled kernel's launches; None where its program is not.

    `before`: arguments of a launch before the first one that is the kernel's.
    """
    try:
        work = work_of(parse(kernel.asm["ttir"]))
        places = argument_places(kernel.src, work.arguments, before)
        return None if places is None else Estimate(work, places)
    except Unknown:
        return None


def stored_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor's elements; those of a repeated dimension count once."""
    size: int = tensor.nbytes
    for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride == 0 and extent:
            size //= extent
    return size


def _most(accesses: Iterable[Access], launch: Launch) -> float:
    """Return the most bytes of accesses to one tensor; infinite where only memory knows."""
    total = 0.0
    for each in accesses:
        trips = _trips(each.factors, launch)
        if trips is None:
            return math.inf
        programs = math.prod(launch.grid[axis] for axis in each.axes)
        # A grid without programs accesses nothing, along whichever axis it has none.
        total += each.bytes * trips[1] * programs * (1 if all(launch.grid) else 0)
    return total


def _trips(factors: Factors, launch: Launch) -> Interval | None:
    least, most = 1, 1
    for each in factors:
        found = numbers.bounds(each, launch) if each is not None else None
        if found is None:
            return None
        least, most = least * found[0], most * found[1]
    return least, most


def argument_places(source: Any, kinds: Sequence[str], before: int) -> list[int] | None:
    """Return the position in a launch of each argument of a program.

    A constant is no argument of it; a tensor's description is followed by its shape and strides.
    None where the two do not fit.
    """
    places: list[int] = []
    for at, name in enumerate(source.fn.arg_names, before):
        kind = source.signature.get(name, "constexpr")
        if kind == "constexpr":
            continue
        if not isinstance(kind, str) or len(places) >= len(kinds):
            return None
        needed = next((form for begin, form in _FORMS if kind.startswith(begin)), "")
        if needed != next((form for _, form in _FORMS if kinds[len(places)].startswith(form)), ""):
            return None
        places.append(at)
        if kind.startswith("tensordesc"):
            places += [-1] * (2 * (kind.count(",") + 1))
    return places if len(places) == len(kinds) else None
