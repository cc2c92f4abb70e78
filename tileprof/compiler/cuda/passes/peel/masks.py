"""Masks: where elements of a tile are replaced by a number.

    store (if seen then load s[i, j] else -inf), s[i, j]       where seen holds, nothing changes
    store (if seen then load s[i, j] * c else -inf), s[i, j]   … only the product is left
    store (if seen then 0 else -inf), s[i, j]                  … zeros are left
    if not seen { store -inf, s[i, j] }                        … nothing is left

A mask keeps its element where a condition holds, a formula over comparisons.
In: a loop whose elementwise ops are `parallel`.  Out: its masks, and copies of its body in which
some of them keep every element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.tuning import MASKED_VALUE
from tileprof.compiler.passes.liveness import keep_live, live_in
from tileprof.ir.memory import base
from tileprof.ir.rewriter import rebuilt


@dataclass(frozen=True)
class Test:
    """A bool value that is `holds`; what it follows from does not matter."""

    value: ir.Value
    holds: bool


@dataclass(frozen=True)
class All:
    """Every part holds; without parts, always."""

    parts: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Either:
    """One of the parts holds; without parts, never."""

    parts: tuple[Formula, ...] = ()


Formula = Test | All | Either
ALWAYS, NEVER = All(), Either()


def _joined(kind: type[All | Either], *parts: Formula) -> Formula:
    """The parts as one formula, in which `kind()` says nothing and its opposite everything."""
    decisive = NEVER if kind is All else ALWAYS
    left = tuple(p for p in parts if p != kind())
    if decisive in left:
        return decisive
    return left[0] if len(left) == 1 else kind(left)


def condition_formula(value: ir.Value, holds: bool = True) -> Formula:
    """When a bool value is `holds`."""
    match value.owner:
        case ir.Constant(value=known):
            return ALWAYS if bool(known) == holds else NEVER
        case ir.Unary(kind="not", operand=operand):
            return condition_formula(operand, not holds)
        case ir.Binary(kind="and" | "or" as kind, left=left, right=right):
            join = All if (kind == "and") == holds else Either
            return _joined(join, condition_formula(left, holds), condition_formula(right, holds))
        case ir.If() | ir.Select() as op if len(op.results) == 1:
            return _chosen(op, *(condition_formula(v, holds) for v in _choices(op)))
        case _:
            return Test(value, holds)


def _chosen(op: ir.If | ir.Select, then: Formula, otherwise: Formula) -> Formula:
    """When the choice of an op has what its two choices have under these conditions."""
    return _joined(
        Either,
        _joined(All, condition_formula(op.condition, True), then),
        _joined(All, condition_formula(op.condition, False), otherwise),
    )


def _choices(op: ir.If | ir.Select) -> tuple[ir.Value, ir.Value]:
    """The two values of an op with one result."""
    if isinstance(op, ir.Select):
        return op.then, op.otherwise
    return _yielded(op.then), _yielded(op.otherwise)


def _yielded(block: ir.Block) -> ir.Value:
    last = block.ops[-1]
    assert isinstance(last, ir.Yield)
    return last.values[0]


Choices = dict[ir.OpBase, bool | None]
"""The value of the condition of each choice; None where it may be both."""


@dataclass(frozen=True, eq=False)
class Mask:
    """One mask of a loop over elements."""

    op: ir.If | ir.Select
    kept: Formula
    """When it leaves its element."""
    taken: Choices
    """Truth of the conditions of its choices then."""


def masks_of(loop: ir.For) -> list[Mask]:
    """The masks in the loops over elements of a loop, in order."""
    loops = [o for o in ir.walk(loop.body) if isinstance(o, ir.Parallel)]
    return [mask for each in loops for mask in _Masks(each).found()]


class _Masks:
    """Those of one loop over elements."""

    def __init__(self, loop: ir.Parallel) -> None:
        self.ops = list(ir.walk(loop.body))
        self.inside = set(self.ops)
        self.uses = Counter(v for o in self.ops for v in o.operand_values())

    def found(self) -> Iterator[Mask]:
        """The outermost of each chain of choices."""
        made = [m for o in self.ops if isinstance(o, ir.If | ir.Select) and (m := self._mask(o))]
        within = {o for m in made for o in m.taken if o is not m.op}
        yield from (m for m in made if m.op not in within and _counts(m.kept))

    def _mask(self, op: ir.If | ir.Select) -> Mask | None:
        if not op.results:
            return self._guarded(op) if isinstance(op, ir.If) else None
        if len(op.results) != 1 or not op.results[0].dtype.is_float or _reads_global(op):
            return None
        for replaces in (self._is_number, _is_low):
            taken: Choices = {}
            kept = self._kept(op.results[0], replaces, taken)
            if kept not in (ALWAYS, NEVER):
                return Mask(op, kept, taken)
        return None

    def _guarded(self, op: ir.If) -> Mask | None:
        """A branch that only stores numbers."""
        for block, other, holds in ((op.then, op.otherwise, True), (op.otherwise, op.then, False)):
            stores = [o for o in block.ops if isinstance(o, ir.Store)]
            if not other.ops and stores and all(map(self._replaces, block.ops)):
                return Mask(op, condition_formula(op.condition, not holds), {op: not holds})
        return None

    def _replaces(self, op: ir.OpBase) -> bool:
        if isinstance(op, ir.Store):
            near = base(op.buffer).buffer.space in ("fragment", "shared")
            return near and self._is_number(op.value)
        return is_pure(op)

    def _is_number(self, value: ir.Value) -> bool:
        """Whether it is the same number for every element."""
        return isinstance(value.owner, ir.Constant) or value.owner not in self.inside

    def _kept(
        self, value: ir.Value, replaces: Callable[[ir.Value], bool], taken: Choices
    ) -> Formula:
        """When a value is none that replaces an element; notes the choices that are known then."""
        op = value.owner
        if not isinstance(op, ir.If | ir.Select) or op not in self.inside or len(op.results) != 1:
            return NEVER if replaces(value) else ALWAYS
        # One choice that is used elsewhere too may be made there where this one does not hold.
        if taken and self.uses[value] > 1:
            return ALWAYS
        taken[op] = True
        then, otherwise = (self._kept(v, replaces, taken) for v in _choices(op))
        if then == NEVER and otherwise != NEVER:
            taken[op] = False
        elif otherwise != NEVER:
            taken[op] = None
        return _chosen(op, then, otherwise)


def _is_low(value: ir.Value) -> bool:
    """Whether it is a number below all scores, where the other is what products are added to."""
    return isinstance(value.owner, ir.Constant) and value.owner.value <= MASKED_VALUE


def _counts(condition: Formula) -> bool:
    """Whether integers are compared somewhere, as they are for indices."""
    if not isinstance(condition, Test):
        return any(map(_counts, condition.parts))
    op = condition.value.owner
    return isinstance(op, ir.Compare) and op.left.dtype.is_integer


def _reads_global(op: ir.OpBase) -> bool:
    return any(
        isinstance(o, ir.Load) and base(o.buffer).buffer.space == "global" for o in op.inner_ops()
    )


# -- bodies without masks


def unmasked(block: ir.Block, masks: Iterable[Mask], values: dict[ir.Value, ir.Value]) -> ir.Block:
    """A copy of a block for iterations in which these masks keep every element; `values`: new ones
    for those from outside, and buffers of the block that are outside now."""
    taken = {op: holds for mask in masks for op, holds in mask.taken.items()}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(before, ir.Alloc) and before.result in values:
            return [values[before.result]]
        if taken.get(before) is None:
            return [] if isinstance(op, ir.Store) and _changes_nothing(op, builder.block) else None
        if isinstance(op, ir.Select):
            return [op.then if taken[before] else op.otherwise]
        assert isinstance(op, ir.If)
        ops = (op.then if taken[before] else op.otherwise).ops
        builder.block.ops += ops if not op.results else ops[:-1]
        return [_yielded(ir.Block([], ops))] if op.results else []

    made = rebuilt(block, dict(values), rule)
    keep_live(made, live_in(made))
    return made


def _changes_nothing(op: ir.Store, block: ir.Block) -> bool:
    """Whether a store puts an element back where the block has just loaded it."""
    load = op.value.owner
    if not isinstance(load, ir.Load) or load not in block.ops or load.buffer is not op.buffer:
        return False
    between = block.ops[block.ops.index(load) + 1 :]
    return list(load.indices) == list(op.indices) and all(
        is_pure(o) or isinstance(o, ir.Load) for o in between
    )
