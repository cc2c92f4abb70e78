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

from collections.abc import Iterator
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.compiler.cuda.layouts.exchange import (
    Reduction,
    exchange_scratch,
    plan_all_reduce,
    plan_reduce,
    working_type,
)
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.instrument.stages import buffer_name

from .layout_apply import shared_scratch
from .linear_uses import clears, is_own_sum, other_use, uses
from .running_sums import join_totals
from .walking import per_launch, with_originals

__all__ = ["delay_sums"]

Exchange = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Between which threads a reduction exchanges: distances in lanes, digits of the warp number."""


def delay_sums(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with sums of loops added up across threads after them."""
    if not lowering.controls.late_sums:
        return kernel
    return per_launch(kernel, lambda launch: _delayed(join_totals(launch), lowering))


@dataclass(eq=False)
class _Sum:
    """A fragment from where it is 0 to its next other use."""

    fragment: ir.Value
    exchange: Exchange
    reductions: list[ir.Reduce] = field(default_factory=list)
    repeated: bool = False
    """Whether a reduction stands in a loop that the sum outlives."""
    before: list[ir.OpBase] = field(default_factory=list)
    """The ops before which it has to be whole."""
    after: list[ir.OpBase] = field(default_factory=list)
    """The ops, last of their block, after which it has to be."""

    @property
    def pays(self) -> bool:
        """Whether exchanging at the end is exchanging less often."""
        return self.repeated or len(self.reductions) > 1


