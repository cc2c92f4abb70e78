"""A `parallel` followed by a copy of what it wrote to the caller's memory: one loop instead of two.

    parallel … { t[i, j] = x }            if (the tile is inside) for … y[o + i, j] = x;
    copy t, y[o:o + 8, 0:64]         →    else { for … t[i, j] = x; tp_copy(…); }

The wait for lines of `y` then overlaps with the work of the loop.  It is done where the loop stores
to `t` exactly once a point, at the point itself, and reads `t` nowhere else and the caller's memory
not at all (which may be that of `y`).  `t` is still written where something may read it later.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprof import ir
from tileprof.ir.memory import base

from .buffers import Tile, paren, plus
from .context import Context
from .expressions import is_pure


@dataclass(frozen=True, slots=True)
class Mirror:
    """A store of a loop that also goes, or only goes, to another place."""

    store: ir.Store
    copy: ir.Copy
    between: tuple[ir.OpBase, ...]
    """Pure ops and marks that stand between the loop and the copy."""
    keep: bool
    """Whether the loop's own buffer is read later."""

    def conditions(self, ctx: Context, target: Tile) -> list[str]:
        """Return what must hold so that every element of the copy's target is there."""
        needed = []
        view = self.copy.target.owner
        assert isinstance(view, ir.View)
        for dim, size in enumerate(target.size):
            low = ctx.interval(view.offsets[dim])[0]
            if low is None or low < 0:
                needed.append(f"{target.offset[dim]} >= 0")
            if not target.fits[dim]:
                end = plus(target.offset[dim], size)
                needed.append(f"{end} <= {paren(target.buffer.shape[dim])}")
        return needed

    def element(self, ctx: Context, target: Tile) -> str:
        """The element of the copy's target for the point at hand."""
        shape = self.store.buffer.buffer.shape
        point = [ctx.index(v) for v, s in zip(self.store.indices, shape, strict=True) if s != 1]
        inner = list(target.offset)
        for dim, at in zip(target.dims, point, strict=True):
            inner[dim] = plus(target.offset[dim], at)
        return target.buffer.element(inner)


def find_mirror(ctx: Context, ops: list[ir.OpBase], at: int, *, outermost: bool) -> Mirror | None:
    """The copy that the `parallel` at position `at` can do on the way; `outermost`: the ops run
    once for each block of the grid."""
    loop = ops[at]
    copy_at = at + 1
    while copy_at < len(ops) and _is_quiet(ops[copy_at]):
        copy_at += 1
    copy = ops[copy_at] if copy_at < len(ops) else None
    if not isinstance(loop, ir.Parallel) or not isinstance(copy, ir.Copy):
        return None
    held = ctx.buffers.get(copy.source)
    view = copy.target.owner
    if held is None or held.is_global or not isinstance(view, ir.View):
        return None
    base = ctx.buffers.get(view.base)
    if base is None or not base.is_global or base.dtype != held.dtype:
        return None
    store = _only_store(ctx, loop, copy.source)
    if store is None or not _covers(ctx, loop, copy.source, view):
        return None
    before = {o for top in ops[: at + 1] for o in top.with_inner_ops()}
    over = all(user in before or user is copy for user in ctx.uses.get(copy.source, []))
    keep = not (outermost and over and _reads_before_store(loop, store))
    return Mirror(store, copy, tuple(ops[at + 1 : copy_at]), keep)


def _is_quiet(op: ir.OpBase) -> bool:
    return is_pure(op) or isinstance(op, ir.View | ir.Mark)


def _only_store(ctx: Context, loop: ir.Parallel, buffer: ir.Value) -> ir.Store | None:
    """The one store of the loop to the buffer, where nothing else there matters to the copy."""
    found = None
    for op in ir.walk(loop.body):
        match op:
            case ir.Store(buffer=target) if target is buffer:
                if found is not None or op not in loop.body.ops or op.indices != loop.body.args:
                    return None
                found = op
            case ir.Load(buffer=source) if source is buffer:
                if op.indices != loop.body.args:
                    return None
            case ir.Load() | ir.Store():
                held = ctx.buffers.get(op.buffer)
                if held is not None and (held.is_global or base(op.buffer) is base(buffer)):
                    return None
            case ir.Continue() | ir.Reinterpret():
                return None
            case _ if op.SPEC.resource is not None or any(op.accesses()):
                return None
    return found


def _covers(ctx: Context, loop: ir.Parallel, buffer: ir.Value, view: ir.View) -> bool:
    """Whether the loop writes every element, dimension by dimension as the copy moves them."""
    shape = buffer.buffer.shape
    extents = [ctx.index(e) for e in loop.extents]
    return tuple(extents) == shape and [s for s in view.sizes if s != 1] == [
        s for s in shape if s != 1
    ]


def _reads_before_store(loop: ir.Parallel, store: ir.Store) -> bool:
    """Whether every read of the loop's buffer comes before its store, at the same point."""
    stored = False
    for op in loop.body.ops:
        stored = stored or op is store
        if stored and any(
            isinstance(o, ir.Load) and o.buffer is store.buffer for o in op.with_inner_ops()
        ):
            return False
    return True
