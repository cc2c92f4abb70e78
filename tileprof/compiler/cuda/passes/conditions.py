"""Conditions of `and` and `or` that read memory, without branches.

In: elementwise ops as `parallel`.  Out: the same, where an element that every way through nested
branches loads is loaded once before them, and what they yield is computed from it.

    %c = if %up {                                   %a = load x, [i]
      %a = load x, [i];  %b = load x, [j]           %b = load x, [j]
      yield gt %a, %b                          ⇒    %p = gt %a, %b;  %q = lt %a, %b
    } otherwise {                                   %c = or (and %up, %p), (and (not %up), %q)
      %a = load x, [i];  %b = load x, [j]
      yield lt %a, %b
    }

The lanes of a warp take both ways one after the other, each with its own loads, where they differ.
Whether every way loads an element is decided on the conditions as formulas: `up and …` and
`not up and …` together are every way.  So no thread reads what it would not have read before: no
address that is not there, and nothing that another thread writes at the same time.

A branch on nothing but what another one yields goes inside of it, where the assembler knows what
has been loaded:

    %c = if %in { …; yield %d } otherwise { yield false }        if %in {
    if %c {                                                 ⇒      …
      %a = load x, [i]; …                                           if %d { %a = load x, [i]; … }
    }                                                             }

Loads also go in front of stores to other buffers of shared memory, whose bytes the assembler cannot
tell apart: a thread that exchanges two pairs of elements then waits once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import MOST_CHOICES, MOST_CHOSEN
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, opened, per_launch

_Place = tuple[ir.Value, tuple[ir.Value, ...]]
"""A buffer and indices."""
_SLOW = frozenset({"div", "pow", "atan2", "floordiv", "floormod", "truncdiv", "truncmod"})
_FAST = frozenset({"neg", "not", "abs", "isnan", "isinf", "isfinite"})


def join_conditions(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """Return the kernel with such branches joined."""
    return per_launch(kernel, _in_launch)


def _in_launch(launch: ir.Launch) -> ir.Launch:
    uses = Counter(v for op in ir.walk(launch.body) for v in op.operand_values())
    return launch.with_body(_joined(launch.body, {}, uses))


def _joined(
    block: ir.Block, mapping: dict[ir.Value, ir.Value], uses: Counter[ir.Value]
) -> ir.Block:
    """Return a copy of a block and of all inside of it; `uses`: how often ops of the launch use
    each value."""
    made = opened(block, mapping)
    builder = ir.Builder(made)
    plans = {plan.ops[0]: plan for plan in _plans(block)}
    plan = _Plan()
    for op in block.ops:
        plan = plans.get(op, plan)
        builder.span = op.span
        if isinstance(op, ir.If) and op in plan.joined:
            results = plan.join(op, mapping, builder)
            mapping.update(zip(op.results, results, strict=True))
            continue
        regions = {name: _joined(getattr(op, name), mapping, uses) for name in op.SPEC.regions}
        new = clone(op, mapping, regions)
        builder.emit(new)
        mapping.update(zip(op.results, new.results))
    once = {
        mapping[r] for op in block.ops if isinstance(op, ir.If) for r in op.results if uses[r] == 1
    }
    made.ops[:] = _loads_first(_nested(made.ops, once))
    return made


# -- conditions


def _plans(block: ir.Block) -> Iterator[_Plan]:
    """Yield what is to be joined in each run of ops between which nothing is written."""
    run: list[ir.OpBase] = []
    for op in [*block.ops, None]:
        if op is not None and (is_pure(op) or isinstance(op, ir.Load) or _is_choice(op)):
            run.append(op)
            continue
        if any(isinstance(each, ir.If) for each in run):
            yield _planned(run)
        run = []


def _is_choice(op: ir.OpBase) -> bool:
    """Whether an op is a branch that only loads and computes what it yields."""
    if not isinstance(op, ir.If) or not op.results:
        return False
    return all(
        isinstance(each, ir.Load | ir.Yield) or _is_quick(each) or _is_choice(each)
        for block in op.blocks()
        for each in block.ops
    )


def _is_quick(op: ir.OpBase) -> bool:
    """Whether a scalar op may be computed for nothing."""
    match op:
        case ir.Binary(kind=kind):
            return kind not in _SLOW
        case ir.Unary(kind=kind):
            return kind in _FAST
        case _:
            return is_pure(op)


@dataclass(eq=False)
class _Plan:
    """Plan for the branches of a run."""

    ops: list[ir.OpBase] = field(default_factory=list)
    joined: set[ir.OpBase] = field(default_factory=set)
    inside: dict[_Place, bool] = field(default_factory=dict)
    """The elements that are loaded once, and whether all their accesses are in bounds."""
    loaded: dict[_Place, ir.Value] = field(default_factory=dict)

    def join(
        self, op: ir.If, mapping: dict[ir.Value, ir.Value], builder: ir.Builder
    ) -> list[ir.Value]:
        """Emit what a branch does without a branch; return its results."""
        for each in op.inner_ops():
            if isinstance(each, ir.Load) and _place(each) not in self.loaded:
                new = clone(each, mapping, {})
                assert isinstance(new, ir.Load)
                held = replace(new, in_bounds=self.inside[_place(each)])
                self.loaded[_place(each)] = builder.emit(held).result
        return self._flat(op, mapping, builder)

    def _flat(
        self, op: ir.If, mapping: dict[ir.Value, ir.Value], builder: ir.Builder
    ) -> list[ir.Value]:
        ends: list[list[ir.Value]] = []
        for block in op.blocks():
            for each in block.ops:
                match each:
                    case ir.Yield(values=values):
                        ends.append([mapping.get(value, value) for value in values])
                    case ir.Load():
                        mapping[each.result] = self.loaded[_place(each)]
                    case ir.If():
                        mapping.update(zip(each.results, self._flat(each, mapping, builder)))
                    case _:
                        new = builder.emit(clone(each, mapping, {}))
                        mapping.update(zip(each.results, new.results))
        condition = mapping.get(op.condition, op.condition)
        then, otherwise = ends
        return [_chosen(condition, a, b, builder) for a, b in zip(then, otherwise, strict=True)]


def _chosen(
    condition: ir.Value, then: ir.Value, otherwise: ir.Value, builder: ir.Builder
) -> ir.Value:
    """One of two values; of truths by bits, which no compiler makes a branch of."""
    if then.type != ir.dtype("bool"):
        return builder.emit(ir.Select(condition, then, otherwise)).result

    def both(a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.emit(ir.Binary("and", a, b)).result

    def either(a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.emit(ir.Binary("or", a, b)).result

    match _truth(then), _truth(otherwise):
        case (True, None):
            return either(condition, otherwise)
        case (None, False):
            return both(condition, then)
    fails = builder.emit(ir.Unary("not", condition)).result
    match _truth(then), _truth(otherwise):
        case (False, None):
            return both(fails, otherwise)
        case (None, True):
            return either(fails, then)
    return either(both(condition, then), both(fails, otherwise))


def _truth(value: ir.Value) -> bool | None:
    return bool(value.owner.value) if isinstance(value.owner, ir.Constant) else None


def _place(op: ir.Load) -> _Place:
    return op.buffer, tuple(op.indices)


def _planned(run: list[ir.OpBase]) -> _Plan:
    """Return which branches of a run can be joined: those of which every load is of an element that
    every way through the run loads."""
    plan = _Plan(run)
    ways = _Ways()
    guards: dict[_Place, _Formula] = {}
    ways.follow(run, _TRUE, guards, plan.inside)
    if ways.count > MOST_CHOICES:
        return plan
    always = {place for place, guard in guards.items() if ways.holds(guard)}
    made = {result for op in run for result in op.results}
    for op in run:
        if not isinstance(op, ir.If):
            continue
        inner = list(op.inner_ops())
        local = {result for each in inner for result in each.results}
        loads = [each for each in inner if isinstance(each, ir.Load)]
        places = {_place(each) for each in loads}
        known = all(local.isdisjoint(indices) and buffer not in made for buffer, indices in places)
        if loads and known and places <= always and len(inner) <= MOST_CHOSEN:
            plan.joined.add(op)
    return plan


@dataclass(frozen=True, slots=True)
class _Formula:
    """A truth as a number: bit n is its value where the unknown truths are the bits of n."""

    bits: int


_TRUE = _Formula(-1)
_FALSE = _Formula(0)


class _Ways:
    """The conditions of a run as formulas of truths that nothing is known of."""

    def __init__(self) -> None:
        self.count = 0
        """Truths that nothing is known of."""
        self.known: dict[ir.Value, _Formula] = {}

    def holds(self, formula: _Formula) -> bool:
        """Whether it is true whatever the unknown truths are."""
        whole = (1 << (1 << self.count)) - 1
        return formula.bits & whole == whole

    def of(self, value: ir.Value) -> _Formula:
        """Return the formula of a truth."""
        if value not in self.known:
            match value.owner:
                case ir.Constant(value=number):
                    self.known[value] = _TRUE if number else _FALSE
                case ir.Unary(kind="not", operand=operand):
                    self.known[value] = _Formula(~self.of(operand).bits)
                case ir.Binary(kind="and", left=left, right=right):
                    self.known[value] = _Formula(self.of(left).bits & self.of(right).bits)
                case ir.Binary(kind="or", left=left, right=right):
                    self.known[value] = _Formula(self.of(left).bits | self.of(right).bits)
                case _:
                    self.known[value] = self._unknown()
        return self.known[value]

    def _unknown(self) -> _Formula:
        at = self.count
        self.count += 1
        if at >= MOST_CHOICES:
            return _FALSE
        # Periods of 2^at zeros and as many ones, over all that MOST_CHOICES truths can be.
        period = 1 << at
        ones = ((1 << period) - 1) << period
        repeated = ones
        for more in range(at + 1, MOST_CHOICES):
            repeated |= repeated << (1 << more)
        return _Formula(repeated)

    def follow(
        self,
        ops: list[ir.OpBase],
        guard: _Formula,
        guards: dict[_Place, _Formula],
        inside: dict[_Place, bool],
    ) -> list[_Formula]:
        """Note under which condition each element is loaded; return what the ops yield."""
        ends: list[_Formula] = []
        for op in ops:
            match op:
                case ir.Load():
                    place = _place(op)
                    guards[place] = _Formula(guards.get(place, _FALSE).bits | guard.bits)
                    inside[place] = inside.get(place, True) and op.in_bounds
                case ir.Yield(values=values):
                    ends = [self.of(v) if v.type == ir.dtype("bool") else _FALSE for v in values]
                case ir.If(condition=condition, then=then, otherwise=otherwise):
                    test = self.of(condition).bits
                    yes = self.follow(then.ops, _Formula(guard.bits & test), guards, inside)
                    no = self.follow(otherwise.ops, _Formula(guard.bits & ~test), guards, inside)
                    for result, a, b in zip(op.results, yes, no, strict=True):
                        if result.type == ir.dtype("bool"):
                            self.known[result] = _Formula((test & a.bits) | (~test & b.bits))
        return ends


# -- branches inside of branches


def _nested(ops: list[ir.OpBase], once: set[ir.Value]) -> list[ir.OpBase]:
    """Return the ops with branches on what another branch yields inside of that one; `once`:
    results of branches that one op uses."""
    made: list[ir.OpBase] = []
    for op in ops:
        outer = op.condition.owner if isinstance(op, ir.If) and op.condition in once else None
        if isinstance(op, ir.If) and isinstance(outer, ir.If) and _may_hold(outer, op, made):
            made.remove(outer)
            *first, end = outer.then.ops
            assert isinstance(end, ir.Yield)
            inner = ir.If(end.values[0], op.then, ir.Block(), span=op.span)
            then = ir.Block(outer.then.args, [*first, inner])
            op = ir.If(outer.condition, then, ir.Block(), span=outer.span)
        made.append(op)
    return made


def _may_hold(outer: ir.If, op: ir.If, before: list[ir.OpBase]) -> bool:
    """Whether a branch can stand inside of another one, which stands in `before` and reads memory:
    it has no other way, and nothing is written between the two."""
    if op.results or op.otherwise.ops or len(outer.results) != 1 or outer not in before:
        return False
    *others, end = outer.otherwise.ops
    if not isinstance(end, ir.Yield) or _truth(end.values[0]) is not False:
        return False
    between = before[before.index(outer) + 1 :]
    reads = any(isinstance(o, ir.Load) for o in ir.walk(outer.then))
    return reads and _is_choice(outer) and all(map(is_pure, (*between, *others)))


# -- loads before stores


def _loads_first(ops: list[ir.OpBase]) -> list[ir.OpBase]:
    """Return the ops with loads from shared memory in front of stores to other buffers there, as
    far as their indices are known."""
    made: list[ir.OpBase] = []
    for op in ops:
        made.insert(_earliest(op, made) if isinstance(op, ir.Load) else len(made), op)
    return made


def _earliest(load: ir.Load, before: list[ir.OpBase]) -> int:
    """Return where a load may stand: in front of the first store that it can pass, or where it
    is."""
    place = len(before)
    if load.buffer.buffer.space != "shared":
        return place
    for at in range(len(before) - 1, -1, -1):
        match before[at]:
            case ir.Store(buffer=buffer):
                if buffer.buffer.space != "shared" or base(buffer) is base(load.buffer):
                    break
                place = at
            case ir.Load() | ir.Constant() | ir.Binary() | ir.Cast() as other:
                if other.result in load.indices:
                    break
            case _:
                break
    return place
