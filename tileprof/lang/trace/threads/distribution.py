"""Work of single threads, `tx = T.get_thread_binding(0)`, as the tile operations it amounts to.

    tx = T.get_thread_binding(0)        acc = T.alloc_fragment((128, 1), "float32")
    acc = T.alloc_local((1,), …)        for k in T.serial(64):
    for k in T.serial(64):          ⇒       for tx in T.Parallel(128):
        acc[0] += A[tx, k]                      acc[tx, 0] += A[tx, k]
    C[tx] = acc[0]                      for tx in T.Parallel(128):
                                            C[tx] = acc[tx, 0]

A statement that depends on the number of the thread becomes a `Parallel` over the threads, and what
`T.alloc_local` gave to each thread becomes a fragment with one row for each.  All threads end a
statement before any begins the next one: more order than threads of a GPU keep, so every result
that their author may count on is there, and `T.sync_threads` has nothing left to do.  A loop that
writes only what a thread has for itself stays in one piece, inside of the `Parallel`.

In: the body of a launch, and the values that stand for the numbers of its threads.  Out: a body
without them; an error, with its place, for what a tile program cannot say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from tileprof import ir
from tileprof.ir.builder import Builder
from tileprof.ir.core import Access
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone

from .differences import Axes, Differences, is_combined, is_meeting
from .elements import by_elements, is_an_axis, is_private, prepare, rounds_of, split_loops
from .known import KnownValues
from .postponed import PostponedValues, Refuse

_INDEX = ir.dtype("index")
_COUNT = ir.dtype("int32")
"""Type of the number of iterations that a thread does."""
_IN_POINTS = (
    ir.ScalarOp, ir.Load, ir.Store, ir.Atomic, ir.If, ir.Yield, ir.For, ir.While, ir.Assert,
)  # fmt: skip
"""Ops that can stand in the body of a `Parallel`."""
_PREPARING = (ir.Alloc, ir.View, ir.Reinterpret)
"""Ops that name memory and do nothing with it."""


@dataclass(frozen=True, slots=True)
class _Guard:
    """A branch by the number of the thread around whole-tile operations."""

    condition: ir.Value
    taken: bool


def distributed(
    body: ir.Block, numbers: Mapping[ir.Value, int], threads: Sequence[int], refuse: Refuse
) -> ir.Block:
    """Return the body of a launch as tile operations.

    `numbers` has the axis of the block that each thread's number counts along; `threads` are the
    extents of the axes.
    """
    facts = Differences(body, numbers, threads)
    prepare(body, facts)
    split_loops(body, facts)
    kept: set[ir.OpBase] = set()
    while True:
        attempt = _Distribution(body, numbers, threads, refuse, kept)
        made = attempt.block()
        stale = attempt.values.stale
        if not stale:
            break
        if kept.issuperset(stale):
            op, user = next(iter(stale.items()))
            name = op.results[0].name or "a value"
            refuse(
                f"work of single threads: `{name}` is used after memory that it was read from "
                "has changed",
                "Keep it: `x = T.alloc_local((1,), dtype)`, `x[0] = …`.",
                user.span,
            )
        kept |= stale.keys()
    _leave_out_meetings(made)
    return made


@dataclass
class _Distribution:
    body: ir.Block
    numbers: Mapping[ir.Value, int]
    threads: Sequence[int]
    refuse: Refuse
    kept: Collection[ir.OpBase] = ()
    """Ops whose values are kept where they are computed: memory that they read changes before these
    are used."""
    guards: list[_Guard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = Differences(self.body, self.numbers, self.threads)
        self.values = PostponedValues(self.refuse)
        self.known = KnownValues(self.numbers, self.threads)
        self.rows: dict[ir.Value, ir.Value] = {}
        """The fragment for each private buffer."""

    def block(self) -> ir.Block:
        """Return the body of the launch."""
        made = ir.Block(self.body.args)
        self._extents = [ir.Constant(n, _INDEX) for n in self.threads]
        made.ops += self._extents
        self._append(self.body, made)
        return made

    def _append(self, block: ir.Block, made: ir.Block) -> None:
        for op in block.ops:
            self._one(op, made)

    def _one(self, op: ir.OpBase, made: ir.Block) -> None:
        if isinstance(op, ir.Alloc) and op.result in self.facts.private:
            self._row(op, made)
            return
        if isinstance(op, ir.Annotate) and op.target is not None and (
            base(op.target) in self.facts.private
        ):  # fmt: skip
            return
        if is_combined(op):
            self._combine(op, made)
            return
        if not self.facts.differs(op):
            if self.guards and self._fits(op) and not self._computes(op) and not self._someone():
                self._where_one_comes(op, made)
            else:
                self._kept(op, made)
            return
        if isinstance(op, ir.Reinterpret) and op.base in self.rows:
            self._reinterpret(op, made)
            return
        if isinstance(op, ir.View) and all(is_private(o) for o in self._users(op.result)):
            return  # becomes indices of the elements
        if isinstance(op, ir.Fill) and op.target in self.rows and not self.guards and (
            op.value not in self.facts.varying
        ):  # fmt: skip
            self._fill(op, made)
            return
        if isinstance(op, ir.Copy | ir.Fill) and is_private(op):
            made.ops += (elements := by_elements(op)).before
            self._spread(elements.loop, made)
            return
        if self._computes(op) and op not in self.kept:
            self.values.postpone(op)
            return
        around = self._goes_around(op) or self._exchanges(op) or self._repeats(op)
        if self._fits(op) and not around:
            self._spread(op, made)
        else:
            self._around(op, made)

    def _kept(self, op: ir.OpBase, made: ir.Block) -> None:
        """Append an op that is the same for all threads."""
        made.ops.append(op)
        self.values.note(op)

    def _where_one_comes(self, op: ir.OpBase, made: ir.Block) -> None:
        """Append an op that is the same for all threads, to be done once if any of them comes
        through all open branches, which is not known now."""
        axes = self.facts.along(guard.condition for guard in self.guards)
        came = self._kept_along(axes, _COUNT, op, made)
        builder = Builder(made, op.span)
        zero, one = builder.constant(0, _COUNT), builder.constant(1, _COUNT)
        builder.emit(ir.Fill(self.rows[came], zero))
        self._spread(ir.Store(one, came, [], span=op.span), made)
        most = builder.emit(ir.Load(self._maximum(came, builder), [builder.constant(0)])).result
        condition = builder.emit(ir.Compare("gt", most, zero)).result
        builder.emit(ir.If(condition, ir.Block([], [op]), ir.Block()))
        self.values.note(op)

    def _row(self, op: ir.Alloc, made: ir.Block) -> None:
        """Make the buffer of each thread a row of a fragment."""
        row = self._rows_along(self.facts.private[op.result], op.shape, op.dtype, op)
        row.result.name, row.hint = op.result.name, op.hint
        self.rows[op.result] = row.result
        made.ops.append(row)

    def _rows_along(
        self, axes: Axes, shape: tuple[int, ...], dtype: ir.DType, op: ir.OpBase
    ) -> ir.Alloc:
        """Return a fragment with an element, or more, for each thread along some axes."""
        threads = tuple(self.threads[axis] for axis in _ordered(axes))
        return ir.Alloc("fragment", (*threads, *shape), dtype, span=op.span)

    def _reinterpret(self, op: ir.Reinterpret, made: ir.Block) -> None:
        """Take each thread's row in another shape or element type."""
        row, axes = self.rows[op.base], self.facts.private[base(op.base)]
        threads = tuple(self.threads[axis] for axis in _ordered(axes))
        shape = (*threads, *op.result.buffer.shape)
        held = ir.Reinterpret(row, shape, op.result.dtype, span=op.span)
        made.ops.append(held)
        self.rows[op.result] = held.result

    def _someone(self) -> bool:
        """Return whether a thread certainly comes through all open branches."""
        found = [self.known.of(guard.condition) for guard in self.guards]
        known = [each for each in found if each is not None]
        return len(known) == len(found) and any(
            all(bool(value) == guard.taken for value, guard in zip(values, self.guards))
            for values in zip(*known)
        )

    def _fill(self, op: ir.Fill, made: ir.Block) -> None:
        assert not self.guards, "a branch that some threads take fills by elements"
        made.ops.append(ir.Fill(self.rows[op.target], op.value, span=op.span))
        self.values.bump(op.target)

    def _combine(self, op: ir.Reduce, made: ir.Block) -> None:
        """Give each thread the sum, say, of a variable over an axis of the block."""
        if self.guards:
            self._refuse_op(op, "only some threads combine values", "Let all of them, in order.")
        source, target = self.rows[op.source], self.rows[op.target]
        axes = _ordered(self.facts.private[op.source])
        dim = axes.index(op.dim)
        if len(axes) > 1:
            made.ops.append(ir.Reduce(op.kind, source, target, dim, span=op.span))
        else:
            result = ir.Alloc("fragment", (1,), target.dtype, span=op.span)
            zero, point = ir.Constant(0, _INDEX), ir.Value(_INDEX)
            load = ir.Load(result.result, [zero.result], span=op.span)
            store = ir.Store(load.result, target, [point], span=op.span)
            extents = [self._extents[op.dim].result]
            made.ops += [
                result, ir.Reduce(op.kind, source, result.result, dim, span=op.span), zero,
                ir.Parallel(extents, ir.Block([point], [load, store]), span=op.span),
            ]  # fmt: skip
        self.values.bump(op.target)

    def _computes(self, op: ir.OpBase) -> bool:
        """Return whether an op only computes values of each thread."""
        if isinstance(op, ir.ScalarOp | ir.Load):
            return True
        if not isinstance(op, ir.If) or not op.results:
            return False
        inner = [o for b in op.blocks() for o in ir.walk(b)]
        return all(isinstance(o, ir.ScalarOp | ir.Load | ir.Yield | ir.If) for o in inner)

    def _fits(self, op: ir.OpBase) -> bool:
        """Return whether an op can stand in the body of a `Parallel`."""
        return isinstance(op, _IN_POINTS) and not _leaves(op) and all(
            isinstance(inner, (*_IN_POINTS, ir.Break, ir.Continue))
            for block in op.blocks() for inner in ir.walk(block)
        )  # fmt: skip

    def _exchanges(self, op: ir.OpBase) -> bool:
        """Return whether a branch or loop of several statements reads what it writes for other
        threads, or writes it twice, so that these must wait for each other inside of it."""
        inner = [o for block in op.blocks() for o in ir.walk(block)]
        if sum(isinstance(o, ir.Store | ir.Atomic) for o in inner) < 2:
            return False
        written = Counter(base(a.value) for a, _ in _paired(inner) if a.writes)
        axes = self._axes(op, set(op.all_operand_values()))
        if any(self.facts.private.get(held, axes) != axes for held in written):
            return True  # several threads have such a variable in common
        read = {base(a.value) for a, o in _paired(inner) if isinstance(o, ir.Load)}
        return any(
            held not in self.facts.private
            and (held in read or (times > 1 and held.buffer.space == "shared"))
            for held, times in written.items()
        )

    def _repeats(self, op: ir.OpBase) -> bool:
        """Return whether several threads that take a branch or loop may write one value to one
        place, which is done once."""
        alike = [
            [o for o in ir.walk(block) if isinstance(o, ir.Store) and not self.facts.differs(o)]
            for block in op.blocks()
        ]
        if not any(o.buffer not in self.facts.private for stores in alike for o in stores):
            return False
        if not isinstance(op, ir.If) or (known := self.known.of(op.condition)) is None:
            return True
        there = sum(map(bool, known))
        return any(stores and n > 1 for stores, n in zip(alike, (there, len(known) - there)))

    def _goes_around(self, op: ir.OpBase) -> bool:
        """Return whether a loop or branch that all threads take alike stays around the `Parallel`.

        An innermost loop that hands nothing from thread to thread does not: it writes what each
        thread has for itself, adds up in memory, leaves results in tensors that it does not read,
        or in shared memory at places that a counter gives out once.
        """
        if not isinstance(op, ir.For | ir.While | ir.If) or op.results:
            return False
        control = list(op.operand_values())
        if isinstance(op, ir.While):
            control += [v for inner in op.condition.ops for v in inner.operand_values()]
        if self.facts.along(control):
            return False
        inner = [o for block in op.blocks() for o in ir.walk(block)]
        if isinstance(op, ir.If) or any(isinstance(o, ir.Assert | ir.For) for o in inner):
            return True
        if self._exchanges(op):
            return True
        read = {base(a.value) for a, o in _paired(inner) if isinstance(o, ir.Load)}
        counted = self._at_counted_places(op, inner)
        return any(
            a.writes
            and (held := base(a.value)) not in self.facts.private
            and (
                held in read
                or (isinstance(o, ir.Store) and held.buffer.space == "shared" and o not in counted)
            )
            for a, o in _paired(inner)
        )

    def _at_counted_places(self, op: ir.OpBase, inner: Sequence[ir.OpBase]) -> set[ir.OpBase]:
        """Return the stores of a loop at places that one counter gives out, each once.

        place = T.atomic_add(count[0], 1, return_prev=True)
        found[place] = value
        """
        counters = _counters(inner)
        found: list[ir.Store] = []
        for block in _all_blocks(op):
            kept: dict[ir.Value, ir.Value] = {}
            """Last value stored in a variable, in this block."""
            places: set[ir.Value] = set()
            for each in block.ops:
                match each:
                    case ir.Atomic() if each.buffer in counters:
                        places.add(each.result)
                    case ir.Cast() if each.operand in places:
                        places.add(each.result)
                    case ir.Load() if not each.indices and kept.get(each.buffer) in places:
                        places.add(each.result)
                    case ir.Store() if places.intersection(each.indices):
                        found.append(each)
                    case _:
                        for access in each.all_accesses():
                            kept.pop(base(access.value), None)
                if isinstance(each, ir.Store) and not each.indices:
                    kept[each.buffer] = each.value
        # A buffer with one store has no other place that meets it.
        times = Counter(o.buffer for o in inner if isinstance(o, ir.Store))
        return {o for o in found if times[o.buffer] == 1}

    # -- one statement of all threads

    def _spread(self, op: ir.OpBase, made: ir.Block) -> None:
        """Run an op for every thread."""
        inner: list[ir.OpBase] = []
        wanted = [op.all_operand_values(), (g.condition for g in self.guards)]
        needed = self.values.needed([v for each in wanted for v in each], op)
        used = {v for o in (*needed, op) for v in o.all_operand_values()}
        axes = self._axes(op, used)
        names = {axis: number.name for number, axis in self.numbers.items()}
        args = {axis: ir.Value(_INDEX, names.get(axis) or "xyz"[axis]) for axis in axes}
        mapping: dict[ir.Value, ir.Value] = {
            number: args[axis] for number, axis in self.numbers.items() if axis in args
        }
        target = inner
        done: set[ir.OpBase] = set()
        for guard in self.guards:
            # What a condition needs is computed under the conditions around it only.
            self._computed(self.values.needed([guard.condition], op), done, target, mapping, args)
            then, otherwise = ir.Block(), ir.Block()
            condition = mapping.get(guard.condition, guard.condition)
            target.append(ir.If(condition, then, otherwise, span=op.span))
            target = (then if guard.taken else otherwise).ops
        self._computed(needed, done, target, mapping, args)
        extents = [self._extents[axis].result for axis in _ordered(axes)]
        body = ir.Block([args[axis] for axis in _ordered(axes)], inner)
        if isinstance(op, ir.For) and is_an_axis(op):
            # Elements that a thread moves at once are points too.
            (count,) = op.body.args
            body.args.append(ir.Value(_INDEX, count.name))
            extents.append(op.stop)
            mapping[count] = body.args[-1]
            for each in op.body.ops:
                self._cloned(each, target, mapping, args)
        else:
            self._cloned(op, target, mapping, args)
        self._hand_over(op, mapping, target, args, made)
        made.ops.append(ir.Parallel(extents, body, span=op.span))
        self.values.note(op)

    def _hand_over(
        self, op: ir.OpBase, mapping: dict[ir.Value, ir.Value], target: list[ir.OpBase],
        args: Mapping[int, ir.Value], made: ir.Block,
    ) -> None:  # fmt: skip
        """Keep the results of an op, an atomic's value from before, for later statements."""
        for result in op.results:
            if not self._is_used(result):
                continue
            row = self._kept_along(frozenset(args), result.dtype, op, made)
            points = [args[axis] for axis in _ordered(args)]
            target.append(ir.Store(mapping[result], row, points, span=op.span))
            read = ir.Load(row, [], span=op.span)
            read.results = (result,)
            self.values.postpone(read)

    def _kept_along(self, axes: Axes, dtype: ir.DType, op: ir.OpBase, made: ir.Block) -> ir.Value:
        """Return a new fragment with an element for each thread along some axes."""
        row = self._rows_along(axes, (), dtype, op)
        made.ops.append(row)
        self.rows[row.result] = row.result
        self.facts.private[row.result] = axes
        return row.result

    def _is_used(self, value: ir.Value) -> bool:
        return any(self._users(value))

    def _users(self, value: ir.Value) -> Iterator[ir.OpBase]:
        return (o for o in ir.walk(self.body) if value in o.operand_values())

    def _axes(self, op: ir.OpBase, used: set[ir.Value]) -> Axes:
        """Return the axes of the block along which an op differs."""
        inner = [op, *(o for b in op.blocks() for o in ir.walk(b))]
        if any(isinstance(o, ir.Atomic) for o in inner):
            return self.facts.every
        return self.facts.along(used)

    def _computed(
        self, needed: Sequence[ir.OpBase], done: set[ir.OpBase], ops: list[ir.OpBase],
        mapping: dict[ir.Value, ir.Value], args: Mapping[int, ir.Value],
    ) -> None:  # fmt: skip
        """Append copies of those ops that were not computed before."""
        for each in needed:
            if each not in done:
                done.add(each)
                self._cloned(each, ops, mapping, args)

    def _cloned(
        self, op: ir.OpBase, ops: list[ir.OpBase], mapping: dict[ir.Value, ir.Value],
        args: Mapping[int, ir.Value],
    ) -> None:  # fmt: skip
        """Append a copy of an op whose accesses of private buffers go to this thread's row."""
        regions = {}
        for name in op.SPEC.regions:
            held: ir.Block = getattr(op, name)
            own = [ir.Value(a.type, a.name) for a in held.args]
            mapping.update(zip(held.args, own))
            block = ir.Block(own)
            for inner in held.ops:
                self._cloned(inner, block.ops, mapping, args)
            regions[name] = block
        made = clone(op, mapping, regions)
        if isinstance(made, ir.Load | ir.Store | ir.Atomic) and made.buffer in self.rows:
            points = [args[axis] for axis in _ordered(self.facts.private[base(made.buffer)])]
            made.buffer, made.indices = self.rows[made.buffer], [*points, *made.indices]
        mapping.update(zip(op.results, made.results))
        ops.append(made)

    # -- loops and branches that stay around

    def _around(self, op: ir.OpBase, made: ir.Block) -> None:
        match op:
            case ir.If() if not op.results and op.condition not in self.facts.varying:
                regions = self._regions(op)
            case ir.If() if not op.results and not _leaves(op):
                self._branches(op, made)
                return
            case ir.For() if not any(v in self.facts.varying for v in op.operand_values()):
                self.values.bump_all(op)
                regions = self._regions(op)
            case ir.While() if not self.facts.yielded(op.condition):
                self.values.bump_all(op)
                regions = {**self._regions(op), "condition": op.condition}
            case ir.Scope():
                regions = self._regions(op)
            case _ if _leaves(op):
                self._refuse_op(
                    op, "one thread cannot leave a loop in which others go on",
                    "Put a condition around what the others still do.",
                )  # fmt: skip
            case ir.For() if self._can_wait(op):
                self._as_long_as_the_longest(op, made)
                return
            case ir.For() | ir.While():
                self._refuse_op(
                    op, "data go from thread to thread in a loop that is not as long for all",
                    "Make the loop as long as the longest, with a condition inside.",
                )  # fmt: skip
            case _:
                self._refuse_op(
                    op, f"`{op.mnemonic}` works on a whole tile and cannot differ between them",
                    "Write elements in a loop, or the whole without numbers of threads.",
                )  # fmt: skip
        copy = clone(op, {}, regions)
        made.ops.append(copy)

    def _can_wait(self, op: ir.For) -> bool:
        """Return whether threads that have ended a loop can wait for those that have not."""
        step = op.step.owner
        last = op.body.ops[-1] if op.body.ops else None
        return (
            isinstance(step, ir.Constant)
            and not isinstance(last, ir.Yield)
            and not self._has_whole([op.body])
        )

    def _as_long_as_the_longest(self, op: ir.For, made: ir.Block) -> None:
        """Let all threads go through a loop as often as the one that does most often, each with a
        condition that says whether it still takes part."""
        axes = self.facts.along(op.operand_values())
        rounds = self._kept_along(axes, _COUNT, op, made)
        builder = Builder(made, op.span)
        if self.guards:
            builder.emit(ir.Fill(rounds, builder.constant(0, _COUNT)))
        number = self._computed_for_each(rounds_of(op), axes)
        self._spread(ir.Store(number, rounds, [], span=op.span), made)
        most = builder.emit(ir.Load(self._maximum(rounds, builder), [builder.constant(0)]))
        stop = builder.emit(ir.Cast(most.result, _INDEX)).result
        body = ir.Block([ir.Value(_INDEX)])
        zero, one = builder.constant(0), builder.constant(1)
        self.values.bump_all(op)
        with self.values.inside():
            mine = ir.Load(rounds, [], span=op.span)
            turn = ir.Cast(body.args[0], _COUNT, span=op.span)
            takes_part = ir.Compare("lt", turn.result, mine.result, span=op.span)
            distance = ir.Binary("mul", body.args[0], op.step, span=op.span)
            place = ir.Binary("add", op.start, distance.result, span=op.span)
            place.results = (op.body.args[0],)
            self._computed_for_each([turn, mine, takes_part, distance, place], axes)
            self.guards.append(_Guard(takes_part.result, taken=True))
            self._append(op.body, body)
            self.guards.pop()
        builder.emit(ir.For("serial", zero, stop, one, body))

    def _computed_for_each(self, ops: Sequence[ir.OpBase], axes: Axes) -> ir.Value:
        """Let ops be computed where they are used; return the result of the last one."""
        for op in ops:
            self.facts.note(self.facts.varying, op.results[0], axes)
            self.values.postpone(op)
        return ops[-1].results[0]

    def _maximum(self, row: ir.Value, builder: Builder) -> ir.Value:
        """Return a fragment of one element: the greatest of a fragment."""
        row = self.rows[row]
        while row.buffer.shape != (1,):
            rest = row.buffer.static_shape[:-1] or (1,)
            held = builder.emit(ir.Alloc("fragment", rest, row.dtype)).result
            builder.emit(ir.Reduce("max", row, held, len(row.buffer.shape) - 1))
            row = held
        return row

    def _regions(self, op: ir.OpBase) -> dict[str, ir.Block]:
        made = {}
        for name in op.SPEC.regions:
            held: ir.Block = getattr(op, name)
            block = ir.Block(held.args)
            with self.values.inside():
                self._append(held, block)
            made[name] = block
        return made

    def _branches(self, op: ir.If, made: ir.Block) -> None:
        """Put the statements of both branches one after the other, each under its condition.

        Operations on whole tiles, the work of a role such as `if tx < 128: …`, are done by all
        threads, where any of them would come there.
        """
        whole = self._has_whole(op.blocks())
        condition = self._settled(op, made)
        for taken, block in ((True, op.then), (False, op.otherwise)):
            if whole and not self._taken(op, taken):
                continue
            self.guards.append(_Guard(condition, taken))
            self._append(block, made)
            self.guards.pop()

    def _has_whole(self, blocks: Iterable[ir.Block]) -> bool:
        """Return whether operations on whole tiles stand in blocks."""
        return any(
            not isinstance(o, (*_IN_POINTS, ir.Break, ir.Continue, *_PREPARING))
            and not is_meeting(o)
            and not is_private(o)
            for block in blocks for o in ir.walk(block)
        )  # fmt: skip

    def _settled(self, op: ir.If, made: ir.Block) -> ir.Value:
        """Return the condition of a branch; one that reads what the branch writes is kept."""
        written = {base(a.value) for a in op.all_accesses() if a.writes}
        needed = self.values.needed([op.condition], op)
        if not written & {base(a.value) for o in needed for a in o.all_accesses()}:
            return op.condition
        kept = self._kept_along(self.facts.along([op.condition]), op.condition.dtype, op, made)
        self._spread(ir.Store(op.condition, kept, [], span=op.span), made)
        read = ir.Load(kept, [], span=op.span)
        self.facts.note(self.facts.varying, read.result, self.facts.private[kept])
        self.values.postpone(read)
        return read.result

    def _taken(self, op: ir.If, taken: bool) -> bool:
        """Return whether any thread goes into a branch."""
        found = self.known.of(op.condition)
        if found is None:
            self._refuse_op(
                op, "a branch around operations on whole tiles depends on more than their number",
                "Compare the number of the thread with constants there, or write elements.",
            )  # fmt: skip
        return any(bool(each) == taken for each in found)

    # -- places

    def _refuse_op(self, op: ir.OpBase, why: str, hint: str) -> NoReturn:
        self.refuse(f"work of single threads: {why}", hint, op.span)


