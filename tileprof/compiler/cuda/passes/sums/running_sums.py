"""Sums of one iteration that are added to a total become sums into the total.

    reduce sum %x, %part                             parallel [64] body(%i) {
    parallel [64] body(%i) {                           store %total[i] * %factor[i], %total, [%i]
      store %total[i] * %factor[i] + %part[i],   ⇒   }
            %total, [%i]                             reduce sum %x, %total {clear = false}
    }

In: a launch with layouts.  Out: it without the fragments of such parts, which nothing else uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.ir.rewriter import with_originals

from .linear_uses import covers, is_own_sum


def join_totals(launch: ir.Launch) -> ir.Launch:
    """The launch with parts added to totals as they are summed."""
    uses = Counter(base(t.value) for o in ir.walk(launch.body) for t in o.accesses())
    found = list(_joins(launch.body))
    ends = Counter(j.part for j in found)
    # A part is written by its reduction and read by its loop, and that is all.
    found = [j for j in found if uses[j.part] == 2 * ends[j.part]]
    return with_originals(launch, _Rewrite(found).rule) if found else launch


@dataclass(frozen=True)
class _Join:
    """A part that is added to a total by a loop."""

    reduction: ir.Reduce
    loop: ir.Parallel
    load: ir.Load
    sum: ir.Binary | ir.Fma
    store: ir.Store

    @property
    def part(self) -> ir.Value:
        """The fragment of the part."""
        return self.reduction.target


def _joins(block: ir.Block) -> Iterator[_Join]:
    open_: dict[ir.Value, ir.Reduce] = {}
    """Parts that are as their reduction left them, as is what it reduced."""
    for op in block.ops:
        if isinstance(op, ir.Parallel):
            yield from _joined(op, open_)
        else:
            for inner in op.blocks():
                yield from _joins(inner)
        written = {base(t.value) for t in op.all_accesses() if t.writes}
        for part, reduction in list(open_.items()):
            if part in written or base(reduction.source) in written:
                del open_[part]
        if isinstance(op, ir.Reduce) and is_own_sum(op, op.target) and op.clear:
            open_[op.target] = op


def _joined(loop: ir.Parallel, open_: dict[ir.Value, ir.Reduce]) -> Iterator[_Join]:
    """The parts that a loop adds to totals and that may be added behind it."""
    users = ir.users(ir.walk(loop.body))
    for load in loop.body.ops:
        if not isinstance(load, ir.Load) or load.buffer not in open_:
            continue
        match users.get(load.result):
            case [(ir.Binary(kind="add") | ir.Fma()) as added] if load.result not in _factors(
                added
            ):
                pass
            case _:
                continue
        match users.get(added.result):
            case [ir.Store() as store] if _ends(loop, store, load):
                yield _Join(open_[load.buffer], loop, load, added, store)
            case _:
                pass


def _factors(op: ir.Binary | ir.Fma) -> tuple[ir.Value, ...]:
    return (op.a, op.b) if isinstance(op, ir.Fma) else ()


def _ends(loop: ir.Parallel, store: ir.Store, load: ir.Load) -> bool:
    """Whether a store sets each element of a total, which the loop does not use from there on."""
    total, part = store.buffer, load.buffer
    places = [o for o in ir.walk(loop.body) if any(base(t.value) is total for t in o.accesses())]
    return (
        total is not part
        and isinstance(total.owner, ir.Alloc)
        and (total.buffer.space, total.type) == ("fragment", part.type)
        and list(store.indices) == list(load.indices)
        and covers(loop, store)
        and places[-1] is store
        and not any(isinstance(o, ir.Store) for o in places[:-1])
    )


class _Rewrite:
    def __init__(self, found: list[_Join]) -> None:
        self.reductions = {j.reduction for j in found}
        self.parts = {j.part for j in found}
        self.loads = {j.load for j in found}
        self.sums = {j.sum: j for j in found}
        self.loops: dict[ir.OpBase, list[_Join]] = {}
        for each in found:
            self.loops.setdefault(each.loop, []).append(each)
        self.copies: dict[ir.OpBase, ir.Reduce] = {}
        """The reductions among the new ops, not yet placed."""
        self.fragments: dict[ir.Value, ir.Value] = {}

    def rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        match op:
            case ir.Alloc():
                self.fragments[before.results[0]] = op.result
                return [op.result] if before.results[0] in self.parts else None
            case ir.Load() if before in self.loads:
                return [op.result]  # its use is replaced
            case ir.Reduce() if before in self.reductions:
                self.copies[before] = op
                return []
            case ir.Binary() if before in self.sums:
                assert isinstance(before, ir.Binary)
                return [op.right if before.left is self.sums[before].load.result else op.left]
            case ir.Fma() if before in self.sums:
                return [builder.emit(ir.Binary("mul", op.a, op.b)).result]
            case ir.Parallel() if before in self.loops:
                builder.emit(op)
                for each in self.loops[before]:
                    self._reduce(each, builder)
                return []
        return None

    def _reduce(self, each: _Join, builder: ir.Builder) -> None:
        made = self.copies[each.reduction]
        made.target, made.clear = self.fragments[each.store.buffer], False
        builder.emit(made)
