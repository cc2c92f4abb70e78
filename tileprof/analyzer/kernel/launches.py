"""How a launch spreads over its device: blocks, multiprocessors, how many run at once.

In: a kernel with its facts, and what the profile says of its device.  Out: `Launch`, or nothing
where one of the numbers is not known; where its source chooses the grid; how long multiprocessors
had warps; which part of the time each launch of a program takes. The grid is that of the launch
that was seen first, so a kernel that is launched with several grids is judged by that one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.findings import Place
from tileprof.analyzer.machine.code import PRODUCTS, KernelCode
from tileprof.analyzer.numbers.kernels import LAUNCHES_SCHEDULED, LAUNCHES_STARTED
from tileprof.analyzer.tiles.launches.cut_launches import cut_launches
from tileprof.analyzer.tiles.values import values_of
from tileprof.binary.occupancy import WARP
from tileprof.remarks.copies import TmaLoad, TmaStore
from tileprof.remarks.launches import Persistent, TilesInTurn
from tileprof.remarks.products import GemmInstruction

_PRODUCTS = (*PRODUCTS, "HMMA", "IMMA", "BMMA", "DMMA", "QMMA")
_ENGINES = (*PRODUCTS, "UTMALDG")
"""Products of warp groups, and copies of tiles: work that goes on while warps wait."""
_COPIES = (TmaLoad, TmaStore)
"""Decisions of the compiler for copies by an engine."""
_BLOCK_NUMBER = re.compile(r"\bSR_CTAID\b")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch on a device that is known."""

    blocks: int
    threads: int
    """Of a block."""
    multiprocessors: int
    held: int
    """Blocks that a multiprocessor holds at once."""
    tiles: int = 0
    """That persistent blocks take one after the other; 0 where a block has one."""

    @property
    def pieces(self) -> int:
        """Of work, that are dealt out whole: tiles, or blocks."""
        return self.tiles or self.blocks

    @property
    def at_once(self) -> int:
        """Pieces that are worked on at once."""
        return self.blocks if self.tiles else self.multiprocessors * self.held

    @property
    def rounds(self) -> float:
        """Of the pieces that are worked on at once, how many times as many there are."""
        return self.pieces / self.at_once

    @property
    def waves(self) -> float:
        """Of the blocks that run at once, how many times as many there are."""
        return self.blocks / (self.multiprocessors * self.held)

    @property
    def each(self) -> float:
        """Blocks for each multiprocessor."""
        return self.blocks / self.multiprocessors

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)


def launch_of(case: KernelCase) -> Launch | None:
    """How a kernel is launched; None where its device, or how it holds blocks, is not known."""
    grid, block = (case.extent(name) for name in ("grid", "block"))
    held = case.number("blocks_per_sm")
    device = case.device_info
    if not (grid and block and held and device and device.multiprocessors):
        return None
    return Launch(grid, block, device.multiprocessors, int(held), _tiles(case))


def clock_mhz(case: KernelCase) -> float:
    """Return the highest clock of its device, in MHz; 0 where that is not known."""
    return case.device_info.clock_mhz if case.device_info else 0.0


def _tiles(case: KernelCase) -> int:
    """Tiles of a persistent kernel; 0 where it is none, they are known at launch only, or go to the
    block that is free, so that there are no rounds of them."""
    if any(case.decided(TilesInTurn)):
        return 0
    own = (op.operands[1:2] for op in case.tiles.named("for") if op.word == "persistent")
    extents = next(own, ())
    if not extents and any(case.decided(Persistent)):
        extents = next((op.listed for op in case.tiles.named("launch")), ())
    values = values_of(case.tiles)
    return math.prod(values.number(name) or 0 for name in extents) if extents else 0


def launch_place(case: KernelCase) -> Place:
    """Where the source chooses the grid: what the compiler says it is, else where the code asks for
    the number of its block, else the kernel."""
    for op in ("launch", "occupancy"):
        for each in case.remarks:
            if each.op == op and each.location is not None:
                return case.place(each.location, "launch")
    code = case.code
    asking = code.where(lambda each: bool(_BLOCK_NUMBER.search(each.text))) if code else []
    found = code.instructions[asking[0]] if code and asking else None
    return case.place(case.user_line(found.place) if found else None)


