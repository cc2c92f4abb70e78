"""Iterations of a pipelined loop in which a mask changes nothing run in a loop without it.

    for k in 0..n (pipelined)                        w = (bx·128 + 1) // 128, from 0 to n
      …                                              for k in 0..w (pipelined)
      parallel (i, j):                                 …
        s[i, j] = seen(k, i, j) ? s[i, j] : -inf  ⇒  for k in w..n (pipelined)
      …                                                …
                                                       s[i, j] = seen(k, i, j) ? s[i, j] : -inf

A mask at the begin and at the end of a range of keys (a sliding window) gives three loops, one
that is proved to change nothing gives one.  The loops load the same tiles, which a producer
warp group does without a pause; copies by cp.async run ahead within one loop only, so loops with
them stay, as a loop does whose schedule says `whole`.

What a mask is, `masks.py` says; where it changes nothing, `iterations.py` finds, with values
by `numbers.py`; the loops are made by `loops.py`.
In: elementwise ops as `parallel`, instructions chosen.  Out: the same, loops without masks.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering, line_of
from tileprof.compiler.cuda.passes.pipeline.gathers import is_plain_gather
from tileprof.compiler.cuda.passes.pipeline.roles import is_replayed, written_globals
from tileprof.compiler.cuda.resources import fragment_registers, registers_available
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import LOOP_REGISTERS, PEELED_TRIPS, ROLE_REGISTERS
from tileprof.compiler.passes.affine import is_nonnegative
from tileprof.compiler.passes.identities import number_of
from tileprof.compiler.passes.ranges import Ranges
from tileprof.ir.instructions import CpAsync
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch
from tileprof.remarks import Candidate, Decision, Reason
from tileprof.remarks.common import StepNotOne
from tileprof.remarks.loops import (
    BoundsComputed,
    CopiesAhead,
    EveryHasMask,
    FewIterations,
    FirstHasMask,
    LoopsInTurn,
    MaskFrom,
    MaskPeeled,
    NeedsAllRegisters,
    NoMaskNeeded,
    OneIteration,
    OneIterationAtMost,
    WithoutMask,
    WithoutMaskOf,
)

from .iterations import EVERY, Iterations, Span
from .loops import Plan, planned
from .masks import Mask, masks_of


def peel(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such loops apart."""
    if not lowering.controls.peel:
        return kernel
    masked = {o: m for o in kernel.ops() if isinstance(o, ir.For) and (m := _masks(o))}
    if not masked:
        return kernel
    finder = _Finder(kernel, masked, lowering)
    finder.block(kernel.body)
    return per_launch(kernel, lambda launch: planned(launch, finder.plans))


def _masks(loop: ir.For) -> list[Mask]:
    """The masks of an innermost pipelined loop with matrix products."""
    if loop.kind != "pipelined":
        return []
    inside = list(ir.walk(loop.body))
    products = any(isinstance(o, ir.Gemm) for o in inside)
    innermost = not any(isinstance(o, ir.For) and o.kind == "pipelined" for o in inside)
    leaves = any(isinstance(o, ir.Break | ir.Continue) for o in inside)
    return masks_of(loop) if products and innermost and not leaves else []


