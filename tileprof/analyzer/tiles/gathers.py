"""Whether a kernel takes elements of a tensor by numbers that it loads, as a table by its index.

In: a kernel, as its text has it.  Out: whether. Then the bytes of its tensors do not say what it
moves: it leaves out rows that no number names, and takes others once more, or has them in a cache.

    %3 = load %Items, [%2, %item] : int32
    %7 = load %Table, [%3, %6] : bfloat16             by a number that was loaded
"""

from __future__ import annotations

from tileprof.analyzer.tiles.ops import TileKernel

__all__ = ["takes_by_number"]

_FROM = ("load", "view")


def takes_by_number(kernel: TileKernel) -> bool:
    """Whether a place in a tensor depends on a value that the kernel loads."""
    loaded = set[str]()
    for op, _ in kernel.nested:
        source = kernel.types.get(op.source)
        in_tensor = op.name in _FROM and source is not None and source.space == "global"
        if in_tensor and not loaded.isdisjoint(op.listed):
            return True
        if op.name == "load" or not loaded.isdisjoint(op.operands):
            loaded.update(op.results)
    return False
