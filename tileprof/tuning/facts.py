"""Demands of one configuration of a kernel on the machine, as records that processes exchange.

In: nothing.  Out: `KernelFacts`: for each launch its blocks, what a block takes of a multiprocessor
and its parts, which are what is done once and what each iteration of each loop does.  `reading.py`
fills them.

    launch 16 x 32 blocks of 384 threads, 229,440 bytes
      part once                          stores 65,536 bytes, …
      part 64 times, 4 stages ahead      loads 49,152 bytes, 4.2 MFLOP by wgmma, …

Iterations are means over blocks.  Work outside of tensors counts as much as inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix products of one kind in one iteration of a part."""

    roof: str
    """The peak rate that it is bounded by, as `tileprof doctor --roofs` names it."""
    flops: float
    instruction: str
    """`wgmma`, `mma`, `fma`, or '' before the lowering."""


@dataclass(frozen=True, slots=True)
class Part:
    """Work of a block in each of `times` iterations."""

    line: int = 0
    """Line of the loop in the author's file; 0 for what is done once."""
    times: float = 1.0
    stages: int = 0
    """Stages by which loads run ahead; 0 where they are waited for at once."""
    products: tuple[Product, ...] = ()
    special: float = 0.0
    """Results of special function units, for all threads."""
    ordinary: float = 0.0
    """Instructions of threads."""
    requests: float = 0.0
    """Accesses of warps to memory, by loads and stores."""
    shared: float = 0.0
    """Bytes through shared memory, each counted as often as conflicts repeat it."""
    loads: float = 0.0
    """Bytes asked of global memory by loads, whole sectors counted."""
    stores: float = 0.0
    waited: float = 0.0
    """Bytes that threads load themselves, and wait for."""
    reductions: float = 0.0
    """Reductions across threads."""
    rows: float = 0.0
    """Rows of tiles that are copied, multiplied or gone through."""

    def plus(self, **more: float) -> Part:
        """Return the part with more of these."""
        return replace(self, **{name: getattr(self, name) + value for name, value in more.items()})


@dataclass(frozen=True, slots=True)
class Binary:
    """Facts of a launch's machine code, as ptxas states them."""

    registers: int
    spilled: int
    """Bytes that a thread stores and loads for want of registers, as the code stands."""
    serialised: bool
    """Whether products wait for each other."""


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """One launch."""

    blocks: int
    threads: int
    """Threads of a block, the producer's included."""
    workers: int
    """Threads of a block that compute something of their own."""
    shared: int
    """Bytes of shared memory of a block."""
    registers: int
    """Registers of a thread: the binary's, else an estimate."""
    lacking: int
    """Registers that a thread would need beyond those it can have, by the estimate."""
    local_bytes: int
    """Bytes of all buffers of a block, of one stage."""
    persistent: bool
    cluster: int
    groups: int
    """Warp groups that compute, at least 1."""
    planned: bool
    """Whether the compiler has products run under other work."""
    alternating: bool
    """Whether warp groups hand the tensor cores over to each other."""
    barriers: int
    memory_bytes: tuple[tuple[int, float], ...]
    """Bytes that come from memory, by blocks that run at once; reads alone."""
    written_bytes: float
    parts: tuple[Part, ...]
    binary: Binary | None = None


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """All launches of a kernel."""

    launches: tuple[LaunchFacts, ...] = ()
    tensor_bytes: float = 0.0
    reasons: tuple[str, ...] = field(default=())
    """Sentences about what is not known."""

    @property
    def spilled(self) -> int:
        """Bytes that a thread spills, of the launch with the most."""
        return max((each.binary.spilled for each in self.launches if each.binary), default=0)


def registers_available(threads: int) -> int:
    """Return the most registers that a thread can have in a block of so many threads."""
    return min(255, 65536 // max(threads, 1) // 8 * 8)
