"""How much of what a block stores is outside of all tensors, by guards that leave lanes out.

In: a kernel's code with its launch, and the bytes of its tensors.  Out: bytes that its stores write
if all lanes do, and the part of them that is too much.

Code outside of loops runs once in each warp, so how many bytes its stores have lanes for is known
without samples. An element is stored once: where lanes are there for more bytes than all tensors
hold together, the rest is left out by the guard, or stored in vain. Stores whose guard the block
decides as a whole are left out, as one of several may be taken; and so are those of an address
that was stored to before. Where a Triton tile has fewer elements than its block has threads,
several threads hold one element, and one of them stores it: so no more lanes count than tiles have
elements.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.global_memory import STORES, width_of
from tileprof.analyzer.kernel.launches import launch_of
from tileprof.analyzer.machine.code import Instruction, KernelCode
from tileprof.analyzer.machine.jumps import skipped
from tileprof.analyzer.machine.reloads import reloads_of
from tileprof.binary.occupancy import WARP

__all__ = ["Masked", "masked_of"]

_STORED = re.compile(r"tt\.store .*: tensor<((?:\d+x)+)!tt\.ptr<\D*(\d+)")
"""A store of a Triton module: extents of its tile, bits of an element."""


@dataclass(frozen=True)
class Masked:
    """Of a launch."""

    stored: float
    """Bytes that stores have lanes for."""
    held: float
    """Bytes of all tensors."""
    first: Instruction

    @property
    def outside(self) -> float:
        """Least part of the lanes that are for nothing, 0 to 1."""
        return 1 - self.held / self.stored


def masked_of(case: KernelCase, code: KernelCode) -> Masked | None:
    """Return it for a kernel that is no tile kernel; None where stores are not too many."""
    launch, held = launch_of(case), case.total("bytes") / max(case.launches, 1)
    if launch is None or case.ir or not held:
        return None
    stepped = {index for _, inside in skipped(code) for index in inside}
    if (again := reloads_of(code)) is not None:
        stepped.update(again.stores)
    stores = [
        code.instructions[index] for index in code.named(*STORES)
        if code.instructions[index].depth == 0 and index not in stepped
        and code.instructions[index].text.startswith("@") and code.n([index])
    ]  # fmt: skip
    widths = sum(width_of(each.opcode) for each in stores)
    tiles = sum(
        math.prod(map(int, extents.split("x")[:-1])) * max(int(bits) // 8, 1)
        for extents, bits in _STORED.findall(code.ttgir)
    )
    lanes = launch.warps * WARP * widths
    stored = float(launch.blocks * (min(lanes, tiles) if tiles else lanes))
    return Masked(stored, held, stores[0]) if stored > held else None
