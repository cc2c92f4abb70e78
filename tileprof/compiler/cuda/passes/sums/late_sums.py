"""Sums of loops that are added up across threads once, at the end.

    parallel [64] { store 0, %total }          parallel [64] { store 0, %total }
    for … {                                    for … {
      parallel [64] { %total *= %factor }        parallel [64] { %total *= %factor }
      reduce sum %x, %total               ⇒      reduce sum %x, %total {partial = true}
    }                                          }
                                               all_reduce sum %total {lanes = [1, 2]}
    parallel [64] { … 1 / %total … }           parallel [64] { … 1 / %total … }

Several threads hold the elements of a row, and each has a copy of its total.  As long as a total
that began as 0 is only scaled and added to, a copy may be the sum of what its own thread holds:
adding up across threads is linear, so it can wait until anything else uses the total.  A factor
that is infinite where a thread's part is 0 gives NaN, whatever the whole sum is.
In: a kernel with layouts.  Out: it with such sums; their terms are added in another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.compiler.cuda.layouts.exchange import (
    Reduction,
    exchange_scratch,
    plan_all_reduce,
)
from tileprof.compiler.cuda.lowering import Lowering, line_of
from tileprof.compiler.cuda.passes.layout.apply import shared_scratch
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks import Reason
from tileprof.remarks.layouts import OnceAtEnd, SumsEachTime, SumsOnce

from .linear_uses import is_own_sum
from .running_sums import join_totals
from .sum_uses import Exchange, Sum, SumUses, exchange_of


def delay_sums(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with sums of loops added up across threads after them."""
    if not lowering.controls.late_sums:
        return kernel
    return per_launch(kernel, lambda launch: _delayed(join_totals(launch), lowering))


def _delayed(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    found: list[Sum] = []
    for alloc, block in _fragments(launch.body):
        reductions = (o for o in ir.walk(block) if is_own_sum(o, alloc.result))
        exchange = next((e for e in map(exchange_of, reductions) if _sharing(e) > 1), None)
        if exchange is None:
            continue
        walk = SumUses(alloc.result, exchange)
        walk.block(block, None)
        for reduction, why in walk.kept:
            _tell_kept(reduction, why, lowering)
        found += [s for s in walk.sums if s.pays]
    for each in found:
        _tell(each, lowering)
    return with_originals(launch, _Rewrite(found).rule) if found else launch


def _fragments(block: ir.Block) -> Iterator[tuple[ir.Alloc, ir.Block]]:
    """Every fragment with a layout, and the block that it lives in."""
    for op in block.ops:
        if isinstance(op, ir.Alloc) and op.space == "fragment" and op.layout:
            yield op, block
        elif not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _fragments(inner)


class _Rewrite:
    """The rule that rebuilds a launch with sums that end late."""

    def __init__(self, found: list[Sum]) -> None:
        self.partial = {r for s in found for r in s.reductions}
        self.dropped = {r.scratch for r in self.partial if r.scratch is not None}
        """Memory for exchanges that are no more."""
        self.before = _by_op((op, s) for s in found for op in s.before)
        self.after = _by_op((op, s) for s in found for op in s.after)
        self.fragments: dict[ir.Value, ir.Value] = {}

    def rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(op, ir.Alloc):
            self.fragments[before.results[0]] = op.result
            return [op.result] if before.results[0] in self.dropped else None
        if isinstance(op, ir.Reduce) and before in self.partial:
            op.partial, op.scratch = True, None
        for each in self.before.get(before, ()):
            self._all_reduce(each, builder)
        builder.emit(op)
        for each in self.after.get(before, ()):
            self._all_reduce(each, builder)
        return list(op.results)

    def _all_reduce(self, each: Sum, builder: ir.Builder) -> None:
        lanes, warps = each.exchange
        plan, threads = _plan(each)
        size = exchange_scratch(plan, threads, each.fragment.dtype)
        scratch = shared_scratch(builder, size) if size else None
        builder.emit(ir.AllReduce("sum", self.fragments[each.fragment], lanes, warps, scratch))


def _by_op(pairs: Iterator[tuple[ir.OpBase, Sum]]) -> dict[ir.OpBase, list[Sum]]:
    found: dict[ir.OpBase, list[Sum]] = {}
    for op, each in pairs:
        found.setdefault(op, []).append(each)
    return found


def _plan(each: Sum) -> tuple[Reduction, int]:
    """Return how the parts of a sum are added up, and how many threads there are."""
    alloc = each.fragment.owner
    assert isinstance(alloc, ir.Alloc)
    layout = parse_layout(alloc.layout, alloc.shape)
    return plan_all_reduce(layout, *each.exchange), layout.threads


# -- remarks


def _sharing(exchange: Exchange) -> int:
    """Return how many threads have parts of an element."""
    lanes, warps = exchange
    return (1 << len(lanes)) * math.prod(radix for _, radix in warps)


def _tell(each: Sum, lowering: Lowering) -> None:
    before, after = (tuple(dict.fromkeys(map(line_of, ops))) for ops in (each.before, each.after))
    made = SumsOnce(_sharing(each.exchange), before, after, unused=not (before or after))
    for op in each.reductions:
        lowering.remarks.add("reduce", op.kind, op.span, made)


def _tell_kept(op: ir.Reduce, why: Reason, lowering: Lowering) -> None:
    count = _sharing(exchange_of(op))
    if count > 1:
        lowering.remarks.add("reduce", op.kind, op.span, SumsEachTime(count), (OnceAtEnd(), why))