def _delayed(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    found: list[_Sum] = []
    for alloc, block in _fragments(launch.body):
        reductions = (o for o in ir.walk(block) if is_own_sum(o, alloc.result))
        exchange = next((e for e in map(_exchange, reductions) if _sharing(e) > 1), None)
        if exchange is None:
            continue
        walk = _Uses(alloc.result, exchange)
        walk.block(block, None)
        for reduction, why in walk.kept:
            _tell_kept(reduction, why, lowering)
        found += [s for s in walk.sums if s.pays]
    for each in found:
        _tell(each, lowering)
    return _Rewrite(found).done(launch) if found else launch


def _fragments(block: ir.Block) -> Iterator[tuple[ir.Alloc, ir.Block]]:
    """Every fragment with a layout, and the block that it lives in."""
    for op in block.ops:
        if isinstance(op, ir.Alloc) and op.space == "fragment" and op.layout:
            yield op, block
        elif not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _fragments(inner)


def _exchange(op: ir.Reduce) -> Exchange:
    alloc = op.source.owner
    assert isinstance(alloc, ir.Alloc)  # what is reduced has been made a fragment of its own
    plan = plan_reduce(parse_layout(alloc.layout, alloc.shape), op.dim)
    return plan.masks, plan.radices


class _Uses:
    """The uses of one fragment, in order.

    The state between two ops is the sum that the fragment has parts of; None where it is whole.
    """

    def __init__(self, fragment: ir.Value, exchange: Exchange) -> None:
        self.fragment = fragment
        self.exchange = exchange
        self.sums: list[_Sum] = []
        self.kept: list[tuple[ir.Reduce, str]] = []
        """Reductions of loops that stay whole, and why."""
        self._why = f"`{buffer_name(fragment)}` does not begin as 0"
        self._loops = 0

    def block(self, block: ir.Block, state: _Sum | None) -> _Sum | None:
        """Go over a block; gives the state at its end."""
        for op in block.ops:
            state = self._op(op, state)
        return state

    def _op(self, op: ir.OpBase, state: _Sum | None) -> _Sum | None:
        found = uses(op, self.fragment)
        if not found and state is not None and not state.reductions:
            return state  # 0 is whole, wherever the op goes
        other = other_use(op, self.fragment, self._adds)
        if not found and other is None:
            return state
        if isinstance(op, ir.Parallel) and clears(op, self.fragment):
            return self._begun()
        if isinstance(op, ir.Reduce) and other is None:
            return self._reduced(op, state)
        if other is None and (state is not None or isinstance(op, ir.Parallel)):
            self._collect(op, state, repeated=False)
            return state
        self._end(op, state)
        if other is not None:
            self._why = self._reason(other)
        self._keep(op)
        self._inside(op, state)
        return None

    def _begun(self) -> _Sum:
        self.sums.append(_Sum(self.fragment, self.exchange))
        return self.sums[-1]

    def _adds(self, op: ir.OpBase) -> bool:
        """Whether an op may add to parts: in their type, what lies in the same threads."""
        if not is_own_sum(op, self.fragment) or self._rounds(op):
            return False
        return _exchange(op) == self.exchange

    def _rounds(self, op: ir.Reduce) -> bool:
        dtype = self.fragment.dtype
        return working_type(op.source.dtype, dtype) != dtype

    def _reduced(self, op: ir.Reduce, state: _Sum | None) -> _Sum | None:
        if op.clear:
            state = self._begun()
        if state is not None:
            state.reductions.append(op)
        else:
            self._keep(op)
        return state

    def _keep(self, op: ir.OpBase) -> None:
        if self._loops and is_own_sum(op, self.fragment) and not op.clear:
            self.kept.append((op, self._why))

    def _collect(self, op: ir.OpBase, state: _Sum | None, *, repeated: bool) -> None:
        """Take over all reductions inside of an op that only scales and adds."""
        if state is None or isinstance(op, ir.Parallel):
            return
        if isinstance(op, ir.Reduce) and self._adds(op):
            state.reductions.append(op)
            state.repeated |= repeated
        repeated |= isinstance(op, ir.For | ir.While)
        for inner in (o for b in op.blocks() for o in b.ops):
            self._collect(inner, state, repeated=repeated)

    def _end(self, op: ir.OpBase, state: _Sum | None) -> None:
        if state is not None and state.reductions:
            state.before.append(op)

    def _inside(self, op: ir.OpBase, state: _Sum | None) -> None:
        """Sums that begin and end in the blocks of an op."""
        if isinstance(op, ir.Parallel):
            return
        is_loop = isinstance(op, ir.For | ir.While)
        zero = state is not None and not state.reductions and isinstance(op, ir.If)
        self._loops += is_loop
        for block in op.blocks():
            end = self.block(block, self._begun() if zero else None)
            if end is not None and end.reductions:
                end.after.append(block.ops[-1])
        self._loops -= is_loop

    def _reason(self, op: ir.OpBase) -> str:
        """Why a sum ends at an op."""
        name, line = buffer_name(self.fragment), _line(op)
        match op:
            case ir.Break() | ir.Continue():
                return f"the {op.mnemonic} of {line} leaves before the end"
            case ir.Reduce() if is_own_sum(op, self.fragment):
                if self._rounds(op):
                    return f"the parts of `{name}` would be rounded to {self.fragment.dtype}"
                return f"{line} adds up what lies in other threads"
            case ir.ConvertLayout():
                return f"{line} needs `{name}` in another layout"
            case ir.Store(buffer=buffer) if buffer is self.fragment:
                return f"{line} sets `{name}`, and not to 0 or a multiple"
            case _:
                return f"{line} uses `{name}`, and not to scale it"


def _line(op: ir.OpBase) -> str:
    return "an op without a line" if op.span is None else f"line {op.span.line}"


class _Rewrite:
    """The rule that rebuilds a launch with sums that end late."""

    def __init__(self, found: list[_Sum]) -> None:
        self.partial = {r for s in found for r in s.reductions}
        self.dropped = {r.scratch for r in self.partial if r.scratch is not None}
        """Memory for exchanges that are no more."""
        self.before = _by_op((op, s) for s in found for op in s.before)
        self.after = _by_op((op, s) for s in found for op in s.after)
        self.fragments: dict[ir.Value, ir.Value] = {}

    def done(self, launch: ir.Launch) -> ir.Launch:
        """The launch with all of them."""
        return with_originals(launch, self._rule)

    def _rule(self, before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
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

    def _all_reduce(self, each: _Sum, builder: ir.Builder) -> None:
        lanes, warps = each.exchange
        plan, threads = _plan(each)
        size = exchange_scratch(plan, threads, each.fragment.dtype)
        scratch = shared_scratch(builder, size) if size else None
        builder.emit(ir.AllReduce("sum", self.fragments[each.fragment], lanes, warps, scratch))


def _by_op(pairs: Iterator[tuple[ir.OpBase, _Sum]]) -> dict[ir.OpBase, list[_Sum]]:
    found: dict[ir.OpBase, list[_Sum]] = {}
    for op, each in pairs:
        found.setdefault(op, []).append(each)
    return found


def _plan(each: _Sum) -> tuple[Reduction, int]:
    """How the parts of a sum are added up, and how many threads there are."""
    alloc = each.fragment.owner
    assert isinstance(alloc, ir.Alloc)
    layout = parse_layout(alloc.layout, alloc.shape)
    return plan_all_reduce(layout, *each.exchange), layout.threads


# -- remarks


def _sharing(exchange: Exchange) -> int:
    """How many threads have parts of an element."""
    lanes, warps = exchange
    total: int = 1 << len(lanes)
    for _, radix in warps:
        total *= radix
    return total


def _tell(each: _Sum, lowering: Lowering) -> None:
    ends = [f"before {_line(op)}" for op in each.before]
    ends += [f"after {_line(op)}" for op in each.after]
    when = " or ".join(dict.fromkeys(ends)) or "never: nothing uses it"
    parts = f"the parts of {_sharing(each.exchange)} threads are added up once, {when}"
    for op in each.reductions:
        lowering.remarks.add(f"reduce {op.kind}", op.span, parts)


def _tell_kept(op: ir.Reduce, why: str, lowering: Lowering) -> None:
    count = _sharing(_exchange(op))
    if count > 1:
        parts = f"the parts of {count} threads are added up each turn"
        lowering.remarks.add(f"reduce {op.kind}", op.span, parts, ("once, at the end", why))
