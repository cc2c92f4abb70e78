"""Points of a parallel loop that a thread runs: loops over register numbers, coordinates, and the
registers of fragments that belong to a point.

The coordinate of a point is that of its thread, which lanes and warps give once, plus the steps of
the runs (`digit_runs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer
from tileprof.compiler.cuda.emit.swizzled import Swizzled
from tileprof.compiler.cuda.layouts import Digit, RegisterLayout
from tileprof.compiler.cuda.layouts.registers import weighted
from tileprof.compiler.cuda.layouts.turns import Turn
from tileprof.errors import InternalError

from .digit_runs import Run

Dims = tuple[int | None, ...]
"""Loop variable that indexes each dimension of a fragment; None for another index."""


@dataclass(slots=True)
class Held:
    """The array that holds the elements of a moved access."""

    name: str
    base: Extent = 0
    """Place in it at which the vector at hand begins."""
    values: str = ""
    """An array of the elements of the vector as values; '' where there is none."""
    step: int = 1
    """Elements of each point."""
    place: int = 0
    """Place of this access's element among them."""

    def element(self, position: Extent) -> str:
        """Return the element of a point of the vector."""
        return f"{self.name}[{plus(self.base, self._within(position))}]"

    def value(self, position: Extent) -> str:
        """Return the element of a point of the vector as a value."""
        return f"{self.values}[{self._within(position)}]"

    def _within(self, position: Extent) -> Extent:
        return plus(times(position, self.step), self.place)


@dataclass
class Frame:
    """The points under emission."""

    op: ir.Parallel
    layout: RegisterLayout | None
    """None for a loop over all points in strides of the block's threads."""
    leader: str = ""
    """The condition under which this thread does what one thread must; '' where each is the one."""
    fragments: dict[tuple[str, Dims], int] = field(default_factory=dict)
    """Fragments by array, as they are indexed, and which of the runs' weights are theirs."""
    runs: tuple[Run, ...] = ()
    """Named; those of a vector have the text of the element's digit for a name."""
    position: Extent = 0
    """Position of the point in its vector."""
    early: dict[ir.OpBase, Held] = field(default_factory=dict)
    """Loads that stand in front of the points."""
    late: dict[ir.OpBase, Held] = field(default_factory=dict)
    """Stores that stand behind."""
    addresses: dict[ir.OpBase, Swizzled] = field(default_factory=dict)
    """Addresses of accesses to swizzled memory that are steps from the thread's first."""
    turn: Turn | None = None
    """Lanes that begin with another register, where some do."""

    def dims(self, indices: Sequence[ir.Value]) -> Dims:
        """Return which loop variable each index is."""
        variables = self.op.body.args
        return tuple(variables.index(i) if i in variables else None for i in indices)

    def register(self, fragment: FragmentBuffer, dims: Dims, indices: Sequence[Extent]) -> Extent:
        """The number of the register that holds an element of this point."""
        return self._register(fragment, dims, indices, self.runs)

    def element(self, fragment: FragmentBuffer, dims: Dims, indices: Sequence[Extent]) -> str:
        """The element of this point; where lanes take turns, one of two registers."""
        here = f"{fragment.array}[{self.register(fragment, dims, indices)}]"
        if self.turn is None:
            return here
        runs = [_exchanged(run, self.turn) for run in self.runs]
        there = f"{fragment.array}[{self._register(fragment, dims, indices, runs)}]"
        return f"({self.turn.lanes} ? {there} : {here})"

    def _register(
        self,
        fragment: FragmentBuffer,
        dims: Dims,
        indices: Sequence[Extent],
        runs: Sequence[Run],
    ) -> Extent:
        number = self.fragments[fragment.array, dims]
        terms = [times(r.name, r.weights[number]) for r in runs if r.count > 1]
        for dim, (variable, index) in enumerate(zip(dims, indices, strict=True)):
            if variable is None:
                terms.append(_within(fragment.layout, dim, index))
        return plus(*terms)

    def weights(self, fragment: FragmentBuffer, dims: Dims) -> list[int]:
        """Distances in registers, by digit of the loop's layout."""
        assert self.layout is not None
        found = self.layout.register_weights(dims, of=fragment.layout)
        if found is None:
            raise InternalError(
                f"fragment {fragment.name} ({fragment.layout}) is used by points that lie elsewhere"
                f" ({self.layout})"
            )
        return found


def _exchanged(run: Run, turn: Turn) -> Run:
    """A loop over registers in the order of the lanes that begin with another one."""
    for bit in range(run.count.bit_length() - 1):
        if tuple(s << bit for s in run.step) == turn.step:
            return replace(run, name=f"({run.name} ^ {1 << bit})")
    return run


def _within(layout: RegisterLayout, dim: int, index: Extent) -> Extent:
    """The part of a register number that an index gives whose dimension lies in registers."""
    if layout.shape[dim] == 1:
        return 0
    terms: list[Extent] = []
    for weight, count, step in _joined(layout.registers, dim):
        if isinstance(index, int):
            terms.append(index // step % count * weight)
            continue
        text = f"({index}) / {step}" if step > 1 else index
        whole = step * count >= layout.shape[dim]
        terms.append(times(text if whole else f"({text}) % {count}", weight))
    return plus(*terms)


def thread_coordinates(layout: RegisterLayout) -> list[Extent]:
    """The coordinates of a thread's first register, as text of `tp_lane` and `tp_warp`."""
    places = [("tp_lane", layout.lanes, 32), ("tp_warp", layout.warps, layout.threads // 32)]
    found: list[Extent] = []
    for dim in range(layout.rank):
        terms: list[Extent] = []
        for name, digits, total in places:
            for weight, count, step in _joined(digits, dim):
                terms.append(times(_digit(name, weight, count, total), step))
        found.append(plus(*terms))
    return found


def _joined(digits: Sequence[Digit], dim: int) -> list[tuple[int, int, int]]:
    """Digits that step along `dim` as weight in the number, count and step; those that go on where
    the one before ends are one with it."""
    found: list[tuple[int, int, int]] = []
    for digit, weight in weighted(digits):
        step = digit.step[dim]
        last = found[-1] if found else (0, 0, 0)
        if step and weight == last[0] * last[1] and step == last[2] * last[1]:
            found[-1] = (last[0], last[1] * digit.radix, last[2])
        elif step:
            found.append((weight, digit.radix, step))
    return found


def _digit(name: str, weight: int, count: int, total: int) -> str:
    """`name / weight % count`, with shifts and masks where they do."""
    text = name
    if weight > 1:
        power = weight & (weight - 1) == 0
        text = f"({name} >> {weight.bit_length() - 1})" if power else f"({name} / {weight})"
    if weight * count >= total:
        return text
    return f"({text} & {count - 1})" if count & (count - 1) == 0 else f"({text} % {count})"


def leader(layout: RegisterLayout) -> str:
    """The condition that no other thread with a lower number has the same points; '' if none
    can."""
    parts = []
    places = [("tp_lane", layout.lanes, 32), ("tp_warp", layout.warps, layout.threads // 32)]
    for name, digits, total in places:
        mask = 0
        for digit, weight in weighted(digits):
            if digit.is_copy and weight & (weight - 1) == 0 and digit.radix == 2:
                mask |= weight
            elif digit.is_copy:
                parts.append(f"{_digit(name, weight, digit.radix, total)} == 0")
        if mask:
            parts.insert(0, f"({name} & {mask}) == 0")
    return " && ".join(parts)
