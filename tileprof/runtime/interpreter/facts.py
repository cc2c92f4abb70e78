"""Facts about a kernel before it runs; found once, used at every launch."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.ir.memory import base

from .arithmetic import INDEX


@dataclass(slots=True)
class Facts:
    """See each field."""

    depth: int = 0
    """The largest number of `parallel` axes around an op."""
    cells: set[ir.Value] = field(default_factory=set)
    """Scalar variables that are only loaded and stored."""
    outside: dict[ir.Parallel, list[ir.Value]] = field(default_factory=dict)
    """`local` buffers from outside that a `parallel` writes: private to each point in it."""
    disjoint: set[ir.OpBase] = field(default_factory=set)
    """Stores in a `parallel` whose points cannot meet: every store there to that buffer has the
    same indices, and all loop variables are among them."""
    accumulating: set[ir.OpBase] = field(default_factory=set)
    """Stores of the form `x[i] = x[i] + …`."""
    written: set[ir.Value] = field(default_factory=set)
    """Parameters and `alloc`s that some op writes."""
    used: set[ir.Value] = field(default_factory=set)
    """Values that some op reads."""
    by_bits: set[ir.Value] = field(default_factory=set)
    """Buffers that are also seen with elements of another size."""
    last_use: dict[ir.OpBase, list[ir.Value]] = field(default_factory=dict)
    """Values that nobody needs after an op."""


def find_facts(kernel: ir.Kernel) -> Facts:
    """Return the facts about a kernel."""
    facts = Facts()
    facts.depth = _depth(kernel.body)
    every = kernel.ops()
    facts.cells = _cells(every)
    facts.written = {base(t.value) for op in every for t in op.accesses() if t.writes}
    facts.used = {v for op in every for v in op.operand_values()}
    facts.by_bits = {
        base(op.base)
        for op in every
        if isinstance(op, ir.Reinterpret) and op.dtype.bytes != base(op.base).dtype.bytes
    }
    facts.accumulating = {op for op in every if isinstance(op, ir.Store) and _accumulates(op)}
    for op in every:
        if isinstance(op, ir.Parallel):
            facts.outside[op] = _written_locals(op)
    _find_disjoint(kernel.body, facts)
    _find_last_uses(kernel.body, facts)
    return facts


def evaluate(value: ir.Value, known: dict[ir.Value, object]) -> int | None:
    """Return an index before it is computed, where it follows from constants and `known` values."""
    held = known.get(value)
    if isinstance(held, int):
        return held
    match value.owner:
        case ir.Constant(value=number):
            return int(number)
        case ir.Binary(kind=kind, left=left, right=right) if kind in INDEX:
            a, b = evaluate(left, known), evaluate(right, known)
            return None if a is None or not b else INDEX[kind](a, b)
        case _:
            return None


def _depth(block: ir.Block) -> int:
    deepest = 0
    for op in block.ops:
        own = len(op.extents) if isinstance(op, ir.Parallel) else 0
        deepest = max(deepest, *(own + _depth(inner) for inner in op.blocks()), 0)
    return deepest


def _cells(every: list[ir.OpBase]) -> set[ir.Value]:
    found = {
        op.result
        for op in every
        if isinstance(op, ir.Alloc) and op.space == "local" and op.shape == ()
    }
    for op in every:
        if not isinstance(op, (ir.Load, ir.Store)):
            found.difference_update(op.operand_values())
    return found


def _written_locals(parallel: ir.Parallel) -> list[ir.Value]:
    inside = {op.result for op in ir.walk(parallel.body) if isinstance(op, ir.Alloc)}
    written: dict[ir.Value, None] = {}
    for op in ir.walk(parallel.body):
        if isinstance(op, (ir.Store, ir.Atomic)):
            held = base(op.buffer)
            if held.buffer.space == "local" and held not in inside:
                written[held] = None
    return list(written)


def _accumulates(store: ir.Store) -> bool:
    value = store.value
    while isinstance(value.owner, ir.Cast):
        value = value.owner.operand
    if not isinstance(value.owner, (ir.Binary, ir.Fma)):
        return False
    return any(
        isinstance(load := _through_casts(v).owner, ir.Load)
        and load.buffer is store.buffer
        and load.indices == store.indices
        for v in value.owner.operand_values()
    )


def _through_casts(value: ir.Value) -> ir.Value:
    while isinstance(value.owner, ir.Cast):
        value = value.owner.operand
    return value


def _find_disjoint(block: ir.Block, facts: Facts) -> None:
    for op in block.ops:
        if not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                _find_disjoint(inner, facts)
            continue
        nested = any(isinstance(o, ir.Parallel) for o in ir.walk(op.body))
        stores: dict[ir.Value, list[ir.Store]] = {}
        for each in ir.walk(op.body):
            if isinstance(each, ir.Store):
                stores.setdefault(base(each.buffer), []).append(each)
        for group in stores.values():
            first = group[0]
            alike = all(s.buffer is first.buffer and s.indices == first.indices for s in group)
            if alike and not nested and set(op.body.args) <= set(first.indices):
                facts.disjoint.update(group)


def _find_last_uses(block: ir.Block, facts: Facts) -> set[ir.Value]:
    """Fill in `last_use` for a block; gives every value that is read in it."""
    read: set[ir.Value] = set()
    own = {v for op in block.ops for v in op.results}
    for op in reversed(block.ops):
        inner = {v for b in op.blocks() for v in _find_last_uses(b, facts)}
        now = inner.union(op.operand_values())
        facts.last_use[op] = [v for v in {*now, *op.results} if v in own and v not in read]
        read |= now
    return read
