"""The two ways of a loop: in vectors where all of its accesses are inside and aligned, or with
guards, element by element.

In: a launch in the form that the compiler gave its loops, with layouts, and what is known when it
starts.  Out: for each loop that the machine code has twice, both ways and the condition that blocks
decide by; `written_twice` puts them into the program, so that the interpreter goes the way of each
block.  The rule is that of `emit.loops.parallel`, whose planner and conditions these are.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren
from tileprof.compiler.codegen.expressions import is_pure, render
from tileprof.compiler.codegen.hoisting import always, hoisted
from tileprof.compiler.codegen.ranges import Comparison, Sum
from tileprof.compiler.codegen.values import Values
from tileprof.compiler.codegen.writer import Names, Writer
from tileprof.compiler.cuda.emit.buffers import Buffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.loops.alignment import Multiple
from tileprof.compiler.cuda.emit.loops.edges import slow_accesses, taken_apart
from tileprof.compiler.cuda.emit.loops.guards import opened
from tileprof.compiler.cuda.emit.loops.vectors import Planner, VectorAccess
from tileprof.compiler.cuda.emit.statements import range_of
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.ir.rewriter import clone, clone_block
from tileprof.ir.scalar import BinaryKind, CompareKind

_INT32 = 1 << 31
Condition = Comparison | Multiple
_KINDS: dict[str, CompareKind] = {"<": "lt", "<=": "le", ">=": "ge"}


@dataclass(frozen=True, eq=False)
class Way:
    """A loop with accesses of its own, and those that threads make for several points."""

    loop: ir.Parallel
    planner: Planner
    loads: Sequence[VectorAccess]
    """Loads in front of the points."""
    stores: Sequence[VectorAccess]
    """Stores and sums behind a vector's points."""
    is_fast: bool = True


@dataclass(frozen=True, eq=False)
class Ways:
    """Ways in which the points of a loop may run."""

    fast: Way
    slow: Way | None = None
    """None where the machine code has only the other one."""
    conditions: Sequence[Condition] = ()
    """Conditions that a block checks before it goes the fast way."""


