"""Results on their way out through shared memory, in parts.

In: a launch, and how many bytes a row of a part has.  Out: the launch in which each tile that goes
from a fragment through a buffer of its own to a tensor goes through two buffers alternately, so
that one is written while the copy engine still reads the other.

    %staged = alloc shared [128, 128]            %a, %b = alloc shared [128, 64]
    copy %C_local → %staged                      copy %C_local[:, 0:64] → %a
    copy %staged → %C[…] (tma)            ⇒      copy %a → %C[…, 0:64] (tma)
                                                 copy %C_local[:, 64:128] → %b
                                                 copy %b → %C[…, 64:128] (tma)

Tiles of one type and as many rows, stored in the same block of ops, go through the same two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_layout, parse_shared
from tileprof.compiler.cuda.tuning import STORED_CHUNKS
from tileprof.ir.instructions import Matrices, Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import with_originals

_Form = tuple[int, int, ir.DType]


@dataclass(frozen=True)
class Store:
    """A fragment on its way through shared memory, by two copies that follow each other."""

    staged: ir.Alloc
    into: ir.Copy
    out: ir.Copy
    block: int
    """Number of the block of ops of the launch that the buffer is allocated in."""

    @property
    def bytes(self) -> int:
        """Bytes of the buffer."""
        return parse_shared(self.staged.layout, self.staged.shape, self.staged.dtype).tile_bytes

    @property
    def form(self) -> _Form:
        """Return what stores have in common whose parts can go through the same buffers."""
        return self.block, self.staged.shape[0], self.staged.dtype


def stores_of(launch: ir.Launch) -> list[Store]:
    """Tiles that go from a fragment through a buffer of their own to a tensor."""
    blocks = [launch.body, *(b for o in ir.walk(launch.body) for b in o.blocks())]
    users = _users(launch)
    allocs = (
        (at, op)
        for at, block in enumerate(blocks)
        for op in block.ops
        if isinstance(op, ir.Alloc) and op.space == "shared"
    )
    return [
        Store(op, into, out, at)
        for at, op in allocs
        for into, out in _staging(op, users.get(op.result, []))
        if any(_follow(block.ops, into, out) for block in blocks)
    ]


def _users(launch: ir.Launch) -> dict[ir.Value, list[ir.OpBase]]:
    """The ops that access each buffer, in order."""
    users: dict[ir.Value, list[ir.OpBase]] = {}
    for op in ir.walk(launch.body):
        for value in dict.fromkeys(base(t.value) for t in op.accesses()):
            users.setdefault(value, []).append(op)
    return users


def _staging(staged: ir.Alloc, users: Sequence[ir.OpBase]) -> Iterator[tuple[ir.Copy, ir.Copy]]:
    """Yield the copies into and out of a buffer where nothing else uses it."""
    match users:
        case [ir.Copy() as into, ir.Copy() as out] if _is_store(staged, into, out):
            yield into, out


def _is_store(staged: ir.Alloc, into: ir.Copy, out: ir.Copy) -> bool:
    return (
        isinstance(into.lowering, Matrices)
        and isinstance(out.lowering, Tma)
        and into.target is staged.result
        and out.source is staged.result
        and isinstance(out.target.owner, ir.View)
    )


def _follow(ops: Sequence[ir.OpBase], into: ir.Copy, out: ir.Copy) -> bool:
    """Whether both stand here, and between them nothing that reads or writes memory, so that the
    fragment may be read later."""
    places = [at for at, op in enumerate(ops) if op is into or op is out]
    if len(places) < 2:
        return False
    return not any(op.SPEC.effect or op.SPEC.regions for op in ops[places[0] + 1 : places[1]])


def may_be_chunked(store: Store, chunk: int) -> bool:
    """Whether a part of the fragment of so many bytes a row is whole registers of every thread."""
    fragment = store.into.source.owner
    if not isinstance(fragment, ir.Alloc) or store.into.source is not fragment.result:
        return False
    layout = parse_layout(fragment.layout, fragment.shape)
    width = chunk // store.staged.dtype.bytes
    if store.staged.layout != f"swizzle={STORED_CHUNKS[0]}" or fragment.shape[-1] % width:
        return False
    if any(d.step[-1] * d.radix > width for d in (*layout.lanes, *layout.warps)):
        return False  # some threads hold other columns, and have nothing of a part
    outer = [d for d in layout.registers if d.step[-1] >= width]
    return layout.registers[len(layout.registers) - len(outer) :] == tuple(outer)


def bytes_in_chunks(stores: Sequence[Store], chunk: int) -> int:
    """Return the bytes of all buffers where each part has `chunk` bytes a row."""
    return sum(2 * chunk * rows for _, rows, _ in {s.form for s in stores})


def in_chunks(launch: ir.Launch, stores: Sequence[Store], chunk: int) -> ir.Launch:
    """The launch with these stores in parts of so many bytes a row."""
    allocs: dict[ir.OpBase, Store] = {s.staged: s for s in stores}
    into: dict[ir.OpBase, Store] = {s.into: s for s in stores}
    out: dict[ir.OpBase, Store] = {s.out: s for s in stores}
    sources: dict[Store, ir.Value] = {}
    pairs: dict[_Form, list[ir.Value]] = {}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if before in allocs and isinstance(op, ir.Alloc):
            form = allocs[before].form
            if form not in pairs:
                pairs[form] = [_buffer(op, chunk, builder) for _ in range(2)]
            return [op.result]  # nothing uses it any more
        if before in into and isinstance(op, ir.Copy):
            sources[into[before]] = op.source
            return []
        if before in out and isinstance(op, ir.Copy):
            store = out[before]
            _store(pairs[store.form], sources[store], op, builder)
            return []
        return None

    return with_originals(launch, rule)


def _buffer(staged: ir.Alloc, chunk: int, builder: ir.Builder) -> ir.Value:
    """Room for a part of what was to be staged as a whole."""
    shape = (staged.shape[0], chunk // staged.dtype.bytes)
    layout, name = f"swizzle={chunk}", staged.result.name
    return builder.emit(ir.Alloc("shared", shape, staged.dtype, layout, hint=name)).result


def _store(buffers: list[ir.Value], source: ir.Value, op: ir.Copy, builder: ir.Builder) -> None:
    """Parts of a fragment through two buffers alternately to the tile `op` stores to; the first is
    then the one to fill next."""
    rows, columns = source.buffer.static_shape
    width = buffers[0].buffer.static_shape[-1]
    view = op.target.owner
    assert isinstance(view, ir.View)
    for start in range(0, columns, width):
        zero, at = builder.constant(0), builder.constant(start)
        part = builder.emit(ir.View(source, [zero, at], (rows, width), in_bounds=True)).result
        buffer = buffers[0]
        buffers.reverse()
        builder.emit(ir.Copy(part, buffer, op.hints, Matrices()))
        last = builder.emit(ir.Binary("add", view.offsets[-1], at)).result
        offsets, sizes = [*view.offsets[:-1], last], (*view.sizes[:-1], width)
        target = builder.emit(ir.View(view.base, offsets, sizes, view.in_bounds)).result
        builder.emit(ir.Copy(buffer, target, op.hints, op.lowering))
