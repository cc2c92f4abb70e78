"""Loops in place of one whose masks change nothing in some iterations.

    for k in 0..w        for k in 0..n
      …                    …
    for k in w..n          if k < w { the loop over elements without its mask }
      … with the mask      otherwise { with it }
      …                    …

Loops one after the other are best for the steady iterations.  But each has addresses of its own to
keep, and where fragments fill the registers already these would be spilled: there one loop has a
branch.
In: a launch, and plans for its loops.  Out: the launch with the loops as planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.ir.rewriter import clone, clone_block, opened, with_originals

from .masks import Mask, unmasked

Values = dict[ir.Value, ir.Value]


@dataclass(frozen=True)
class Plan:
    """Without these masks from iteration `first` to before `stop`; `before` computes both."""

    masks: Sequence[Mask]
    before: Sequence[ir.OpBase]
    first: ir.Value
    stop: ir.Value
    as_loops: bool
    """Whether as loops one after the other; else one loop with a branch."""


def planned(launch: ir.Launch, plans: Mapping[ir.OpBase, Plan]) -> ir.Launch:
    """The launch with its loops as planned."""
    values: Values = {}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if before not in plans:
            return None
        assert isinstance(before, ir.For)
        plan = plans[before]
        # What has been rebuilt inside is not used.
        for inside in (*before.body.args, *(r for o in ir.walk(before.body) for r in o.results)):
            del values[inside]
        for each in plan.before:
            _copied(each, values, builder)
        make = _loops if plan.as_loops else _branch
        make(before, plan, values, builder)
        return []

    return with_originals(launch, rule, values)


def _copied(op: ir.OpBase, values: Values, builder: ir.Builder) -> None:
    made = builder.emit(clone(op, values, {}))
    values.update(zip(op.results, made.results))


def _loops(loop: ir.For, plan: Plan, values: Values, builder: ir.Builder) -> None:
    """Up to three loops, one after the other."""
    # One buffer in shared memory does for all of them.
    for op in loop.body.ops:
        if isinstance(op, ir.Alloc) and op.space == "shared":
            _copied(op, values, builder)
    parts = [(plan.first, plan.stop, True)]
    if plan.first is not loop.start:
        parts.insert(0, (loop.start, plan.first, False))
    if plan.stop is not loop.stop:
        parts.append((plan.stop, loop.stop, False))
    for start, stop, bare in parts:
        body = unmasked(loop.body, plan.masks if bare else [], values)
        _emit(loop, start, stop, body, values, builder)


def _branch(loop: ir.For, plan: Plan, values: Values, builder: ir.Builder) -> None:
    """One loop, in which the loops over elements that have masks stand twice."""
    chosen = {op for mask in plan.masks for op in mask.taken}
    body = opened(loop.body, values)
    inner = ir.Builder(body, loop.span)
    bare = _is_bare(loop, plan, values, inner)
    for op in loop.body.ops:
        alone = ir.Block([], [op])
        if chosen.isdisjoint(ir.walk(alone)):
            body.ops += clone_block(alone, values).ops
        else:
            without = unmasked(alone, plan.masks, values)
            inner.emit(ir.If(bare, without, clone_block(alone, values), span=op.span))
    _emit(loop, loop.start, loop.stop, body, values, builder)


def _is_bare(loop: ir.For, plan: Plan, values: Values, builder: ir.Builder) -> ir.Value:
    """Whether an iteration is one without masks."""
    at, *tests = builder.block.args
    if plan.first is not loop.start:
        first = values.get(plan.first, plan.first)
        tests.append(builder.emit(ir.Compare("ge", at, first)).result)
    if plan.stop is not loop.stop:
        stop = values.get(plan.stop, plan.stop)
        tests.append(builder.emit(ir.Compare("lt", at, stop)).result)
    return tests[0] if len(tests) == 1 else builder.emit(ir.Binary("and", *tests)).result


def _emit(
    loop: ir.For,
    start: ir.Value,
    stop: ir.Value,
    body: ir.Block,
    values: Values,
    builder: ir.Builder,
) -> None:
    start, stop, step = (values.get(v, v) for v in (start, stop, loop.step))
    held = loop.num_stages, loop.hints, loop.schedule
    builder.emit(ir.For(loop.kind, start, stop, step, body, *held))