@dataclass(eq=False)
class Finder:
    """Finder of the ways of a kernel's loops."""

    kernel: ir.Kernel
    buffers: Mapping[ir.Value, Buffer]
    """Parameters and shared buffers as the emission will know them."""
    vectorize: bool
    adds: bool
    """Whether neighbours in global memory can be added at once."""
    numbers: Mapping[str, int]
    """Numbers that names in the buffers' strides and pointers stand for."""
    met: set[ir.OpBase] = field(init=False, default_factory=set)
    """Loads of a branch whose element is loaded in front of both branches."""
    chosen: dict[ir.OpBase, ir.OpBase] = field(init=False, default_factory=dict)
    """Loads of a branch that share an instruction with one of the other branch, which is named."""
    _values: Values = field(init=False)
    _named: dict[str, ir.Value] = field(init=False, default_factory=dict)
    """Scalars by name."""

    def __post_init__(self) -> None:
        self._values = Values(Writer(), Names(), [], set(), {})
        tensors = [p.type for p in self.kernel.params if isinstance(p.type, ir.BufferType)]
        extents = {extent for each in tensors for extent in each.shape}
        for name, value in self.kernel.symbol_values().items():
            self._name(value, name)
            self._values.symbols[name] = name
            # Extents, unlike strides, fit into 31 bits.
            self._values.known[value] = (0, _INT32 - 1) if name in extents else (None, None)
        for value in self.kernel.param_values():
            self._name(value)
        for op in self.kernel.ops():
            self._visit(op)

    def _name(self, value: ir.Value, name: str = "") -> None:
        shown = name or f"value{len(self._named)}"
        self._values.values[value], self._named[shown] = shown, value

    def _visit(self, op: ir.OpBase) -> None:
        """Name an op's results and the variables of its blocks, and note their bounds."""
        known = self._values.known
        for value in op.results:
            self._name(value)
        for block in op.blocks():
            for value in block.args:
                self._name(value)
        match op:
            case ir.Launch(grid=grid):
                for variable, extent in zip(op.body.args, grid, strict=True):
                    high = self._values.interval(extent)[1]
                    known[variable] = (0, min(high or _INT32, _INT32) - 1)
            case ir.For():
                known[op.body.args[0]] = range_of(self._values, op)
            case ir.Parallel():
                self._values.bound(op)

    def find(self, op: ir.Parallel) -> Ways | None:
        """Return the ways of a loop with a layout; None where an extent is known at launch only."""
        shape = op.static_extents
        if shape is None:
            return None
        layout = parse_layout(op.layout, shape)

        def planned(loop: ir.Parallel) -> Planner:
            return Planner(
                op=loop, layout=layout, buffers=self.buffers, text=self._values.values.get,
                vectorize=self.vectorize, adds=self.adds,
            )  # fmt: skip

        general, loop = planned(op), op
        taken, branches = always(self._values, op, general.branches(), _as_it_is)
        if branches:
            loop = opened(op, branches)
            self._values.bound(loop)
        planner = planned(loop) if branches else general
        loads = planner.loads()
        stores = planner.stores(loads, lambda store: False)
        inside, proved = hoisted(self._values, loop, self._shape, _as_it_is)
        aligned = dict.fromkeys(c for access in (*loads, *stores) for c in access.conditions)
        fast = Way(loop, planner, *taken_apart(planner, loads, stores, proved))
        conditions: list[Condition] = [*taken, *inside, *aligned]
        if not conditions:
            return Ways(fast)
        other = op if branches else _copy(op)
        planner = general if branches else planned(other)
        loads = planner.loads()
        stores = planner.stores(loads, lambda store: False)
        slow = Way(other, planner, *slow_accesses(planner, loads, stores, ()), is_fast=False)
        return Ways(fast, slow, conditions)

    def _shape(self, value: ir.Value) -> Sequence[Extent] | None:
        held = self.buffers.get(value)
        return held.shape if isinstance(held, GlobalBuffer | SharedBuffer) else None

    def written_twice(self, ways: Mapping[ir.Parallel, Ways]) -> None:
        """Put the ways of loops, which this changes, in their places in the program."""
        for block in [block for op in self.kernel.ops() for block in op.blocks()]:
            if any(each in ways for each in block.ops):
                block.ops = [new for each in block.ops for new in self._branched(each, ways)]
        for found in ways.values():
            for way in (found.fast, found.slow):
                if way is not None:
                    ops = [*ir.walk(way.loop.body)]
                    branches = [b for op in ops if isinstance(op, ir.If) for b in op.blocks()]
                    last = {block.ops[-1] for block in branches if block.ops}
                    blocks = [way.loop.body, *(b for op in ops for b in op.blocks())]
                    # What an inner `if` has in front is behind the begin of the outer branch.
                    for block in blocks:
                        self.met.update(_hoist_loads(block, way))
                    for block in (*blocks[1:], blocks[0]):
                        self.chosen.update(_join_stores(block, way, last, self.met))

    def _branched(self, op: ir.OpBase, ways: Mapping[ir.Parallel, Ways]) -> list[ir.OpBase]:
        found = ways.get(op) if isinstance(op, ir.Parallel) else None
        if found is None or found.slow is None:
            return [op]
        front = ir.Block()
        builder = ir.Builder(front, op.span)
        inside = _inside(found.fast.loop)
        named = {**_outer_texts(self._values.values, found.fast.loop, inside), **self._named}
        asked = _Written(builder, named, self.numbers, inside).all_of(found.conditions)
        one, other = (ir.Block([], [each.loop]) for each in (found.fast, found.slow))
        builder.emit(ir.If(asked, one, other))
        self._sink(found.slow)
        return front.ops

    def _sink(self, slow: Way) -> None:
        """Put loads of shared memory that guarded stores alone need under their guard: a store that
        is left out then loads nothing."""
        self._sink_in(slow.loop.body)

    def _sink_in(self, body: ir.Block) -> None:
        """Do so for the ops of a block, or of the only branch that it ends with."""
        ops = body.ops
        match ops[-1] if ops else None:
            case ir.If() as last if not last.results and not last.otherwise.ops:
                self._sink_in(last.then)
                return
            case _:
                pass
        stores = [each for each in ops if isinstance(each, ir.Store)]
        if not stores or any(each.in_bounds or _is_shared(each) for each in stores):
            return
        if not all(is_pure(e) or isinstance(e, ir.Load | ir.Store) for e in ops):
            return
        first, *others = (_guarded_by(each) for each in stores)
        if any(each != first for each in others):
            return
        late, values = list[ir.OpBase](), set[ir.Value]()
        for each in ops:
            needs = not values.isdisjoint(each.operand_values())
            if _is_shared(each) or needs or each in stores:
                late.append(each)
                values.update(each.results)
        indices = [index for each in stores for index in each.indices]
        if len(late) == len(stores) or not values.isdisjoint(indices):
            return
        body.ops = [each for each in ops if each not in late]
        builder, named = ir.Builder(body, stores[-1].span), self.kernel.symbol_values()
        inside: ir.Value | None = None
        for index, extent in first:
            size = named[extent] if isinstance(extent, str) else builder.constant(extent)
            held = builder.emit(ir.Compare("lt", index, size)).result
            inside = held if inside is None else builder.emit(ir.Binary("and", inside, held)).result
        if inside is not None:
            builder.emit(ir.If(inside, ir.Block([], late), ir.Block()))


