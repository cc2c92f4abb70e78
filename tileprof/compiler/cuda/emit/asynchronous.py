"""Asynchronous copies: TMA boxes, chunks of cp.async, and the waits for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tileprof import ir
from tileprof.compiler.codegen.access import element_place
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.cuda.passes.choice.copies import box_columns, kept_in_l2, multiple
from tileprof.compiler.cuda.source import RowsSpec, TensorMapSpec
from tileprof.compiler.cuda.target import BOX_START
from tileprof.compiler.cuda.tuning import FEW_CHUNKS, ORDERED_REGISTERS
from tileprof.errors import InternalError
from tileprof.ir.instructions import CpAsync, Tma
from tileprof.ir.memory import base
from tileprof.ir.types import Dim

from .access import checked
from .buffers import GlobalBuffer, SharedBuffer
from .context import Context, Tile


def emit(ctx: Context, op_: ir.OpBase) -> None:
    """A copy, the end of a group, or a wait."""
    op = cast(ir.AsyncCopy | ir.Commit | ir.Wait, op_)
    match op:
        case ir.AsyncCopy(lowering=Tma()):
            ctx.headers.add("async.cuh")
            if op.ring is None:
                _store(ctx, op)
            else:
                _load(ctx, op)
        case ir.AsyncCopy(lowering=CpAsync(bytes=width)):
            ctx.headers.add("async.cuh")
            if ctx.points is None:
                _chunks(ctx, op, width)
            else:
                _chunk(ctx, op, width)
        case ir.Commit(queue="bulk"):
            ctx.writer.line(f"if ({ctx.one_thread}) tp_bulk_commit();")
        case ir.Commit():
            ctx.headers.add("async.cuh")
            ctx.writer.line("tp_cp_async_commit();")
        case ir.Wait():
            _wait(ctx, op)


def _wait(ctx: Context, op: ir.Wait) -> None:
    line = ctx.writer.line
    match op.queue:
        case "wgmma":
            if op.after is not None:
                sums = ctx.fragment(op.after)
                if sums.layout.registers_per_thread <= ORDERED_REGISTERS:
                    line(f"tp_wgmma_after({sums.array});")
            if op.behind and op.after is None:
                line(f"tp_wgmma_wait_behind<{op.pending}>(tp_warp >> 2);")
            else:
                line(f"tp_wgmma_wait<{op.pending}>();")
            for value in op.held:
                line(f"tp_wgmma_hold({ctx.fragment(value).array});")
        case "cp.async":
            line(f"tp_cp_async_wait<{op.pending}>();")
        case "bulk":
            read = "_read" if op.read else ""
            line(f"if ({ctx.one_thread}) tp_bulk_wait{read}<{op.pending}>();")


# -- TMA


def _tensor_map(
    ctx: Context, buffer: GlobalBuffer, box: tuple[int, ...], shared: SharedBuffer, dealt: int
) -> str:
    """The name of the tensor map of a box; of half a tile whose rows, along dimension `dealt`, are
    dealt, where that is not negative."""
    if buffer.param < 0:
        raise InternalError(f"{buffer.name} has no tensor map")
    dims, strides = buffer.dims, tuple(buffer.step(dim) for dim in range(len(buffer.dims)))
    if dealt >= 0:
        # Rows are counted by four, and two of each four are in a half.
        rows, step = dims[dealt], strides[dealt]
        assert isinstance(rows, int)
        fours = (4, *step) if isinstance(step, tuple) else (4, step)
        dims = (*dims[:dealt], rows // 4, 4, *dims[dealt + 1 :])
        strides = (*strides[:dealt], fours, *strides[dealt:])
        box = (*box[:dealt], box[dealt] // 4, 2, *box[dealt + 1 :])
    spec = TensorMapSpec(buffer.param, buffer.dtype, dims, strides, box, shared.layout.swizzle)
    if spec not in ctx.maps:
        ctx.maps.append(spec)
    return f"map{ctx.maps.index(spec)}"


def _boxes(
    ctx: Context, op: ir.AsyncCopy, tensor: ir.Value, shared_value: ir.Value
) -> tuple[str, list[tuple[str, str]]]:
    """The map, and for each box its address in shared memory and its coordinates, the innermost
    first.  A swizzled row wider than a panel takes a box for each panel."""
    tile, shared = ctx.tile(tensor), ctx.tile(shared_value)
    buffer, held = tile.buffer, shared.buffer
    if not isinstance(buffer, GlobalBuffer) or not isinstance(held, SharedBuffer):
        raise InternalError(f"{op!r} is no copy between global and shared memory")
    sizes = tuple(int(s) for s in tile.sizes)
    columns, layout = sizes[-1], held.layout
    if layout.swizzle:
        width, apart = min(layout.panel, columns), layout.panel_bytes
    else:
        width = box_columns(columns, math.prod(sizes[:-1]), held.dtype.bytes)
        apart = width * held.dtype.bytes
    if not width or (layout.pad and math.prod(sizes[:-1]) > 1):
        raise InternalError(f"no box of TMA has rows like those of {held.name} ({layout})")
    dealt = -1
    if isinstance(op.lowering, Tma) and op.lowering.dealt:
        dealt = next(d for d, size in enumerate(sizes) if size != 1)
    name = _tensor_map(ctx, buffer, (*sizes[:-1], width), held, dealt)
    start = held.row_offset(shared.offsets)
    _check_place(op, shared_value, held, apart if columns > width else 0)
    boxes = []
    for number in range(columns // width):
        corner: list[Extent] = [*tile.offsets[:-1], plus(tile.offsets[-1], number * width)]
        halves = [(0, corner)]
        if dealt >= 0:
            fours = _quotient(corner[dealt], 4)
            bytes_ = sizes[dealt] // 2 * layout.swizzle
            parts = [[*corner[:dealt], fours, row, *corner[dealt + 1 :]] for row in (0, 2)]
            halves = [(0, parts[0]), (bytes_, parts[1])]
        for within, each in halves:
            at = plus(start, number * apart + within)
            address = held.pointer if at == 0 else f"{held.pointer} + {at}"
            boxes.append((address, ", ".join(_int(c) for c in reversed(each))))
    return name, boxes


def _check_place(op: ir.AsyncCopy, tile: ir.Value, held: SharedBuffer, apart: int) -> None:
    """InternalError where nothing says that each box, so many bytes apart, begins at a multiple of
    `BOX_START`: elsewhere it would end the launch."""
    alloc, view = base(tile).owner, tile.owner
    if not isinstance(alloc, ir.Alloc):
        raise InternalError(f"{op!r} has no tile in shared memory")
    offsets = view.offsets if isinstance(view, ir.View) else []
    known = [0 if ir.constant_of(each) == 0 else multiple(each) for each in offsets]
    begin = held.layout.begins_at(known) if known else held.layout.alignment
    begin = math.gcd(begin, apart)
    if begin % BOX_START or alloc.offset % BOX_START:
        raise InternalError(f"{op!r}: a box begins at a multiple of {begin} bytes of {held.name}")


def _quotient(value: Extent, by: int) -> Extent:
    """Divide a multiple of a number by it."""
    return value // by if isinstance(value, int) else f"{paren(value)} / {by}"


def _int(value: Extent) -> str:
    return str(value) if isinstance(value, int) else f"(int){paren(value)}"


def _load(ctx: Context, op: ir.AsyncCopy) -> None:
    """The producer's thread starts the boxes of a tile."""
    assert op.ring is not None
    ring = ctx.rings[op.ring]
    name, boxes = _boxes(ctx, op, op.source, op.target)
    call, more = "tp_tma_load", ""
    if op.multicast > 1:
        call, more = "tp_tma_load_multicast", f", {(1 << op.multicast) - 1}"
    if policy := kept_in_l2(op):
        call, more = f"{call}_hint", f"{more}, tp_{policy}()"
    for address, coordinates in boxes:
        ctx.writer.line(
            f"{call}({address}, &{name}, {ring.full} + {ring.slot}{more}, {coordinates});"
        )