def _leave_out_meetings(block: ir.Block) -> None:
    block.ops[:] = [op for op in block.ops if not is_meeting(op)]
    for op in block.ops:
        for inner in op.blocks():
            _leave_out_meetings(inner)


def _paired(ops: Sequence[ir.OpBase]) -> Iterator[tuple[Access, ir.OpBase]]:
    """Yield the accesses of ops, each with its op."""
    return ((access, op) for op in ops for access in op.accesses())


def _counters(ops: Sequence[ir.OpBase]) -> set[ir.Value]:
    """Return the buffers of which ops only count one element up, so that each count is unique."""
    stored = {base(a.value) for a, o in _paired(ops) if a.writes and not isinstance(o, ir.Atomic)}
    atomics = [o for o in ops if isinstance(o, ir.Atomic)]
    others = {o.buffer for o in atomics if not _counts_up(o)}
    places: dict[ir.Value, set[tuple[object, ...]]] = {}
    for op in atomics:
        at = tuple(i.owner.value for i in op.indices if isinstance(i.owner, ir.Constant))
        places.setdefault(op.buffer, set()).add(at)
    return {buffer for buffer, found in places.items() if len(found) == 1} - others - stored


def _counts_up(op: ir.Atomic) -> bool:
    value = op.value.owner
    return (
        op.kind == "add"
        and op.buffer.dtype.is_integer
        and isinstance(value, ir.Constant)
        and value.value >= 1
        and all(isinstance(i.owner, ir.Constant) for i in op.indices)
    )


def _all_blocks(op: ir.OpBase) -> Iterator[ir.Block]:
    """Yield the blocks of an op and of those inside of it."""
    for block in op.blocks():
        yield block
        for inner in block.ops:
            yield from _all_blocks(inner)


def _leaves(op: ir.OpBase) -> bool:
    """Return whether an op leaves, or goes on with, a loop around it."""
    if isinstance(op, ir.Break | ir.Continue):
        return True
    if isinstance(op, ir.For | ir.While | ir.Parallel):
        return False
    return any(_leaves(inner) for block in op.blocks() for inner in block.ops)


def _ordered(axes: Iterable[int]) -> list[int]:
    """Return axes in the order of dimensions: neighbouring threads last."""
    return sorted(axes, reverse=True)