class _Finder:
    """Follows the program, so that what is known at each loop is known."""

    def __init__(
        self, kernel: ir.Kernel, masked: dict[ir.For, list[Mask]], lowering: Lowering
    ) -> None:
        self.plans: dict[ir.OpBase, Plan] = {}
        self._masked = masked
        self._lowering = lowering
        self._ranges = Ranges(kernel)
        self._free: set[ir.Value] = set()
        """Numbers that every thread can compute for itself."""
        self._known: list[ir.Value] = []
        """Those of them that are integers and defined here, in order."""
        self._written: set[ir.Value] = set()

    def block(self, block: ir.Block) -> None:
        """Find the loops of a block."""
        count = len(self._known)
        self._add(block.args)
        for op in block.ops:
            if isinstance(op, ir.Launch):
                self._launch = op
                self._written = written_globals(op, aliased=self._lowering.aliased)
            self._ranges.enter(op)
            if isinstance(op, ir.For) and op in self._masked:
                self._loop(op, self._masked[op])
            else:
                for inner in op.blocks():
                    self.block(inner)
            self._ranges.define(op)
            if self._is_free(op):
                self._add(op.results)
        del self._known[count:]

    def _add(self, values: Sequence[ir.Value]) -> None:
        plain = [v for v in values if not isinstance(v.type, ir.BufferType)]
        self._free.update(plain)
        self._known += [v for v in plain if v.dtype.is_integer]

    def _is_free(self, op: ir.OpBase) -> bool:
        return is_replayed(op, self._written) and all(
            v in self._free for v in op.operand_values() if not isinstance(v.type, ir.BufferType)
        )

    # -- one loop

    def _loop(self, loop: ir.For, masks: list[Mask]) -> None:
        count = len(self._known)
        hoisted: set[ir.Value] = set()
        self._inside(loop.body, hoisted)
        iterations = Iterations(loop, self._ranges, self._known, hoisted)
        del self._known[count:]
        found: dict[Mask, Span] = {}
        reasons: list[tuple[Mask, Reason]] = []
        for mask in masks:
            span = iterations.where(mask.kept)
            if span is None or iterations.is_empty(span):
                reasons.append((mask, iterations.reason or EVERY))
            else:
                found[mask] = span
        if not found:
            self._refused(loop, reasons)
            return
        span = iterations.both(list(found.values()))
        first, stop = iterations.clamped(span)
        whole = first is loop.start and stop is loop.stop
        reason = EVERY if iterations.is_empty(span) else self._reason(loop)
        trips, ends = loop.static_range, [number_of(v) for v in (first, stop)]
        if reason is None and trips is not None and len(trips) < PEELED_TRIPS and None in ends:
            # Which ones are without is known to the launch only.
            reason = FewIterations(len(trips))
        if not whole and reason is not None:
            self._refused(loop, [(mask, reason) for mask in masks])
            return
        before = _needed(iterations.before, {first, stop})
        as_loops = whole or not self._is_crowded(loop)
        plan = Plan(list(found), before, first, stop, as_loops)
        self.plans[loop] = plan
        self._tell(loop, plan, reasons)

    def _is_crowded(self, loop: ir.For) -> bool:
        """Whether the fragments of a loop leave no registers for the addresses of several."""
        launch = self._launch
        threads = launch.block_threads
        used = {base(t.value) for o in ir.walk(loop.body) for t in o.accesses()}
        roles = launch.schedule.warp_roles
        _, most = ROLE_REGISTERS.get(threads // WARP_GROUP, (0, 0)) if roles else (0, 0)
        most = most or registers_available(threads, self._lowering.target)
        most = min(most, self._lowering.controls.registers or most)
        return fragment_registers(used, threads) > most - LOOP_REGISTERS

    def _inside(self, block: ir.Block, hoisted: set[ir.Value]) -> None:
        """See the ops of a loop; what could be computed before it becomes known, and `hoisted`."""
        for op in block.ops:
            self._ranges.enter(op)
            for inner in op.blocks():
                self._inside(inner, hoisted)
            self._ranges.define(op)
            if self._is_free(op) and self._cannot_fail(op):
                self._add(op.results)
                hoisted.update(op.results)

    def _cannot_fail(self, op: ir.OpBase) -> bool:
        """Whether an op may run although the loop does not; a read beyond its tensor is guarded."""
        if isinstance(op, ir.Load):
            return all(is_nonnegative(self._ranges.of(at)) for at in op.indices)
        divides = isinstance(op, ir.Binary) and op.kind.endswith(("div", "mod"))
        if isinstance(op, ir.Binary) and divides and op.left.dtype.is_integer:
            return (number_of(op.right) or 0) > 0
        return True

    def _reason(self, loop: ir.For) -> Reason | None:
        """Why a loop does not become several; None where it does."""
        if is_nonnegative(self._ranges.of(loop.start).plus(1) - self._ranges.of(loop.stop)):
            return OneIterationAtMost()
        stages = self._lowering.stages(loop)
        copies = [o for o in loop.body.ops if isinstance(o, ir.Copy)]
        ahead = any(isinstance(c.lowering, CpAsync) for c in copies)
        if stages > 1 and (ahead or any(map(is_plain_gather, loop.body.ops))):
            return CopiesAhead()
        if loop.schedule.whole:
            return OneIteration()
        if not {loop.start, loop.stop} <= self._free:
            return BoundsComputed()
        return None if number_of(loop.step) == 1 else StepNotOne()

    # -- remarks

    def _refused(self, loop: ir.For, reasons: list[tuple[Mask, Reason]]) -> None:
        lines = _lines([mask for mask, _ in reasons])
        if loop.schedule.whole:
            self._add_remark(loop, FirstHasMask(lines))
            return
        said = dict.fromkeys(reason for _, reason in reasons)
        rejected = [(WithoutMask(), reason) for reason in said]
        self._add_remark(loop, EveryHasMask(lines), *rejected)

    def _tell(self, loop: ir.For, plan: Plan, reasons: list[tuple[Mask, Reason]]) -> None:
        lines, by_branch = _lines(plan.masks), not plan.as_loops
        first, last = plan.first is not loop.start, plan.stop is not loop.stop
        number = number_of(plan.stop)
        said: Decision = NoMaskNeeded(lines, by_branch)
        if first:
            said = MaskPeeled("first and last" if last else "first", lines, by_branch)
        elif last and number is not None:
            said = MaskFrom(int(number), lines, by_branch)
        elif last:
            said = MaskPeeled("last", lines, by_branch)
        rejected: list[tuple[Candidate, Reason]] = [
            (WithoutMaskOf(line_of(mask.op)), reason) for mask, reason in reasons
        ]
        if by_branch:
            rejected.append((LoopsInTurn(), NeedsAllRegisters()))
        self._add_remark(loop, said, *rejected)

    def _add_remark(
        self, loop: ir.For, said: Decision, *rejected: tuple[Candidate, Reason]
    ) -> None:
        self._lowering.remarks.add("loop", loop.body.args[0].name, loop.span, said, *rejected)


def _lines(masks: Sequence[Mask]) -> tuple[int, ...]:
    return tuple(sorted({line for mask in masks if (line := line_of(mask.op))}))


def _needed(ops: Sequence[ir.OpBase], values: set[ir.Value]) -> list[ir.OpBase]:
    """Those of some pure ops that compute these values."""
    kept: list[ir.OpBase] = []
    for op in reversed(ops):
        if not values.isdisjoint(op.results):
            values.update(op.operand_values())
            kept.append(op)
    return kept[::-1]
