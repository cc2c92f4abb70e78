"""A watch over a run: which elements two blocks of one launch touch, and one of them writes.

Beside each element of a global buffer that the kernel writes stand the lowest and the highest block
that read it, wrote it and combined it atomically, with the ops that did.  Two blocks that differ
are enough to tell whether some other block was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.runtime.arguments import as_array
from tileprof.runtime.events.access import Access, AccessKind, Ints, block_indices

from .findings import Finding, FoundAccess

CONFLICTS: dict[AccessKind, tuple[AccessKind, ...]] = {
    "read": ("write", "atomic"),
    "write": ("write", "read", "atomic"),
    "atomic": ("write", "read"),
}
"""Kinds of access that race with one, where another block makes them."""
_NOBODY = np.iinfo(np.int32).max


@dataclass(eq=False)
class _Marks:
    """The lowest and the highest block that accessed each element, and the accesses."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    low_site: NDArray[np.int32]
    high_site: NDArray[np.int32]

    @classmethod
    def make(cls, size: int) -> _Marks:
        """Nobody accessed anything."""
        low, high = np.full(size, _NOBODY, np.int32), np.full(size, -1, np.int32)
        return cls(low, high, np.zeros(size, np.int32), np.zeros(size, np.int32))

    def add(self, block: Ints, element: Ints, site: int) -> None:
        """Note accesses of one site."""
        np.minimum.at(self.low, element, block.astype(np.int32))
        np.maximum.at(self.high, element, block.astype(np.int32))
        self.low_site[element[self.low[element] == block]] = site
        self.high_site[element[self.high[element] == block]] = site

    def others(self, block: Ints, element: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a block other than `block` that accessed each element, -1 for none; and its
        site."""
        low, high = self.low[element], self.high[element]
        second = low == block
        other = np.where(second, high, low)
        site = np.where(second, self.high_site[element], self.low_site[element])
        return np.where((low == _NOBODY) | (other == block), -1, other), site


def same_layout(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array with its strides, which a kernel may have been given as numbers."""
    if any(stride < 0 for stride in array.strides):
        return array.copy()
    last = sum(max(n - 1, 0) * s for n, s in zip(array.shape, array.strides))
    memory = np.zeros(last + array.itemsize, np.uint8)
    made: NDArray[Any] = np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
    made[...] = array
    return made


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of a kernel as they were before it ran."""

    values: tuple[Any, ...]
    """NumPy arrays and numbers."""
    symbols: tuple[int, ...]

    @classmethod
    def copy(cls, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> Arguments:
        """Keep a copy of each array; one that is passed twice is copied once."""
        made: dict[int, Any] = {}
        for param, value in zip(kernel.params, values):
            if id(value) not in made:
                array = isinstance(param.type, ir.BufferType)
                made[id(value)] = same_layout(as_array(value)) if array else value
        return cls(tuple(made[id(value)] for value in values), tuple(map(int, symbols)))

    def again(self) -> list[Any]:
        """Return copies of the arguments, which a run may write."""
        made: dict[int, Any] = {}
        for value in self.values:
            if id(value) not in made:
                array = isinstance(value, np.ndarray)
                made[id(value)] = same_layout(value) if array else value
        return [made[id(value)] for value in self.values]


@dataclass(eq=False)
class Run:
    """One kernel that ran, and which of its launches did."""

    kernel: ir.Kernel
    launches: list[ir.Launch] = field(default_factory=list)
    findings: dict[object, Finding] = field(default_factory=dict)
    """The first counterexample of each pair of accesses."""
    arguments: Arguments | None = None
    """Place where the watch keeps them, in the first run of a kernel."""

    def position(self, launch: ir.Launch) -> int:
        """Return the position of a launch among those of the kernel's program."""
        return self.kernel.launches().index(launch)


@dataclass(eq=False)
class Explorer:
    """Listener that finds races between blocks."""

    keeps_arguments: bool = False
    runs: list[Run] = field(default_factory=list)
    last: Access | None = None
    """The access that was noted last, where an error ended the run."""
    _watched: set[tuple[ir.OpBase, AccessKind]] = field(default_factory=set)
    _names: dict[tuple[ir.OpBase, AccessKind], str] = field(default_factory=dict)
    """Tensors of the accesses, under whatever shape they are seen."""
    _by_bytes: bool = False
    _sites: list[Access] = field(default_factory=list)
    _numbers: dict[tuple[ir.OpBase, AccessKind], int] = field(default_factory=dict)
    _marks: dict[tuple[int, AccessKind], _Marks] = field(default_factory=dict)
    _grid: tuple[int, ...] = ()

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Start a kernel: find the accesses of global buffers that it writes."""
        first = self.keeps_arguments and all(run.kernel is not kernel for run in self.runs)
        arguments = Arguments.copy(kernel, values, symbols) if first else None
        self.runs.append(Run(kernel, arguments=arguments))
        accesses = [(op, access) for op in kernel.ops() for access in op.accesses()]
        written = {base(a.value) for _, a in accesses if a.writes}
        self._watched = {
            (op, kind)
            for op, a in accesses
            if a.value.buffer.space == "global" and base(a.value) in written
            for kind in _kinds(op, a)
        }
        self._by_bytes = any(
            isinstance(op, ir.Reinterpret) and op.dtype.bytes != base(op.base).dtype.bytes
            for op in kernel.ops()
        )
        self._names = {
            (op, kind): base(a.value).name or ""
            for op, a in accesses
            if a.value.buffer.space == "global"
            for kind in _kinds(op, a)
        }
        self._sites.clear()
        self._numbers.clear()

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch: what earlier ones accessed is over."""
        self.runs[-1].launches.append(op)
        self._grid = grid
        self._marks.clear()

    def note(self, access: Access) -> None:
        """Compare an access with those of other blocks."""
        self.last = access
        key = (access.op, access.kind)
        if access.launch < 0 or key not in self._watched:
            return
        if key not in self._numbers:
            self._numbers[key] = len(self._sites)
            self._sites.append(access)
        block, element = access.flat()
        if not len(block):
            return
        unit = self._unit(access)
        if unit > 1:
            block = np.repeat(block, unit)
            element = (element[:, None] * unit + np.arange(unit)).reshape(-1)
        size = int(np.prod(access.buffer.shape)) * unit
        own = (id(access.buffer.memory), access.kind)
        if own not in self._marks:
            self._marks[own] = _Marks.make(size)
        self._marks[own].add(block, element, self._numbers[key])
        for kind in CONFLICTS[access.kind]:
            marks = self._marks.get((own[0], kind))
            if marks is not None:
                other, site = marks.others(block, element)
                self._found(access, block, element, other, site)

    def _unit(self, access: Access) -> int:
        """Return how many marks an element has: one, or one for each byte where the kernel sees
        memory with elements of several widths."""
        return access.buffer.type.dtype.bytes if self._by_bytes else 1

    def _found(
        self, access: Access, block: Ints, element: Ints, other: NDArray[Any], site: NDArray[Any]
    ) -> None:
        met = np.flatnonzero(other >= 0)
        for number in np.unique(site[met]).tolist():
            second = self._sites[number]
            run = self.runs[-1]
            name = self._names.get((access.op, access.kind), access.buffer.name)
            key = (name, frozenset((id(each.op), each.kind) for each in (access, second)))
            if key in run.findings:
                continue
            chosen = met[site[met] == number]
            # The pair of blocks that comes first, then the element that does.
            pairs = np.stack([element[chosen], block[chosen], other[chosen]])
            at = chosen[np.lexsort(pairs)[0]]
            pair = ((second, int(other[at])), (access, int(block[at])))
            run.findings[key] = Finding(
                "race-between-blocks",
                access.kernel.name,
                run.position(run.launches[-1]),
                name,
                tuple(
                    FoundAccess(
                        a.kind,
                        a.op.span,
                        self._index(a, int(element[at])),
                        block_indices(b, self._grid),
                    )
                    for a, b in sorted(pair, key=lambda each: each[1])
                ),
            )

    def _index(self, access: Access, mark: int) -> tuple[int, ...]:
        """Return the index of a marked element, in the shape that an access sees."""
        index = np.unravel_index(mark // self._unit(access), access.buffer.shape)
        return tuple(int(i) for i in index)


def _kinds(op: ir.OpBase, access: Any) -> list[AccessKind]:
    if isinstance(op, ir.Atomic | ir.TileAtomic) and access.writes:
        return ["atomic"]
    held: list[tuple[bool, AccessKind]] = [(access.reads, "read"), (access.writes, "write")]
    return [kind for holds, kind in held if holds]
