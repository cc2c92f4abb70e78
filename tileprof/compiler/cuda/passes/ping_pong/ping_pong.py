"""Hand-overs between consumer warp groups: products of one run under exponentials of the other.

Warp groups of a block that run one loop on different rows begin together.  Left alone they multiply
together, and then compute exponentials together while the tensor cores have nothing to do.  With
hand-overs a group starts its products only once the group before it has started its own; as soon as
it has, the next one may:

    for k                                       turn_start            (once, at the top)
      scores = q · K[k + 1]                     for k
      output += weights · V[k]                    turn_wait
      wait scores                        ⇒        scores = q · K[k + 1]
      exponentials of scores                      output += weights · V[k]
                                                  turn_pass
                                                  wait scores; exponentials of scores

      group 0    products │ exponentials         │ products │ exponentials
      group 1             │ products │ exponentials         │ products │ exponentials

Where exponentials stand between the products of an iteration, a hold goes from one iteration to the
next; the first is taken before the loop, and the last one passed behind it:

    for k                                       turn_wait
      scores = q · K[k]                         for k
      wait scores                                 scores = q · K[k]
      exponentials of scores             ⇒        turn_pass
      output += weights · V[k]                    wait scores; exponentials of scores
                                                  turn_wait
                                                  output += weights · V[k]
                                                turn_pass

Such loops are left alone unless the author asks (`ping_pong=True`), or exponentials take as long as
products of 8 bits (`alternates_alone`): a group's exponentials wait for both of its products, so a
hand-over that comes late is time lost to it, which the first form hides.

A group that has only issued its products shares the tensor cores with the next one: both may get
their scores at the same time, and compute exponentials together again.  With
`hand_over="complete"` a hold ends behind `wait scores`; a wait for values that follows some of the
exponentials then stays behind these in machine code, too.

Nothing can hang.  Every way through a loop passes on each hold that it takes (`ir.verify` follows
all of them), and all groups go the same way: trip counts and conditions around are the same for
every thread of the block, else there are no hand-overs.  They have an order then: those of the
first round, group by group, those of the second, …  While it holds the tensor cores a group waits
for nothing but its own products and tiles, and for these only what groups did before their holds of
the same round (see `plan.py`).
In: a launch with waits and barriers.  Out: the same with hand-overs, and remarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.lowering import Lowering, line_of
from tileprof.compiler.cuda.passes.pipeline.roles import written_globals
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import PING_PONG_SHARE
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks import Reason
from tileprof.remarks.common import NoProducer, TurnedOff
from tileprof.remarks.loops import (
    AtWill,
    ExponentialsBetween,
    FewExponentials,
    InTurns,
    IterationEnds,
    TakeTurns,
    ThreadsDecide,
)

from .plan import Plan, alternates_alone, plan_hand_over, work_of

_Around = tuple[ir.OpBase, ...]


def hand_over(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with hand-overs in the loops where they pay, or where the author wants them."""
    return per_launch(kernel, lambda launch: _Launch(launch, lowering).done())


class _Launch:
    def __init__(self, launch: ir.Launch, lowering: Lowering) -> None:
        self.launch = launch
        self.lowering = lowering
        self.groups = launch.block_threads // WARP_GROUP
        self.written = written_globals(launch)

    def done(self) -> ir.Launch:
        """The launch, with hand-overs in some of its loops."""
        if self.groups < 2:
            return self.launch
        plans = []
        asked = bool(self.lowering.controls.ping_pong)
        for loop, around in _candidates(self.launch.body, (), asked=asked):
            found = self._decide(loop, around)
            self._remark(loop, found)
            if isinstance(found, Plan):
                plans.append(found)
        return _rewritten(self.launch, plans) if plans else self.launch

    def _decide(self, loop: ir.For, around: _Around) -> Plan | Reason:
        """The hand-overs of a loop, or why there are none."""
        asked = self.lowering.controls.ping_pong
        if asked is False:
            return TurnedOff()
        if reason := self._control_reason(loop, around):
            return reason
        complete = self.lowering.controls.hand_over == "complete"
        plan = plan_hand_over(loop, self.launch, self.groups, complete=complete)
        if asked or isinstance(plan, Reason):
            return plan
        if plan.share < PING_PONG_SHARE:
            return FewExponentials(plan.share)
        products = [o.gemm for o in loop.body.ops if isinstance(o, ir.AsyncGemm)]
        if plan.wraps and not alternates_alone(plan.share, products):
            return ExponentialsBetween()
        return plan

    def _remark(self, loop: ir.For, found: Plan | Reason) -> None:
        name, add = loop.body.args[0].name, self.lowering.remarks.add
        if isinstance(found, Reason):
            add("loop", name, loop.span, AtWill(), (InTurns(), found))
        else:
            add("loop", name, loop.span, _turns(self.groups, found))

    # -- do all threads go the same way

    def _control_reason(self, loop: ir.For, around: _Around) -> Reason | None:
        roles = [n for n, op in enumerate(around) if isinstance(op, ir.Roles)]
        if not roles:
            return NoProducer()
        if _leaves(loop.body):
            return IterationEnds()
        for op in (*around[roles[0] + 1 :], loop):
            if isinstance(op, ir.While) or not all(map(self._is_uniform, _controls(op))):
                return ThreadsDecide(op.mnemonic, line_of(op))
        return None

    def _is_uniform(self, value: ir.Value, depth: int = 64) -> bool:
        """Whether all threads of the block have one value, as far as is known here."""
        owner = value.owner
        if owner is None or isinstance(owner, ir.GridPosition | ir.RingWait):
            return True
        if isinstance(owner, ir.Load):
            held = base(owner.buffer)
            fixed = held.buffer.space == "global" and held not in self.written
            if not fixed and held.buffer.space != "shared":
                return False
        elif not is_pure(owner):
            return False
        scalars = [v for v in owner.operand_values() if not isinstance(v.type, ir.BufferType)]
        return depth > 0 and all(self._is_uniform(v, depth - 1) for v in scalars)