def _guarded_by(store: ir.Store) -> list[tuple[ir.Value, ir.Dim]]:
    """Return the indices that are compared with extents, but for numbers."""
    pairs = zip(store.indices, store.buffer.buffer.shape, strict=True)
    return [(i, extent) for i, extent in pairs if not isinstance(i.owner, ir.Constant)]


def _is_shared(op: ir.OpBase) -> bool:
    """Return whether an op loads from shared memory or stores there."""
    return isinstance(op, ir.Load | ir.Store) and op.buffer.buffer.space == "shared"


def _are_equal(one: ir.Value, other: ir.Value) -> bool:
    """Return whether two values are computed alike from the same ones."""
    a, b = one.owner, other.owner
    if one is other or a is None or b is None or not is_pure(a) or not _do_alike(a, b):
        return one is other
    same = one.type == other.type
    return same and all(map(_are_equal, a.operand_values(), b.operand_values()))


def _do_alike(a: ir.OpBase, b: ir.OpBase) -> bool:
    """Return whether two ops are of one kind with equal attributes."""
    if a.mnemonic != b.mnemonic:
        return False
    names = (*a.SPEC.positional, *(name for name, _ in a.SPEC.attributes))
    return all(getattr(a, n) == getattr(b, n) for n in names)


def _hoist_loads(block: ir.Block, way: Way) -> Iterator[ir.Load]:
    """Put the loads that both branches of an `if` begin with in front of it, as NVRTC does; yield
    those of the second branch, which are made no more."""
    front = {each for access in way.loads for each in access.ops}
    made: list[ir.OpBase] = []
    for op in block.ops:
        rest = op.otherwise.ops if isinstance(op, ir.If) else []
        while isinstance(op, ir.If):
            one, other = _first_load(op.then.ops), _first_load(rest)
            if one is None or other is None or not front.isdisjoint((one, other)):
                break
            if not (way.is_fast or (one.in_bounds and other.in_bounds)) or not _ask_alike(
                one, other
            ):
                break
            at = op.then.ops.index(one) + 1
            made += op.then.ops[:at]
            op.then.ops, rest = op.then.ops[at:], rest[rest.index(other) + 1 :]
            yield other
        made.append(op)
    block.ops = made


