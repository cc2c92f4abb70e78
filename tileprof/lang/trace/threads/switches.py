"""Branches that differ in one number, joined to what they do with that number.

    stage = k % 2
    if stage == 0:
        T.copy(A[k], a[0, :, :])      ⇒      T.copy(A[k], a[k % 2, :, :])
    if stage == 1:
        T.copy(A[k], a[1, :, :])

A loop over the numbers that does the same is one iteration of it:

    for s in range(2):
        if k % 2 == s:                ⇒      T.copy(A[k], a[k % 2, :, :])
            T.copy(A[k], a[s, :, :])

In: a block, and what its marks of barriers stand for.  Out: the same block, changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.ir.rewriter import clone

from .barriers import BarrierUse


def joined_cases(block: ir.Block, uses: dict[ir.OpBase, BarrierUse], loops: set[ir.Block]) -> bool:
    """Join the branches for each value of `x % n`, where they differ in that value alone.

    `loops` has the bodies of loops around loads, and gets that of a loop around one that goes.
    Returns whether such a loop was directly in the block.
    """
    loaded = False
    for op in list(block.ops):
        inner = [joined_cases(held, uses, loops) for held in op.blocks()]
        if any(inner) and isinstance(op, ir.For):
            loops.add(op.body)
        elif any(inner):
            loaded = True
        made = _only_iteration(op, uses) if isinstance(op, ir.For) else None
        if made is not None and isinstance(op, ir.For):
            loaded |= op.body in loops
            at = block.ops.index(op)
            block.ops[at : at + 1] = made
    _join_branches(block, uses)
    return loaded


def _only_iteration(loop: ir.For, uses: dict[ir.OpBase, BarrierUse]) -> list[ir.OpBase] | None:
    """Return the ops of the one iteration of a loop over 0 to n - 1 that does anything, that of
    `x % n`; None for any other loop."""
    (number,) = loop.body.args
    branches = [op for op in loop.body.ops if not isinstance(op, ir.ScalarOp)]
    numbers = loop.static_range
    branch = branches[0] if len(branches) == 1 else None
    if (
        not isinstance(branch, ir.If)
        or branch.results
        or branch.otherwise.ops
        or numbers != range(len(numbers or ()))
        or loop.body.ops[-1] is not branch
    ):
        return None
    compared = branch.condition.owner
    if not isinstance(compared, ir.Compare) or compared.kind != "eq":
        return None
    sides = [compared.left, compared.right]
    if number not in sides:
        return None
    other = sides[1 - sides.index(number)]
    inner = {value for op in loop.body.ops for value in op.results}
    source = other.owner.operand if isinstance(other.owner, ir.Cast) else other
    values = source.owner
    count = values.right.owner if isinstance(values, ir.Binary) else None
    if (
        source in inner
        or not isinstance(values, ir.Binary)
        or values.kind != "floormod"
        or not isinstance(count, ir.Constant)
        or count.value != len(numbers)
    ):
        return None
    made = [*loop.body.ops[:-1], *branch.then.ops]
    for op in (o for each in made for o in each.with_inner_ops()):
        if op is not other.owner:
            _take(op, [other if v is number else v for v in op.operand_values()])
        if op in uses:
            use = uses[op]
            uses[op] = replace(
                use, index=other if use.index is number else use.index,
                parity=other if use.parity is number else use.parity,
            )  # fmt: skip
    # What the number is comes before what uses it.
    return sorted(made, key=lambda op: op is not other.owner)


def _join_branches(block: ir.Block, uses: dict[ir.OpBase, BarrierUse]) -> None:
    done = 0
    while done < len(block.ops):
        cases = _cases(block.ops, done)
        made = _Join(cases, uses).joined() if len(cases) > 1 else None
        if made is None:
            done += 1
            continue
        last = block.ops.index(cases[-1])
        between = [o for o in block.ops[done : last + 1] if o not in cases]
        block.ops[done : last + 1] = [*between, *made]


def _cases(ops: Sequence[ir.OpBase], start: int) -> list[ir.If]:
    """Return the branches that begin at a place, one for each value of `x % n` in order."""
    found: list[ir.If] = []
    of: ir.Value | None = None
    for op in ops[start:]:
        if isinstance(op, ir.ScalarOp) and found:
            continue
        compared = op.condition.owner if isinstance(op, ir.If) else None
        if (
            not isinstance(op, ir.If)
            or op.results
            or op.otherwise.ops
            or not isinstance(compared, ir.Compare)
            or compared.kind != "eq"
            or not isinstance(compared.right.owner, ir.Constant)
            or compared.right.owner.value != len(found)
            or (of is not None and compared.left is not of)
        ):
            break
        of = compared.left
        found.append(op)
    values = of.owner if of is not None else None
    count = values.right.owner if isinstance(values, ir.Binary) else None
    whole = (
        isinstance(values, ir.Binary)
        and values.kind == "floormod"
        and isinstance(count, ir.Constant)
        and count.value == len(found)
    )
    return found if whole else []


class _Join:
    """The ops of several cases, compared one by one."""

    def __init__(self, cases: Sequence[ir.If], uses: dict[ir.OpBase, BarrierUse]) -> None:
        self.cases = cases
        self.uses = uses
        compared = cases[0].condition.owner
        assert isinstance(compared, ir.Compare)
        self.number = compared.left
        self.as_index = ir.Cast(self.number, ir.dtype("index"))
        self.alike: dict[tuple[ir.Value, ...], ir.Value] = {}
        """The value that stands for those of the cases."""
        self.marks: dict[ir.OpBase, BarrierUse] = {}

    def joined(self) -> list[ir.OpBase] | None:
        """Return the ops for any case; None where the cases differ in more than their number."""
        ops = self._ops([case.then.ops for case in self.cases])
        if ops is None:
            return None
        self.uses.update(self.marks)
        kind = self.number.dtype
        return ops if kind == ir.dtype("index") else [self.as_index, *ops]

    def _ops(self, lists: Sequence[Sequence[ir.OpBase]]) -> list[ir.OpBase] | None:
        if len({len(each) for each in lists}) > 1:
            return None
        made = []
        for row in zip(*lists):
            op = self._op(row)
            if op is None:
                return None
            made.append(op)
        return made

    def _op(self, row: Sequence[ir.OpBase]) -> ir.OpBase | None:
        one = row[0]
        if isinstance(one, ir.Constant):
            # One that differs is replaced where it is used.
            values = tuple(o.result for o in row if isinstance(o, ir.Constant))
            if len(values) < len(row):
                return None
            self.alike.setdefault(values, one.result)
            return one
        plain = all(
            type(o) is type(one)
            and all(getattr(o, name) == getattr(one, name) for name in _attributes(one))
            for o in row
        )
        found: list[ir.Value] = []
        operands = [list(o.operand_values()) for o in row]
        if not plain or len({len(each) for each in operands}) > 1:
            return None
        for values in zip(*operands):
            held = self._value(values)
            if held is None:
                return None
            found.append(held)
        regions = {}
        for name in one.SPEC.regions:
            blocks = [getattr(o, name) for o in row]
            for values in zip(*(b.args for b in blocks)):
                self.alike[values] = values[0]
            ops = self._ops([b.ops for b in blocks])
            if ops is None:
                return None
            regions[name] = ir.Block(blocks[0].args, ops)
        made = clone(one, {}, regions)
        _take(made, found)
        for values in zip(*(o.results for o in row), made.results):
            self.alike[values[:-1]] = values[-1]
        return made if self._mark(row, made) else None

    def _mark(self, row: Sequence[ir.OpBase], made: ir.OpBase) -> bool:
        """Note what a mark stands for; return whether all cases mean the same."""
        marks = [self.uses[o] for o in row if o in self.uses]
        if not marks:
            return True
        one = marks[0]
        index = self._value([m.index for m in marks])
        parities = [m.parity for m in marks if m.parity is not None]
        parity = self._value(parities) if parities else None
        if (
            len(marks) < len(row)
            or any(m.kind != one.kind or m.barrier is not one.barrier for m in marks)
            or index is None
            or (parities and (len(parities) < len(row) or parity is None))
        ):
            return False
        self.marks[made] = replace(one, index=index, parity=parity)
        return True

    def _value(self, values: Sequence[ir.Value]) -> ir.Value | None:
        """Return what stands for a value of each case."""
        if all(v is values[0] for v in values):
            return values[0]
        constants = [v.owner for v in values if isinstance(v.owner, ir.Constant)]
        if len(constants) == len(values):
            if [c.value for c in constants] == list(range(len(values))):
                if values[0].type == self.number.type:
                    return self.number
                return self.as_index.result if values[0].dtype == ir.dtype("index") else None
            if all(c.value == constants[0].value and c.dtype == constants[0].dtype
                   for c in constants):  # fmt: skip
                return self.alike.get(tuple(values), values[0])
            return None
        return self.alike.get(tuple(values))


def _take(op: ir.OpBase, values: Sequence[ir.Value]) -> None:
    """Give an op these operands, in their order."""
    left = iter(values)
    for name, many in op.SPEC.operands:
        held = getattr(op, name)
        if many:
            setattr(op, name, [next(left) for _ in held])
        elif held is not None:
            setattr(op, name, next(left))


def _attributes(op: ir.OpBase) -> list[str]:
    operands = {name for name, _ in op.SPEC.operands}
    return [n for n in op.SPEC.kept if n not in operands and n not in ("span", "hint")]
