"""Barriers and proxy fences, derived from hazards between bytes of shared memory.

Between two barriers no byte may be touched by two threads where one of them writes.  Buffers that
share bytes (see `memory.py`) conflict as one.  What tensor cores and TMA read must have been fenced
by the threads that wrote it, before the barrier.  Global tensors that a launch both writes and
reads, or writes by several ops, are treated alike, as wholes.

Threads do not meet where each touches nothing but elements at its own points of loops with one
layout.

Slots of rings need none of this: their barriers are the ring's.

One thread waits until TMA has read a tile that it stores, and a barrier lets the others know.  In a
loop, such a wait goes in front of a barrier that is there anyway, if TMA has had the time to read:
products have been waited for since the store, and barriers.  A store in front of a product goes
behind it: one thread starts it, and the product would wait for this thread's warp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts import parse_layout, parse_shared
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import READ_STEPS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync, Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import opened, per_launch, with_originals

from .control_flow import Flow
from .pipeline.roles import written_globals


def insert_barriers(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """`barrier` and `fence` wherever threads, or units, must not overtake each other."""
    return per_launch(kernel, _with_barriers)


def _with_barriers(launch: ir.Launch) -> ir.Launch:
    made = _Barriers(launch).done()
    while (better := _with_fewer(launch, made)) is not None:
        launch, made = better
    for block in [made.body, *(block for op in ir.walk(made.body) for block in op.blocks())]:
        block.ops = _products_first(block.ops)
    return made


def _with_fewer(launch: ir.Launch, made: ir.Launch) -> tuple[ir.Launch, ir.Launch] | None:
    """Return a launch in which one wait for stores stands earlier, and that with barriers, if these
    are fewer than in `made`; None where no move saves one."""
    loops, guarded = ([o for o in ir.walk(x.body) if isinstance(o, ir.For)] for x in (launch, made))
    for loop, new in zip(loops, guarded, strict=True):
        for wait, place, pending in _moves(loop.body.ops, _guarded(loop.body.ops, new.body.ops)):
            moved = _moved(launch, wait, place, pending)
            tried = _Barriers(moved).done()
            if _count(tried) < _count(made):
                return moved, tried
    return None


def _products_first(ops: Sequence[ir.OpBase]) -> list[ir.OpBase]:
    """Return the ops with products in front of the stores that they stand behind."""
    made: list[ir.OpBase] = []
    for op in ops:
        made.append(op)
        if not isinstance(op, ir.AsyncGemm):
            continue
        at = len(made) - 1
        while at and (is_pure(made[at - 1]) or isinstance(made[at - 1], ir.RingWait | ir.View)):
            at -= 1
        match made[max(at - 2, 0) : at]:
            case [ir.AsyncCopy(ring=None, lowering=Tma()) as store, ir.Commit(queue="bulk") as end]:
                made = [*made[: at - 2], *made[at:], store, end]
    return made


def _count(launch: ir.Launch) -> int:
    return sum(isinstance(o, ir.Barrier) for o in ir.walk(launch.body))


def _guarded(ops: Sequence[ir.OpBase], made: Sequence[ir.OpBase]) -> list[int]:
    """Return the indices of the ops of a block that have a barrier in front of them in `made`."""
    found, at, guarded = [], 0, False
    for op in made:
        added = isinstance(op, ir.Barrier | ir.Fence)
        if added and (at == len(ops) or not isinstance(ops[at], ir.Barrier | ir.Fence)):
            guarded |= isinstance(op, ir.Barrier)
            continue
        found += [at] if guarded else []
        at, guarded = at + 1, False
    return found


def _moves(
    ops: Sequence[ir.OpBase], guarded: Sequence[int]
) -> Iterator[tuple[ir.Wait, ir.OpBase, int]]:
    """Yield waits of a loop's body for stores, the ops in front of which they may stand instead,
    and how many groups may be pending there."""
    if any(o.SPEC.regions and any(map(_stores, o.inner_ops())) for o in ops):
        return
    for at, wait in enumerate(ops):
        place = max((g for g in guarded if g <= at), default=None)
        if not (isinstance(wait, ir.Wait) and wait.queue == "bulk" and wait.read) or place is None:
            continue
        pending = wait.pending - sum(map(_stores, ops[place:at]))
        # Backwards from the barrier, through the iteration before.
        way = [*reversed(ops[:place]), *reversed(ops[place:])]
        stores = [index for index, op in enumerate(way) if _stores(op)]
        if not 0 <= pending < len(stores):
            continue
        since = way[: stores[pending]]
        products = sum(isinstance(o, ir.Wait) and o.queue == "wgmma" for o in since)
        passed = sum(o in since for o in (ops[g] for g in guarded if g != place))
        if products and products + passed >= READ_STEPS:
            yield wait, ops[place], pending


def _stores(op: ir.OpBase) -> bool:
    """Whether an op counts the groups of stores on."""
    return isinstance(op, ir.Commit) and op.queue == "bulk"


def _moved(launch: ir.Launch, wait: ir.Wait, place: ir.OpBase, pending: int) -> ir.Launch:
    """Return the launch with a wait in front of another op."""

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if op is place:
            builder.emit(replace(wait, pending=pending))
        return [] if op is wait else None

    return with_originals(launch, rule)


class _Owner(NamedTuple):
    """Elements of a buffer by the threads that touch them: each has those at its points."""

    buffer: ir.Value
    layout: str
    shape: tuple[int, ...]
    """Extents of the loop."""
    dims: tuple[int, ...]
    """Number of the loop variable that each index is; -1 for any other one."""


class _Place(NamedTuple):
    """Bytes of shared memory, or a global tensor (`tensor` is its value, start and end are 0)."""

    start: int
    end: int
    tensor: ir.Value | None
    name: str
    owner: _Owner | None = None
    """Rule by which threads touch elements; None where it is not known."""

    def meets(self, other: _Place) -> bool:
        """Return whether two threads may touch a byte that is in both."""
        if self.owner is not None and self.owner == other.owner:
            return False
        if self.tensor is not None or other.tensor is not None:
            return self.tensor is other.tensor
        return self.start < other.end and other.start < self.end


_Places = frozenset[_Place]


@dataclass
class _State:
    """Memory that was touched since the last barrier, and written since the last fence."""

    read: _Places = frozenset()
    written: _Places = frozenset()
    unfenced: _Places = frozenset()
    storing: _Places = frozenset()
    """Sources of bulk stores that one thread has started."""
    arriving: _Places = frozenset()
    """Targets of cp.async copies that were not waited for."""
    fetching: _Places = frozenset()
    """Operands of products that were not waited for."""
    plain: _Places = frozenset()
    """Touched by ops that do not only join something with what is there."""
    joined: frozenset[tuple[_Place, str]] = frozenset()
    """Touched by atomics that give nothing back, and of which kind."""

    def copy(self) -> _State:
        """The same, to be changed on its own."""
        made = _State()
        made.become(self)
        return made

    def pass_barrier(self) -> None:
        """Forget what nobody can overtake any more."""
        self.read = self.written = self.plain = frozenset()
        self.joined = frozenset()

    def become(self, *ways: _State) -> None:
        """Let what may hold after any of these be the state."""
        for name in self.__dataclass_fields__:
            setattr(self, name, frozenset().union(*(getattr(w, name) for w in ways)))


@dataclass
class _Use:
    """Effect of one op on memory."""

    read: set[_Place] = field(default_factory=set)
    written: set[_Place] = field(default_factory=set)
    fetched: set[_Place] = field(default_factory=set)
    """Read by tensor cores or TMA."""
    plain: set[_Place] = field(default_factory=set)
    joined: set[tuple[_Place, str]] = field(default_factory=set)
    """See `_State`."""

    def kind(self, place: _Place) -> str:
        """Return the kind of atomics that are all that the op does to a place; '' for others."""
        kinds = {kind for held, kind in self.joined if held == place}
        return kinds.pop() if len(kinds) == 1 and place not in self.plain else ""


class _Barriers(Flow[_State]):
    def __init__(self, launch: ir.Launch) -> None:
        super().__init__()
        self.launch = launch
        self.tensors = _shared_tensors(launch)
        # A fence costs little beside a barrier: where some unit reads a buffer, every barrier
        # after a write of it has one, and no second barrier is needed.
        self.units: set[_Place] = set()
        self.uses: dict[ir.OpBase, _Use] = {}
        """Effects of ops with those inside of them, which iterations of loops ask for again."""
        self.owners = _owners(launch)
        self.used = {v for op in ir.walk(launch.body) for v in op.operand_values()}
        for op in ir.walk(launch.body):
            use = _Use()
            self._own(op, use)
            self.units |= use.fetched

    def done(self) -> ir.Launch:
        """The launch with barriers."""
        return self.launch.with_body(self.block(self.launch.body, _State()))

    # -- what ops do

    def _place(self, value: ir.Value) -> _Place | None:
        found = base(value)
        if found.buffer.space == "global":
            return _Place(0, 0, found, found.name) if found in self.tensors else None
        alloc = found.owner
        if found.buffer.space != "shared" or not isinstance(alloc, ir.Alloc):
            return None
        size = parse_shared(alloc.layout, alloc.shape, alloc.dtype).bytes
        return _Place(alloc.offset, alloc.offset + size, None, buffer_name(found))

    def _own(self, op: ir.OpBase, use: _Use) -> None:
        for touch in op.accesses():
            place = self._place(touch.value)
            if place is None:
                continue
            if place.tensor is None:
                place = place._replace(owner=self.owners.get(op))
            if isinstance(op, ir.Atomic) and op.result not in self.used:
                use.joined.add((place, op.kind))
            else:
                use.plain.add(place)
            unit = isinstance(op, ir.AsyncGemm) or (
                isinstance(op, ir.AsyncCopy) and isinstance(op.lowering, Tma)
            )
            if touch.reads:
                (use.fetched if unit else use.read).add(place)
            # What a ring's loads write is guarded by the ring.
            if touch.writes and not (isinstance(op, ir.AsyncCopy) and op.ring is not None):
                use.written.add(place)

    def _use(self, op: ir.OpBase) -> _Use:
        use = self.uses.get(op)
        if use is None:
            use = self.uses[op] = _Use()
            for each in op.with_inner_ops():
                self._own(each, use)
        return use

    # -- the walk

    def block(self, block: ir.Block, state: _State) -> ir.Block:
        made = opened(block, self.mapping)
        for op in block.ops:
            self._op(op, made, state)
        return made

    def _op(self, op: ir.OpBase, made: ir.Block, state: _State) -> None:
        match op:
            case ir.For() | ir.While():
                self._guard_loop(op, made, state)
                self.loop(op, made, state)
            case ir.If() if any(self._waits(o) for b in op.blocks() for o in b.ops):
                self.branch(op, made, state)
            case ir.Roles():
                self._roles(op, made)
            case ir.Break() | ir.Continue():
                self.jump(op, made, state)
            case ir.Wait():
                self.emit(op, made)
                self._waited(op, state)
            case _:
                self._guard(op, made, state)
                regions = {n: self.copied(getattr(op, n)) for n in op.SPEC.regions}
                self.emit(op, made, regions)

    def _waits(self, op: ir.OpBase) -> bool:
        """Whether an op of a branch needs barriers of its own inside of the branch."""
        if isinstance(op, ir.Parallel):
            # It starts to load ahead, as a whole.
            return not any(isinstance(o, ir.AsyncCopy) for o in ir.walk(op.body))
        if isinstance(op, ir.Load) and self._place(op.buffer) is None:
            return False
        other = not isinstance(op, ir.AsyncCopy | ir.Commit | ir.Yield)
        return bool(op.SPEC.regions) or (bool(op.SPEC.effect) and other)

    def _waited(self, op: ir.Wait, state: _State) -> None:
        """Asynchronous accesses of one thread become accesses that others must not overtake."""
        match op.queue:
            case "bulk":
                state.read |= state.storing
                if not op.pending:
                    state.storing = frozenset()
            case "cp.async":
                state.written |= state.arriving
                state.unfenced |= state.arriving
                if not op.pending:
                    state.arriving = frozenset()
            case "wgmma":
                # A barrier before this wait said nothing about the products of other warps.
                state.read |= state.fetching
                if not op.pending:
                    state.fetching = frozenset()

    def _guard(self, op: ir.OpBase, made: ir.Block, state: _State) -> None:
        """A barrier in front of an op that conflicts with what was touched before."""
        if not op.SPEC.touches and not op.SPEC.regions:
            return
        use = self._use(op)
        arriving = isinstance(op, ir.AsyncCopy) and isinstance(op.lowering, CpAsync)
        arriving |= isinstance(op, ir.If | ir.Parallel) and bool(
            [o for o in op.inner_ops() if isinstance(o, ir.AsyncCopy)]
        )
        conflict = self._conflict(use, state, arriving=arriving) or _unfenced(use, state)
        if conflict:
            self._barrier(made, state, op, conflict)
        state.read |= use.read | use.fetched
        state.plain |= use.plain
        state.joined |= use.joined
        if arriving:
            state.arriving |= use.written
        else:
            state.written |= use.written
            # Units read what any thread wrote.
            state.unfenced |= {p._replace(owner=None) for p in use.written if p.tensor is None}
        if isinstance(op, ir.AsyncCopy) and op.ring is None and not arriving:
            state.storing |= use.fetched
        if isinstance(op, ir.AsyncGemm):
            state.fetching |= use.fetched

    def _guard_loop(self, op: ir.For | ir.While, made: ir.Block, state: _State) -> None:
        """A barrier in front of a loop that writes no shared bytes, or joins what others read
        behind it, where it conflicts with what was touched before: inside it would be one per
        iteration."""
        use = self._use(op)
        if not use.written or use.joined:
            conflict = self._conflict(use, state, arriving=False) or _unfenced(use, state)
            if conflict and (not use.written or self._saves_one(op, state)):
                self._barrier(made, state, op, conflict)

    def _saves_one(self, op: ir.For | ir.While, state: _State) -> bool:
        """Return whether fewer barriers are in a loop with one in front of it."""
        after = state.copy()
        after.pass_barrier()
        inside, behind = (ir.Block(), ir.Block())
        self.loop(op, inside, state.copy())
        self.loop(op, behind, after)
        one, other = (
            sum(isinstance(o, ir.Barrier) for o in ir.walk(block)) for block in (behind, inside)
        )
        return one < other

    def _conflict(self, use: _Use, state: _State, *, arriving: bool) -> str:
        # Sums, say, that nobody reads in between come out alike in any order.
        free = {p for p in use.written if self._only_joins(p, use.kind(p), state)}
        if free:
            use = replace(use, read=use.read - free, written=use.written - free)
        for place in _in_order(use.read | use.fetched):
            for other in state.written:
                if place.meets(other):
                    return f"{place.name} was written"
        for place in _in_order(use.written):
            for other in _in_order(state.read):
                if place.meets(other):
                    return f"{other.name} was read"
            for other in _in_order(state.written):
                # Groups of cp.async go to other slots than those that have arrived.
                if place.meets(other) and not (arriving and place == other):
                    return f"{other.name} was written"
        return ""

    def _only_joins(self, place: _Place, kind: str, state: _State) -> bool:
        """Return whether all that was done to the bytes of a place since the last barrier are
        atomics of one kind, on the same buffer."""
        touched = state.read | state.written | state.arriving | state.storing | state.fetching
        return kind != "" and all(
            other == place
            and other not in state.plain
            and {k for held, k in state.joined if held == other} == {kind}
            for other in touched
            if place.meets(other)
        )

    def _barrier(self, made: ir.Block, state: _State, op: ir.OpBase, reason: str) -> None:
        # What other buffers left in the same bytes is never read.
        if state.unfenced & self.units:
            made.ops.append(ir.Fence(reason, span=op.span))
            state.unfenced = frozenset()
        made.ops.append(ir.Barrier(reason, span=op.span))
        state.pass_barrier()

    # -- control flow

    def _roles(self, op: ir.Roles, made: ir.Block) -> None:
        consumer = self.block(op.consumer, _State())
        producer = self.copied(op.producer)
        self.emit(op, made, {"producer": producer, "consumer": consumer})


def _owners(launch: ir.Launch) -> dict[ir.OpBase, _Owner]:
    """Return the loads and stores of shared memory at the points of their loops, of which each is
    one thread's."""
    found: dict[ir.OpBase, _Owner] = {}
    for loop in ir.walk(launch.body):
        if not isinstance(loop, ir.Parallel) or not loop.layout or loop.static_extents is None:
            continue
        layout = parse_layout(loop.layout, loop.static_extents)
        if any(d.is_copy and d.radix > 1 for d in (*layout.lanes, *layout.warps)):
            continue
        variables = loop.body.args
        for op in ir.walk(loop.body):
            if not isinstance(op, ir.Load | ir.Store) or not isinstance(op.buffer.owner, ir.Alloc):
                continue
            # Whatever the other indices are, other points are at other elements.
            dims = tuple(variables.index(i) if i in variables else -1 for i in op.indices)
            if sorted(d for d in dims if d >= 0) == [*range(len(variables))]:
                found[op] = _Owner(op.buffer, loop.layout, loop.static_extents, dims)
    return found