def has_products(case: KernelCase) -> bool:
    """Whether it multiplies matrices, so that a smaller tile loads more for each product."""
    return bool(case.roofs.matrix_dtype or (case.code and case.code.named(*_PRODUCTS)))


def working_share(case: KernelCase, launch: Launch) -> float | None:
    """Of its time on all multiprocessors, the least in which one had warps; None if not known.

    Of a multiprocessor with warps a sample is taken each so many cycles, so samples say for how
    many cycles all had some. They are divided by those of the highest clock, which a device that
    draws much power is below. Samples of kernels that were not timed would make it too great.
    """
    clock, recordings = clock_mhz(case), case.program.profile.tables.pc.recordings
    if case.sampled is None or not clock or not case.time or launch.threads < LAUNCHES_SCHEDULED:
        return None
    periods = {each.period for each in recordings}
    if len(periods) != 1:
        return None
    cycles = case.time * clock / 1000 * launch.multiprocessors
    return min(1.0, case.sampled.whole * periods.pop() / cycles)


def is_pipelined(case: KernelCase) -> bool:
    """Whether a kernel hides latency by engines that work beside its warps, so that one block on a
    multiprocessor is what its author wanted."""
    code = case.code
    if code is not None and code.named(*_ENGINES):
        return True
    products = (chosen for _, chosen in case.decided(GemmInstruction))
    is_engine = any(each.instruction == "wgmma" for each in products)
    return is_engine or any(isinstance(each.decision, _COPIES) for each in case.remarks)


def busy_share(code: KernelCode) -> float:
    """Return the share of scheduler cycles in which an instruction is issued, 0 to 1.

    A sample looks at a scheduler in one cycle, and says whether it issued. (The share of samples
    whose own warp issued, times the warps, is no measure of it: on an H200 it came to 2.3 in a loop
    of products of 16 warps, as warps that issue are sampled more often than their turns.)
    """
    return 1 - code.n(idle=True) / code.whole if code.whole else 0.0


def launch_shares(case: KernelCase) -> tuple[float, ...]:
    """By launch of a tile kernel's program, its share of the time; nothing where not known.

    Samples stand for time in which multiprocessors have warps (`working_share`). They have none for
    most of a launch of many blocks that end at once, so each launch takes at least what the device
    needs to start its blocks. The compiler names the functions of a program with several launches
    by their numbers: `scan_0`, `scan_1`.
    """
    code, count = case.sampled, sum(1 for _ in case.tiles.named("launch"))
    if code is None or not count:
        return ()
    if count == 1:
        return (1.0,)
    held = code.held
    samples = dict.fromkeys((f"{case.name}_{number}" for number in range(count)), 0)
    for place, function in enumerate(held.functions):
        if function.title in samples:
            rows = (held.rows.function == place) & held.is_counted[held.rows.stall]
            samples[function.title] += int(held.rows.samples[rows].sum())
    whole = sum(samples.values())
    return _with_starts(case, [each / whole for each in samples.values()]) if whole else ()


def _with_starts(case: KernelCase, shares: list[float]) -> tuple[float, ...]:
    """Shares of launches of which none is less than its blocks take to start."""
    rate = LAUNCHES_STARTED * clock_mhz(case) * 1e-3
    if not rate or not case.time:
        return tuple(shares)
    part = case.launches / (rate * case.time)
    starts = [part * case.blocks_of(number) for number in range(len(shares))]
    raised = {at for at, (one, start) in enumerate(zip(shares, starts)) if start > one}
    left = 1 - sum(starts[at] for at in raised)
    others = 1 - sum(shares[at] for at in raised)
    if left <= 0 or others <= 0:
        return tuple(shares)
    return tuple(
        starts[at] if at in raised else each * left / others for at, each in enumerate(shares)
    )


def sampled_share(case: KernelCase) -> float:
    """Of a kernel's time, the part of the launch whose code rules look at, with those like it."""
    shares = launch_shares(case)
    if len(shares) < 2:
        return 1.0
    longest = shares.index(max(shares))
    for each in cut_launches(case.tiles):
        alike = range(each.number, each.number + each.count)
        if longest in alike:
            return sum(shares[number] for number in alike)
    return shares[longest]
