"""What a kernel's program says of its work: the bytes of its tensors, the type of its products.

In: a kernel.  Out: numbers and names; 0 and nothing where it does not say.
"""

from __future__ import annotations

from math import prod

from tileprof.kernel_ir import PRODUCTS, TileKernel


def tensor_bytes(kernel: TileKernel) -> float:
    """Bytes of a kernel's tensors, each once; 0 where an extent is known at launch only."""
    return sum(_tensors(kernel))


def written_share(kernel: TileKernel) -> float:
    """Of the bytes of a kernel's tensors, the part that it only writes."""
    read, written = _tensors(kernel)
    return written / (read + written) if read + written else 0.0


def _tensors(kernel: TileKernel) -> tuple[float, float]:
    """Bytes of tensors that are read, and of those that are only written."""
    held = [0.0, 0.0]
    for each in kernel.parameters.values():
        if each.type.space != "global":
            continue
        if each.type.extents is None:
            return 0.0, 0.0
        held[each.out] += prod(each.type.extents) * each.type.bits / 8
    return held[False], held[True]


def matrix_dtype(kernel: TileKernel) -> str:
    """The element type of the operands of its matrix products: of the first one."""
    first = next((op.source for op in kernel.named(*PRODUCTS)), "")
    return kernel.types[first].dtype if first in kernel.types else ""
