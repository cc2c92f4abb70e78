"""Loads that a thread does not make again, because it holds what they would give.

In: a launch in the form that the compiler gave its loops, with layouts.  Out: for its loads of
global memory a key of what is asked for, and in which loops the answer changes.

NVRTC loads once what two texts ask for at the same address, and takes a load out of a loop in which
its address stays, where nothing in the launch writes the tensor, across barriers and waits, too.
Iterations that the machine code has one after the other are texts of their own: the loop variable
is a number in each of them, or lies a number behind the first of a group.  In groups behind a rest,
NVRTC 13.5 loads one address again that the iteration before asked for: that load is not counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.emit.loops.in_flight import iterations_at_once, iterations_of
from tileprof.compiler.cuda.passes.pipeline.roles import written_globals
from tileprof.compiler.passes.folding import fold, holds_every
from tileprof.ir.memory import base

Ints = NDArray[np.int64]
Loops = frozenset[ir.OpBase]
_NO_LANE = np.iinfo(np.int64).min
"""Index of a lane that takes no part."""
_NO_LOOPS: Loops = frozenset()


@dataclass(frozen=True, slots=True)
class Sum:
    """A whole number: `constant` and the sum of factor × atom. Any other value is one atom."""

    constant: int = 0
    terms: tuple[tuple[int, int], ...] = ()
    """Atom and factor, in order of the atoms."""

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """Return this and another one, so many times."""
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * times
        kept = tuple(sorted((atom, factor) for atom, factor in terms.items() if factor))
        return Sum(self.constant + other.constant * times, kept)

    @property
    def number(self) -> int | None:
        """Its value where that is known."""
        return None if self.terms else self.constant


class Numbers:
    """The values of a launch, while its ops are visited in order: what is equal has equal sums.

    The variables of all parallel loops that stand at the same axis are one atom, since what is
    asked for by loops is compared with the places of their points.
    """

    def __init__(self, launch: ir.Launch, params: Set[ir.Value]) -> None:
        self._fixed = params - written_globals(launch)
        self._atoms = count()
        self._known: dict[Hashable, int] = {}
        self._sums: dict[ir.Value, Sum] = {}
        self._loops: dict[int, Loops] = {}
        """Loops of which an atom may differ from one iteration to the next."""
        self._axes: dict[int, int] = {}
        """Axis of each atom that is the variable of a parallel loop."""
        self._of_points: set[int] = set()
        """Atoms that depend on the point in another way."""

    def is_fixed(self, buffer: ir.Value) -> bool:
        """Whether a buffer is in global memory that nobody writes."""
        return base(buffer) in self._fixed

    def of(self, value: ir.Value) -> Sum:
        """Return the sum of a value."""
        if value not in self._sums:
            match value.owner:
                case ir.Constant(value=number, dtype=dtype) if not dtype.is_float:
                    self._sums[value] = Sum(int(number))
                case _:
                    self._sums[value] = self.fresh(_NO_LOOPS)
        return self._sums[value]

    def fresh(self, loops: Loops) -> Sum:
        """Return a value that no other one equals, which may change in these loops."""
        atom = next(self._atoms)
        self._loops[atom] = loops
        return Sum(0, ((atom, 1),))

    def bind(self, variable: ir.Value, value: Sum) -> None:
        """Give a loop's variable its value in the iterations that are visited next."""
        self._sums[variable] = value

    def changes(self, values: Iterable[ir.Value]) -> Loops:
        """Return the loops in which one of the values may change."""
        atoms = (atom for each in values for atom, _ in self.of(each).terms)
        return _NO_LOOPS.union(*(self._loops[atom] for atom in atoms))

    def visit(self, op: ir.OpBase, loops: Loops) -> None:
        """Find what an op gives; of a parallel loop what all ops inside give.  loops: those around
        of which iterations are not told apart."""
        if isinstance(op, ir.Parallel):
            for axis, variable in enumerate(op.body.args):
                atom = self._atom(("axis", axis), _NO_LOOPS)
                self._axes[atom] = axis
                self._sums[variable] = Sum(0, ((atom, 1),))
            self._inside(op.body, loops)
            return
        found = self._result(op)
        for value in op.results:
            self._sums[value] = self.fresh(loops) if found is None else found

    def _inside(self, block: ir.Block, loops: Loops) -> None:
        """Visit the ops of a parallel loop's body."""
        for op in block.ops:
            self.visit(op, loops)
            inside = loops | {op} if isinstance(op, ir.For | ir.While) else loops
            for each in op.blocks():
                for value in each.args:
                    self._sums[value] = self.fresh(inside)
                self._inside(each, inside)

    def _atom(self, key: Hashable, loops: Loops) -> int:
        if key not in self._known:
            self._known[key] = next(self._atoms)
        self._loops.setdefault(self._known[key], loops)
        return self._known[key]

    def _result(self, op: ir.OpBase) -> Sum | None:
        """Return the sum of what a computation, or a load of fixed memory, gives."""
        if not is_pure(op) and not (isinstance(op, ir.Load) and self.is_fixed(op.buffer)):
            return None
        given = tuple(self.of(each) for each in op.operand_values())
        found = _whole(op, given)
        if found is not None:
            return found
        if isinstance(op, ir.Binary) and op.kind in ("add", "mul", "min", "max"):
            given = tuple(sorted(given, key=lambda each: (each.constant, each.terms)))
        names = (*op.SPEC.positional, *(name for name, _ in op.SPEC.attributes))
        # As text, since NaN is not equal to itself.
        attributes = repr([getattr(op, name) for name in names])
        atoms = [atom for each in given for atom, _ in each.terms]
        loops = _NO_LOOPS.union(*(self._loops[each] for each in atoms))
        made = self._atom((op.mnemonic, repr(op.results[0].type), attributes, given), loops)
        if any(each in self._axes or each in self._of_points for each in atoms):
            self._of_points.add(made)
        return Sum(0, ((made, 1),))

    def scalar(self, load: ir.Load) -> Hashable:
        """Return what names the element that all points ask for; None where they ask for several,
        or where the memory is written."""
        sums = tuple(self.of(each) for each in load.indices)
        atoms = {atom for each in sums for atom, _ in each.terms}
        alone = atoms.isdisjoint(self._axes) and atoms.isdisjoint(self._of_points)
        return (load.buffer, sums) if alone and self.is_fixed(load.buffer) else None

    def keys(self, indices: Sequence[ir.Value], places: Ints) -> list[Hashable]:
        """Return what names the elements that each instruction asks for.

        places: index of each lane's point along the axes of the parallel loop, int64[instructions,
        lanes, axes], -1 for a lane that takes no part.
        """
        sums = [self.of(each) for each in indices]
        takes_part = (places >= 0).all(axis=-1)
        parts: list[list[Hashable]] = [[] for _ in places]
        for each in sums:
            rest = tuple(term for term in each.terms if term[0] not in self._axes)
            if any(atom in self._of_points for atom, _ in rest):
                # Not a sum of axes: equal for the same points.
                offsets, rest = places, (*each.terms, (-1, each.constant))
            else:
                axes = {self._axes[a]: factor for a, factor in each.terms if a in self._axes}
                factors = np.array([axes.get(axis, 0) for axis in range(places.shape[-1])])
                offsets = np.where(takes_part, places @ factors + each.constant, _NO_LANE)
            for part, of_lanes in zip(parts, offsets):
                part += [rest, of_lanes.tobytes()]
        return [tuple(part) for part in parts]


