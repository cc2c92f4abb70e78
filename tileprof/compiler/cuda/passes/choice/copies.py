"""Instruction that copies a tile between global and shared memory, and why no faster one does.

The candidates, fastest first, with what the hardware asks of each (PTX ISA 8.0 and later,
"cp.async.bulk.tensor", "cp.async"):

    tma        innermost stride 1; other strides, the address and where a row of the tile begins
               multiples of 16 bytes (where it begins elsewhere, an H200 ends the launch with an
               illegal instruction: benchmarks/results/access-patterns.json, 2026-11-30); a box of
               at most 256 elements a dimension whose rows are a multiple of 16 bytes; one type on
               both sides; what lies outside reads as 0
    cp.async   4, 8 or 16 contiguous bytes a thread, aligned to as many; one type; 0 outside
    elementwise
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.cuda.layouts.shared import SWIZZLES
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.target import BOX_EXTENT, BOX_RANK, BOX_START, SECTOR
from tileprof.compiler.cuda.tuning import BOX_CYCLES, SECTOR_CYCLES, STORED_BOXES
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.types import Dim
from tileprof.remarks import Reason
from tileprof.remarks.common import PartOfTile, TargetHasNone
from tileprof.remarks.copies import (
    AskedReason,
    AsyncOff,
    BoxColumns,
    BoxRows,
    Converts,
    DisableTma,
    InnermostStride,
    OneRow,
    OtherShape,
    OutsideReads,
    PreferInstruction,
    RowsAcross,
    RowStride,
    RowsUnaligned,
    SmallBoxes,
    StrideAtLaunch,
    Synchronous,
    TileDimensions,
    TilePanels,
    TileRow,
    TileStart,
    TmaOff,
    TooManyDimensions,
    UnalignedAddress,
)

LARGEST_MULTIPLE = 1 << 10
"""Divisor of 0, as far as alignment is asked for."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """The global side of a copy: a parameter, the tile's extents, and what is known of it."""

    value: ir.Value
    """The parameter, or a view of it."""
    param: ir.Param
    position: int
    sizes: tuple[int, ...]
    in_bounds: bool
    type: ir.BufferType
    """Type of the parameter; of what it is seen as, where that is another shape."""

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
    """The global side, where it is a parameter, or one without gaps under another shape."""
    params = dict(zip(kernel.param_values(), range(len(kernel.params))))
    view = value.owner if isinstance(value.owner, ir.View) else None
    whole = value if view is None else view.base
    found = base(whole)
    if found not in params:
        return None
    position = params[found]
    param = kernel.params[position]
    type_ = param.type
    assert isinstance(type_, ir.BufferType)
    if whole is not found:
        if not _is_reshaped(whole) or type_.strides is not None:
            return None
        type_ = whole.buffer
    if view is not None:
        return Tensor(value, param, position, view.sizes, view.in_bounds, type_)
    if not all(isinstance(d, int) for d in value.buffer.shape):
        return None
    return Tensor(value, param, position, value.buffer.static_shape, True, type_)


def _is_reshaped(value: ir.Value) -> bool:
    """Whether a tensor is a whole parameter under another shape, with the same elements."""
    while isinstance(value.owner, ir.Reinterpret):
        if value.owner.base.dtype != value.dtype:
            return False
        value = value.owner.base
    return value.owner is None


def _common(
    tensor: Tensor | None, tile: ir.Value, lowering: Lowering, store: bool
) -> Reason | None:
    """Why no asynchronous copy is possible; None where one is."""
    if not lowering.controls.async_copy:
        return AsyncOff()
    names = {buffer_name(tile), "" if tensor is None else tensor.param.name}
    if names & set(lowering.controls.synchronous):
        return Synchronous()
    if tensor is None:
        return OtherShape()
    if isinstance(tile.owner, ir.View):
        return PartOfTile()
    if tensor.type.dtype != tile.dtype:
        return Converts(str(tensor.type.dtype), str(tile.dtype))
    if not store and not tensor.in_bounds and tensor.param.safe_value != 0:
        return OutsideReads(str(tensor.param.safe_value))
    return None


