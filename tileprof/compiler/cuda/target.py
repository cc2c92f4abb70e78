"""Instructions and limits of a GPU architecture.

What a multiprocessor shares among its blocks is in `binary.occupancy`, with its sources.  The
constants hold for every architecture here; a wrong one gives programs that fail or that do not
compile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof.binary.occupancy import MULTIPROCESSORS, Multiprocessor
from tileprof.errors import UsageError

WARP = 32
"""Threads of a warp (CUDA C++ Programming Guide, "SIMT Architecture")."""

WARP_GROUP = 128
"""Threads of a warp group: four warps that start one product (PTX ISA 8.0,
"wgmma.mma_async").  `setmaxnreg` has to be executed by all of them."""

WGMMA_ROWS = 64
"""Rows of the product of one warp group (PTX ISA 8.0, "wgmma.mma_async")."""

WORD = 4
"""Bytes of a register, of what a shuffle moves, and of a bank of shared memory (CUDA C++
Programming Guide, "Shared Memory")."""

BANKS = 32
"""Banks of shared memory; source as for `WORD`."""

SECTOR = 32
"""Bytes in which global memory moves (CUDA C++ Programming Guide, "Device Memory Accesses")."""

WIDEST_ACCESS = 16
"""Bytes of the widest load or store of one thread; source as for `SECTOR`."""

NARROWEST_CP_ASYNC = 4
"""Fewest bytes that one cp.async copies (PTX ISA 7.0, "cp.async")."""

ADDED_TOGETHER = ("float32", "float16", "bfloat16")
"""Types of which neighbours in global memory are added in one access (PTX ISA 8.1, "red")."""

MBARRIER_BYTES = 8
"""Bytes of an mbarrier, and their alignment (PTX ISA 7.0, "mbarrier")."""

SETMAXNREG_UNIT = 8
"""Registers of a thread that `setmaxnreg` takes or gives at least (PTX ISA 8.0, "setmaxnreg")."""

BOX_EXTENT, BOX_RANK = 256, 5
"""Elements along a dimension of a box that TMA copies, and dimensions of its tensor, at most (CUDA
Driver API, "cuTensorMapEncodeTiled")."""

BOX_START = 128
"""Bytes of shared memory of which a box begins at a multiple, with and without a swizzle (CUDA C++
Programming Guide, "Tensor Memory Access"); elsewhere a launch ends with a misaligned address."""

CLUSTER, LARGEST_CLUSTER = 8, 16
"""Blocks of a cluster that every device of an architecture can hold, and those that a device can
hold where a kernel asks for it (CUDA C++ Programming Guide, "Thread Block Clusters")."""

RESIDENT_BLOCKS = 1 << 16
"""Blocks that run at once, at most: more than any device has room for."""


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture that kernels are compiled for."""

    name: str
    """Name for `--target` and `ptxas`."""
    has_tma: bool
    """Bulk tensor copies, mbarriers, clusters, `setmaxnreg`."""
    has_wgmma: bool
    has_fp8: bool
    """8-bit float matrix instructions."""
    multiprocessor: Multiprocessor
    adds_vectors: bool = False
    """Sums of `ADDED_TOGETHER` in global memory, up to 16 bytes in one access."""
    registers_per_thread: int = 255
    named_barriers: int = 16
    sms: int = 132
    """Multiprocessors of the device that the defaults are tuned for."""

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
        Target("sm_90a", True, True, True, MULTIPROCESSORS[9, 0], adds_vectors=True),
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
