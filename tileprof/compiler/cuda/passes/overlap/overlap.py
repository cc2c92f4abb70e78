"""Loops whose last product runs under the arithmetic of the next iteration.

An iteration multiplies, computes with the result, and multiplies again.  The last product of an
iteration and the first of the next do not need each other, so both are issued before the arithmetic
between:

    for k (pipelined)                  for k in the first iteration, if there is one
      copy K[k] → K_s                    head and middle of iteration k
      gemm Q_s, K_s → s       ┐ head   for k in the other iterations
      max, exp, sum of s      ┐ middle   copy K[k] → K_s;      gemm Q_s, K_s → s
      w = s                   ┘      ⇒   copy V[k - 1] → V_s;  gemm w, V_s → o
      copy V[k] → V_s         ┐          max, exp, sum of s;   w = s
      gemm w, V_s → o         ┘ tail   for k in the last iteration, if there is one
                                         tail of iteration k

Only the head of an iteration moves, before the tail of the iteration before it; nothing else
changes its order.  So the tail may touch nothing that the head writes, and write nothing that it
touches.

Where an iteration ends with what uses the last product itself, that alone is the tail: it runs
beside the first product of the next iteration.

    gemm w, K_s → o         in the loop:  gemm Q_s, K_s → s   of iteration k
    add o to memory                       add o to memory     of iteration k - 1
In: products with instructions, loads chosen, elementwise ops as `parallel`.  Out: the same ops in
three loops; the waits of the products follow from the order (`waits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler.cuda.layouts.matrix import is_of_warp_groups
from tileprof.compiler.cuda.lowering import Lowering, line_of
from tileprof.compiler.cuda.passes.ping_pong.plan import alternates_alone, share_of
from tileprof.compiler.cuda.passes.pipeline.roles import is_replayed, is_ring_load, written_globals
from tileprof.compiler.cuda.resources import fragment_registers
from tileprof.compiler.cuda.target import WARP_GROUP
from tileprof.compiler.cuda.tuning import FRAGMENT_REGISTERS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import Wgmma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch, with_originals
from tileprof.remarks import Reason
from tileprof.remarks.common import StepNotOne
from tileprof.remarks.loops import (
    FragmentRegisters,
    HandsOver,
    InOrder,
    KeepsOrder,
    MustStay,
    NeedsSums,
    NeedsValue,
    NothingBeside,
    Overlap,
    RunsBeside,
    SharedBuffer,
)
from tileprof.remarks.products import IssuedBehind, UsedBehind

from .alive import most_registers
from .rotation import Parts, rotate


def overlap(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with such loops rotated, where warp groups multiply and others load."""
    if lowering.controls.overlap is False:
        return kernel
    return per_launch(kernel, lambda launch: _overlapped(launch, lowering))