def wish_against(op: ir.Copy, instruction: str) -> AskedReason | None:
    """Why the author does not want a copy by `tma` or `cp.async`; None where nothing is said."""
    hints = dict(op.hints)
    preferred = hints.get("prefer_instruction", instruction)
    if instruction == "tma" and hints.get("disable_tma"):
        return DisableTma()
    if preferred == "sync" or (instruction == "tma" and preferred == "cp_async"):
        return PreferInstruction(str(preferred))
    return None


def kept_in_l2(op: ir.Copy | ir.AsyncCopy) -> str:
    """Return how long L2 keeps what a copy touches: `evict_first`, `evict_last`, or ''."""
    policy = str(dict(op.hints).get("eviction_policy", ""))
    return policy if policy in ("evict_first", "evict_last") else ""


def bulk_reason(
    tensor: Tensor | None,
    tile: ir.Value,
    lowering: Lowering,
    *,
    store: bool = False,
    reshaped: bool = False,
) -> Reason | None:
    """Why TMA cannot do it; None where it can.  `reshaped`: the tile is seen under another shape,
    too, and its elements lie row after row."""
    if not lowering.target.has_tma:
        return TargetHasNone(lowering.target.name)
    if not lowering.controls.tma:
        return TmaOff()
    if reason := _common(tensor, tile, lowering, store):
        return reason
    assert tensor is not None
    size = tensor.type.dtype.bytes
    if tensor.position in lowering.unaligned:
        steps = (tensor.stride(dim) for dim in range(len(tensor.sizes) - 1))
        unknown = next((step for step in steps if isinstance(step, str)), None)
        return StrideAtLaunch(unknown) if unknown else UnalignedAddress(tensor.param.name)
    if len(tensor.sizes) > BOX_RANK:
        return TooManyDimensions(len(tensor.sizes), BOX_RANK)
    if (last := tensor.stride(len(tensor.sizes) - 1)) != 1:
        return InnermostStride(str(last), "TMA")
    if (start := _offset_multiple(tensor) * size) % 16:
        return TileStart(start, 16, "TMA")
    for dim in range(len(tensor.sizes) - 1):
        stride = tensor.stride(dim)
        # A host that launches looks at strides that are known only then.
        if isinstance(stride, int) and stride * size % 16:
            return RowStride(stride * size, 16, "TMA")
    panels = lowering.controls.swizzle and not reshaped and len(tile.buffer.static_shape) > 1
    return _box_reason(tensor, tile, size, store, panels)


def box_columns(columns: int, rows: int, size: int) -> int:
    """Elements of each row in a box of a tile whose rows lie one after the other; 0 where there is
    no such box.  A single row may take several, each of which has to begin where TMA can."""
    if columns <= BOX_EXTENT:
        return columns
    widths = range(BOX_EXTENT, 0, -1) if rows == 1 else ()
    return next((w for w in widths if columns % w == 0 and w * size % BOX_START == 0), 0)


def _box_reason(
    tensor: Tensor, tile: ir.Value, size: int, store: bool, panels: bool
) -> Reason | None:
    kept = [d for d, extent in enumerate(tensor.sizes) if extent != 1]
    shape = [d for d in tile.buffer.static_shape if d != 1]
    if kept and kept[-1] != len(tensor.sizes) - 1:
        return RowsAcross()
    if len(kept) > 2 or len(tile.buffer.static_shape) > 2 or len(shape) != len(kept):
        return TileDimensions(len(kept), "TMA")
    columns = tensor.sizes[-1]
    if columns * size % 16:
        return TileRow(columns * size)
    if columns * size > SWIZZLES[0] and columns * size % SWIZZLES[-1]:
        return TilePanels(columns * size, SWIZZLES[-1])
    if store and (reason := _stored_by_threads(tensor, kept, size, panels)):
        return reason
    if len(kept) == 2 and tensor.sizes[kept[0]] > BOX_EXTENT:
        return BoxRows(tensor.sizes[kept[0]], BOX_EXTENT)
    rows = tensor.sizes[kept[0]] if len(kept) == 2 else 1
    if not panels and not box_columns(columns, rows, size):
        return BoxColumns(columns, BOX_EXTENT)
    return None


