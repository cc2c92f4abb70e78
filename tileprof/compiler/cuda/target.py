"""What a GPU architecture has: instructions and limits.

Numbers are from the CUDA C++ programming guide, table "Technical Specifications per Compute
Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.errors import UsageError

__all__ = ["TARGETS", "Target", "find_target"]


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
    shared_per_block: int
    """Bytes of shared memory one block can have, dynamic and static."""
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    reserved_shared: int = 1024
    """Bytes that the system takes of each block's share."""
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024
    named_barriers: int = 16
    sms: int = 132
    """Of the device that the defaults are tuned for."""


TARGETS = {
    t.name: t
    for t in (
        Target("sm_90a", True, True, True, 232448, 233472, 2048, 32),
        Target("sm_80", False, False, False, 166912, 167936, 2048, 32, sms=108),
    )
}


def find_target(name: str) -> Target:
    """The target called so; UsageError for one that does not exist."""
    if name not in TARGETS:
        raise UsageError(
            f"there is no CUDA target `{name}`", hint=f"Targets are: {', '.join(TARGETS)}."
        )
    return TARGETS[name]
