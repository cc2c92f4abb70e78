"""Which instruction copies a tile between global and shared memory, and why no faster one does.

The candidates, fastest first, with what the hardware asks of each (PTX ISA 8.0 and later,
"cp.async.bulk.tensor", "cp.async"):

    tma        innermost stride 1; other strides and the address multiples of 16 bytes; a box of at
               most 256 elements a dimension whose rows are a multiple of 16 bytes; one type on both
               sides; what lies outside reads as 0
    cp.async   4, 8 or 16 contiguous bytes a thread, aligned to as many; one type; 0 outside
    elementwise
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.types import Dim

__all__ = ["ASKED", "Tensor", "bulk_reason", "cp_async_width", "kept_in_l2", "tensor_of"]
__all__ += ["wish_against"]

MAX_BOX = 256
ASKED = "as asked"
MAX_RANK = 5


@dataclass(frozen=True, slots=True)
class Tensor:
    """The global side of a copy: a parameter, the tile's extents, and what is known of it."""

    value: ir.Value
    """The parameter, or a view of it."""
    param: ir.Param
    position: int
    sizes: tuple[int, ...]
    in_bounds: bool

    @property
    def type(self) -> ir.BufferType:
        """Of the parameter."""
        assert isinstance(self.param.type, ir.BufferType)
        return self.param.type

    def stride(self, dim: int) -> int | str:
        """Elements between neighbours of a dimension: a number, or what makes it none."""
        if self.type.strides is not None:
            return self.type.strides[dim]
        total = 1
        for extent in self.type.shape[dim + 1 :]:
            if isinstance(extent, str):
                return extent
            total *= extent
        return total


def tensor_of(value: ir.Value, kernel: ir.Kernel) -> Tensor | None:
    """The global side, where it is a parameter under its own shape."""
    found = base(value)
    params = dict(zip(kernel.param_values(), range(len(kernel.params))))
    if found not in params:
        return None
    position = params[found]
    owner = value.owner
    if isinstance(owner, ir.View):
        if owner.base is not found:
            return None
        return Tensor(value, kernel.params[position], position, owner.sizes, owner.in_bounds)
    if value is not found:
        return None
    shape = value.buffer.shape
    if not all(isinstance(d, int) for d in shape):
        return None
    sizes = value.buffer.static_shape
    return Tensor(value, kernel.params[position], position, sizes, True)


def _common(tensor: Tensor | None, tile: ir.Value, lowering: Lowering, store: bool) -> str:
    """Why no asynchronous copy is possible; '' where one is."""
    if not lowering.controls.async_copy:
        return f"asynchronous copies are turned off, {ASKED}"
    names = {buffer_name(tile), "" if tensor is None else tensor.param.name}
    if names & set(lowering.controls.synchronous):
        return f"it is synchronous, {ASKED}"
    if tensor is None:
        return "the tensor is seen under another shape than its own"
    if isinstance(tile.owner, ir.View):
        return "it fills a part of the shared tile"
    if tensor.type.dtype != tile.dtype:
        return f"it converts {tensor.type.dtype} and {tile.dtype}"
    if not store and not tensor.in_bounds and tensor.param.safe_value != 0:
        return f"elements outside read as {tensor.param.safe_value}, the hardware gives 0"
    return ""


def wish_against(op: ir.Copy, instruction: str) -> str:
    """Why the author does not want a copy by `tma` or `cp.async`; '' where nothing is said."""
    hints = dict(op.hints)
    preferred = hints.get("prefer_instruction", instruction)
    if instruction == "tma" and hints.get("disable_tma"):
        return f"`disable_tma`, {ASKED}"
    if preferred == "sync" or (instruction == "tma" and preferred == "cp_async"):
        return f'`prefer_instruction="{preferred}"`, {ASKED}'
    return ""


def kept_in_l2(op: ir.Copy | ir.AsyncCopy) -> str:
    """How long L2 is asked to keep what a copy touches: `evict_first`, `evict_last`, or ''."""
    policy = str(dict(op.hints).get("eviction_policy", ""))
    return policy if policy in ("evict_first", "evict_last") else ""