def _stored_by_threads(
    tensor: Tensor, kept: list[int], size: int, panels: bool
) -> OneRow | SmallBoxes | None:
    """Why stores of all threads are faster than boxes; None where boxes are at least as fast."""
    columns = tensor.sizes[-1]
    rows, row = (tensor.sizes[kept[0]] if len(kept) == 2 else 1), columns * size
    if rows == 1 and row > STORED_BOXES * SWIZZLES[0]:
        return OneRow(row)
    width = row
    if panels and row > SWIZZLES[0]:
        width = next((panel for panel in SWIZZLES if row % panel == 0), row)
    elif not panels:
        width = box_columns(columns, rows, size) * size or row
    boxes = row // width
    moved = rows * row / SECTOR * SECTOR_CYCLES
    if boxes <= STORED_BOXES or boxes * BOX_CYCLES <= moved:
        return None
    return SmallBoxes(boxes, rows * width)


def cp_async_width(
    tensor: Tensor | None, tile: ir.Value, lowering: Lowering
) -> tuple[int, Reason | None]:
    """Bytes that one thread copies by cp.async, or 0 and the reason why it cannot."""
    if reason := _common(tensor, tile, lowering, store=False):
        return 0, reason
    assert tensor is not None
    size = tensor.type.dtype.bytes
    rank = len(tensor.sizes)
    if tensor.stride(rank - 1) != 1:
        return 0, InnermostStride(str(tensor.stride(rank - 1)), "cp.async")
    kept = [d for d, extent in enumerate(tensor.sizes) if extent != 1]
    if kept and kept[-1] != rank - 1:
        return 0, RowsAcross()
    if len(kept) > 2:
        return 0, TileDimensions(len(kept), "cp.async")
    limit = size if tensor.position in lowering.unaligned else 16
    numbers: list[Dim] = [tensor.stride(d) for d in range(rank - 1)]
    offset = _offset_multiple(tensor)
    # A chunk lies inside or outside as a whole.
    whole = [*numbers, *([] if tensor.in_bounds else [tensor.type.shape[-1]])]
    for width in (16, 8, 4):
        fits = width <= limit or (width <= size)
        fits &= tensor.sizes[-1] * size % width == 0 and offset * size % width == 0
        # A host that launches looks at numbers that are known only then (`RowsSpec`).
        fits &= all(isinstance(n, str) or n * size % width == 0 for n in whole)
        if fits:
            return width, None
    if bad := [n for n in numbers if isinstance(n, int) and n * size % 4]:
        return 0, RowStride(bad[0] * size, 4, "cp.async")
    if limit < 4 and (unknown := [n for n in numbers if isinstance(n, str)]):
        return 0, StrideAtLaunch(unknown[0])
    return 0, RowsUnaligned()


def _offset_multiple(tensor: Tensor) -> int:
    """A number that divides the offset of the tile along its rows."""
    owner = tensor.value.owner
    if not isinstance(owner, ir.View):
        return LARGEST_MULTIPLE
    return multiple(owner.offsets[-1])


def multiple(value: ir.Value, depth: int = 8) -> int:
    """A power of two that divides an index at every point; large for 0."""
    match value.owner:
        case ir.Constant(value=number):
            held = int(number)
            return LARGEST_MULTIPLE if held == 0 else held & -held
        case ir.Binary(kind="mul", left=left, right=right) if depth:
            return min(multiple(left, depth - 1) * multiple(right, depth - 1), LARGEST_MULTIPLE)
        case ir.Binary(kind="add" | "sub" | "min" | "max" | "floormod", left=left, right=right) if (
            depth
        ):
            return min(multiple(left, depth - 1), multiple(right, depth - 1))
        case ir.Binary(kind="floordiv", left=left, right=right) if depth and (
            isinstance(right.owner, ir.Constant)
        ):
            # 64 k / 2 = 32 k; nothing is known of 2 k / 64.
            divisor, held = int(right.owner.value), multiple(left, depth - 1)
            return held // divisor if divisor > 0 and held % divisor == 0 else 1
        case ir.Cast(operand=whole, dtype=kind) if depth and (
            whole.dtype.is_integer and kind.is_integer
        ):
            # Bits that are cut off are at the other end.
            return multiple(whole, depth - 1)
        case _:
            return 1
