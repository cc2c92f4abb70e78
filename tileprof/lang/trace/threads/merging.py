"""Roles with loops of their own, merged into the one program that they amount to.

    if tx < 128:                                for k in range(n):
        for k in range(n):                          T.barrier_wait(free[k % 2], …)
            T.barrier_wait(free[k % 2], …)          T.tma_copy(A[k], a[k % 2], …)
            T.tma_copy(A[k], a[k % 2], …)   ⇒       T.barrier_arrive(full[k % 2])
            T.barrier_arrive(full[k % 2])           T.barrier_wait(full[k % 2], …)
    else:                                           T.gemm(a[k % 2], …)
        for k in range(n):                          T.barrier_arrive(free[k % 2])
            T.barrier_wait(full[k % 2], …)
            T.gemm(a[k % 2], …)
            T.barrier_arrive(free[k % 2])

Roles run at once on a GPU, and barriers say in which orders.  One of these orders is looked for:
loops in which roles use barriers run together where they have the same bounds, branches where they
have the same condition, and within them one role comes before another.  Each role gets variables of
its own, so that what is the same for all threads of a role is the same for the block.  Whether the
barriers allow the order is checked afterwards (`barriers`).

In: the body of a launch, and what its marks stand for.  Out: the body with merged roles, and its
marks with the threads that come there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, rebuilt
from tileprof.ir.scalar import zero_of

from .barriers import Active, BarrierUse, Uses
from .differences import Differences, is_meeting
from .known import KnownValues
from .switches import joined_cases
from .unswitching import Unswitching

_MOST_ROLES = 4
"""Roles whose orders are all tried."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A body whose roles were merged."""

    body: ir.Block
    uses: dict[ir.OpBase, BarrierUse]
    loops: set[ir.Block]
    """Bodies of loops around loads of a role."""
    products: int
    """Threads of the roles that multiply tiles, 0 where none does."""


def orders(
    body: ir.Block, uses: Uses, loops: Iterable[ir.Block], numbers: Mapping[ir.Value, int],
    threads: Sequence[int],
) -> Iterator[Merged]:  # fmt: skip
    """Yield the body of a launch with its roles merged, once for each order that is worth a try."""
    known = KnownValues(numbers, threads)
    roles = max((len(run.roles) for block in _blocks(body) for run in _runs(block, uses, known)),
                default=0)  # fmt: skip
    if not 1 < roles <= _MOST_ROLES:
        return
    for eager, order in product((False, True), permutations(range(roles))):
        made, uses_made, loops_made = _copied(body, uses, set(loops))
        merging = _Merging(made, uses_made, loops_made, numbers, threads, order, eager)
        try:
            merging.block(made)
        except _NoOrder:
            continue
        merging.finish()
        yield Merged(made, merging.uses, merging.loops, merging.products)


class _NoOrder(Exception):
    """Roles cannot be put into one order in this way."""


# -- roles


@dataclass(frozen=True, slots=True)
class _Condition:
    """A branch by the number of the thread, and the side of it that a role takes."""

    value: ir.Value
    taken: bool


@dataclass(slots=True, eq=False)
class _Role:
    """Work of some threads of a block."""

    threads: Active
    conditions: tuple[_Condition, ...]
    ops: list[ir.OpBase]

    @property
    def count(self) -> int:
        """Number of its threads."""
        return sum(self.threads)


@dataclass(frozen=True, slots=True)
class _Run:
    """Branches by the number of the thread, one after the other, that are roles."""

    ops: tuple[ir.OpBase, ...]
    roles: tuple[_Role, ...]
    hoisted: tuple[ir.OpBase, ...]
    """Ops that compute conditions, in the order of the program."""


def _runs(block: ir.Block, uses: Uses, known: KnownValues) -> list[_Run]:
    """Return the parts of a block in which several roles have loops around barriers."""
    found: list[_Run] = []
    run: list[ir.OpBase] = []
    hoisted: list[ir.OpBase] = []
    roles: list[_Role] = []
    for op in [*block.ops, ir.Break()]:
        more: list[_Role] = []
        conditions: list[ir.OpBase] = []
        if isinstance(op, ir.If) and _is_branch(op, known):
            more = _roles(op, (True,) * known.count, (), conditions, uses, known)
            more = [role for role in more if role.ops and role.count]
        # A thread that is in two roles does what is written first before the other.
        apart = not any(a and b for r in roles for m in more for a, b in zip(r.threads, m.threads))
        if not more or not apart:
            if run and isinstance(op, ir.ScalarOp):
                run.append(op)
                hoisted.append(op)
                continue
            if sum(_has_loops(r.ops, uses) for r in roles) > 1:
                found.append(_Run(tuple(run), tuple(roles), tuple(hoisted)))
            run, hoisted, roles = [], [], []
        if more:
            run.append(op)
            hoisted += conditions
            roles += more
    return found


