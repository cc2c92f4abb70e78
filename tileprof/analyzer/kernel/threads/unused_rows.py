"""Parts of tiles that no statement of a kernel reads.

In: a kernel.  Out: by buffer in shared memory, the bytes that nothing reads; copies from tensors of
which a part is never read.

    %x = alloc shared [97008]       view %x, [0] of 2064; load %x, [%i + %tap], at most 2063
                                    elements from 2064 on are never read

What is read is taken for a box from the begin of the buffer on: a hole in it counts as read, and so
does the end of a row that is as short as what keeps rows apart in the banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from tileprof.analyzer.numbers.kernels import UNREAD_NOTABLE, UNREAD_PADDING
from tileprof.analyzer.tiles.effects import effects_of
from tileprof.analyzer.tiles.padding import bounds_of
from tileprof.analyzer.tiles.values import values_of
from tileprof.kernel_ir import COPIES, Op, TileKernel, Type

_Extents: TypeAlias = tuple[int, ...]
_PLACED = ("load", "view")
"""Ops whose indices say which part of their operand they are about."""


@dataclass(frozen=True, eq=False)
class PartlyRead:
    """A copy from a tensor to a buffer of which a part is never read."""

    op: Op
    tensor: str
    buffer: str
    read: _Extents
    """Extents of the part of the buffer that something reads, from its begin."""
    unread: float
    """Share of the copied elements that nothing reads, 0 to 1."""
    bytes: float
    """Bytes of these in a launch; 0 where the number of blocks, or of iterations, is not known."""


@lru_cache(maxsize=16)
def unused_bytes(kernel: TileKernel) -> Mapping[str, int]:
    """Return the bytes of shared memory that nothing reads, keyed by buffer, those of all stages of
    a pipelined loop together; a buffer that is not read at all is left out."""
    found = dict[str, int]()
    for name, read in _read(kernel).items():
        held = kernel.types[name]
        elements = prod(held.extents or ())
        if held.space == "shared" and 0 < prod(read) < elements:
            unread = (elements - prod(read)) * held.bits // 8
            found[name] = unread * _stages(kernel, name)
    return found


@lru_cache(maxsize=16)
def partly_read(kernel: TileKernel) -> tuple[PartlyRead, ...]:
    """Return the copies from tensors of which a notable part is never read."""
    read, effects, values = _read(kernel), effects_of(kernel), values_of(kernel)
    found = list[PartlyRead]()
    for op, around in kernel.nested:
        tensor = effects.root(op.source) if op.name in COPIES else ""
        if tensor not in kernel.parameters or not prod(part := read.get(op.operands[1], (0,))):
            continue
        held = kernel.types[op.operands[1]]
        elements = prod(held.extents or ())
        turns = [values.mean_turns(loop) or 0 for loop in around if loop.name == "for"]
        blocks = [values.number(name) or 0 for launch in around for name in launch.listed]
        unread = elements - prod(part)
        moved = unread * held.bits / 8 * prod(turns) * prod(blocks)
        if unread >= UNREAD_NOTABLE * elements:
            found.append(PartlyRead(op, tensor, op.operands[1], part, unread / elements, moved))
    return tuple(found)


def _stages(kernel: TileKernel, name: str) -> int:
    """Return how many times a pipelined loop holds a buffer that it copies to."""
    loops = (
        loop.number("num_stages") for op, around in kernel.nested for loop in around
        if op.name in COPIES and op.operands[1] == name
    )  # fmt: skip
    return max([1, *loops])


@lru_cache(maxsize=16)
def _read(kernel: TileKernel) -> Mapping[str, _Extents]:
    """Return the extents of what is read of each buffer on the chip, from its begin; one of which a
    use is not known is left out."""
    used = {
        op.result: (0,) * len(op.type.extents)
        for op in kernel.named("alloc") if op.type.extents
    }  # fmt: skip
    effects, bounds = effects_of(kernel), bounds_of(kernel)
    for op, _ in kernel.nested:
        for name in op.operands if op.name not in ("view", "reinterpret") else ():
            buffer = effects.root(name)
            if buffer not in used or _only_writes(op, name):
                continue
            place = op if op.name == "load" else effects.made[name]
            if name == buffer and op.name != "load":
                reach: _Extents | None = kernel.types[buffer].extents
            else:
                reach = _reach(place, buffer, bounds)
            if reach is None or len(reach) != len(used[buffer]):
                del used[buffer]
                continue
            used[buffer] = tuple(map(max, used[buffer], reach))
    return {name: _with_padding(kernel.types[name], read) for name, read in used.items()}


def _with_padding(held: Type, read: _Extents) -> _Extents:
    """Return what is read, with the end of its rows where that is no more than padding."""
    *rows, row = held.extents or (0,)
    if rows and (row - read[-1]) * held.bits / 8 <= UNREAD_PADDING:
        return (*read[:-1], row)
    return read


def _only_writes(op: Op, name: str) -> bool:
    writes = op.name == "fill" or (op.name in ("store", *COPIES) and op.operands[0] != name)
    return writes and name in op.operands[:2]


def _reach(place: Op, buffer: str, bounds: Mapping[str, tuple[int, int]]) -> _Extents | None:
    """Return where a load, or a view, of a buffer ends in each dimension; None if not known."""
    sizes = place.numbers("sizes") or (1,) * len(place.listed)
    known = [bounds.get(each, (-1, 0)) for each in place.listed]
    if place.name not in _PLACED or place.source != buffer or len(sizes) != len(known):
        return None
    if any(low < 0 for low, _ in known):
        return None
    return tuple(high + size for (_, high), size in zip(known, sizes))
