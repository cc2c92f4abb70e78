"""Copies that stand behind each other become one loop, so that all of their loads are in flight.

    parallel [64, 64] { %x = load %K …; store %x, %k }        parallel [64, 64] {
    parallel [64, 64] { %y = load %V …; store %y, %v }   ⇒      %x = load %K …; store %x, %k
                                                                %y = load %V …; store %y, %v }

A store to shared memory waits for what was loaded for it, and no load behind it is issued before.
In one loop all loads stand in front of the points (`emit/loops/register_loops.py`).
In: a kernel with layouts and waits.  Out: it with such loops joined, as far as registers go.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.pipeline.roles import written_globals
from tileprof.compiler.cuda.tuning import BYTES_IN_FLIGHT
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, clone_block, per_launch


def fuse_copies(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with copies from global memory joined where nothing stands between them."""

    def change(launch: ir.Launch) -> ir.Launch:
        written = written_globals(launch, aliased=lowering.aliased)
        body = clone_block(launch.body, {})
        _fuse(body, written)
        return launch.with_body(body)

    return per_launch(kernel, change)


def _fuse(block: ir.Block, written: set[ir.Value]) -> None:
    """Join the copies of a block, which is the pass's own, and of those inside."""
    for op in block.ops:
        for inner in op.blocks():
            _fuse(inner, written)
    made: list[ir.OpBase] = []
    last: int | None = None
    """Position of a copy behind which only scalars were computed."""
    for op in block.ops:
        if isinstance(op, ir.Parallel) and _is_copy(op, written):
            first = made[last] if last is not None else None
            if last is not None and isinstance(first, ir.Parallel) and _may_join(first, op):
                del made[last]
                made.append(_joined(first, op))
            else:
                made.append(op)
            last = len(made) - 1
            continue
        made.append(op)
        if not (is_pure(op) or isinstance(op, ir.Constant | ir.View)):
            last = None
    block.ops = made


def _is_copy(op: ir.Parallel, written: set[ir.Value]) -> bool:
    """Whether a loop only brings elements of tensors that nobody writes nearer."""
    if op.origin != "copy" or not op.layout:
        return False
    for each in op.body.ops:
        match each:
            case ir.Load(buffer=buffer):
                if buffer.buffer.space != "global" or base(buffer) in written:
                    return False
            case ir.Store(buffer=buffer):
                if buffer.buffer.space not in ("shared", "fragment"):
                    return False
            case _ if not (is_pure(each) or isinstance(each, ir.Constant)):
                return False
    return True


def _may_join(first: ir.Parallel, second: ir.Parallel) -> bool:
    """Whether two copies have the same points in the same threads, write different buffers, and
    load no more than may be in flight at once."""
    shape = _extents(first)
    if shape is None or shape != _extents(second) or first.layout != second.layout:
        return False
    if first.hints or second.hints or not _stored(first).isdisjoint(_stored(second)):
        return False
    points = parse_layout(first.layout, shape).registers_per_thread
    loads = [o for each in (first, second) for o in each.body.ops if isinstance(o, ir.Load)]
    return points * sum(o.buffer.dtype.bytes for o in loads) <= BYTES_IN_FLIGHT


def _extents(op: ir.Parallel) -> tuple[int, ...] | None:
    owners = [e.owner for e in op.extents]
    found = tuple(int(o.value) for o in owners if isinstance(o, ir.Constant))
    return found if len(found) == len(owners) else None


def _stored(op: ir.Parallel) -> set[ir.Value]:
    return {base(o.buffer) for o in op.body.ops if isinstance(o, ir.Store)}


def _joined(first: ir.Parallel, second: ir.Parallel) -> ir.Parallel:
    """The first loop with the points of both, which is to stand where the second did."""
    mapping = dict(zip(second.body.args, first.body.args, strict=True))
    for op in second.body.ops:
        made = clone(op, mapping, {})
        mapping.update(zip(op.results, made.results, strict=True))
        first.body.ops.append(made)
    return first
