"""The points of one thread as loops over its registers, with accesses of several elements.

    TpBfloat x_in[32];
    #pragma unroll
    for (int r = 0; r < 4; ++r) tp_get_global<8>(x_in + r * 8, x + …);     // all in flight at once
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      float y_out[8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) y_out[e] = …;                            // the points of a vector
      tp_put_global<8>(y + …, y_out);
    }

Global loads stand in front of as many points as registers are free for; loads from shared memory in
front of their vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import paren, plus, times
from tileprof.compiler.codegen.expressions import bare, is_pure
from tileprof.compiler.codegen.inlining import flat
from tileprof.compiler.codegen.types import is_narrow
from tileprof.compiler.cuda.emit.access import checked, converts, is_element
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, GlobalBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.swizzled import swizzled_steps
from tileprof.compiler.cuda.layouts.turns import turn_of
from tileprof.compiler.cuda.tuning import BYTES_IN_FLIGHT
from tileprof.errors import InternalError
from tileprof.once import cached_property

from .alignment import Multiple
from .digit_runs import Run, points, runs_of
from .edges import slow_accesses, taken_apart
from .points import Held, thread_coordinates
from .vector_accesses import VectorAccesses
from .vectors import VectorAccess

CHANGES = ir.Effect.WRITE | ir.Effect.CONTROL


@dataclass(kw_only=True)
class RegisterLoops(VectorAccesses):
    """The emission of one parallel loop that has a layout."""

    point: Callable[[], None]
    loads: list[VectorAccess] = field(default_factory=list)
    stores: list[VectorAccess] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """Names of the first addresses in swizzled memory, by text."""
    sunk: tuple[ir.Store, ...] = ()
    """Stores under whose guard, which is the same, all of their point stands."""

    # -- before the loops

    def prepare(self) -> None:
        """Write down the thread's coordinates, and plan loops and accesses."""
        ctx = self.ctx
        ctx.points = self.frame
        weights = self._survey()
        digits = [
            (d, tuple(w[at] for w in weights))
            for at, d in enumerate(self.layout.registers)
            if not d.is_copy
        ]
        self.vector = runs_of(digits[: self.planner.digits])
        self.groups = runs_of(digits[self.planner.digits :])
        self.loads = self.planner.loads()
        self.stores = self.planner.stores(self.loads, self._packs)
        for variable, text in zip(self.op.body.args, thread_coordinates(self.layout), strict=True):
            if isinstance(text, str) and not text.isidentifier() and ctx.uses.get(variable):
                name = ctx.names.fresh(f"{variable.name or 'i'}_at")
                ctx.writer.line(f"const int {name} = {text};")
                text = name
            self.bases.append(text)
        self.first = self.bases
        inner = _values_inside(self.op.body)
        for each in ir.walk(self.op.body):
            if isinstance(each, ir.Load | ir.Store | ir.Atomic):
                self._place_swizzled(each, inner)

    def _place_swizzled(self, op: ir.Load | ir.Store | ir.Atomic, inner: set[ir.Value]) -> None:
        """Write down where the first point's element of swizzled memory is, if others are steps
        from there; `inner`: what is computed for each point."""
        buffer, runs = self.ctx.buffers.get(op.buffer), [*self.vector, *self.groups]
        if not isinstance(buffer, SharedBuffer) or points(runs) == 1:
            return
        made = swizzled_steps(op, buffer, self.op.body.args, self.layout, runs, inner)
        if made is None:
            return
        with self._at(0):
            needed = set[ir.OpBase]()
            _add_needed(op.indices[-2:], needed)
            self._slice([o for o in ir.walk(self.op.body) if o in needed], set(), {})
            row, column = (self.ctx.index(v) for v in op.indices[-2:])
        text = str(buffer.tile_offset(row, column))
        turn = turn_of(self.op, self.layout, buffer.layout, self.planner.width)
        if turn is not None and self._takes_turns(op):
            self.frame.turn = turn
            text = f"{paren(text)} ^ ({turn.lanes} * {turn.change})"
            made = replace(made, mask=made.mask | turn.change)
        if text not in self.places:
            self.places[text] = self.ctx.names.fresh(f"{buffer.name}_at")
            self.ctx.writer.line(f"const int {self.places[text]} = {bare(text)};")
        self.frame.addresses[op] = replace(made, base=self.places[text])

    def _takes_turns(self, op: ir.Load | ir.Store | ir.Atomic) -> bool:
        """Whether a store moves all its vectors whole, so that their order does not matter."""
        width = self.planner.width
        whole = [a for a in self.stores if a.op is op and a.width == width and not a.members]
        return bool(whole) and not whole[0].guards

    def conditions(self) -> list[Multiple]:
        """Return what the launch must fulfil for the fast form, besides accesses inside."""
        return list(dict.fromkeys(c for a in (*self.loads, *self.stores) for c in a.conditions))

    def _survey(self) -> list[list[int]]:
        """Distances in registers of each fragment that the points touch, by digit."""
        found: list[list[int]] = []
        loops: dict[ir.Value, ir.OpBase] = {}
        for each in ir.walk(self.op.body):
            if isinstance(each, ir.For):
                loops[each.body.args[0]] = each
            if not isinstance(each, ir.Load | ir.Store | ir.Atomic):
                continue
            buffer = self.ctx.buffers.get(each.buffer)
            if not isinstance(buffer, FragmentBuffer):
                continue
            self.ctx.unrolled |= {loops[i] for i in each.indices if i in loops}
            key = buffer.array, self.frame.dims(each.indices)
            if key not in self.frame.fragments:
                self.frame.fragments[key] = len(found)
                found.append(self.frame.weights(buffer, key[1]))
        return found

    def _packs(self, op: ir.Store) -> bool:
        """Whether a vector's elements of a fragment lie in consecutive registers and are worth
        converting together."""
        buffer = self.ctx.buffers.get(op.buffer)
        if not isinstance(buffer, FragmentBuffer) or len(self.vector) != 1:
            return False
        dims = self.frame.dims(op.indices)
        fixed = (isinstance(i.owner, ir.Constant) for i, d in zip(op.indices, dims) if d is None)
        if not is_narrow(buffer.dtype) or is_element(op.value.owner) or not all(fixed):
            return False
        return self.vector[0].weights[self.frame.fragments[buffer.array, dims]] == 1

    @cached_property
    def _stored(self) -> set[ir.OpBase]:
        """Ops whose narrow result is only stored, so that they need no statement: the store rounds,
        and what was loaded for it is no value."""
        found: set[ir.OpBase] = set()
        ops = self.planner.ops
        for at, op in enumerate(ops):
            if not isinstance(op, ir.Store) or not is_narrow(op.value.dtype):
                continue
            made = op.value.owner
            if made not in ops or len(self.ctx.uses[op.value]) != 1:
                continue
            between = ops[ops.index(made) + 1 : at]
            simple = is_pure(made) or isinstance(made, ir.Load)
            if simple and not any(o.SPEC.effect & CHANGES for o in between):
                found.add(made)
        return found

    def _used(self, moved: Sequence[VectorAccess]) -> set[ir.Value]:
        """Return what the text of a point mentions, without what only moved accesses need."""
        used: set[ir.Value] = set()
        self._use(self.op.body, {op for a in moved for op in a.ops}, used)
        return used

    def _use(self, block: ir.Block, elsewhere: Set[ir.OpBase], used: set[ir.Value]) -> None:
        """Add what the text of a block mentions."""
        for op in reversed(flat(block)):
            if op in elsewhere:
                used |= {op.value} if isinstance(op, ir.Store | ir.Atomic) else set()
            elif isinstance(op, ir.If):
                used.add(op.condition)
                self._use(op.otherwise, elsewhere, used)
                self._use(op.then, elsewhere, used)
            elif op.SPEC.effect & CHANGES or used & set(op.results):
                for each in op.with_inner_ops():
                    used |= set(self._mentioned(each))

    def _mentioned(self, op: ir.OpBase) -> Iterator[ir.Value]:
        points: Sequence[ir.Value] = ()
        if isinstance(op, ir.Load | ir.Store | ir.Atomic) and isinstance(
            self.ctx.buffers.get(op.buffer), FragmentBuffer
        ):
            points = self.op.body.args
        yield from (v for v in op.operand_values() if v not in points)

    # -- the two forms

    def fast(self) -> None:
        """All accesses are inside and aligned."""
        self._loops(*taken_apart(self.planner, self.loads, self.stores, self.ctx.inside))

    def slow(self) -> None:
        """Accesses that may be outside are made whole where a vector is inside or outside as a
        whole, else one by one."""
        loads, stores = slow_accesses(self.planner, self.loads, self.stores, self.ctx.inside)
        self.sunk = self._guarded_stores(loads, stores)
        self._loops(loads, stores)

    def _guarded_stores(
        self, loads: Sequence[VectorAccess], moved: Sequence[VectorAccess]
    ) -> tuple[ir.Store, ...]:
        """Return the stores that alone need what points read from shared memory, if they are left
        out together; none where a point does anything else.

        Their guard then stands around all of the point.  Otherwise NVRTC moves some reads behind
        the guard, leaves others, and makes one of those that the fast form has, too, in front of
        both.
        """
        ctx, ops = self.ctx, self.planner.ops
        stores = tuple(op for op in ops if isinstance(op, ir.Store))
        late = [a for a in moved if a.op in stores]
        if not stores or sum(len(a.ops) for a in late) not in (0, len(stores)):
            return ()
        if self.planner.guards or self.planner.leaves:
            return ()
        if any(a.width != self.planner.width * a.step for a in late):
            return ()
        guards = [self._compared(op) for op in stores]
        if not guards[0] or any(each != guards[0] for each in guards):
            return ()
        far = {op for a in loads if isinstance(a.buffer, GlobalBuffer) for op in a.ops}
        near = False
        for op in ops:
            if isinstance(op, ir.Load):
                buffer = ctx.buffers.get(op.buffer)
                near = near or isinstance(buffer, SharedBuffer)
                proved = op.in_bounds or op in ctx.inside or op in far
                # What is outside has to be noted, whoever needs it.
                if not proved and not isinstance(buffer, FragmentBuffer):
                    return ()
            elif op not in stores and not is_pure(op):
                return ()
        return stores if near else ()

    def _compared(self, op: ir.Store) -> list[tuple[ir.Value, ir.Dim]]:
        """Return the indices of a guarded store to global memory that are compared with extents;
        none where there is more to its guard."""
        if op.in_bounds or op in self.ctx.inside or self.planner.computing(op.indices) is None:
            return []
        if not isinstance(self.ctx.buffers.get(op.buffer), GlobalBuffer):
            return []
        pairs = zip(op.indices, op.buffer.buffer.shape, strict=True)
        return [(index, n) for index, n in pairs if not _is_inside(index, n)]

    def _guard(self) -> str:
        """Return the condition under which this thread makes the stores; indices are known."""
        op = self.sunk[0]
        _, guard = checked(self.ctx, op, self.ctx.buffer(op.buffer), op.indices, op.in_bounds)
        return " && ".join(each for each in (self.frame.leader, guard) if each)

    @contextmanager
    def _where(self, condition: str) -> Iterator[None]:
        """Put what is written under the condition of the stores."""
        outside, leader = self.ctx.inside, self.frame.leader
        self.ctx.inside, self.frame.leader = outside | {*self.sunk}, ""
        with self.ctx.writer.braces(f"if ({condition})" if condition else ""), self.ctx.scope():
            yield
        self.ctx.inside, self.frame.leader = outside, leader

    def _loops(self, loads: Sequence[VectorAccess], stores: Sequence[VectorAccess]) -> None:
        far = [a for a in loads if isinstance(a.buffer, GlobalBuffer)]
        near = [a for a in loads if isinstance(a.buffer, SharedBuffer)]
        width = self.planner.width
        sizes = (a.buffer.dtype.bytes * a.step for a in far if not self._settles(a))
        size = sum(-(-each * width // 4) * 4 for each in sizes)
        whole = points(self.groups) if far else 1
        inner, outer = _divided(self.groups, BYTES_IN_FLIGHT // size if size else whole)
        with self.ctx.scope():
            inner, outer = self._named(inner), self._named(outer)
            self.loops, self.outer = (*inner, *outer), outer
            with self._nest(outer):
                self._load_far(far, inner)
                with self._once(), self._nest(inner), self._vector_begins():
                    self._group(far, near, stores)
        self.frame.early.clear()
        self.frame.late.clear()

    def _settles(self, access: VectorAccess) -> bool:
        """Whether what is loaded is a fragment's from then on, so that it takes no registers."""
        return all(self._settles_one(op) for op in access.ops)

    def _settles_one(self, op: ir.OpBase) -> bool:
        users = self.ctx.uses.get(op.results[0], []) if op.results else []
        targets = [u.buffer for u in users if isinstance(u, ir.Store)]
        fragments = [t for t in targets if isinstance(self.ctx.buffers.get(t), FragmentBuffer)]
        return len(users) == len(fragments) == 1

    def _load_far(self, loads: Sequence[VectorAccess], inner: Sequence[Run]) -> None:
        """Arrays of elements from global memory, for all vectors of the inner loops."""
        width, base = self.planner.width, []
        for run in inner:
            base.append(times(run.name, width))
            width *= run.count
        for access in loads:
            name = self._array(access, width * access.step, "in")
            held = Held(name, times(plus(*base), access.step), step=access.step)
            for op, place in access.places:
                self.frame.early[op] = replace(held, place=place)
        if loads:
            with self._nest(inner), self._vector_begins():
                for access in loads:
                    with self.ctx.writer.at(access.op.span):
                        self._load(access)

    # -- one vector

    def _group(
        self,
        far: Sequence[VectorAccess],
        near: Sequence[VectorAccess],
        stores: Sequence[VectorAccess],
    ) -> None:
        """The points of one vector, with its loads from shared memory and its stores."""
        moved = next((a for a in stores if self.sunk and self.sunk[0] in a.ops), None)
        if moved is None:
            self._points(far, near, stores)
            return
        with self._at(0), self._guarded(moved, keep=True):
            condition = self._guard()
        with self._where(condition):
            self._points(far, near, stores)

    def _points(
        self,
        far: Sequence[VectorAccess],
        near: Sequence[VectorAccess],
        stores: Sequence[VectorAccess],
    ) -> None:
        for access in near:
            name = self._array(access, self.planner.width * access.step, "in")
            for op, place in access.places:
                self.frame.early[op] = Held(name, step=access.step, place=place)
            with self.ctx.writer.at(access.op.span):
                self._load(access)
        for access in (*far, *near):
            self._widen(access)
        for access in stores:
            name = self._array(access, self.planner.width * access.step, "out")
            values = name if converts(access.op) else ""
            for op, place in access.places:
                self.frame.late[op] = Held(name, 0, values, access.step, place)
        runs = self._named(self.vector, "e")
        with self._nest(runs):
            position = plus(*(times(r.name, r.step[self.planner.dim]) for r in runs))
            with self._at(position, self._used([*far, *near, *stores])):
                self.ctx.inline |= self._stored
                with self._led(), self._sunk({op for a in stores for op in a.ops}):
                    self.point()
        for access in stores:
            with self.ctx.writer.at(access.op.span):
                self._store(access)

    @contextmanager
    def _led(self) -> Iterator[None]:
        """One thread runs a point that goes on with what an atomic gave it: the others have no
        answer, and need none where no fragment is filled."""
        leader, uses = self.frame.leader, self.ctx.uses
        inside = list(ir.walk(self.op.body))
        if not leader or not any(isinstance(o, ir.Atomic) and uses.get(o.result) for o in inside):
            yield
            return
        if any(isinstance(o, ir.Store) and o.buffer.buffer.space == "fragment" for o in inside):
            raise InternalError(f"{self.op!r} fills a fragment with what only one thread knows")
        self.frame.leader = ""
        with self.ctx.writer.braces(f"if ({leader})"), self.ctx.scope():
            yield
        self.frame.leader = leader

    @contextmanager
    def _sunk(self, moved: Set[ir.OpBase]) -> Iterator[None]:
        """A point under the guard of its stores, if these stay with it."""
        if not self.sunk or self.sunk[0] in moved:
            yield
            return
        self._slice(self.planner.computing(self.sunk[0].indices) or (), set(), {})
        with self._where(self._guard()):
            yield


def _divided(runs: Sequence[Run], fit: int) -> tuple[list[Run], list[Run]]:
    """Inner loops of at most `fit` iterations together, and the rest as outer ones."""
    inner: list[Run] = []
    outer: list[Run] = []
    for run in runs:
        count = next((c for c in range(min(run.count, fit), 1, -1) if run.count % c == 0), 1)
        if outer or count == 1:
            outer.append(run)
            continue
        one, other = run.split(count)
        fit //= count
        inner.append(one)
        if other.count > 1:
            outer.append(other)
    return inner, outer


def _is_inside(index: ir.Value, extent: ir.Dim) -> bool:
    """Return whether an index is a number that is less than an extent."""
    made = index.owner
    return isinstance(made, ir.Constant) and isinstance(extent, int) and 0 <= made.value < extent


def _values_inside(block: ir.Block) -> set[ir.Value]:
    """Those that ops of a block make, and the variables of loops in it."""
    ops = list(ir.walk(block))
    made = {result for op in ops for result in op.results}
    return made | {arg for op in ops for inner in op.blocks() for arg in inner.args}


def _add_needed(values: Iterable[ir.Value], found: set[ir.OpBase]) -> None:
    """Add the ops that scalars are computed by."""
    for owner in (v.owner for v in values):
        if owner is not None and owner not in found:
            found.add(owner)
            _add_needed(owner.operand_values(), found)