def _first_load(ops: Iterable[ir.OpBase]) -> ir.Load | None:
    """Return the load of memory that ops begin with, but for what computes indices."""
    for op in ops:
        if isinstance(op, ir.Load) and op.buffer.buffer.space in ("global", "shared"):
            return op
        if not is_pure(op) or not all(each.dtype.is_integer for each in op.results):
            return None
    return None


def _ask_alike(one: ir.Load, other: ir.Load) -> bool:
    """Return whether two loads ask for the same element."""
    alike = all(map(_are_equal, one.indices, other.indices))
    return one.buffer is other.buffer and alike


def _join_stores(
    block: ir.Block, way: Way, last: Container[ir.OpBase], met: Container[ir.OpBase]
) -> dict[ir.OpBase, ir.OpBase]:
    """Make one store of those that end both branches of an `if` at one place, as NVRTC does where
    neither is guarded.  Those behind the points stand in branches of their own.  Return the loads
    that share an instruction with one of the other branch, each with that one.

    met: loads whose element is loaded in front of both branches.
    last: the ops that end a branch.  What follows such an `if` is reached past both stores, too, so
    that NVRTC leaves each in its branch.  It also leaves them if one copies a narrow float from
    memory, as a structure, and the other makes its value.
    """
    made: list[ir.OpBase] = []
    shared: dict[ir.OpBase, ir.OpBase] = {}
    behind = {each for access in way.stores for each in access.ops}
    front = {each for access in way.loads for each in access.ops}
    for op in block.ops:
        ends = [each.ops[-1] if each.ops else None for each in op.blocks()]
        match ends:
            case [ir.Store() as one, ir.Store() as other] if (
                isinstance(op, ir.If)
                and op not in last
                and _is_copied(one) == _is_copied(other)
                and behind.isdisjoint((one, other))
                and (way.is_fast or (one.in_bounds and other.in_bounds))
                and one.buffer is other.buffer
                and all(map(_are_equal, one.indices, other.indices))
            ):
                wanted = set(one.indices)
                for each in reversed(op.then.ops[:-1]):
                    if wanted.intersection(each.results):
                        wanted.update(each.operand_values())
                first = [each for each in op.then.ops if wanted.intersection(each.results)]
                rest = [each for each in op.then.ops[:-1] if each not in first]
                pairs = _sunk(one.value, other.value, met) or {}
                if front.isdisjoint((*pairs, *pairs.values())):
                    shared.update(pairs)
                then = ir.Block([], [*rest, ir.Yield([one.value])])
                otherwise = ir.Block([], [*op.otherwise.ops[:-1], ir.Yield([other.value])])
                chosen = ir.If(op.condition, then, otherwise, span=op.span)
                one.value = chosen.results[0]
                made += [*first, chosen, one]
            case _:
                made.append(op)
    block.ops = made
    return shared


def _sunk(
    one: ir.Value, other: ir.Value, met: Container[ir.OpBase]
) -> dict[ir.OpBase, ir.OpBase] | None:
    """Return the loads of the second value that share an instruction with one of the first, each
    with that one, where NVRTC computes both values behind their branches; None where it does not.

    It moves instructions of one kind of which no more than one operand has to be chosen by branch:
    of a load either the buffer or the index.
    """
    a, b = one.owner, other.owner
    if a is None or b is None or one.type != other.type:
        return None
    if isinstance(a, ir.Load) and isinstance(b, ir.Load):
        space, alike = a.buffer.buffer.space, all(map(_are_equal, a.indices, b.indices))
        fits = space == b.buffer.buffer.space == "global" and b not in met
        return {b: a} if fits and alike != (a.buffer is b.buffer) else None
    if not is_pure(a) or not _do_alike(a, b):
        return None
    found: dict[ir.OpBase, ir.OpBase] = {}
    chosen = 0
    for each, its in zip(a.operand_values(), b.operand_values(), strict=True):
        if not _are_equal(each, its) and its.owner not in met:
            pairs = _sunk(each, its, met)
            found.update(pairs or {})
            chosen += pairs is None
    return found if chosen <= 1 else None


