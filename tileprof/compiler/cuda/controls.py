"""What an experiment may force or forbid in the lowering of a kernel.

Everything is left to the compiler by default.  The controls of a kernel are recorded with its
binary, so that a profile says under which of them it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

__all__ = ["Controls"]


@dataclass(frozen=True, slots=True)
class Controls:
    """Lowering controls; the default of each is the compiler's own choice."""

    registers: int | None = None
    """At most so many registers a thread (`maxrregcount`)."""
    stages: int | None = None
    """Stages of every pipelined loop, instead of its `num_stages`."""
    swizzle: bool = True
    """Whether shared memory may be swizzled."""
    async_copy: bool = True
    """Whether copies may be asynchronous (TMA and cp.async)."""
    tma: bool = True
    wgmma: bool = True
    tensor_cores: bool = True
    """Whether matrix products may use mma.sync or wgmma."""
    tf32: bool = True
    """Whether float32 products may be rounded to tf32 operands."""
    warp_specialization: bool = True
    persistent: bool | None = None
    """Whether blocks loop over tiles of the grid."""
    cluster: int | None = None
    """Blocks of a cluster, which load the tiles that they share once."""
    vectorize: bool = True
    """Whether accesses may be wider than one element."""
    rasterize: bool = True
    """Whether blocks may be renumbered for reuse in L2."""
    delayed_release: bool = True
    """Whether a wait may leave the youngest matrix product running."""

    def changed(self) -> dict[str, object]:
        """What differs from the default, by name."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }
