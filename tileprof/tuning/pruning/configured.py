"""One configuration of a Triton kernel as the model of tiles is asked about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tileprof.profiler.frameworks.triton_accesses import Work
from tileprof.remarks.statement import Reason


class NotKnown(Exception):
    """The model does not know the kernel; with the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Resources:
    """Resources that the machine code of a configuration takes."""

    registers: int
    """Registers per thread."""
    spilled: int
    """Bytes per thread that are in local memory for want of registers."""
    shared: int
    """Shared memory of a block, in bytes."""
    groups: bool
    """Whether products are instructions of warp groups."""
    ahead: bool
    """Whether loads run ahead of their loop."""
    code: str = ""
    """Digest of the machine code: equal ones take the same time."""


@dataclass(frozen=True)
class Configured:
    """One configuration's program and launch."""

    work: Work
    grid: tuple[int, int, int]
    arguments: Mapping[int, int]
    """Whole numbers among the arguments, by position in the program."""
    sizes: Mapping[int, int]
    """Bytes of tensors, by position in the program."""
    warps: int
    stages: int
    ctas: int = 1
    capability: int = 90
    """Compute capability as Triton writes it: 90 is 9.0."""

    alike: str = ""
    """Digest of all that the machine code follows from: equal ones have the same."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return math.prod(self.grid)
