"""Stores of fragments whose lanes begin with different registers, so that banks do not conflict.

    lanes 0-3   row 0   columns of register 0 ┐ the same banks of a swizzled tile
    lanes 4-7   row 1   columns of register 0 ┘

Where lanes whose number has bit 2 store register 2 first and register 0 afterwards, each request
spreads over all banks.  In: a loop over elements, its layout and the tile.  Out: which lanes, and
the step of the registers they exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprof import ir
from tileprof.binary.occupancy import WARP

from .cost import wavefronts
from .registers import Coordinates, RegisterLayout
from .shared import SharedLayout


@dataclass(frozen=True, slots=True)
class Turn:
    """An exchange of two registers in every other lane, or run of lanes."""

    lane_bit: int
    """Bit of the lane's number."""
    step: Coordinates
    """From the one register's coordinates to the other's."""
    change: int
    """Bits in which the addresses of the two differ, the same for all threads."""

    @property
    def lanes(self) -> str:
        """1 in the lanes that begin with the other register, 0 elsewhere, as text."""
        return f"(tp_lane >> {self.lane_bit} & 1)"


def turn_of(op: ir.Parallel, layout: RegisterLayout, tile: SharedLayout, width: int) -> Turn | None:
    """The exchange with the fewest wavefronts for the only store of a loop, `width` elements at
    once; None where none has fewer, or the loop does more than store what a fragment holds."""
    if not tile.swizzle or layout.is_padded or not _only_stores(op):
        return None
    size = width * tile.dtype.bytes
    firsts = layout.table()[:, 0, :]
    begin = tile.address(firsts)
    least, _ = wavefronts(begin[:WARP], size)
    found: Turn | None = None
    taken = (np.arange(WARP)[None, :] >> np.arange(WARP.bit_length() - 1)[:, None]) & 1
    for digit in layout.registers[width.bit_length() - 1 :]:
        other = tile.address(firsts + np.array(digit.step, np.int64))
        changes = np.unique(begin ^ other)
        if digit.radix != 2 or digit.is_copy or changes.size != 1:
            continue
        for bit, lanes in enumerate(taken):
            count, _ = wavefronts(np.where(lanes == 1, other[:WARP], begin[:WARP]), size)
            if count < least:
                least, found = count, Turn(bit, digit.step, int(changes[0]))
    return found


def _only_stores(op: ir.Parallel) -> bool:
    """Whether each point stores an element of a fragment at its own indices, and does no more."""
    match [o for o in op.body.ops if not isinstance(o, ir.Constant)]:
        case [ir.Load() as load, ir.Store() as store]:
            pass
        case [ir.Load() as load, ir.Cast() as cast, ir.Store() as store] if (
            cast.operand is load.result and store.value is cast.result
        ):
            pass
        case _:
            return False
    if load.buffer.buffer.space != "fragment" or store.buffer.buffer.space != "shared":
        return False
    same = [*load.indices] == [*op.body.args] == [*store.indices][-len(op.body.args) :]
    return same and (store.value is load.result or isinstance(store.value.owner, ir.Cast))