def _whole(op: ir.OpBase, given: Sequence[Sum]) -> Sum | None:
    """Return the result of whole-number arithmetic where it is a sum of atoms; None elsewhere."""
    result = op.results[0].type
    if not isinstance(result, ir.DType) or result.is_float:
        return None
    if isinstance(op, ir.Constant):
        return Sum(int(op.value))
    numbers = [each.number for each in given]
    floats = any(isinstance(v.type, ir.DType) and v.dtype.is_float for v in op.operand_values())
    known = [each for each in numbers if each is not None]
    if len(known) == len(numbers) and not floats and is_pure(op):
        found = fold(op, list(known))
        return None if found is None else Sum(int(found))
    if isinstance(op, ir.Cast) and op.operand.dtype.is_integer:
        return given[0] if holds_every(result, op.operand.dtype) else None
    if not isinstance(op, ir.Binary) or not result.is_integer:
        return None
    left, right = given
    match op.kind:
        case "add" | "sub":
            return left.plus(right, 1 if op.kind == "add" else -1)
        case "mul" if numbers[0] is not None or numbers[1] is not None:
            factor, other = (left, right) if numbers[0] is not None else (right, left)
            return Sum().plus(other, factor.constant)
        case "floordiv" | "floormod" if numbers[1]:
            by = numbers[1]
            if all(factor % by == 0 for _, factor in left.terms):
                if op.kind == "floormod":
                    return Sum(left.constant % by)
                terms = tuple((atom, factor // by) for atom, factor in left.terms)
                return Sum(left.constant // by, terms)
    return None


# -- iterations one after the other

_MOST_COPIES = 4096
"""Copies of a loop's body above which its iterations are not told apart, so that a page of any
kernel is made in time; the emission asks for at most 64 a loop.  By hand, 2026-11-28."""


@dataclass(frozen=True, slots=True)
class Written:
    """A loop of which iterations stand one after the other in the machine code, as texts of their
    own."""

    depth: int
    """Number of `for` loops around it."""
    front: int
    """Iterations in front of the loop that is left: all of them, or the rest of a division."""
    together: int
    """Iterations in each group of the loop that is left."""

    @property
    def texts(self) -> int:
        """Texts of the body."""
        return self.front + self.together

    def text(self, iteration: int) -> int:
        """Return which text an iteration runs."""
        behind = iteration - self.front
        return iteration if behind < 0 else self.front + behind % self.together


def written(loop: ir.For, depth: int, copies: int, threads: int) -> Written | None:
    """Return how a loop is written out; None where its iterations are not told apart.  copies: of
    the loop itself, because loops around are written out."""
    values, together = iterations_of(loop), iterations_at_once(loop, False, threads)
    last = loop.body.ops[-1] if loop.body.ops else None
    if together < 2 or values is None or isinstance(last, ir.Yield):
        return None
    whole = together == len(values)
    front = together if whole else len(values) % together
    made = Written(depth, front, 0 if whole else together)
    return made if copies * made.texts <= _MOST_COPIES else None


def texts(
    loop: ir.For, made: Written, numbers: Numbers, loops: Loops
) -> Iterator[tuple[int, bool]]:
    """Bind the loop's variable to its value in each text; yield the number of the text and whether
    a loop runs it."""
    values = iterations_of(loop)
    assert values is not None
    (variable,) = loop.body.args
    for at in range(made.front):
        numbers.bind(variable, Sum(values[at]))
        yield at, False
    group = Sum(values.start + made.front * values.step)
    group = group.plus(numbers.fresh(loops | {loop}), made.together * values.step)
    for at in range(made.together):
        numbers.bind(variable, group.plus(Sum(at * values.step)))
        yield made.front + at, True


def runs_through(loop: ir.OpBase) -> bool:
    """Return whether a loop runs at least once, and each iteration to its end: what it asks for is
    then asked for before all that follows."""
    ends = isinstance(loop, ir.For) and any(
        isinstance(each, ir.Break | ir.Continue) for each in ir.walk(loop.body)
    )
    return isinstance(loop, ir.For) and bool(iterations_of(loop)) and not ends


# -- loads for the next iteration


def loads_ahead(before: Sequence[ir.OpBase], loop: ir.For, threads: int) -> Iterator[ir.Load]:
    """Yield the loads of a loop that fill a fragment for its next iteration, as one in front of it
    does for the first.

    NVRTC makes one load of both, at the head of the loop, where nothing changes memory behind them:
    the last iteration, whose load nobody would use, then makes none.
    """
    if not iterations_of(loop) or iterations_at_once(loop, False, threads) != 1:
        return
    first = dict(_last_fills(before))
    for fragment, load in _last_fills(loop.body.ops):
        if fragment in first:
            yield load


def _last_fills(ops: Sequence[ir.OpBase]) -> Iterator[tuple[ir.Value, ir.Load]]:
    """Yield fragments that loops fill from global memory, from the end of some ops back to where
    memory changes."""
    for op in reversed(ops):
        if isinstance(op, ir.Parallel):
            stores = [each for each in ir.walk(op.body) if isinstance(each, ir.Store | ir.Atomic)]
            if any(each.buffer.buffer.space in ("shared", "global") for each in stores):
                return
            store = stores[0] if len(stores) == 1 else None
            load = store.value.owner if isinstance(store, ir.Store) else None
            if store and isinstance(load, ir.Load) and load.buffer.buffer.space == "global":
                yield base(store.buffer), load
        elif not is_pure(op) and not isinstance(op, ir.Alloc | ir.View):
            return
