"""Products of a tile kernel that data may leave out, as tiles that a mask says are zero.

In: a kernel.  Out: whether there are any. What its loops and extents say of its work is then the
most of it, and not what it has to do.
"""

from __future__ import annotations

from functools import lru_cache

from tileprof.analyzer.tiles.effects import effects_of
from tileprof.kernel_ir import PRODUCTS, TileKernel


@lru_cache(maxsize=2)
def products_by_data(kernel: TileKernel) -> bool:
    """Whether a product of tiles is done or not by what the kernel loads."""
    effects = effects_of(kernel)
    return any(
        effects.is_buffer(name)
        for op, around in kernel.nested if op.name in PRODUCTS
        for each in around if each.name == "if"
        for condition in each.operands for name in effects.used(condition)
    )  # fmt: skip