def _store(ctx: Context, op: ir.AsyncCopy) -> None:
    """One thread of the role stores the boxes of a tile, or joins them with what is there."""
    name, boxes = _boxes(ctx, op, op.target, op.source)
    kind = op.lowering.reduce if isinstance(op.lowering, Tma) else ""
    call, more = f"tp_tma_reduce_{kind}" if kind else "tp_tma_store", ""
    if policy := "" if kind else kept_in_l2(op):
        call, more = f"{call}_hint", f", tp_{policy}()"
    with ctx.writer.braces(f"if ({ctx.one_thread})"):
        for address, coordinates in boxes:
            ctx.writer.line(f"{call}(&{name}, {address}{more}, {coordinates});")


# -- cp.async


def _chunks(ctx: Context, op: ir.AsyncCopy, width: int) -> None:
    """Each thread copies chunks of `width` bytes; one that lies outside is filled with zeros.

    Where the whole tile is inside, which one branch of all threads asks, no chunk is asked: their
    addresses then differ by numbers.  Of a few chunks each is asked: the assembler moves no other
    work between copies on both ways of a branch.
    """
    source, target = ctx.tile(op.source), ctx.tile(op.target)
    buffer, held = source.buffer, target.buffer
    if not isinstance(buffer, GlobalBuffer) or not isinstance(held, SharedBuffer):
        raise InternalError(f"{op!r} does not go from global to shared memory")
    _note_rows(ctx, source, buffer, width // buffer.dtype.bytes)
    begins = list[str]()
    if negative := _may_be_negative(ctx, op):
        # The launch fails, whatever is copied then; the first element is outside where any is.
        name = ctx.names.fresh("begins")
        begins.append(name)
        inside = " && ".join(f"{paren(source.offsets[dim])} >= 0" for dim in negative)
        ctx.writer.line(f"const bool {name} = {inside};")
        ctx.note_unless(name, element_place(op, buffer.name, buffer.dims), source.offsets)
    ends = [
        f"{paren(plus(offset, int(size) - 1))} < {paren(extent)}"
        for offset, size, extent, inside in zip(
            source.offsets, source.sizes, buffer.shape, source.inside, strict=True
        )
        if not inside
    ]
    if not ends and not begins:
        _rounds(ctx, source, target, width)
        return
    chunks = math.prod(int(size) for size in source.sizes) * buffer.dtype.bytes // width
    if chunks <= FEW_CHUNKS * ctx.threads:
        _rounds(ctx, source, target, width, begins)
        return
    ctx.writer.line(f"if ({' && '.join([*begins, *ends])}) {{")
    with ctx.writer.deeper():
        _rounds(ctx, source, target, width)
    ctx.writer.close("} else {")
    with ctx.writer.deeper():
        _rounds(ctx, source, target, width, begins)
    ctx.writer.close("}")


def _rounds(
    ctx: Context, source: Tile, target: Tile, width: int, begins: Sequence[str] | None = None
) -> None:
    """Copy the chunks of a tile, as many at a time as there are threads.

    Each chunk is asked whether it is inside, after the conditions `begins`, which say that the tile
    begins there; with None no chunk is asked.
    """
    buffer, held, line = source.buffer, target.buffer, ctx.writer.line
    assert isinstance(buffer, GlobalBuffer)
    assert isinstance(held, SharedBuffer)
    step = width // buffer.dtype.bytes
    columns = int(source.sizes[-1]) // step
    rows = math.prod(int(size) for size in source.sizes[:-1])
    total = rows * columns
    rounds = -(-total // ctx.threads)
    line("#pragma unroll")
    head = f"for (int tp_round = 0; tp_round < {rounds}; ++tp_round)"
    with ctx.writer.braces(head), ctx.scope():
        chunk, apart = ctx.names.fresh("chunk"), ctx.threads % columns == 0
        # Without a sign, a division by a power of 2 is one shift.
        if total % ctx.threads or not apart:
            line(f"const unsigned {chunk} = tp_round * {ctx.threads} + tp_thread;")
        if total % ctx.threads:
            line(f"if ({chunk} < {total})")
        with ctx.writer.braces(""):
            row, column = f"(int)({chunk} / {columns})", f"(int)({chunk} % {columns})"
            if apart:
                # The same, but the compiler sees how far rounds are apart.
                each = ctx.threads // columns
                row = f"((int)((unsigned)tp_thread / {columns}) + tp_round * {each})"
                column = f"(int)((unsigned)tp_thread % {columns})"
            inner = _spread(row, [int(s) for s in source.sizes[:-1]])
            local = [*inner, times(column, step)]
            at = [plus(o, i) for o, i in zip(source.offsets, local, strict=True)]
            into = _target_indices(target, source, local)
            address = f"&{buffer.element(at)}"
            place = f"{held.pointer} + {held.byte_offset(into)}"
            if begins is None:
                line(f"tp_cp_async<{width}>({place}, {address});")
                return
            valid = [
                *begins,
                *(
                    f"{paren(a)} < {paren(e)}"
                    for a, e, inside in zip(at, buffer.shape, source.inside, strict=True)
                    if not inside
                ),
            ]
            line(f"const bool tp_there = {' && '.join(valid)};")
            # An address outside is not read, but has to be one.
            safe = f"tp_there ? {address} : {buffer.pointer}"
            line(f"tp_cp_async<{width}>({place}, {safe}, tp_there);")


def _may_be_negative(ctx: Context, op: ir.AsyncCopy) -> list[int]:
    """The dimensions in which nothing says that a tile begins inside of its tensor."""
    view = op.source.owner
    if not isinstance(view, ir.View) or view.in_bounds:
        return []
    lows = [ctx.interval(offset)[0] for offset in view.offsets]
    return [dim for dim, low in enumerate(lows) if low is None or low < 0]


def _chunk(ctx: Context, op: ir.AsyncCopy, width: int) -> None:
    """The chunk of one point of a parallel loop; one that lies outside is filled with zeros."""
    view, held = op.source.owner, ctx.tile(op.target)
    if not isinstance(view, ir.View) or not isinstance(held.buffer, SharedBuffer):
        raise InternalError(f"{op!r} does not go from global to shared memory")
    buffer = ctx.buffer(view.base)
    at, guard = checked(ctx, op, buffer, view.offsets, view.in_bounds)
    if not isinstance(buffer, GlobalBuffer):
        raise InternalError(f"{op!r} does not come from global memory")
    address, there = f"&{buffer.element(at)}", ""
    if guard:
        name = ctx.names.fresh("there")
        ctx.writer.line(f"const bool {name} = {guard};")
        # An address outside is not read, but has to be one.
        address, there = f"{name} ? {address} : {buffer.pointer}", f", {name}"
    row = ctx.names.fresh("row")
    ctx.writer.line(f"const {buffer.type} *const {row} = {address};")
    assert ctx.points is not None
    when = f"if ({ctx.points.leader}) " if ctx.points.leader else ""
    *lead, column = held.offsets
    for chunk in op.chunks:
        place = f"{held.buffer.pointer} + {held.buffer.byte_offset([*lead, plus(column, chunk)])}"
        source = plus(row, chunk)
        ctx.writer.line(f"{when}tp_cp_async<{width}>({place}, {source}{there});")


def _note_rows(ctx: Context, source: Tile, buffer: GlobalBuffer, chunk: int) -> None:
    """Note which extents, of those known at launch only, have to be multiples of a chunk."""
    last = len(buffer.dims) - 1
    counts: list[Dim | tuple[Dim, ...]] = [buffer.step(dim) for dim in range(last)]
    if not source.inside[last]:
        counts.append(buffer.dims[last])
    open_ = tuple(dict.fromkeys(n for n in counts if not isinstance(n, int)))
    if chunk > 1 and open_:
        spec = RowsSpec(buffer.param, chunk, open_)
        if spec not in ctx.rows:
            ctx.rows.append(spec)


def _spread(row: str, sizes: list[int]) -> list[Extent]:
    """A row number as indices of the dimensions before the last; all but one have extent 1."""
    return [row if size != 1 else 0 for size in sizes]


def _target_indices(target: Tile, source: Tile, local: list[Extent]) -> list[Extent]:
    """Indices of the shared tile for those of the global one: extents of 1 are skipped."""
    moving = iter(i for i, size in zip(local, source.sizes, strict=True) if size != 1)
    found: list[Extent] = []
    for offset, size in zip(target.offsets, target.sizes, strict=True):
        found.append(offset if size == 1 else plus(offset, next(moving)))
    return found
