"""The order in which blocks walk the grid, and blocks that stay for many tiles.

Products of matrices walk groups of rows, so that the blocks that run together share operands in L2.
Where warp roles load ahead and the grid has more tiles than the GPU has multiprocessors, one block
stays on each and loops over tiles: the producer loads the next tile while the consumers still store
this one, and barriers and tensor maps are set up once.

    launch [N/256, M/128] (bx, by)        launch … {persistent = 1}
      C_local = …                  ⇒        for persistent tile = block, block + blocks, …
      copy C_local → C                        bx, by = …
                                              C_local = …
                                              copy C_local → C, 64 columns at a time

Where a loop's turns depend on the tile, a block that has loaded its tile takes the next one that no
other has taken (the hint `order` of the loop): tiles then start in the order of the grid, and all
blocks end at about the same time.

The tile that is stored waits in shared memory beside the rings, so it goes through two buffers of
128 bytes a row in turn where the whole does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_layout, parse_shared
from tileprof.compiler.cuda.lowering import Lowering

from .choose import ROLES
from .expand import MATRIX
from .multicast import cluster_of
from .roles import is_ring_load
from .tile_order import DYNAMIC, indices_of
from .tile_work import uneven_work
from .walking import REPORTS, base, per_launch, reports, touches, with_originals

__all__ = ["persist"]

RASTER = 8
"""Rows of blocks that run together by default."""
RESERVE = 1024
"""Bytes for the barriers of rings."""
CHUNK = 128
"""Bytes of a row of a staged chunk: one panel of the widest swizzle."""


def persist(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The hint `raster` on launches that want it; persistent loops where they pay."""

    def change(launch: ir.Launch) -> ir.Launch:
        launch = _ordered(launch, lowering)
        return _Persistent(launch, lowering).done()

    return per_launch(kernel, change)


