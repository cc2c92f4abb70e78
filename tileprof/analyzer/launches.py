"""How a launch spreads over its device: blocks, multiprocessors, how many run at once.

In: a kernel with its facts, and what the profile says of its device.  Out: `Launch`, or nothing
where one of the numbers is not known. The grid is that of the launch that was seen first, so a
kernel that is launched with several grids is judged by that one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode

__all__ = ["SCHEDULERS", "Launch", "busy_share", "is_pipelined", "launch_of"]

SCHEDULERS = 4
"""Of a multiprocessor; each issues one instruction a cycle at most."""
_WARP = 32
_MULTIPROCESSORS = re.compile(r"\b(\d+) SMs\b")
_ENGINES = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "UTMALDG")
"""Products of warp groups, and copies of tiles: work that goes on while warps wait."""
_FORMS = re.compile(r"^(wgmma|tma)\b")
"""How the compiler says that it chose them."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch on a device that is known."""

    blocks: int
    threads: int
    """Of a block."""
    multiprocessors: int
    held: int
    """Blocks that a multiprocessor holds at once."""

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
        return -(-self.threads // _WARP)


def launch_of(case: KernelCase) -> Launch | None:
    """How a kernel is launched; None where its device, or how it holds blocks, is not known."""
    grid, block = (_extent(case, name) for name in ("grid", "block"))
    held = case.number("blocks_per_sm")
    described = case.program.profile.tables.provenance.get(case.device, "")
    device = _MULTIPROCESSORS.search(described)
    if not (grid and block and held and device):
        return None
    return Launch(grid, block, int(device[1]), int(held))


def _extent(case: KernelCase, name: str) -> int:
    """The product of `132×1×1`; 0 where it is not known."""
    numbers = re.findall(r"\d+", str(case.attributes.get(name, "")))
    return math.prod(map(int, numbers)) if numbers else 0


def is_pipelined(case: KernelCase) -> bool:
    """Whether a kernel hides latency by engines that work beside its warps, so that one block on a
    multiprocessor is what its author wanted."""
    code = case.code
    if code is not None and code.named(*_ENGINES):
        return True
    return any(_FORMS.match(each.chosen) for each in case.remarks)


def busy_share(code: KernelCode) -> float:
    """Of cycles, the share in which a scheduler issues.

    A sample looks at a scheduler in one cycle, and says whether it issued. (The share of samples
    whose own warp issued, times the warps, is no measure of it: on an H200 it came to 2.3 in a loop
    of products of 16 warps, as warps that issue are sampled more often than their turns.)
    """
    return 1 - code.n(idle=True) / code.whole if code.whole else 0.0
