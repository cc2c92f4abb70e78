"""Loops of a role that do nothing, or all, for a reason that is known before.

    if tile < total:                        if tile < total:
        valid[0] = 1                            valid[0] = 1
    else:                                   else:
        valid[0] = 0                ⇒           valid[0] = 0
    for k in range(n):                      if tile < total:
        if valid[0] != 0:                       for k in range(n):
            load(k)                                 load(k)

A loop with several such branches that have nothing to do with each other is one loop for each.

In: the ops of a role, and what its marks of barriers stand for.  Out: the same, changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone

from .barriers import BarrierUse

_Cell = tuple[ir.Value, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class _Flag:
    """A variable that a branch set to one of two numbers."""

    condition: ir.Value
    then: object
    otherwise: object


@dataclass
class Unswitching:
    """Changes of the blocks of a role."""

    uses: dict[ir.OpBase, BarrierUse]
    loops: set[ir.Block]
    """Bodies of loops around loads."""

    def block(self, block: ir.Block) -> None:
        """Take branches out of the loops of a block, and of those inside of it."""
        self._flags(block, {})
        self._branches_out(block)

    # -- what a variable says about a branch before

    def _flags(self, block: ir.Block, known: dict[_Cell, _Flag]) -> None:
        """Replace comparisons of variables that a branch has set by the condition of the branch."""
        same: dict[ir.Value, ir.Value] = {}
        cells: dict[ir.Value, _Cell] = {}
        for op in block.ops:
            match op:
                case ir.Load() if (cell := _cell(op)) is not None and cell in known:
                    cells[op.result] = cell
                case ir.Compare() if op.left in cells and isinstance(op.right.owner, ir.Constant):
                    flag, number = known[cells[op.left]], op.right.owner.value
                    if op.kind in ("eq", "ne"):
                        then, other = (
                            (n == number) == (op.kind == "eq") for n in (flag.then, flag.otherwise)
                        )
                        if then and not other:
                            same[op.result] = flag.condition
                case _:
                    pass
            written = {base(a.value) for a in op.all_accesses() if a.writes}
            inside = {c: f for c, f in known.items() if c[0] not in written}
            for inner in op.blocks():
                self._flags(inner, dict(inside))
            known = inside
            cells = {v: c for v, c in cells.items() if c in known}
            if isinstance(op, ir.If):
                known.update(_set_by(op))
        if same:
            self._replace(block, same)

    def _replace(self, block: ir.Block, mapping: dict[ir.Value, ir.Value]) -> None:
        for op in ir.walk(block):
            for name, many in op.SPEC.operands:
                held = getattr(op, name)
                if many:
                    setattr(op, name, [mapping.get(v, v) for v in held])
                elif held is not None:
                    setattr(op, name, mapping.get(held, held))
            if op in self.uses:
                use = self.uses[op]
                parity = use.parity and mapping.get(use.parity, use.parity)
                self.uses[op] = replace(use, index=mapping.get(use.index, use.index), parity=parity)

    # -- loops

    def _branches_out(self, block: ir.Block) -> None:
        made: list[ir.OpBase] = []
        for op in block.ops:
            for inner in op.blocks():
                self._branches_out(inner)
            apart = self._apart(op) if isinstance(op, ir.For) else None
            made += apart or [op]
        block.ops[:] = made

    def _apart(self, loop: ir.For) -> list[ir.OpBase] | None:
        """Return a loop as a branch around a loop for each branch that is all that it does."""
        inside = {value for op in loop.body.ops for value in op.results}
        computes = [op for op in loop.body.ops if isinstance(op, ir.ScalarOp | ir.Load)]
        branches = [op for op in loop.body.ops if isinstance(op, ir.If)]
        if not any(op in self.uses for op in loop.inner_ops()) or not branches or any(
            op.results or op.otherwise.ops or op.condition in inside for op in branches
        ) or len(computes) + len(branches) < len(loop.body.ops):  # fmt: skip
            return None
        touched = [{(base(a.value), a.writes) for a in op.all_accesses()} for op in branches]
        for at, one in enumerate(touched):
            for other in touched[at + 1 :]:
                if any(b is c and (w or x) for b, w in one for c, x in other):
                    return None
        written = {b for each in touched for b, writes in each if writes}
        if any(base(op.buffer) in written for op in computes if isinstance(op, ir.Load)):
            # What is read in an iteration is not what it was before.
            used = {v for op in branches for v in op.all_operand_values()}
            if any(op.result in used for op in computes if isinstance(op, ir.Load)):
                return None
        made: list[ir.OpBase] = []
        for branch in branches:
            number = ir.Value(loop.body.args[0].type, loop.body.args[0].name)
            mapping = {loop.body.args[0]: number}
            own: list[ir.OpBase] = []
            for op in computes:
                again = clone(op, mapping, {})
                mapping.update(zip(op.results, again.results))
                own.append(again)
            self._replace(branch.then, mapping)
            body = ir.Block([number], [*own, *branch.then.ops])
            if loop.body in self.loops:
                self.loops.add(body)
            bounds = loop.start, loop.stop, loop.step
            held = ir.For(loop.kind, *bounds, body, loop.num_stages, loop.hints, span=loop.span)
            sides = ir.Block(ops=[held]), ir.Block()
            made.append(ir.If(branch.condition, *sides, span=branch.span))
        return made


def _cell(op: ir.Load | ir.Store) -> _Cell | None:
    """Return the variable that an op reads or writes; None for memory of any other kind."""
    numbers = [i.owner.value for i in op.indices if isinstance(i.owner, ir.Constant)]
    if op.buffer.buffer.space != "local" or len(numbers) < len(op.indices):
        return None
    return op.buffer, tuple(numbers)


def _set_by(op: ir.If) -> dict[_Cell, _Flag]:
    """Return the variables that both sides of a branch set to numbers."""
    sides = []
    for block in (op.then, op.otherwise):
        found: dict[_Cell, object] = {}
        for inner in block.ops:
            for access in inner.all_accesses():
                if access.writes:
                    for cell in [c for c in found if c[0] is base(access.value)]:
                        del found[cell]
            at = _cell(inner) if isinstance(inner, ir.Store) else None
            if isinstance(inner, ir.Store) and at and isinstance(inner.value.owner, ir.Constant):
                found[at] = inner.value.owner.value
        sides.append(found)
    then, otherwise = sides
    return {c: _Flag(op.condition, then[c], otherwise[c]) for c in then if c in otherwise}
