"""Whether the tiles of a launch take different time.

In: a launch.  Out: why its tiles differ: a loop or a branch around work that depends on which tile
it is; '' where all tiles run the same.

    launch (bx, by)
      for k below bx + 1            the loop over `k` depends on `bx`
        copy …
      for k = bx to bx + 4          always four iterations
        copy …

What depends on an index is followed through arithmetic and through memory: a length that is loaded
for this block, a bound kept in a local variable.
"""

from __future__ import annotations

from collections.abc import Iterable

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.remarks.launches import UnevenWork

_Sources = dict[ir.Value, frozenset[str]]
"""Names of the block's indices that a value, or the content of a buffer, is made of."""
_WORK = (*ir.TILE_OPS, ir.Parallel)


def uneven_work(launch: ir.Launch) -> UnevenWork | None:
    """Why some tiles take longer than others; None where nothing says so."""
    sources = _sources(launch)
    for op in ir.walk(launch.body):
        names = _decisive(op, sources)
        if names and any(isinstance(o, _WORK) for o in op.inner_ops()):
            loop = op.body.args[0].name if isinstance(op, ir.For) else ""
            what = "a branch" if isinstance(op, ir.If) else "the loop over" if loop else "a loop"
            return UnevenWork(what, loop, tuple(f"`{name}`" for name in sorted(names)))
    return None


def _sources(launch: ir.Launch) -> _Sources:
    found: _Sources = {
        a: frozenset([a.name or "b" + "xyz"[at]]) for at, a in enumerate(launch.body.args)
    }
    before = -1
    # Loops carry values in memory from iteration to iteration.
    while before != (before := sum(map(len, found.values()))):
        for op in ir.walk(launch.body):
            _follow(op, found)
    return found


def _follow(op: ir.OpBase, found: _Sources) -> None:
    """Note what the results, the arguments and the buffers of an op are made of."""
    # Where a loop ends says nothing about the values of its variable.
    used = (op.start, op.step) if isinstance(op, ir.For) else op.operand_values()
    names = _of(used, found)
    read = [base(t.value) for t in op.accesses() if t.reads]
    names |= _of((b for b in read if b.buffer.space != "global"), found)
    if not names:
        return
    written = [base(t.value) for t in op.accesses() if t.writes]
    here = [b for b in written if b.buffer.space != "global"]
    for value in (*op.results, *(a for b in op.blocks() for a in b.args), *here):
        found[value] = found.get(value, frozenset()) | names


def _of(values: Iterable[ir.Value], found: _Sources) -> frozenset[str]:
    return frozenset().union(*(found.get(v, frozenset()) for v in values))


def _decisive(op: ir.OpBase, sources: _Sources) -> frozenset[str]:
    """Return what the number of iterations of a loop, or the way a branch goes, is made of."""
    match op:
        case ir.For(start=start, stop=stop, step=step):
            trips = _trips(start, stop)
            return _of([*([start, stop] if trips is None else [trips]), step], sources)
        case ir.While(condition=condition):
            return _of(condition.ops[-1].operand_values(), sources)
        case ir.If(condition=test):
            return _of([test], sources)
        case _:
            return frozenset()


def _trips(start: ir.Value, stop: ir.Value) -> ir.Value | None:
    """Return what the stop of a loop adds to its start; None where it is no such sum."""
    match stop.owner:
        case ir.Binary(kind="add", left=left, right=right) if start in (left, right):
            return right if left is start else left
        case _:
            return None