def _unfenced(use: _Use, state: _State) -> str:
    """Why units must not read yet; '' where they may."""
    names = [p.name for p in _in_order(state.unfenced) if any(p.meets(f) for f in use.fetched)]
    return f"{names[0]} was written by threads" if names else ""


def _in_order(places: Iterable[_Place]) -> list[_Place]:
    """Sort by address: a set has another order in each process, and reasons are to be the same."""
    return sorted(places, key=lambda p: (p.start, p.end, p.name))


def _shared_tensors(launch: ir.Launch) -> set[ir.Value]:
    """Global tensors in which threads of a block may meet: written, and read or written again."""
    found = set()
    for tensor in written_globals(launch):
        users = [
            (o, t) for o in ir.walk(launch.body) for t in o.accesses() if base(t.value) is tensor
        ]
        atomic = all(_is_atomic(o) for o, _ in users)
        if len(users) > 1 and not atomic:
            found.add(tensor)
    return found


def _is_atomic(op: ir.OpBase) -> bool:
    """Whether an op joins what it has with what is in memory, in any order."""
    if isinstance(op, ir.Copy | ir.AsyncCopy):
        return isinstance(op.lowering, Tma) and op.lowering.reduce != ""
    return isinstance(op, ir.Atomic | ir.TileAtomic)