def bulk_reason(
    tensor: Tensor | None, tile: ir.Value, lowering: Lowering, *, store: bool = False
) -> str:
    """Why TMA cannot do it; '' where it can."""
    if not lowering.target.has_tma:
        return f"{lowering.target.name} has none"
    if not lowering.controls.tma:
        return f"it is turned off, {ASKED}"
    if reason := _common(tensor, tile, lowering, store):
        return reason
    assert tensor is not None
    size = tensor.type.dtype.bytes
    if tensor.position in lowering.unaligned:
        return f"the address of `{tensor.param.name}` is no multiple of 16 bytes"
    if len(tensor.sizes) > MAX_RANK:
        return f"the tensor has {len(tensor.sizes)} dimensions, TMA has up to {MAX_RANK}"
    if (last := tensor.stride(len(tensor.sizes) - 1)) != 1:
        return f"the innermost stride is {last}, TMA needs 1"
    for dim in range(len(tensor.sizes) - 1):
        stride = tensor.stride(dim)
        if isinstance(stride, str):
            return f"a stride follows from `{stride}`, which is known at launch only"
        if stride * size % 16:
            return f"row stride {stride * size} B is not a multiple of 16 B, TMA needs it"
    return _box_reason(tensor, tile, size)


def _box_reason(tensor: Tensor, tile: ir.Value, size: int) -> str:
    kept = [d for d, extent in enumerate(tensor.sizes) if extent != 1]
    shape = [d for d in tile.buffer.static_shape if d != 1]
    if kept and kept[-1] != len(tensor.sizes) - 1:
        return "the rows of the tile do not run along the innermost dimension"
    if len(kept) > 2 or len(tile.buffer.static_shape) > 2 or len(shape) != len(kept):
        return f"the tile has {len(kept)} dimensions; boxes of two are supported"
    columns = tensor.sizes[-1]
    if columns * size % 16:
        return f"a row of the tile has {columns * size} B, TMA needs a multiple of 16"
    if columns * size > 128 and columns * size % 128:
        return f"a row of the tile has {columns * size} B, and panels have 128"
    if len(kept) == 2 and tensor.sizes[kept[0]] > MAX_BOX:
        return f"the tile has {tensor.sizes[kept[0]]} rows, a box has up to {MAX_BOX}"
    return ""


def cp_async_width(tensor: Tensor | None, tile: ir.Value, lowering: Lowering) -> tuple[int, str]:
    """Bytes that one thread copies by cp.async, or 0 and the reason why it cannot."""
    if reason := _common(tensor, tile, lowering, store=False):
        return 0, reason
    assert tensor is not None
    size = tensor.type.dtype.bytes
    rank = len(tensor.sizes)
    if tensor.stride(rank - 1) != 1:
        return 0, f"the innermost stride is {tensor.stride(rank - 1)}, cp.async needs 1"
    kept = [d for d, extent in enumerate(tensor.sizes) if extent != 1]
    if kept and kept[-1] != rank - 1:
        return 0, "the rows of the tile do not run along the innermost dimension"
    if len(kept) > 2:
        return 0, f"the tile has {len(kept)} dimensions; cp.async is used for up to two"
    limit = size if tensor.position in lowering.unaligned else 16
    numbers: list[Dim] = [tensor.stride(d) for d in range(rank - 1)]
    offset = _offset_multiple(tensor)
    for width in (16, 8, 4):
        fits = width <= limit or (width <= size)
        fits &= tensor.sizes[-1] * size % width == 0 and offset * size % width == 0
        fits &= all(isinstance(n, int) and n * size % width == 0 for n in numbers)
        # A chunk lies inside or outside as a whole.
        last = tensor.type.shape[-1]
        fits &= tensor.in_bounds or (isinstance(last, int) and last * size % width == 0)
        if fits:
            return width, ""
    shown = [n for n in numbers if not isinstance(n, int) or n * size % 4]
    if shown and isinstance(shown[0], int):
        return 0, f"row stride {shown[0] * size} B is not a multiple of 4 B, cp.async needs it"
    if shown:
        return 0, f"a stride follows from `{shown[0]}`, which is known at launch only"
    return 0, "rows or offsets are not multiples of 4 B, cp.async needs it"


def _offset_multiple(tensor: Tensor) -> int:
    """A number that divides the offset of the tile along its rows."""
    owner = tensor.value.owner
    if not isinstance(owner, ir.View):
        return 1 << 10
    return multiple(owner.offsets[-1])


def multiple(value: ir.Value, depth: int = 8) -> int:
    """A power of two that divides an index at every point; large for 0."""
    match value.owner:
        case ir.Constant(value=number):
            held = int(number)
            return 1 << 10 if held == 0 else held & -held
        case ir.Binary(kind="mul", left=left, right=right) if depth:
            return min(multiple(left, depth - 1) * multiple(right, depth - 1), 1 << 10)
        case ir.Binary(kind="add" | "sub" | "min" | "max", left=left, right=right) if depth:
            return min(multiple(left, depth - 1), multiple(right, depth - 1))
        case _:
            return 1