def _ordered(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """With the hint `raster`: the author's wish, or groups of rows for products of matrices, whose
    operands are shared by the blocks of a row and of a column."""
    asked = int(dict(launch.hints).get("swizzle", 0)) or None
    products = any(isinstance(o, ir.Gemm) for o in ir.walk(launch.body))
    if not lowering.controls.rasterize or len(launch.grid) < 2 or (asked is None and not products):
        return launch
    if reports(launch):
        lowering.remarks.add(
            "launch", launch.span, "blocks in the order of the grid", ("groups of rows", REPORTS)
        )
        return launch
    group = asked or RASTER
    why = "as asked" if asked else "operands are shared in L2"
    lowering.remarks.add("launch", launch.span, f"blocks in groups of {group} rows: {why}")
    hints = (*launch.hints, ("raster", group))
    return ir.Launch(launch.grid, launch.threads, launch.body, hints, span=launch.span)


@dataclass(frozen=True)
class _Store:
    """A fragment on its way through shared memory, by two copies that follow each other."""

    staged: ir.Alloc
    into: ir.Copy
    out: ir.Copy


class _Persistent:
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        self.launch = launch
        self.lowering = lowering
        self.hints = dict(launch.hints)
        self.stores = _stores(launch)
        self.chunked = False

    def done(self) -> ir.Launch:
        """The launch, persistent where that pays."""
        reason = self._reason()
        if reason:
            if self.hints.get(ROLES):
                self.lowering.remarks.add(
                    "launch", self.launch.span, "a block for each tile", ("persistent", reason)
                )
            return self.launch
        self.lowering.remarks.add(
            "launch",
            self.launch.span,
            "persistent: loads of the next tile overlap the end of this one",
        )
        return self._looped(dynamic=self._is_dynamic())

    # -- does it pay, does it fit

    def _reason(self) -> str:
        asked = self.lowering.controls.persistent
        if asked is False:
            return "it is turned off"
        if reports(self.launch):
            return REPORTS
        if not self.hints.get(ROLES):
            return "no producer warp group could load ahead"
        total = 1
        for value in self.launch.grid:
            if not isinstance(value.owner, ir.Constant):
                break
            total *= int(value.owner.value)
        else:
            if total <= self.lowering.target.sms and not asked:
                return f"{total} tiles are not more than {self.lowering.target.sms} processors"
        if any(isinstance(o, ir.For) and o.kind == "persistent" for o in self.launch.body.ops):
            return "the author loops over tiles"
        return self._memory_reason()

    def _memory_reason(self) -> str:
        limit = self.lowering.target.shared_per_block - RESERVE
        held = self._held()
        staged = sum(_bytes(s.staged) for s in self.stores)
        if held + staged <= limit:
            return ""
        self.chunked = bool(self.stores) and all(self._can_chunk(s) for s in self.stores)
        if not self.chunked:
            return f"rings and stored tile need {held + staged:,} bytes, {limit:,} are there"
        chunks = sum(2 * CHUNK * s.staged.shape[0] for s in self.stores)
        if held + chunks > limit:
            return f"rings and stored chunks need {held + chunks:,} bytes, {limit:,} are there"
        return ""

    def _held(self) -> int:
        """Bytes of all other shared buffers, rings with all their slots."""
        staged = {s.staged for s in self.stores}
        stages: dict[ir.Value, int] = {}
        for op in ir.walk(self.launch.body):
            if isinstance(op, ir.For) and op.kind == "pipelined":
                asked = self.lowering.controls.stages
                count = op.num_stages if asked is None else asked
                for inner in op.body.ops:
                    if is_ring_load(inner) and isinstance(inner, ir.Copy):
                        stages[base(inner.target)] = max(count, 1)
        return sum(
            _bytes(o) * stages.get(o.result, 1)
            for o in ir.walk(self.launch.body)
            if isinstance(o, ir.Alloc) and o.space == "shared" and o not in staged
        )

    def _can_chunk(self, store: _Store) -> bool:
        fragment = store.into.source.owner
        if not isinstance(fragment, ir.Alloc) or store.into.source is not fragment.result:
            return False
        layout = parse_layout(fragment.layout, fragment.shape)
        width = CHUNK // store.staged.dtype.bytes
        if store.staged.layout != f"swizzle={CHUNK}" or fragment.shape[-1] % width:
            return False
        outer = [d for d in layout.registers if d.step[-1] >= width]
        return layout.registers[len(layout.registers) - len(outer) :] == tuple(outer)

    # -- the order

    def _is_dynamic(self) -> bool:
        """Whether blocks take the next tile when they are free; a remark says why."""
        asked, uneven = self.lowering.controls.tile_order, uneven_work(self.launch)
        reason = ""
        if asked == "static":
            reason = "it is turned off"
        elif cluster_of(self.launch).size > 1:
            reason = "the blocks of a cluster take their tiles together"
        elif not asked and not uneven:
            reason = "all tiles run the same"
        if not reason:
            chosen = f"tiles in turn, to the block that is free: {uneven or 'as asked'}"
            self.lowering.remarks.add("launch", self.launch.span, chosen)
        elif asked or uneven:
            self.lowering.remarks.add(
                "launch", self.launch.span, "tiles dealt to blocks in advance", ("dynamic", reason)
            )
        return not reason

    # -- the loop

    def _looped(self, *, dynamic: bool) -> ir.Launch:
        launch = self._in_chunks() if self.chunked else self.launch
        args = [ir.Value(a.type, a.name) for a in launch.body.args]
        body = ir.Block(args)
        builder = ir.Builder(body, launch.span)
        block = builder.emit(ir.GridPosition("block")).result
        blocks = builder.emit(ir.GridPosition("blocks")).result
        rank = builder.emit(ir.GridPosition("rank")).result if cluster_of(launch).size > 1 else None
        total = launch.grid[0]
        for extent in launch.grid[1:]:
            total = builder.emit(ir.Binary("mul", total, extent)).result
        tile = ir.Value(ir.index, "tile")
        inner = ir.Block([tile])
        with builder.inside(inner):
            indices = indices_of(self.launch, tile, rank, builder)
            mapping = dict(zip(launch.body.args, indices))
            inner.ops += ir.clone_block(ir.Block([], list(launch.body.ops)), mapping).ops
        order = (DYNAMIC,) if dynamic else ()
        builder.emit(
            ir.For("persistent", block, total, blocks, inner, hints=order, span=launch.span)
        )
        hints = tuple((k, v) for k, v in self.hints.items() if k != "raster")
        return ir.Launch(
            launch.grid, launch.threads, body, (*hints, ("persistent", 1)), span=launch.span
        )

    # -- stores in chunks

    def _in_chunks(self) -> ir.Launch:
        """The launch with every staged store in parts of a panel's width."""
        allocs = {s.staged: s for s in self.stores}
        into = {s.into: s for s in self.stores}
        out = {s.out: s for s in self.stores}
        sources: dict[ir.Alloc, ir.Value] = {}

        def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
            if before in allocs:
                return [op.result]  # nothing uses it any more
            if before in into and isinstance(op, ir.Copy):
                sources[into[before].staged] = op.source
                return []
            if before in out and isinstance(op, ir.Copy):
                staged = out[before].staged
                _store_chunks(staged, sources[staged], op, builder)
                return []
            return None

        return with_originals(self.launch, rule)


def _store_chunks(staged: ir.Alloc, source: ir.Value, op: ir.Copy, builder: ir.Builder) -> None:
    """Parts of a fragment through two buffers in turn to the tile `op` stores to."""
    rows, columns = staged.shape
    width = CHUNK // staged.dtype.bytes
    layout, name = f"swizzle={CHUNK}", staged.result.name
    buffers = [
        builder.emit(ir.Alloc("shared", (rows, width), staged.dtype, layout, hint=name)).result
        for _ in range(2)
    ]
    view = op.target.owner
    assert isinstance(view, ir.View)
    for number, start in enumerate(range(0, columns, width)):
        zero, at = builder.constant(0), builder.constant(start)
        part = builder.emit(ir.View(source, [zero, at], (rows, width), in_bounds=True)).result
        buffer = buffers[number % 2]
        builder.emit(ir.Copy(part, buffer, op.hints, MATRIX))
        last = builder.emit(ir.Binary("add", view.offsets[-1], at)).result
        offsets, sizes = [*view.offsets[:-1], last], (*view.sizes[:-1], width)
        target = builder.emit(ir.View(view.base, offsets, sizes, view.in_bounds)).result
        builder.emit(ir.Copy(buffer, target, op.hints, "tma"))


def _bytes(alloc: ir.Alloc) -> int:
    return parse_shared(alloc.layout, alloc.shape, alloc.dtype).tile_bytes


def _stores(launch: ir.Launch) -> list[_Store]:
    """Tiles that go from a fragment through a buffer of their own to a tensor."""
    found = []
    for op in ir.walk(launch.body):
        if not isinstance(op, ir.Alloc) or op.space != "shared":
            continue
        users = [
            o for o in ir.walk(launch.body) if any(base(t.value) is op.result for t in touches(o))
        ]
        if len(users) != 2:
            continue
        into, out = users
        if (
            isinstance(into, ir.Copy)
            and isinstance(out, ir.Copy)
            and (into.lowering, out.lowering) == (MATRIX, "tma")
            and into.target is op.result
            and out.source is op.result
            and isinstance(out.target.owner, ir.View)
        ):
            found.append(_Store(op, into, out))
    return found