def _is_branch(op: ir.OpBase, known: KnownValues) -> bool:
    """Return whether an op is a branch by the number of the thread alone."""
    if not isinstance(op, ir.If) or op.results or isinstance(op.condition.owner, ir.Constant):
        return False
    return known.of(op.condition) is not None


def _roles(
    op: ir.If, before: Active, outer: tuple[_Condition, ...], hoisted: list[ir.OpBase],
    uses: Uses, known: KnownValues,
) -> list[_Role]:  # fmt: skip
    """Return the sides of a branch, and those of a branch that is all that a side does."""
    each = known.of(op.condition)
    assert each is not None
    found = []
    for taken, block in ((True, op.then), (False, op.otherwise)):
        threads = tuple(a and bool(c) == taken for a, c in zip(before, each))
        conditions = (*outer, _Condition(op.condition, taken))
        *first, last = block.ops or [ir.Break()]
        if (
            isinstance(last, ir.If)
            and _is_branch(last, known)
            and all(isinstance(o, ir.ScalarOp) for o in first)
            and any(_has_loops(b.ops, uses) for b in last.blocks())
        ):
            hoisted += first
            found += _roles(last, threads, conditions, hoisted, uses, known)
        else:
            found.append(_Role(threads, conditions, list(block.ops)))
    return found


def _multiplies(role: _Role) -> bool:
    return any(isinstance(o, ir.Gemm) for op in role.ops for o in op.with_inner_ops())


def _has_loops(ops: Sequence[ir.OpBase], uses: Uses) -> bool:
    """Return whether a role uses barriers in a loop of its own."""
    return any(
        isinstance(o, ir.For | ir.While) and any(i in uses for i in o.inner_ops())
        for op in ops for o in op.with_inner_ops()
    )  # fmt: skip


# -- merging

Parts = list[tuple[_Role, deque[ir.OpBase]]]
"""Ops that each role still has to do."""


