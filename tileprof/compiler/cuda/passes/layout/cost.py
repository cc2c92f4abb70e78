"""Cost of a loop, a reduction or a conversion under a layout, in cycles of a multiprocessor.

Counted by evaluating layouts: requests of a warp with the sectors of global memory or the
wavefronts of shared memory that each takes, ops of the points, shuffles, barriers.  The figures
compare layouts of one kernel; they are no prediction of its time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout
from tileprof.compiler.cuda.layouts.shared import SharedLayout
from tileprof.compiler.cuda.layouts.shuffles import plan_shuffles
from tileprof.compiler.cuda.target import BANKS, SECTOR, WORD
from tileprof.compiler.cuda.tuning import (
    BARRIER_CYCLES,
    CROWDED_REGISTERS,
    INSTRUCTION_CYCLES,
    MOVE_CYCLES,
    REDUCE_CYCLES,
    REQUEST_CYCLES,
    SECTOR_CYCLES,
    SPILL_CYCLES,
)
from tileprof.once import cached_property

from .flow import Known
from .graph import Access, Graph, Link, Loop, Node
from .index import Form, behind, evaluate

Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of a warp for one access in one run of its loop."""

    count: int
    """Requests a warp."""
    width: int
    """Bytes a lane and request."""
    transactions: int
    """Sectors or wavefronts of one request."""


def lane_offsets(steps: Sequence[int]) -> list[int]:
    """Return what each lane number adds, from what each of its bits adds."""
    offsets = [0]
    for step in steps:
        offsets += [o + step for o in offsets]
    return offsets


def _delta(access: Access, loop: Loop, digit: Digit) -> int:
    """Elements by which a digit moves a linear address."""
    return sum(f * digit.step[loop.variables[v]] for v, f in access.address.terms.items()
               if v in loop.variables)  # fmt: skip


