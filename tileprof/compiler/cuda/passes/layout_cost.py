"""What a loop, a reduction or a conversion costs under a layout, in cycles of a multiprocessor.

Counted by evaluating layouts: requests of a warp with the sectors of global memory or the
wavefronts of shared memory that each takes, ops of the points, shuffles, barriers.  The figures
compare layouts of one kernel; they are no prediction of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.layouts.cost import BANKS, SECTOR, WORD
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout

from .layout_flow import Known
from .layout_graph import Access, Graph, Link, Loop, Node
from .layout_index import evaluate

__all__ = ["Requests", "component_cost", "lane_offsets", "loop_cost", "requests"]

SECTOR_CYCLES = 1.5
"""32 bytes at a multiprocessor's share of the memory bandwidth."""
BARRIER_CYCLES = 30.0
SPILL_CYCLES = 100.0
REGISTERS = 160
"""Registers of a thread beyond which fragments leave too little for everything else."""
WIDEST = 16
"""Bytes of the widest access of one thread."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What one access makes a warp ask for in one run of its loop."""

    count: int
    """Requests a warp."""
    width: int
    """Bytes a lane and request."""
    transactions: int
    """Sectors or wavefronts of one request."""


def lane_offsets(steps: Sequence[int]) -> list[int]:
    """What each lane number adds, from what each of its bits adds."""
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
    return _linear(size, tuple(digits), lanes, rest, access.is_shared)


@lru_cache(maxsize=4096)
def _linear(
    size: int, registers: tuple[tuple[int, int], ...], lanes: tuple[int, ...], rest: int,
    is_shared: bool,
) -> Requests:  # fmt: skip
    width = 1
    for position, (radix, delta) in enumerate(registers):
        others = gcd(rest, *(d for _, d in registers[position + 1 :]))
        if radix != 2 or delta != width or width * 2 * size > WIDEST or others % (width * 2):
            break
        width *= 2
    count = 1
    for radix, delta in registers:
        count *= radix if delta else 1
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
    table = layout.table()[:32, 0, :]
    at = {v: table[:, d] for v, d in loop.variables.items()}
    total = np.zeros(32, np.int64)
    for index, stride in zip(access.op.indices, access.strides, strict=True):
        total = total + evaluate(index, at, (32,)) * stride
    offsets = [int(o) * size for o in total]
    taken = _wavefronts(offsets, size) if access.is_shared else _sectors(offsets, size)
    return Requests(layout.registers_per_thread, size, taken)


def loop_cost(loop: Loop, layout: RegisterLayout) -> float:
    """Cycles of all warps for one run of a loop."""
    total = 0.25 * loop.work * layout.registers_per_thread
    for access in loop.accesses:
        made = requests(access, loop, layout)
        if access.is_shared:
            # Its own layout is chosen later and takes most conflicts away.
            ideal = max(made.width * 32 // (BANKS * WORD), 1)
            total += made.count * (0.5 + min(made.transactions, 2 * ideal))
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
    total = warps * (0.25 * layout.registers_per_thread + 1.5 * results * steps)
    across = [digit for digit in layout.warps if digit.step[op.dim]]
    if across:
        total += 2 * BARRIER_CYCLES + warps * results * (1 + RegisterLayout.count(across))
    return total


def convert_cost(source: RegisterLayout, target: RegisterLayout) -> float:
    """Cycles of a conversion."""
    if (source.lanes, source.warps) == (target.lanes, target.warps):
        return 0.25 * target.registers_per_thread
    warps = source.threads // 32
    if source.warps == target.warps:
        return 2.0 * warps * target.registers_per_thread
    return 2 * BARRIER_CYCLES + 2.0 * warps * (
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
        else:
            registers += layout.registers_per_thread * max(node.dtype.bytes, 4) / 4
        for link in graph.at.get(node, ()):
            if isinstance(link.op, ir.Reduce) and link.parent is node:
                total += link.weight * _reduce_cost(link.op, layout)
    for link in bad:
        needed = known[link.parent].select(link.dims, graph.shapes[link.child])
        both = link.reads + link.writes
        total += link.weight * both * convert_cost(known[link.child], needed)
    return total + max(registers - REGISTERS, 0.0) * SPILL_CYCLES
