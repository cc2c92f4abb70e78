"""From where to where a fragment may be a sum of which each thread has a part.

Such a sum begins where the fragment is set to 0, or to a sum; it goes through whatever scales it or
adds to it, loops and branches as a whole; and it ends before anything else, or where it would leave
the block that it began in.
In: a fragment, the block that it lives in, and between which threads its sums exchange.  Out: the
sums, and why reductions of loops are in none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.cuda.layouts import fragment_layout
from tileprof.compiler.cuda.layouts.exchange import plan_reduce, working_type
from tileprof.compiler.cuda.lowering import line_of
from tileprof.instrument.placement.stages import buffer_name
from tileprof.remarks import Reason
from tileprof.remarks.layouts import (
    AddsAcross,
    LeavesBefore,
    NeedsLayout,
    NotFromZero,
    SetsOtherwise,
    UsesOtherwise,
    WouldRound,
)

from .linear_uses import clears, is_own_sum, other_use, uses

Exchange = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Between which threads a reduction exchanges: distances in lanes, digits of the warp number."""


@dataclass(eq=False)
class Sum:
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


def exchange_of(op: ir.Reduce) -> Exchange:
    """Return the exchange of a reduction of a fragment."""
    plan = plan_reduce(fragment_layout(op.source), op.dim)
    return plan.masks, plan.radices


class SumUses:
    """The uses of one fragment, in order.

    The state between two ops is the sum that the fragment has parts of; None where it is whole.
    """

    def __init__(self, fragment: ir.Value, exchange: Exchange) -> None:
        self.fragment = fragment
        self.exchange = exchange
        self.sums: list[Sum] = []
        self.kept: list[tuple[ir.Reduce, Reason]] = []
        """Reductions of loops that stay whole, and why."""
        self._why: Reason = NotFromZero(buffer_name(fragment))
        self._loops = 0

    def block(self, block: ir.Block, state: Sum | None) -> Sum | None:
        """Go over a block; gives the state at its end."""
        for op in block.ops:
            state = self._op(op, state)
        return state

    def _op(self, op: ir.OpBase, state: Sum | None) -> Sum | None:
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

    def _begun(self) -> Sum:
        self.sums.append(Sum(self.fragment, self.exchange))
        return self.sums[-1]

    def _adds(self, op: ir.OpBase) -> bool:
        """Whether an op may add to parts: in their type, what lies in the same threads."""
        if not is_own_sum(op, self.fragment) or self._rounds(op):
            return False
        return exchange_of(op) == self.exchange

    def _rounds(self, op: ir.Reduce) -> bool:
        dtype = self.fragment.dtype
        return working_type(op.source.dtype, dtype) != dtype

    def _reduced(self, op: ir.Reduce, state: Sum | None) -> Sum | None:
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

    def _collect(self, op: ir.OpBase, state: Sum | None, *, repeated: bool) -> None:
        """Take over all reductions inside of an op that only scales and adds."""
        if state is None or isinstance(op, ir.Parallel):
            return
        if isinstance(op, ir.Reduce) and self._adds(op):
            state.reductions.append(op)
            state.repeated |= repeated
        repeated |= isinstance(op, ir.For | ir.While)
        for inner in (o for b in op.blocks() for o in b.ops):
            self._collect(inner, state, repeated=repeated)

    def _end(self, op: ir.OpBase, state: Sum | None) -> None:
        if state is not None and state.reductions:
            state.before.append(op)

    def _inside(self, op: ir.OpBase, state: Sum | None) -> None:
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

    def _reason(self, op: ir.OpBase) -> Reason:
        """Why a sum ends at an op."""
        name, line = buffer_name(self.fragment), line_of(op)
        match op:
            case ir.Break() | ir.Continue():
                return LeavesBefore(op.mnemonic, line)
            case ir.Reduce() if is_own_sum(op, self.fragment):
                if self._rounds(op):
                    return WouldRound(name, str(self.fragment.dtype))
                return AddsAcross(line)
            case ir.ConvertLayout():
                return NeedsLayout(line, name)
            case ir.Store(buffer=buffer) if buffer is self.fragment:
                return SetsOtherwise(line, name)
            case _:
                return UsesOtherwise(line, name)
