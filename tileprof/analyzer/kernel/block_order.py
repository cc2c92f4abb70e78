"""What a tile kernel moves from memory, by the order in which its blocks begin.

In: a kernel with its launch.  Out: bytes now, and those of the best order; how its blocks are
grouped, and where that is said. Tiles that blocks of one wave share come once, and again in the
next wave if the L2 could not keep them (`panels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.findings import Place
from tileprof.analyzer.kernel.launches import has_products, launch_of, launch_place
from tileprof.analyzer.numbers.kernels import BLOCK_ORDER_AGAIN, BLOCK_ORDER_CANDIDATES
from tileprof.analyzer.tiles.tile_schedule import schedule_of
from tileprof.analyzer.tiles.work import tensor_bytes, written_share
from tileprof.remarks.launches import GroupedRows


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that all launches move, by the order of their blocks."""

    now: float
    best: float
    group: int
    """Rows of the best groups."""
    axes: tuple[int, ...]
    """Of the grid, in the best order: the one that is counted fastest, the next, …"""
    rows: int
    """Of blocks, that there are."""
    streamed: bool
    """Whether it is read side by side, and by no product."""

    @property
    def turned(self) -> bool:
        """Whether axes change places in the best order."""
        return self.axes != tuple(sorted(self.axes))


def traffic_of(case: KernelCase) -> Traffic | None:
    """What it moves; None where its text does not tell, or the grid has one axis, and one order."""
    launch = launch_of(case)
    schedule = schedule_of(case.tiles)
    if schedule is None or launch is None or len(schedule.grid) < 2:
        return None
    running = launch.multiprocessors * launch.held
    written = tensor_bytes(case.tiles) * written_share(case.tiles)

    def moved(group: int, axes: tuple[int, ...] = ()) -> float:
        return (schedule.read(group, running, axes) + written) * case.launches

    now, rows, given = grouped(case)[0], schedule.grid[1], tuple(range(len(schedule.grid)))
    bytes_of = {(group, given): moved(group) for group in (*BLOCK_ORDER_CANDIDATES, rows, now)}
    if min(bytes_of.values()) > BLOCK_ORDER_AGAIN * (schedule.once + written) * case.launches:
        bytes_of |= {(now, axes): moved(now, axes) for axes in _turned(schedule.grid)}
    best = min(bytes_of, key=lambda order: bytes_of[order])
    streamed = not has_products(case) and not any(each.asked for each in schedule.panels)
    return Traffic(bytes_of[now, given], bytes_of[best], *best, rows, streamed)


def _turned(grid: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Other orders of the axes, where there are three that count: of two, groups of all rows are
    the other one."""
    if sum(extent > 1 for extent in grid) < 3:
        return []
    return list(permutations(range(len(grid))))[1:]


def grouped(case: KernelCase) -> tuple[int, Place]:
    """How many rows of blocks are in a group, and where that is said; 1 where they are in none."""
    for remark, chosen in case.decided(GroupedRows):
        return max(chosen.rows, 1), case.place(remark.location, remark.subject)
    return 1, launch_place(case)