def _turns(groups: int, plan: Plan) -> TakeTurns:
    under: Literal["exponentials", "arithmetic"] = "exponentials" if plan.share else "arithmetic"
    return TakeTurns(groups, under, plan.end is not plan.last)


def _controls(op: ir.OpBase) -> Iterator[ir.Value]:
    """Yield what decides how often a loop, or a branch around it, runs."""
    match op:
        case ir.For(start=start, stop=stop, step=step, body=body):
            yield from (start, stop, step)
            yield from _conditions(body)
        case ir.If(condition=value):
            yield value


def _conditions(block: ir.Block) -> Iterator[ir.Value]:
    """On what it depends whether the loop around is left, or an iteration ended."""
    for op in block.ops:
        if isinstance(op, ir.If) and any(map(_leaves, op.blocks())):
            yield op.condition
            for inner in op.blocks():
                yield from _conditions(inner)


def _leaves(block: ir.Block) -> bool:
    return any(
        isinstance(op, ir.Break | ir.Continue)
        or (isinstance(op, ir.If) and any(map(_leaves, op.blocks())))
        for op in block.ops
    )


# -- which loops


def _candidates(
    block: ir.Block, around: _Around, *, asked: bool
) -> Iterator[tuple[ir.For, _Around]]:
    """Loops with products of warp groups and exponentials, or any arithmetic where the author asks,
    with what is around each."""
    for op in block.ops:
        products = any(isinstance(o, ir.AsyncGemm) for b in op.blocks() for o in b.ops)
        if isinstance(op, ir.For) and products:
            work = work_of(op.body.ops)
            if (work.clocks if asked else work.special) and not _runs_once(op):
                yield op, around
        elif not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _candidates(inner, (*around, op), asked=asked)


def _runs_once(loop: ir.For) -> bool:
    """Whether it is known to have one iteration at most, in which nobody waits for another."""
    start, step, most = loop.start.owner, loop.step.owner, _at_most(loop.stop)
    if not isinstance(start, ir.Constant) or not isinstance(step, ir.Constant) or most is None:
        return False
    return most - int(start.value) <= int(step.value)


def _at_most(value: ir.Value) -> int | None:
    """A bound of a number that its own text shows."""
    match value.owner:
        case ir.Constant(value=number):
            return int(number)
        case ir.Cast(operand=number) if number.dtype.kind in ("int", "index"):
            return _at_most(number)
        case ir.Binary(kind="min", left=left, right=right):
            known = (_at_most(left), _at_most(right))
            return min((n for n in known if n is not None), default=None)
        case _:
            return None


# -- with hand-overs


def _sums(loop: ir.For) -> list[ir.Value]:
    """Return what the products of a loop add to."""
    added = [base(o.c) for o in loop.body.ops if isinstance(o, ir.AsyncGemm) and not o.clear]
    inside = {v for o in ir.walk(loop.body) for v in o.results}
    return [v for v in dict.fromkeys(added) if v not in inside]


def _rewritten(launch: ir.Launch, plans: list[Plan]) -> ir.Launch:
    """The launch with the hand-overs of some loops."""
    wrapped = [p.loop for p in plans if p.wraps]
    takes: set[ir.OpBase] = {*(p.first for p in plans), *wrapped}
    late = {op for p in plans for op in p.late}
    passes: set[ir.OpBase] = {*(p.end for p in plans), *wrapped}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(op, ir.Roles):
            op.consumer.ops.insert(0, ir.TurnStart(span=op.span))
            return None
        if before in late:
            assert isinstance(op, ir.Wait)
            op.behind = True
        if before not in takes and before not in passes:
            return None
        if isinstance(op, ir.For):
            # Otherwise numbers that the loop begins with may be set behind it, where it is left out
            # and its products would be running: the assembler then runs all of them one by one.
            builder.emit(ir.Wait("wgmma", [], _sums(op), reason="the loop begins"))
        if before in takes:
            builder.emit(ir.TurnWait())
        builder.emit(op)
        if before in passes:
            builder.emit(ir.TurnPass(ahead=isinstance(op, ir.Wait)))
        return list(op.results)

    return with_originals(launch, rule)