@dataclass
class _Merging:
    body: ir.Block
    uses: dict[ir.OpBase, BarrierUse]
    loops: set[ir.Block]
    numbers: Mapping[ir.Value, int]
    threads: Sequence[int]
    order: tuple[int, ...]
    """Priority of roles: which one goes on where several could."""
    eager: bool
    """Whether a role's loop that no other has runs before a wait of another role."""
    same: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Values of one role that are those of another: the numbers of merged loops."""
    cells: list[ir.OpBase] = field(default_factory=list)
    """Variables for values that leave a branch."""
    products: int = 0
    """Threads of the roles that multiply tiles."""
    role_of: dict[ir.OpBase, _Role] = field(default_factory=dict)
    """The role that does a statement."""
    versions: Counter[ir.Value] = field(default_factory=Counter)
    """Number of writes of each buffer so far, in the order that is made."""
    read: dict[ir.OpBase, int] = field(default_factory=dict)
    """Number of writes of its buffer before each load."""

    def __post_init__(self) -> None:
        self.known = KnownValues(self.numbers, self.threads)

    def block(self, block: ir.Block) -> None:
        """Merge the roles in a block and in those inside of it."""
        for run in _runs(block, self.uses, self.known):
            _own_variables(self.body, run)
            first = block.ops.index(run.ops[0])
            rest = block.ops[first + len(run.ops) :]
            made = self._merged(run)
            block.ops[first:] = [*run.hoisted, *self.cells, *made, *rest]
            self.cells = []
        for op in block.ops:
            for inner in op.blocks():
                self.block(inner)

    def finish(self) -> None:
        """Replace the values of roles that are those of another role, and put what differs between
        the threads of a role under its condition."""
        for op in ir.walk(self.body):
            _replace(op, self.same)
        for op, use in self.uses.items():
            index, parity = self._found(use.index), use.parity and self._found(use.parity)
            self.uses[op] = replace(use, index=index, parity=parity)
        facts = Differences(self.body, self.numbers, self.threads)
        self._guard(self.body, None, facts)

    def _guard(self, block: ir.Block, role: _Role | None, facts: Differences) -> None:
        """Put the statements of a block under the conditions of their roles."""
        chosen: dict[ir.Value, ir.Value] = {}
        ops = block.ops[:]
        for at, op in enumerate(ops):
            for each in op.with_inner_ops():
                _replace(each, chosen)
            ops[at] = self._guarded(op, self.role_of.get(op, role), facts)
            if ops[at] is not op:
                chosen.update(zip(op.results, ops[at].results))
        block.ops[:] = ops

    def _guarded(self, op: ir.OpBase, role: _Role | None, facts: Differences) -> ir.OpBase:
        """Return a statement under the condition of its role, where its threads do different
        things; other threads have zeros for its results."""
        if isinstance(op, ir.ScalarOp | ir.View | ir.Alloc | ir.Yield):
            return op
        points = (ir.ScalarOp, ir.Load, ir.Store, ir.Atomic, ir.If, ir.Yield, ir.For, ir.While)
        fits = all(isinstance(o, points) for o in op.with_inner_ops())
        if role is None or not fits or not facts.differs(op):
            for inner in op.blocks() if not isinstance(op, ir.Parallel) else ():
                self._guard(inner, role, facts)
            return op
        for condition in reversed(role.conditions):
            held, other = ir.Block(ops=[op]), ir.Block()
            if op.results:
                nothing = [zero_of(each.dtype) for each in op.results]
                held.ops.append(ir.Yield(list(op.results)))
                other.ops += [*nothing, ir.Yield([each.result for each in nothing])]
            sides = (held, other) if condition.taken else (other, held)
            op = ir.If(condition.value, *sides, span=op.span)
        return op

    def _found(self, value: ir.Value) -> ir.Value:
        while value in self.same:
            value = self.same[value]
        return value

    def _merged(self, run: _Run) -> list[ir.OpBase]:
        """Return the ops of all roles in one order."""
        parts: Parts = []
        self.products = max(self.products, sum(r.count for r in run.roles if _multiplies(r)))
        for at in self.order:
            if at < len(run.roles):
                role = run.roles[at]
                held = ir.Block(ops=role.ops)
                joined_cases(held, self.uses, self.loops)
                Unswitching(self.uses, self.loops).block(held)
                for op in ir.walk(held):
                    if op in self.uses:
                        self.uses[op] = replace(self.uses[op], role=role.threads)
                parts.append((role, deque(held.ops)))
        return self._zipped(parts)

    def _zipped(self, parts: Parts) -> list[ir.OpBase]:
        """Return what is left of all roles in one order."""
        made: list[ir.OpBase] = []
        while any(left for _, left in parts):
            self._go_on(parts, made)
            heads = [(role, left) for role, left in parts if left]
            if heads and not (
                self._meet(heads, made)
                or (self.eager and self._together(heads, made))
                or self._wait(heads, made)
                or self._together(heads, made)
            ):
                role, left = heads[0]
                if is_meeting(left[0]):
                    raise _NoOrder  # the threads that it waits for come to another place
                made += self._statement(role, left.popleft())
        return made

    def _go_on(self, parts: Parts, made: list[ir.OpBase]) -> None:
        """Take from each role what it does before it may have to wait."""
        for role, left in parts:
            while left and not self._holds(role, left[0]):
                made += self._statement(role, left.popleft())

    def _holds(self, role: _Role, op: ir.OpBase) -> bool:
        """Return whether a role may wait for another one in an op."""
        return any(self._is_wait(o) or self._is_meeting(role, o) for o in op.with_inner_ops())

    def _is_wait(self, op: ir.OpBase) -> bool:
        return op in self.uses and self.uses[op].kind == "wait"

    def _is_meeting(self, role: _Role, op: ir.OpBase) -> bool:
        """Return whether threads of several roles meet at an op."""
        return is_meeting(op) and _meeting(op, len(role.threads)) > role.count

    def _statement(self, role: _Role, op: ir.OpBase) -> list[ir.OpBase]:
        """Return an op of a role as one of the block."""
        self.role_of[op] = role
        if self._holds(role, op) and op.SPEC.regions:
            self._enter([op])
            for inner in op.blocks():
                inner.ops[:] = self._zipped([(role, deque(inner.ops))])
            return [op]
        for each in op.with_inner_ops():
            if isinstance(each, ir.Load):
                self.read[each] = self.versions[base(each.buffer)]
        self._enter([op])
        return [op]

    def _enter(self, ops: Sequence[ir.OpBase]) -> None:
        """Note what ops write: a loop, what it has written before any iteration."""
        self.versions.update({base(a.value) for op in ops for a in op.all_accesses() if a.writes})

    # -- places where roles wait

    def _meet(self, heads: Parts, made: list[ir.OpBase]) -> bool:
        """Let threads meet, where all of them have come to the place."""
        for _, left in heads:
            if not is_meeting(left[0]):
                continue
            hints = left[0].hints if isinstance(left[0], ir.Annotate) else ()
            met = [(r, q) for r, q in heads if is_meeting(q[0]) and q[0].hints == hints]  # type: ignore[attr-defined]
            wanted = _meeting(left[0], len(heads[0][0].threads))
            if sum(role.count for role, _ in met) >= wanted or len(met) == len(heads):
                for _, each in met:
                    made.append(each.popleft())
                return True
        return False

    def _wait(self, heads: Parts, made: list[ir.OpBase]) -> bool:
        """Let the first role that only waits go on."""
        for role, left in heads:
            if self._is_wait(left[0]) or _is_branch(left[0], self.known):
                made += self._statement(role, left.popleft())
                return True
        return False

    def _together(self, heads: Parts, made: list[ir.OpBase]) -> bool:
        """Merge loops with the same bounds, or branches with the same condition; let the first role
        go on with a branch that no other role has."""
        if self._split(heads):
            return True
        for at, (_, left) in enumerate(heads):
            one = left[0]
            if isinstance(one, ir.For):
                met = [(r, q) for r, q in heads[at + 1 :] if isinstance(q[0], ir.For)
                       and self._all_equal(_bounds(one), _bounds(q[0]))]  # fmt: skip
                if met:
                    made.append(self._loop([heads[at], *met]))
                    return True
        for at, (role, left) in enumerate(heads):
            one = left[0]
            if isinstance(one, ir.If):
                met = [(r, q) for r, q in heads[at + 1 :] if isinstance(q[0], ir.If)
                       and self._equal(one.condition, q[0].condition)]  # fmt: skip
                made += [self._branch([heads[at], *met])] if met else [left.popleft()]
                return True
            if self.eager and isinstance(one, ir.For):
                made += self._statement(role, left.popleft())
                return True
        return False

    def _loop(self, heads: Parts) -> ir.For:
        """Merge loops with the same bounds."""
        ops = [left.popleft() for _, left in heads]
        loops = [op for op in ops if isinstance(op, ir.For)]
        one = loops[0]
        self._enter(loops)
        for other in loops[1:]:
            self.same[other.body.args[0]] = one.body.args[0]
        parts = [(role, deque(op.body.ops)) for (role, _), op in zip(heads, loops)]
        body = ir.Block(one.body.args, self._zipped(parts))
        if self.loops.intersection(op.body for op in loops):
            self.loops.add(body)
        made = _loop_like(next((op for op in loops if op.kind != "serial"), one), body)
        made.start, made.stop, made.step = one.start, one.stop, one.step
        made.num_stages = max(op.num_stages for op in loops)
        return made

    def _branch(self, heads: Parts) -> ir.If:
        """Merge branches with the same condition."""
        ops = [left.popleft() for _, left in heads]
        branches = [op for op in ops if isinstance(op, ir.If)]
        roles = [role for role, _ in heads]
        then = [(role, deque(op.then.ops)) for role, op in zip(roles, branches)]
        otherwise = [(role, deque(op.otherwise.ops)) for role, op in zip(roles, branches)]
        sides = ir.Block(ops=self._zipped(then)), ir.Block(ops=self._zipped(otherwise))
        return ir.If(branches[0].condition, *sides, span=branches[0].span)

    def _split(self, heads: Parts) -> bool:
        """Take a loop out of a branch where another role has come to a loop with its bounds."""
        loops = [left[0] for _, left in heads if isinstance(left[0], ir.For)]
        found = False
        for role, left in heads:
            op = left[0]
            if isinstance(op, ir.If) and not op.otherwise.ops and not op.results and any(
                isinstance(inner, ir.For)
                and self._holds(role, inner)
                and any(self._all_equal(_bounds(inner), _bounds(o)) for o in loops)
                for inner in op.then.ops
            ):  # fmt: skip
                left.popleft()
                left.extendleft(reversed(self._parts_of(role, op)))
                found = True
        return found

    def _parts_of(self, role: _Role, op: ir.If) -> list[ir.OpBase]:
        """Return a branch as several, with loops around those of its loops that use barriers."""
        made: list[ir.OpBase] = []
        constants: list[ir.OpBase] = []
        blocks: list[ir.Block] = []
        """Ops under the condition, in the order of the program."""
        last: ir.Block | None = None
        for each in op.then.ops:
            if isinstance(each, ir.Constant):
                constants.append(each)
            elif isinstance(each, ir.For) and self._holds(role, each):
                held, last = ir.Block(ops=each.body.ops), None
                blocks.append(held)
                body = ir.Block(each.body.args, [_only_if(op, held)])
                if each.body in self.loops:
                    self.loops.add(body)
                made.append(_loop_like(each, body))
            else:
                if last is None:
                    last = ir.Block()
                    blocks.append(last)
                    made.append(_only_if(op, last))
                last.ops.append(each)
        self._hand_over(blocks)
        return [*constants, *made]

    def _hand_over(self, blocks: Sequence[ir.Block]) -> None:
        """Keep scalars that one part computes and a later one uses in variables."""
        for at, block in enumerate(blocks):
            # The last ones first: a view that is made again may need values from before it.
            for op in reversed(list(block.ops)):
                for value in op.results:
                    users = [b for b in blocks[at + 1 :] if self._uses(b, value)]
                    if not users:
                        continue
                    if isinstance(op, ir.Alloc):
                        block.ops.remove(op)
                        self.cells.append(op)
                        continue
                    if isinstance(value.type, ir.BufferType):
                        for user in users:
                            again = clone(op, {}, {})
                            user.ops.insert(0, again)
                            self._replaced(user, value, again.results[0])
                        continue
                    cell = ir.Alloc("local", (), value.dtype, span=op.span)
                    self.cells.append(cell)
                    block.ops.insert(block.ops.index(op) + 1,
                                     ir.Store(value, cell.result, [], span=op.span))  # fmt: skip
                    for user in users:
                        read = ir.Load(cell.result, [], span=op.span)
                        user.ops.insert(0, read)
                        self._replaced(user, value, read.result)

    def _uses(self, block: ir.Block, value: ir.Value) -> bool:
        for op in ir.walk(block):
            if value in op.operand_values():
                return True
            use = self.uses.get(op)
            if use is not None and value in (use.index, use.parity):
                return True
        return False

    def _replaced(self, block: ir.Block, value: ir.Value, by: ir.Value) -> None:
        mapping = {value: by}
        for op in ir.walk(block):
            _replace(op, mapping)
            if op in self.uses:
                use = self.uses[op]
                parity = use.parity and mapping.get(use.parity, use.parity)
                self.uses[op] = replace(use, index=mapping.get(use.index, use.index), parity=parity)

    # -- equal values of several roles

    def _all_equal(self, these: Sequence[ir.Value], those: Sequence[ir.Value]) -> bool:
        return len(these) == len(those) and all(map(self._equal, these, those))

    def _equal(self, a: ir.Value, b: ir.Value) -> bool:
        """Return whether two values are computed in one way from the same values."""
        a, b = self._found(a), self._found(b)
        if a is b:
            return True
        one, other = a.owner, b.owner
        if one is None or other is None or type(one) is not type(other) or a.type != b.type:
            return False
        if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
            return one.value == other.value
        if isinstance(one, ir.Load) and isinstance(other, ir.Load):
            before = self.read.get(one)
            if one.buffer is not other.buffer or before is None or before != self.read.get(other):
                return False
        elif not isinstance(one, ir.ScalarOp):
            return False
        if getattr(one, "kind", None) != getattr(other, "kind", None):
            return False
        return self._all_equal(list(one.operand_values()), list(other.operand_values()))


# -- parts of programs


def _blocks(block: ir.Block) -> Iterator[ir.Block]:
    yield block
    for op in block.ops:
        for inner in op.blocks():
            yield from _blocks(inner)


def _bounds(loop: ir.OpBase) -> list[ir.Value]:
    assert isinstance(loop, ir.For)
    return [loop.start, loop.stop, loop.step]


def _loop_like(loop: ir.For, body: ir.Block) -> ir.For:
    """Return a loop with another body."""
    return ir.For(
        loop.kind, loop.start, loop.stop, loop.step, body, loop.num_stages, loop.hints,
        span=loop.span,
    )  # fmt: skip


def _only_if(op: ir.If, block: ir.Block) -> ir.If:
    """Return a branch with the condition of another one, and nothing to do otherwise."""
    return ir.If(op.condition, block, ir.Block(), span=op.span)


def _meeting(op: ir.OpBase, threads: int) -> int:
    """Return how many threads meet at a place."""
    assert isinstance(op, ir.Annotate)
    return next((int(count) for name, count in op.hints if name == "threads"), threads)


def _replace(op: ir.OpBase, mapping: Mapping[ir.Value, ir.Value]) -> None:
    """Replace operands of an op in place."""

    def found(value: ir.Value) -> ir.Value:
        while value in mapping:
            value = mapping[value]
        return value

    for name, many in op.SPEC.operands:
        held = getattr(op, name)
        if many:
            setattr(op, name, [found(v) for v in held])
        elif held is not None:
            setattr(op, name, found(held))


def _copied(
    body: ir.Block, uses: Uses, loops: set[ir.Block]
) -> tuple[ir.Block, dict[ir.OpBase, BarrierUse], set[ir.Block]]:
    """Return a copy of a body, of its marks, and of its loops around loads."""
    mapping: dict[ir.Value, ir.Value] = {}
    marks: dict[ir.OpBase, BarrierUse] = {}
    found: set[ir.Block] = set()

    def rule(old: ir.OpBase, op: ir.OpBase, builder: object) -> None:
        if old in uses:
            use = uses[old]
            parity = use.parity and mapping.get(use.parity, use.parity)
            index = mapping.get(use.index, use.index)
            marks[op] = replace(use, index=index, parity=parity)
        for before, now in zip(old.blocks(), op.blocks()):
            if before in loops:
                found.add(now)

    made = rebuilt(body, mapping, rule)
    # Arguments stay: they are known outside, as the numbers of the block.
    back = dict(zip(made.args, body.args))
    for op in ir.walk(made):
        _replace(op, back)
    for op, use in marks.items():
        parity = use.parity and back.get(use.parity, use.parity)
        marks[op] = replace(use, index=back.get(use.index, use.index), parity=parity)
    made.args = body.args
    return made, marks, found


def _own_variables(body: ir.Block, run: _Run) -> None:
    """Give each role variables and fragments of its own.

    Raises `_NoOrder` where those of several roles are read outside of them, or a variable that only
    some threads write.
    """
    inside = {o for role in run.roles for op in role.ops for o in op.with_inner_ops()}
    outside = [(b, o) for b in _blocks(body) for o in b.ops if o not in inside]
    for block, op in list(outside):
        if not isinstance(op, ir.Alloc) or op.space not in ("local", "fragment"):
            continue
        buffer = op.result
        users = [r for r in run.roles if _touches(r.ops, buffer)]
        writers = [r for r in users if any(
            a.writes and base(a.value) is buffer for o in r.ops for a in o.all_accesses()
        )]  # fmt: skip
        if not writers:
            continue
        others = [
            (b, o) for b, o in outside
            if buffer in o.operand_values() and not isinstance(o, ir.Annotate | ir.If | ir.For)
        ]  # fmt: skip
        plain = all(isinstance(o, ir.Store | ir.Fill) for _, o in others)
        if not plain and (len(users) > 1 or op.space == "local"):
            raise _NoOrder
        for role in users[1:]:
            own = clone(op, {}, {})
            mapping = {buffer: own.results[0]}
            block.ops.insert(block.ops.index(op) + 1, own)
            for held, each in others:
                held.ops.insert(held.ops.index(each) + 1, clone(each, mapping, {}))
            for each in role.ops:
                for inner in each.with_inner_ops():
                    _replace(inner, mapping)


def _touches(ops: Iterable[ir.OpBase], buffer: ir.Value) -> bool:
    return any(buffer in o.operand_values() for op in ops for o in op.with_inner_ops())