def _overlapped(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    if not launch.schedule.warp_roles:
        return launch
    written = written_globals(launch, aliased=lowering.aliased)
    parts: dict[ir.OpBase, Parts] = {}
    crowded: set[ir.OpBase] = set()
    for loop in ir.walk(launch.body):
        if isinstance(loop, ir.For) and loop.kind == "pipelined" and len(_products(loop.body)) > 1:
            found = _parts(loop, written)
            if isinstance(found, Parts) and lowering.controls.overlap is None:
                found = _crowded(launch) or _handed_over(launch, loop, lowering) or found
            late = isinstance(found, _Missed)
            if late:
                found = _late_uses(launch, loop, written, lowering) or found
                crowded.add(loop)
            if isinstance(found, Parts):
                parts[loop] = found
            _note(loop, found, late, lowering)

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in parts:
            return None
        assert isinstance(new, ir.For)
        if old in crowded:
            new.schedule = replace(new.schedule, crowded=True)
        rotate(new, parts[old], builder)
        return []

    return with_originals(launch, rule) if parts else launch


@dataclass(frozen=True)
class _Missed:
    """Why a loop stays as it is."""

    reason: Reason
    op: ir.OpBase


def _note(loop: ir.For, found: Parts | _Missed, late: bool, lowering: Lowering) -> None:
    if isinstance(found, _Missed):
        reason = KeepsOrder(found.op.mnemonic, line_of(found.op), found.reason)
        lowering.remarks.add("for", "", loop.span, InOrder(), (Overlap(), reason))
        return
    first, *_, last = _products(loop.body)
    decision = UsedBehind if late else IssuedBehind
    lowering.remarks.add("gemm", "", last.span, decision(buffer_name(base(first.c))))


def _products(block: ir.Block) -> list[ir.Gemm]:
    """The products of warp groups that stand in a block itself."""
    return [o for o in block.ops if is_of_warp_groups(o)]


# -- may it be rotated


def _parts(loop: ir.For, written: set[ir.Value]) -> Parts | _Missed:
    """The parts of a loop's body, or why they cannot be told apart or moved."""
    step = loop.step.owner
    if not isinstance(step, ir.Constant) or step.value != 1:
        return _Missed(StepNotOne(), loop)
    acting = [o for o in loop.body.ops if not _floats(o, written)]
    if (fixed := next(filter(_is_fixed, acting), None)) is not None:
        return _Missed(MustStay(), fixed)
    first, *_, last = _products(loop.body)
    tail = acting[acting.index(last) :]
    tail = [*_loads_for(tail, acting), *tail]
    rest = [o for o in acting if o not in tail]
    at = rest.index(first)
    # Products complete in order: one that adds to the first's result must not wait for the tail.
    ends = (i for i, o in enumerate(rest) if i > at and not _only_multiplies(o))
    at = next(ends, len(rest))
    head, middle = rest[:at], rest[at:]
    if missed := _obstacle(head, middle, tail) or _carried(tail, rest):
        return missed
    place = {op: at for at, op in enumerate(loop.body.ops)}
    return Parts(*(tuple(place[o] for o in part) for part in (head, middle, tail)))


def _late_uses(
    launch: ir.Launch, loop: ir.For, written: set[ir.Value], lowering: Lowering
) -> Parts | None:
    """The parts of a body of which the tail is what uses the last product, without the product;
    None where it has no such end, or a head may not move before it."""
    step = loop.step.owner
    acting = [o for o in loop.body.ops if not _floats(o, written)]
    if not isinstance(step, ir.Constant) or step.value != 1 or any(map(_is_fixed, acting)):
        return None
    first, *_, last = _products(loop.body)
    end, begin = acting.index(last) + 1, acting.index(first) + 1
    head, middle, tail = acting[:begin], acting[begin:end], acting[end:]
    if not last.clear or base(last.c) is base(first.c):
        return None
    if not any(_clash(o, [last]) for o in tail):
        return None
    if any(_clash(o, tail) for o in head) or _carried(tail, [*head, *middle]):
        return None
    if lowering.controls.overlap is None:
        now = most_registers(launch, loop, [(o, 0) for o in acting])
        order = [*((o, 0) for o in head), *((o, 1) for o in tail), *((o, 0) for o in middle)]
        if most_registers(launch, loop, order) > max(now, FRAGMENT_REGISTERS):
            return None
    place = {op: at for at, op in enumerate(loop.body.ops)}
    return Parts(*(tuple(place[o] for o in part) for part in (head, middle, tail)))


def _only_multiplies(op: ir.OpBase) -> bool:
    return isinstance(op, ir.Gemm) or is_ring_load(op)


def _floats(op: ir.OpBase, written: set[ir.Value]) -> bool:
    """Whether an op only computes a value, which is the same wherever it is computed."""
    return is_replayed(op, written) or isinstance(op, ir.View | ir.Reinterpret)


def _is_fixed(op: ir.OpBase) -> bool:
    """Whether an op leaves the loop, reports, or hides products or loads."""
    inside = [*op.inner_ops()]
    if any(isinstance(o, ir.Gemm) or is_ring_load(o) for o in inside):
        return True
    kinds = ir.Break | ir.Continue | ir.Print | ir.Assert
    return any(isinstance(o, kinds) for o in (op, *inside))


def _loads_for(tail: Sequence[ir.OpBase], acting: Sequence[ir.OpBase]) -> list[ir.OpBase]:
    """The loads before the tail whose tiles only the tail uses."""
    others = [o for o in acting if o not in tail and not is_ring_load(o)]
    used = {base(t.value) for o in others for t in o.all_accesses()}
    wanted = {base(t.value) for o in tail for t in o.all_accesses()} - used
    return [
        o for o in acting if isinstance(o, ir.Copy) and is_ring_load(o) and base(o.target) in wanted
    ]


def _obstacle(
    head: Sequence[ir.OpBase], middle: Sequence[ir.OpBase], tail: Sequence[ir.OpBase]
) -> _Missed | None:
    """Return what keeps a head from moving before an earlier tail, or makes that useless."""
    product = next(o for o in tail if isinstance(o, ir.Gemm))
    sums = buffer_name(base(product.c))
    for op in tail[tail.index(product) + 1 :]:
        if _clash(op, [product]):
            return _Missed(NeedsSums(sums), op)
        if isinstance(op, ir.Parallel | ir.Reduce):
            return _Missed(RunsBeside(), op)
    for op in head:
        if name := _clash(op, tail):
            return _Missed(SharedBuffer(name), op)
    beside = [o for o in middle if not _clash(o, [product])]
    if not any(isinstance(o, ir.Parallel | ir.Reduce) for o in beside):
        return _Missed(NothingBeside(), product)
    return None


def _clash(op: ir.OpBase, others: Iterable[ir.OpBase]) -> str:
    """A buffer that an op and one of others touch and one of them writes; '' if there is none."""
    mine = list(op.all_accesses())
    for touch in (t for other in others for t in other.all_accesses()):
        for own in mine:
            if base(own.value) is base(touch.value) and (own.writes or touch.writes):
                return buffer_name(base(own.value))
    return ""


def _carried(tail: Iterable[ir.OpBase], rest: Sequence[ir.OpBase]) -> _Missed | None:
    """An op of the rest of the iteration that gives the tail a value."""
    given = {result: op for op in rest for result in op.results}
    for value in (v for op in tail for v in op.all_operand_values()):
        if value in given:
            return _Missed(NeedsValue(), given[value])
    return None


def _handed_over(launch: ir.Launch, loop: ir.For, lowering: Lowering) -> _Missed | None:
    """Whether exponentials fill the time in which another warp group multiplies."""
    products, groups = _products(loop.body), launch.block_threads // WARP_GROUP
    share = share_of(loop.body.ops, products)
    if groups < 2 or lowering.controls.ping_pong is False or not alternates_alone(share, products):
        return None
    for product in products:
        if not isinstance(product.lowering, Wgmma) or product.lowering.rows != groups:
            return None
    return _Missed(HandsOver(share), loop)


def _crowded(launch: ir.Launch) -> _Missed | None:
    """Whether fragments, of which more are alive at once than before, may not fit in registers."""
    held = [o.result for o in ir.walk(launch.body) if isinstance(o, ir.Alloc)]
    registers = int(fragment_registers(held, launch.block_threads))
    if registers <= FRAGMENT_REGISTERS:
        return None
    return _Missed(FragmentRegisters(registers), launch)
