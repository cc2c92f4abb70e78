"""A watch over a run in the interpreter: who read and wrote each element of global memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.memory import base
from tileprof.runtime.events.access import Access, block_indices


@dataclass(eq=False)
class Traffic:
    """Accesses of the elements of one global tensor, row-major."""

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    """Writes and atomics."""
    writer: NDArray[np.int64]
    """Linear index of the block that wrote last; -1 for none."""
    site: NDArray[np.int32]
    """Position of the access in `Watch.places`."""
    grid: NDArray[np.int32]
    """Position of the launch in `Watch.grids`."""

    @classmethod
    def none(cls, size: int) -> Traffic:
        """Return the traffic of a tensor that nobody accessed."""
        zeros = np.zeros(size, np.int64)
        few = np.zeros(size, np.int32)
        return cls(zeros, zeros.copy(), np.full(size, -1), few, few.copy())


@dataclass(eq=False)
class Watch:
    """Listener that counts the accesses of each element of global memory."""

    tensors: dict[str, Traffic] = field(default_factory=dict)
    """Traffic by the tensor's name in the author's source."""
    grids: list[tuple[int, ...]] = field(default_factory=list)
    places: list[Location | None] = field(default_factory=list)
    _names: dict[tuple[ir.OpBase, bool], str] = field(default_factory=dict)
    """Tensor of each access, whatever shape it is seen under; by the op and whether it reads."""

    def begin(self, kernel: ir.Kernel, values: Sequence[Any], symbols: Sequence[int]) -> None:
        """Start a kernel: find which tensor each access is of."""
        for op in kernel.ops():
            for each in op.accesses():
                if each.value.buffer.space == "global":
                    name = base(each.value).name or ""
                    self._names |= {(op, reads): name for reads in (each.reads, not each.writes)}

    def launch(self, op: ir.Launch, grid: tuple[int, ...]) -> None:
        """Start a launch."""
        self.grids.append(grid)

    def note(self, access: Access) -> None:
        """Count an access of a global tensor."""
        if access.buffer.type.space != "global":
            return
        size = int(np.prod(access.buffer.shape))
        name = self._names.get((access.op, access.kind != "write"), access.buffer.name)
        traffic = self.tensors.setdefault(name, Traffic.none(size))
        block, element = access.flat()
        if access.kind != "write":
            np.add.at(traffic.reads, element, 1)
        if access.kind != "read":
            np.add.at(traffic.writes, element, 1)
            traffic.writer[element] = block
            traffic.grid[element] = len(self.grids) - 1
            traffic.site[element] = len(self.places)
            self.places.append(access.op.span)

    def writer(self, name: str, element: int) -> tuple[tuple[int, ...], Location | None] | None:
        """Return the block that wrote an element last and the place of the write; None for none."""
        traffic = self.tensors.get(name)
        if traffic is None or traffic.writer[element] < 0:
            return None
        grid = self.grids[traffic.grid[element]]
        place = self.places[traffic.site[element]]
        return block_indices(int(traffic.writer[element]), grid), place
