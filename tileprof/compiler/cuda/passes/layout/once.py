"""Points that run once, although several threads hold the fragment that they fill.

    parallel [%c64] body(%i) {          parallel [%c64] body(%i) {
      %v = atomic add %o, %x, [%i]  →     %v = atomic add %o, %x, [%i]
      store %v, %f, [%i]                  store %v, %held, [%i]          shared memory
    }                                   }
                                        parallel [%c64] body(%i) { … %held, [%i] … %f, [%i] }

A point that changes memory which it also reads gives every thread another answer, so one thread
runs it and the others read what it found.
In: a launch with the layouts that were found for it.  Out: it with such loops taken apart.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.expand import as_parallel
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, clone_block, with_originals
from tileprof.remarks.common import RegisterCandidate
from tileprof.remarks.layouts import FilledOnce, SeveralThreads

from .flow import Known

Stored = dict[ir.Value, ir.Store]
"""Fragments that a loop fills, with a store of each."""


def repeated(known: Known, lowering: Lowering) -> dict[ir.Parallel, Stored]:
    """The loops that several threads would run with different results, and what they fill."""
    found: dict[ir.Parallel, Stored] = {}
    for node, layout in known.items():
        if not isinstance(node, ir.Parallel):
            continue
        copies = any(d.is_copy and d.radix > 1 for d in (*layout.lanes, *layout.warps))
        stored = _stored(node) if copies else {}
        if stored and _answers_once(node, aliased=lowering.aliased):
            found[node] = stored
    return found


def _stored(loop: ir.Parallel) -> Stored:
    stores = [o for o in ir.walk(loop.body) if isinstance(o, ir.Store)]
    return {s.buffer: s for s in stores if s.buffer.buffer.space == "fragment"}


def _answers_once(loop: ir.Parallel, *, aliased: bool) -> bool:
    """Whether the loop writes memory of the block or the grid that it also reads."""
    used = {v for each in ir.walk(loop.body) for v in each.operand_values()}
    read: set[object] = set()
    written: set[object] = set()
    for op in ir.walk(loop.body):
        if not isinstance(op, ir.Load | ir.Store | ir.Atomic):
            continue
        space = op.buffer.buffer.space
        if space not in ("global", "shared"):
            continue
        memory = "global" if aliased and space == "global" else base(op.buffer)
        if isinstance(op, ir.Load) or (isinstance(op, ir.Atomic) and op.result in used):
            read.add(memory)
        if not isinstance(op, ir.Load):
            written.add(memory)
    return not read.isdisjoint(written)


def run_once(launch: ir.Launch, loops: dict[ir.Parallel, Stored], lowering: Lowering) -> ir.Launch:
    """The launch with what the loops fill in shared memory, from where it is copied."""

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if not isinstance(op, ir.Parallel) or op not in loops:
            return None
        assert isinstance(new, ir.Parallel)
        held: dict[ir.Value, ir.Value] = {}
        for fragment, store in _stored(new).items():
            name = f"{buffer_name(fragment)}_once"
            shape = fragment.buffer.static_shape
            held[fragment] = builder.emit(
                ir.Alloc("shared", shape, fragment.dtype, hint=name)
            ).result
            if not fills(new, store):
                as_parallel(ir.Copy(fragment, held[fragment], span=op.span), builder)
            _tell(fragment, op, lowering)
        body = clone_block(new.body, dict(held))
        builder.emit(clone(new, {}, {"body": body}))
        for fragment, memory in held.items():
            as_parallel(ir.Copy(memory, fragment, span=op.span), builder)
        return []

    return with_originals(launch, rule)


def fills(loop: ir.Parallel, store: ir.Store) -> bool:
    """Whether the store writes every element before anything reads one."""
    extents = dict(zip(loop.body.args, loop.extents, strict=True))
    sizes = [extents[i].owner for i in store.indices if i in extents]
    whole = tuple(int(s.value) for s in sizes if isinstance(s, ir.Constant))
    return (
        store in loop.body.ops
        and whole == store.buffer.buffer.shape
        and len(set(store.indices)) == len(store.indices)
        and not any(_may_miss(o, store.buffer) for o in ir.walk(loop.body))
    )


def _may_miss(op: ir.OpBase, fragment: ir.Value) -> bool:
    reads = isinstance(op, ir.Load) and op.buffer is fragment
    return reads or isinstance(op, ir.Continue)


def _tell(fragment: ir.Value, loop: ir.Parallel, lowering: Lowering) -> None:
    name, rejected = buffer_name(fragment), (RegisterCandidate(), SeveralThreads())
    lowering.remarks.add("buffer", name, loop.span, FilledOnce(), rejected, severity="missed")