def requests(access: Access, loop: Loop, layout: RegisterLayout) -> Requests:
    """The requests of an access when its loop has the layout."""
    size = access.buffer.dtype.bytes
    form = access.address
    if not form.is_linear:
        return _scattered(access, loop, layout, size)
    digits = [(d.radix, _delta(access, loop, d)) for d in layout.registers]
    lanes = tuple(_delta(access, loop, d) for d in layout.lanes)
    rest = gcd(form.constant, form.divisor, *lanes)
    rest = gcd(rest, *(_delta(access, loop, d) for d in layout.warps))
    joined, times = access.neighbours, 1
    if joined > 1:
        if gcd(rest, *(delta for _, delta in digits)) % joined == 0:
            # Elements that are accessed together are as one that is larger.
            digits = [(radix, delta // joined) for radix, delta in digits]
            lanes, rest, size = tuple(d // joined for d in lanes), rest // joined, size * joined
        else:
            times = joined
    made = _linear(size, tuple(digits), lanes, rest, access.is_shared, access.widest)
    return replace(made, count=made.count * times)


@lru_cache(maxsize=4096)
def _linear(
    size: int, registers: tuple[tuple[int, int], ...], lanes: tuple[int, ...], rest: int,
    is_shared: bool, widest: int,
) -> Requests:  # fmt: skip
    width = 1
    for position, (radix, delta) in enumerate(registers):
        others = gcd(rest, *(d for _, d in registers[position + 1 :]))
        if radix != 2 or delta != width or width * 2 * size > widest or others % (width * 2):
            break
        width *= 2
    count = math.prod(radix if delta else 1 for radix, delta in registers)
    bytes_ = width * size
    offsets = [o * size for o in lane_offsets(lanes)]
    taken = _wavefronts(offsets, bytes_) if is_shared else _sectors(offsets, bytes_)
    return Requests(max(count // width, 1), bytes_, taken)


def _sectors(offsets: list[int], width: int) -> int:
    touched = {o // SECTOR for o in offsets}
    if width > 1:
        touched |= {(o + width - 1) // SECTOR for o in offsets}
    return len(touched)


def _wavefronts(offsets: list[int], width: int) -> int:
    lanes = 32 * WORD // max(width, WORD)
    total = 0
    for start in range(0, 32, lanes):
        words = {
            (o + part) // WORD
            for o in offsets[start : start + lanes]
            for part in range(0, max(width, WORD), WORD)
        }
        banks = [0] * BANKS
        for word in words:
            banks[word % BANKS] += 1
        total += max(banks)
    return total


def _scattered(access: Access, loop: Loop, layout: RegisterLayout, size: int) -> Requests:
    """An access whose address is no sum: its lanes are evaluated one by one."""
    table = layout.lane_coordinates
    at = {v: table[:, d] for v, d in loop.variables.items()}
    total = np.zeros(32, np.int64)
    for index, stride in zip(access.op.indices, access.strides, strict=True):
        total = total + evaluate(index, at, (32,)) * stride
    offsets = [int(o) * size for o in total]
    width = _gathered(access, loop, layout, size)
    bytes_ = width * size
    taken = _wavefronts(offsets, bytes_) if access.is_shared else _sectors(offsets, bytes_)
    return Requests(max(layout.registers_per_thread // width, 1), bytes_, taken)


def _gathered(access: Access, loop: Loop, layout: RegisterLayout, size: int) -> int:
    """Elements of a vector along which the indices that are no sums stay as they are."""
    fixed, linear = set[int](), Form()
    for index, form, stride in zip(access.op.indices, access.forms, access.strides, strict=True):
        # A row that a load chooses begins at a multiple of the stride.
        linear = linear.plus(form.times(stride) if form.is_linear else Form(divisor=stride))
        if not form.is_linear:
            fixed |= {loop.variables[v] for v in behind(index) if v in loop.variables}

    def moved(digit: Digit) -> int:
        steps = ((loop.variables[v], f) for v, f in linear.terms.items() if v in loop.variables)
        return sum(f * digit.step[d] for d, f in steps)

    width = 1
    rest = gcd(linear.constant, linear.divisor, *(moved(d) for d in layout.lanes))
    rest = gcd(rest, *(moved(d) for d in layout.warps))
    for position, digit in enumerate(layout.registers):
        others = gcd(rest, *(moved(d) for d in layout.registers[position + 1 :]))
        wide = width * 2
        follows = digit.radix == 2 and moved(digit) == width and not others % wide
        if not follows or wide * size > access.widest or any(digit.step[d] for d in fixed):
            break
        width = wide
    return width


@dataclass(frozen=True, eq=False)
class Placed:
    """An access of a shared buffer under a layout of the buffer."""

    access: Access
    layout: SharedLayout

    @cached_property
    def _moved(self) -> Access:
        """The access with the strides of the layout, as far as they matter for alignment."""
        size = self.layout.dtype.bytes
        row = self.layout.panel if not self.layout.swizzle else self.layout.columns
        strides = [*(s // size for s in self.layout.lead_strides()), row, 1]
        kept = tuple(strides[len(strides) - len(self.access.strides) :])
        return replace(self.access, strides=kept)

    def requests(self, loop: Loop, layout: RegisterLayout) -> Requests:
        """The requests when the loop has this layout."""
        if not self.layout.swizzle and self._moved.address.is_linear:
            return requests(self._moved, loop, layout)
        made = requests(self._moved, loop, layout)
        at = self.layout.address(lane_coordinates(self.access, loop, layout))
        return replace(made, transactions=_wavefronts(at.tolist(), made.width))


def lane_coordinates(access: Access, loop: Loop, layout: RegisterLayout) -> Array:
    """The indices of an access in the first register of each lane of a warp: int64[32, rank]."""
    columns: list[list[int] | Array] = []
    table = layout.lane_coordinates
    for index, form in zip(access.op.indices, access.forms, strict=True):
        if form.is_linear:
            steps = [
                sum(f * d.step[loop.variables[v]] for v, f in form.terms.items())
                for d in layout.lanes
            ]
            columns.append([o + form.constant for o in lane_offsets(steps)])
            continue
        at = {v: table[:, d] for v, d in loop.variables.items()}
        columns.append(evaluate(index, at, (32,)))
    return np.array(columns, np.int64).reshape(len(columns), 32).T


def ideal(made: Requests) -> int:
    """Wavefronts of a request without conflicts."""
    return max(made.width * 32 // (BANKS * WORD), 1)


def loop_cost(
    loop: Loop, layout: RegisterLayout, placed: Mapping[Access, Placed] = MappingProxyType({})
) -> float:
    """Cycles of all warps for one run of a loop; `placed` are accesses of shared buffers whose
    layout is known."""
    total = INSTRUCTION_CYCLES * loop.work * layout.registers_per_thread
    for access in loop.accesses:
        if (held := placed.get(access)) is not None:
            made = held.requests(loop, layout)
            total += made.count * (REQUEST_CYCLES + made.transactions)
            continue
        made = requests(access, loop, layout)
        if access.is_shared:
            # Its own layout is chosen later and takes most conflicts away.
            total += made.count * (REQUEST_CYCLES + min(made.transactions, 2 * ideal(made)))
        else:
            total += made.count * (1 + SECTOR_CYCLES * made.transactions)
    return total * (layout.threads // 32)


def _reduce_cost(op: ir.Reduce, layout: RegisterLayout) -> float:
    warps = layout.threads // 32
    kept = layout.select(
        [d for d in range(layout.rank) if d != op.dim],
        [e for d, e in enumerate(layout.shape) if d != op.dim],
    )
    results = kept.registers_per_thread
    steps = sum(1 for digit in layout.lanes if digit.step[op.dim])
    total = warps * (
        INSTRUCTION_CYCLES * layout.registers_per_thread + REDUCE_CYCLES * results * steps
    )
    across = [digit for digit in layout.warps if digit.step[op.dim]]
    if across:
        total += 2 * BARRIER_CYCLES + warps * results * (1 + RegisterLayout.count(across))
    return total


def convert_cost(source: RegisterLayout, target: RegisterLayout) -> float:
    """Cycles of a conversion."""
    if (source.lanes, source.warps) == (target.lanes, target.warps):
        return INSTRUCTION_CYCLES * target.registers_per_thread
    warps = source.threads // 32
    if plan_shuffles(source, target, WORD):
        return MOVE_CYCLES * warps * source.registers_per_thread
    return 2 * BARRIER_CYCLES + MOVE_CYCLES * warps * (
        source.registers_per_thread + target.registers_per_thread
    )


def component_cost(graph: Graph, known: Known, nodes: Sequence[Node], bad: Sequence[Link]) -> float:
    """Cycles of everything that runs on the nodes; `bad` are links that need a conversion."""
    total, registers = 0.0, 0.0
    for node in nodes:
        if node not in known:
            continue
        layout = known[node]
        if isinstance(node, ir.Parallel):
            loop = graph.loops[node]
            total += loop.weight * loop_cost(loop, layout)
        elif not isinstance(node.owner, ir.Reinterpret):
            registers += layout.registers_per_thread * max(node.dtype.bytes, 4) / 4
        for link in graph.at.get(node, ()):
            if isinstance(link.op, ir.Reduce) and link.parent is node:
                total += link.weight * _reduce_cost(link.op, layout)
    for link in bad:
        needed = known[link.parent].select(link.dims, graph.shapes[link.child])
        both = link.reads + link.writes
        total += link.weight * both * convert_cost(known[link.child], needed)
    return total + max(registers - CROWDED_REGISTERS, 0.0) * SPILL_CYCLES
