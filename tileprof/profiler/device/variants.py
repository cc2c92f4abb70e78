"""Kernels as GPUs ran them: what one takes of its multiprocessor, as facts of a `KernelInfo`.

In: what a record says of a kernel, and the grid it was first seen with.  Out: attributes; those of
occupancy where the device's limits are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from tileprof.profiler.device import devices

__all__ = ["Attributes", "Extent", "Variant", "attributes"]

Extent: TypeAlias = tuple[int, int, int]
Attributes: TypeAlias = dict[str, str | int | float]


class Variant(NamedTuple):
    """A kernel with all that decides how many of its blocks fit; the native recorder's order."""

    name: str
    """Name in the compiler's spelling (mangled)."""
    device: int
    registers: int
    """Registers per thread."""
    block: Extent
    cluster: Extent
    """Extent of a cluster in blocks; zeros without clusters."""
    static_shared: int
    """Bytes of a block."""
    dynamic_shared: int
    local: int
    """Bytes of a thread."""


def attributes(variant: Variant, grid: Extent) -> Attributes:
    """Return what a variant uses per launch, and how its device holds it."""
    found: Attributes = {
        "grid": _shown(grid),
        "block": _shown(variant.block),
        "registers": variant.registers,
        "static_shared_bytes": variant.static_shared,
        "dynamic_shared_bytes": variant.dynamic_shared,
        "local_bytes": variant.local,
    }
    if any(blocks > 1 for blocks in variant.cluster):
        found["cluster"] = _shown(variant.cluster)
    return found | _occupancy(variant, grid)


def _occupancy(variant: Variant, grid: Extent) -> Attributes:
    device = devices.find(variant.device)
    if device is None or device.limits is None:
        return {}
    from tileprof.binary.occupancy import occupancy

    shared = variant.static_shared + variant.dynamic_shared
    threads = math.prod(variant.block)
    held = occupancy(variant.registers, shared, threads, device.limits)
    # A cluster runs as a whole or not at all.
    cluster = max(math.prod(variant.cluster), 1)
    at_once = device.multiprocessors * held.blocks // cluster * cluster
    if not at_once:
        return {}  # the kernel ran, so the device holds more than is known here
    return {
        "occupancy": held.share,
        "blocks_per_sm": held.blocks,
        "limited_by": ", ".join(held.scarce),
        "waves": math.prod(grid) / at_once,
    }


def _shown(extent: Extent) -> str:
    return "×".join(map(str, extent))