def _is_copied(store: ir.Store) -> bool:
    """Return whether a store passes on a float of 2 bytes or less as it is in memory."""
    dtype = store.buffer.buffer.dtype
    return dtype.is_float and dtype.bytes < 4 and isinstance(store.value.owner, ir.Load)


def _as_it_is(value: ir.Value, bound: Sum) -> Sum:
    return bound


def _copy(op: ir.Parallel) -> ir.Parallel:
    made = clone(op, {}, {"body": clone_block(op.body, {})})
    assert isinstance(made, ir.Parallel)
    return made


# -- conditions as ops


@dataclass(frozen=True, eq=False)
class _Written:
    """Writer of conditions into a program."""

    builder: ir.Builder
    named: Mapping[str, ir.Value]
    numbers: Mapping[str, int]
    inside: Set[ir.Value]
    """Values that the points compute."""
    _copies: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Copies, in front of the loop, of what its points compute."""

    def all_of(self, conditions: Sequence[Condition]) -> ir.Value:
        """Return whether all of the conditions hold."""
        made: ir.Value | None = None
        for each in conditions:
            held = self._one(each)
            both = held if made is None else self.builder.emit(ir.Binary("and", made, held)).result
            made = both
        assert made is not None
        return made

    def _one(self, condition: Condition) -> ir.Value:
        if isinstance(condition, Multiple):
            by = self.builder.constant(condition.of)
            rest = self._binary("floormod", self._number(condition.number), by)
            return self.builder.emit(ir.Compare("eq", rest, self.builder.constant(0))).result
        kind = _KINDS[condition.sign]
        left, right = self._number(condition.left), self._number(condition.right)
        return self.builder.emit(ir.Compare(kind, left, right)).result

    def _number(self, number: Sum | Extent) -> ir.Value:
        if isinstance(number, int):
            return self.builder.constant(number)
        if isinstance(number, str):
            if number in self.numbers:
                return self.builder.constant(self.numbers[number])
            return self._copied(self.named[number])
        made = self.builder.constant(number.constant)
        for text, factor in number.terms.items():
            scaled = self._binary("mul", self._number(text), self.builder.constant(factor))
            made = self._binary("add", made, scaled)
        return made

    def _binary(self, kind: BinaryKind, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.emit(ir.Binary(kind, a, b)).result

    def _copied(self, value: ir.Value) -> ir.Value:
        """Return a value in front of the loop."""
        if value not in self.inside:
            return value
        if value not in self._copies:
            assert value.owner is not None
            operands = {each: self._copied(each) for each in value.owner.operand_values()}
            self._copies[value] = self.builder.emit(clone(value.owner, operands, {})).results[0]
        return self._copies[value]


def _inside(loop: ir.Parallel) -> set[ir.Value]:
    """Return what is computed inside of a loop."""
    found = set(loop.body.args)
    for op in ir.walk(loop.body):
        found.update(op.results, *(block.args for block in op.blocks()))
    return found


def _outer_texts(
    names: Mapping[ir.Value, str], loop: ir.Parallel, inside: set[ir.Value]
) -> dict[str, ir.Value]:
    """Return values that points compute from nothing but what is outside of their loop, by the
    texts that the emission gives them in front of it."""
    texts: dict[ir.Value, str | None] = {}

    def text_of(value: ir.Value) -> str | None:
        if isinstance(value.owner, ir.Constant):
            return str(int(value.owner.value)) if value.dtype.is_integer else None
        return texts.get(value) if value in inside else names.get(value)

    for op in ir.walk(loop.body):
        if is_pure(op) and len(op.results) == 1 and not isinstance(op, ir.Constant):
            given = [text_of(each) for each in op.operand_values()]
            known = [paren(each) for each in given if each is not None]
            texts[op.results[0]] = render(op, known) if len(known) == len(given) else None
    return {text: value for value, text in texts.items() if text is not None}
