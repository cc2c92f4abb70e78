"""Loads of a loop that begin an iteration ahead of their use, and are held in registers.

In: what an iteration loads before anything else (`early_loads`), with the arithmetic of addresses,
and the ops after it.  Out: the same loads in front of the loop, for its first iteration, and the
ops of an iteration, which load for the next one behind the last use of what they have, and behind
the product after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.passes.identities import folded
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.rewriter import clone, rebuilt


def places(head: Sequence[ir.OpBase], early: Sequence[ir.OpBase]) -> list[ir.OpBase] | None:
    """Return the arithmetic before the early ops that these need; None where they need more."""
    needed = {v for op in early for v in op.all_operand_values()}
    found: list[ir.OpBase] = []
    for op in reversed(head):
        if not needed.isdisjoint(op.results):
            if not is_pure(op):
                return None
            found.insert(0, op)
            needed.update(op.operand_values())
    return found


def may_rotate(early: Sequence[ir.OpBase], late: Sequence[ir.OpBase]) -> bool:
    """Return whether loads may go an iteration ahead: no address of a tile follows from them, which
    a producer computes for itself."""
    tainted = {r for op in early if isinstance(op, ir.Load) for r in op.results}
    for op in (*early, *late):
        if tainted.isdisjoint(op.all_operand_values()):
            continue
        inside = op.with_inner_ops()
        if any(isinstance(o, ir.View | ir.Yield) for o in inside):
            return False
        if is_pure(op):
            tainted.update(op.results)
    return True


def rotated(
    loop: ir.For,
    found: Sequence[ir.OpBase],
    early: Sequence[ir.OpBase],
    late: Sequence[ir.OpBase],
) -> tuple[list[ir.OpBase], list[ir.OpBase]]:
    """Return the ops in front of a loop that counts up or down by constants, and those of its body
    from the first early one on; `found`: the arithmetic before them that they need."""
    trips = loop.static_range
    assert trips is not None
    variable = loop.body.args[0]
    made = _Rotated(ir.Builder(ir.Block(), loop.span), {})
    made.fill([*found, *early], {variable: loop.start})
    here: dict[ir.Value, ir.Value] = {}
    body = ir.Builder(ir.Block(), loop.span)
    for op in early:
        if isinstance(op, ir.Load):
            held = body.emit(ir.Load(made.held[op], [], True, span=op.span, hint=op.hint))
            here[op.result] = held.result
        elif is_pure(op):
            new = clone(op, here, {})
            here.update(zip(op.results, new.results))
            body.block.ops.append(new)
    after = ir.clone_block(ir.Block([], list(late)), here).ops
    scalars = {here[r] for op in early if isinstance(op, ir.Load) for r in op.results}
    fragments = {value for op, value in made.held.items() if isinstance(op, ir.Alloc)}
    at = _place(after, scalars, fragments)
    ahead = ir.Builder(ir.Block(), loop.span)
    following = folded(ir.Binary("add", variable, loop.step), ahead)
    last_one = ahead.constant(trips[-1])
    capped = ir.Binary("min" if trips.step > 0 else "max", following, last_one)
    following = folded(capped, ahead)
    _Rotated(ahead, made.held).fill([*found, *early], {variable: following})
    ops = [*body.block.ops, *after[:at], *ahead.block.ops, *after[at:]]
    return made.builder.block.ops, ops


def _place(after: Sequence[ir.OpBase], scalars: set[ir.Value], fragments: set[ir.Value]) -> int:
    """Return the index in front of which the loads for the next iteration stand.

    They stand behind the last use of what they replace: otherwise both are held, and the assembler
    copies one to the other where it waits for the load.  They stand behind the product after it,
    too: nothing runs meanwhile, and fences of shared memory, which wait for a thread's loads, stand
    in front of products.
    """
    last, variables = -1, set[ir.Value]()
    for at, op in enumerate(after):
        if not (scalars | fragments | variables).isdisjoint(op.all_operand_values()):
            last = at
        if isinstance(op, ir.Store) and op.buffer.buffer.space == "local":
            # A variable of the author's is a name for the same register.
            change = variables.add if op.value in scalars else variables.discard
            change(op.buffer)
    behind = (at for at, op in enumerate(after) if at > last and isinstance(op, ir.Gemm))
    return next(behind, last) + 1


class _Rotated:
    """Ops that load for one iteration."""

    def __init__(self, builder: ir.Builder, held: dict[ir.OpBase, ir.Value]) -> None:
        self.builder = builder
        self.held = held
        """Buffer of each scalar load, and of each fragment; made where it is not there."""

    def fill(self, early: Sequence[ir.OpBase], mapping: dict[ir.Value, ir.Value]) -> None:
        """Load all for an iteration, by the values of `mapping`."""
        for op in early:
            if isinstance(op, ir.Alloc):
                if op not in self.held:
                    self.held[op] = op.result
                    self.builder.block.ops.append(op)
                continue
            (new,) = ir.clone_block(ir.Block([], [op]), mapping).ops
            self.builder.block.ops.append(new)
            if isinstance(op, ir.Load):
                if op not in self.held:
                    kind, name = op.buffer.dtype, buffer_name(op.buffer)
                    alloc = ir.Alloc("local", (), kind, span=op.span, hint=f"{name}_ahead")
                    self.builder.block.ops.append(alloc)
                    self.held[op] = alloc.result
                self.builder.emit(ir.Store(new.results[0], self.held[op], [], True, span=op.span))


def with_taken(
    op: ir.Parallel, taken: Mapping[ir.OpBase, tuple[ir.Value, list[int]]]
) -> ir.Parallel:
    """Return a loop with elements of fragments, or scalars, in place of some of its loads.

    `taken` gives for each load the fragment and the dimensions of the loop that index it.
    """
    mapping: dict[ir.Value, ir.Value] = {}

    def rule(old: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if old not in taken:
            return None
        held, along = taken[old]
        if not along:
            return [held]
        at = [mapping[op.body.args[d]] for d in along]
        return [builder.emit(ir.Load(held, at, True)).result]

    return replace(op, body=rebuilt(op.body, mapping, rule))
