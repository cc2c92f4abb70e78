"""Flops and bytes of a launch, from the kernel alone (`counting.py` says what counts).

Block indices and loop counters are axes.  What depends on them (the trips of a causal loop, the
part of a tile inside its tensor, a condition) is an array along just those axes, and the work of a
launch is the sum of products of such arrays.  Factors without a common axis are summed apart: a
matmul of 128 × 128 blocks and 256 steps needs a few hundred numbers, not four million.

Not exact, and said so, is what only the data decides:
- a `while`, and a loop whose ends are loaded, count as one iteration;
- a `break` or `continue` counts as if it were never reached;
- an `if` on data counts the branch with more work;
- an index that is loaded counts as inside its buffer;
- where more than `LIMIT` combinations would have to be evaluated, the largest value counts for all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof import ir

from .counting import Access, Body, Range, count_block
from .numbers import LIMIT, Number, TooMany, Unknown, check_size, compute

TOO_MANY = "too many combinations of indices to look at each"


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one launch."""

    flops: int
    bytes: int
    exact: bool
    reason: str
    """Why it is not exact; '' where it is."""


class WorkModel:
    """The work of a kernel as a function of its scalar arguments and extents."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._kernel = kernel
        self._body = count_block(kernel.body)
        self._axes = _depth(kernel.body)

    def evaluate(self, scalars: Mapping[str, Number], symbols: Mapping[str, int]) -> Work:
        """The work of a launch with these scalar arguments and extents.

        A scalar that is not given is as unknown as data.  KeyError where a symbol is missing.
        """
        known: dict[ir.Value, Number] = {}
        for name, value in self._kernel.symbol_values().items():
            known[value] = int(symbols[name])
        for param, value in zip(self._kernel.params, self._kernel.param_values(), strict=True):
            if param.name in scalars and isinstance(param.type, ir.DType):
                given = scalars[param.name]
                known[value] = int(given) if param.type.is_integer else given
        count = _Count(known, symbols, self._axes)
        with np.errstate(all="ignore"):
            flops, size = count.body(self._body, ())
        return Work(flops, size, not count.reasons, "; ".join(count.reasons))


def estimate(kernel: ir.Kernel) -> WorkModel:
    """The work model of a kernel; records and scopes count nothing."""
    return WorkModel(kernel)


def _depth(block: ir.Block) -> int:
    """Axes that are open at once, at most."""
    return max(
        (_own_axes(op) + max(map(_depth, op.blocks()), default=0) for op in block.ops), default=0
    )


def _own_axes(op: ir.OpBase) -> int:
    match op:
        case ir.Launch(body=body) | ir.Parallel(body=body) | ir.For(body=body):
            return len(body.args)
        case _:
            return 0


Factors = tuple[Number, ...]
Total = tuple[int, int]
"""Flops and bytes."""


class _Count:
    """One evaluation."""

    def __init__(
        self, known: dict[ir.Value, Number], symbols: Mapping[str, int], axes: int
    ) -> None:
        self.reasons: dict[str, None] = {}
        self._known = known
        self._symbols = symbols
        self._axes = axes
        self._sizes: list[int] = []
        self._axis_of: dict[ir.Value, int] = {}

    def body(self, body: Body, factors: Factors) -> Total:
        """The work of all runs of a block; the product of `factors` is how often each one runs."""
        flops = body.flops * self._sum(factors) if body.flops else 0
        size = sum(a.bytes * self._elements(a, factors) for a in body.accesses)
        for op, bodies in body.inner:
            more = self._nested(op, bodies, factors)
            flops, size = flops + more[0], size + more[1]
        return flops, size

    def _nested(self, op: ir.OpBase, bodies: list[Body], factors: Factors) -> Total:
        if isinstance(op, (ir.For, ir.While, ir.Parallel)) and bodies[-1].leaves:
            self._inexact(op, "part of the loop may be skipped")
        match op:
            case ir.Launch(grid=extents, body=block) | ir.Parallel(extents=extents, body=block):
                return self._box(op, block, extents, bodies[0], factors)
            case ir.For():
                return self._loop(op, bodies[0], factors)
            case ir.While():
                self._inexact(op, "the data decides how often the loop runs")
                condition, body = (self.body(b, factors) for b in bodies)
                return condition[0] + body[0], condition[1] + body[1]
            case ir.If():
                return self._branch(op, bodies, factors)
            case _:
                return self.body(bodies[0], factors)

    def _box(
        self,
        op: ir.OpBase,
        block: ir.Block,
        extents: Sequence[ir.Value],
        body: Body,
        factors: Factors,
    ) -> Total:
        """All points of a grid or of a `parallel`."""
        open_axes = len(self._sizes)
        for arg, extent in zip(block.args, extents, strict=True):
            factors += self._axis(op, arg, self._or_unknown(extent), 0, 1)
        total = self.body(body, factors)
        del self._sizes[open_axes:]
        return total

    def _loop(self, op: ir.For, body: Body, factors: Factors) -> Total:
        ends = [self._or_unknown(v) for v in (op.start, op.stop, op.step)]
        start, stop, step = ends
        # ceil((stop - start) / step), which is right for negative steps too.
        trips = None
        if start is not None and stop is not None and isinstance(step, int) and step:
            trips = -((start - stop) // step)
        factors += self._axis(op, op.body.args[0], trips, start, step)
        total = self.body(body, factors)
        self._sizes.pop()
        return total

    def _axis(
        self, op: ir.OpBase, counter: ir.Value, trips: Number | None, start: Number, step: Number
    ) -> Factors:
        """Open an axis; gives the factor that says which of its points are run."""
        at = len(self._sizes)
        if trips is None:
            self._inexact(op, "the data decides how often the loop runs")
            self._sizes.append(1)
            return ()
        if isinstance(trips, int):
            self._sizes.append(max(trips, 0))
            self._axis_of[counter] = at
            self._known[counter] = _Lazy(lambda: start + step * self._points(at))
            return ()
        longest = int(trips.max(initial=0))
        self._sizes.append(longest)
        if trips.size * longest > LIMIT:
            self.reasons.setdefault(TOO_MANY)
            return ()
        points = self._points(at)
        self._known[counter] = start + step * points
        return (points < trips,)

    def _points(self, axis: int) -> Number:
        if self._sizes[axis] > LIMIT:
            raise TooMany
        shape = [1] * self._axes
        shape[axis] = self._sizes[axis]
        return np.arange(self._sizes[axis]).reshape(shape)

    def _branch(self, op: ir.If, bodies: list[Body], factors: Factors) -> Total:
        condition = self._or_unknown(op.condition)
        if condition is not None:
            taken = [(*factors, condition), (*factors, np.logical_not(condition))]
            then, otherwise = (self.body(*pair) for pair in zip(bodies, taken, strict=True))
            return then[0] + otherwise[0], then[1] + otherwise[1]
        then, otherwise = (self.body(b, factors) for b in bodies)
        if then != otherwise:
            self._inexact(op, "the data decides which branch runs")
        return max(then[0], otherwise[0]), max(then[1], otherwise[1])

    def _elements(self, access: Access, factors: Factors) -> int:
        """Elements inside the buffer that all runs of an access ask for."""
        covered: list[Number] = []
        joined: set[int] = set()
        for each in access.ranges:
            axis = self._joined_axis(each, factors) if access.guarded else None
            covered.append(self._inside(each, axis, access))
            joined.update(() if axis is None else (axis,))
        return self._sum((*factors, *covered), joined)

    def _joined_axis(self, each: Range, factors: Factors) -> int | None:
        """The axis whose points cover a range together, where nothing else depends on it."""
        axis = None if each.spread is None else self._axis_of.get(each.spread)
        if axis is None or any(isinstance(f, np.ndarray) and f.shape[axis] > 1 for f in factors):
            return None
        return axis

    def _inside(self, each: Range, axis: int | None, access: Access) -> Number:
        """Return how many elements of a range lie inside the buffer."""
        size, extent = self._dim(each.size), self._dim(each.extent)
        if not access.guarded:
            return size
        terms = [t for t in each.starts if axis is None or t is not each.spread]
        if axis is not None:
            size = self._sizes[axis]
        try:
            known = [self._number(t) for t in terms]
            check_size(*known)
        except TooMany:
            self.reasons.setdefault(TOO_MANY)
            return size
        except (Unknown, ZeroDivisionError):
            self._inexact(access.op, "the data decides which elements are inside the buffer")
            return size
        start: Number = sum(known)
        if isinstance(start, int):
            return max(min(extent, start + size) - max(start, 0), 0)
        return np.maximum(np.minimum(extent, start + size) - np.maximum(start, 0), 0)

    def _dim(self, dim: ir.Dim) -> int:
        return dim if isinstance(dim, int) else int(self._symbols[dim])

    def _sum(self, factors: Factors, joined: Collection[int] = ()) -> int:
        """The sum over all open axes, but the `joined` ones, of the product of the factors."""
        total, parts = 1, list[Any]()
        for factor in factors:
            if not isinstance(factor, np.ndarray):
                total *= int(factor)
                continue
            # Factors with a common axis are multiplied, the others can be summed apart.
            for at in range(len(parts) - 1, -1, -1):
                if _meet(parts[at], factor):
                    factor = self._product(parts.pop(at), factor)
            parts.append(factor)
        for axis, size in enumerate(self._sizes):
            if axis not in joined and not any(part.shape[axis] > 1 for part in parts):
                total *= size
        for part in parts:
            total *= int(part.sum(dtype=np.int64))
        return total

    def _product(self, a: Number, b: Number) -> Number:
        shape = np.broadcast_shapes(a.shape, b.shape)
        if np.prod(shape, dtype=np.float64) > LIMIT:
            self.reasons.setdefault(TOO_MANY)
            small, large = sorted((a, b), key=lambda each: int(each.size))
            return large * int(small.max())
        return np.multiply(a, b, dtype=np.int64)

    def _inexact(self, op: ir.OpBase, reason: str) -> None:
        self.reasons.setdefault(reason if op.span is None else f"{op.span}: {reason}")

    def _or_unknown(self, value: ir.Value) -> Number | None:
        """The number of a value; None where only the data decides it."""
        try:
            return self._number(value)
        except (Unknown, ZeroDivisionError) as error:
            if isinstance(error, TooMany):
                self.reasons.setdefault(TOO_MANY)
            return None

    def _number(self, value: ir.Value) -> Number:
        held = self._known.get(value)
        if held is None:
            held = compute(value.owner, self._number)
        elif isinstance(held, _Lazy):
            held = held.make()
        self._known[value] = held
        return held


@dataclass(frozen=True, slots=True)
class _Lazy:
    """A number that is made when something asks for it."""

    make: Callable[[], Number]


def _meet(a: Number, b: Number) -> bool:
    return any(m > 1 and n > 1 for m, n in zip(a.shape, b.shape, strict=True))
