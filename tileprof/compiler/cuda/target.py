"""What a GPU architecture has: instructions and limits.

What a multiprocessor shares among its blocks is in `binary.occupancy`, with its sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.binary.occupancy import MULTIPROCESSORS, Multiprocessor
from tileprof.errors import UsageError

WARP_GROUP = 128
"""Threads of a warp group: four warps that start one product (PTX ISA 8.0,
"wgmma.mma_async")."""


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture that kernels are compiled for."""

    name: str
    """As `--target` and `ptxas` say it."""
    has_tma: bool
    """Bulk tensor copies, mbarriers, clusters, `setmaxnreg`."""
    has_wgmma: bool
    has_fp8: bool
    """8-bit float matrix instructions."""
    multiprocessor: Multiprocessor
    registers_per_thread: int = 255
    named_barriers: int = 16
    sms: int = 132
    """Of the device that the defaults are tuned for."""

    @property
    def shared_per_block(self) -> int:
        """Bytes of shared memory one block can have, dynamic and static."""
        return self.multiprocessor.shared_per_block

    @property
    def registers_per_sm(self) -> int:
        """Registers that the blocks of a multiprocessor share."""
        return self.multiprocessor.registers

    @property
    def threads_per_block(self) -> int:
        """The most threads of a block."""
        return self.multiprocessor.threads_per_block


TARGETS = {
    t.name: t
    for t in (
        Target("sm_90a", True, True, True, MULTIPROCESSORS[9, 0]),
        Target("sm_80", False, False, False, MULTIPROCESSORS[8, 0], sms=108),
    )
}


def find_target(name: str) -> Target:
    """The target called so; UsageError for one that does not exist."""
    if name not in TARGETS:
        raise UsageError(
            f"there is no CUDA target `{name}`", hint=f"Targets are: {', '.join(TARGETS)}."
        )
    return TARGETS[name]
