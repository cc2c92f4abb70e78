"""Forms in which the threads of a block make the accesses of a kernel's loops.

In: a kernel in the form that the compiler gave its loops, with layouts.  Out: for each access the
points of its instructions, how wide they are, and which of them the machine code has in each text
of the loops around.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.buffers import SharedBuffer, buffers_of
from tileprof.compiler.cuda.emit.loops.guards import Guard
from tileprof.compiler.cuda.emit.loops.in_flight import iterations_of
from tileprof.compiler.cuda.emit.loops.vectors import Planner, VectorAccess
from tileprof.compiler.cuda.layouts import SharedLayout
from tileprof.compiler.cuda.layouts.turns import Turn, turn_of
from tileprof.compiler.cuda.target import WORD, Target

from .launch_facts import LaunchFacts
from .one_thread import by_one_thread, checked_indices, kept_by_barriers
from .operands import MatrixAccess, fragment_copy
from .points import Ints, in_turns, once_along, places_of, points_of
from .repeated_loads import (
    Loops,
    Numbers,
    Written,
    loads_ahead,
    runs_through,
    texts,
    written,
)
from .ways import Finder, Way, Ways

_WARP = 32


@dataclass(frozen=True, eq=False)
class Form:
    """Way in which threads make an access inside a loop with a layout."""

    shape: tuple[int, ...]
    """Extents of the loop."""
    points: Ints
    """Row-major number of the point of each instruction: int64[instructions, warps, 32], -1 for a
    lane that takes no part."""
    width: int
    """Elements of one lane's access."""
    stays: bool = False
    """Whether loops around may ask for the same again, which the threads then hold."""
    together: int = 1
    """Instructions that follow each other, of which some may ask for the same."""
    unused: tuple[int, int] | None = None
    """Number of a loop around, from the outermost on, and its iteration that does not ask."""


class Forms:
    """The accesses of a kernel's loops by op."""

    def __init__(
        self,
        kernel: ir.Kernel,
        target: Target,
        controls: Controls,
        facts: LaunchFacts,
        lowered: ir.Kernel | None = None,
    ) -> None:
        """lowered: the kernel after all passes, whose barriers keep loads where they are."""
        self._buffers = buffers_of(kernel, facts.strides, facts.unaligned)
        self._finder = Finder(
            kernel, self._buffers, controls.vectorize, target.adds_vectors, facts.numbers(kernel)
        )
        self._ways: dict[ir.Parallel, Ways] = {}
        self._numbers: Numbers
        self._of: dict[ir.OpBase, Form] = {}
        self._texts: dict[ir.OpBase, dict[tuple[int, ...], Form]] = {}
        """Forms of loads of global memory in each text of the loops around."""
        self._ahead: dict[ir.OpBase, tuple[int, int]] = {}
        """Loads for the next iteration of a loop; its depth and its last iteration."""
        self._written: dict[ir.OpBase, tuple[Written, ...]] = {}
        """Loops around these loads that are written out."""
        self.matrices: dict[ir.OpBase, MatrixAccess] = {}
        """Copies that stmatrix or ldmatrix makes."""
        self.warps: dict[ir.OpBase, int] = {}
        """Warps of the block around an op."""
        self.points: set[ir.OpBase] = set()
        """Ops that run once for each point of a loop."""
        self.by_one_thread: set[ir.OpBase] = set()
        """Accesses outside of these loops that one thread makes."""
        self.chosen = self._finder.chosen
        """Loads of a branch that share an instruction with one of the other branch."""
        params = set(kernel.param_values())
        for launch in kernel.launches():
            for op in ir.walk(launch.body):
                self.warps[op] = max(launch.block_threads // _WARP, 1)
                copied = fragment_copy(op, target)
                if copied is not None and copied.matrices is not None:
                    self.matrices[op] = copied.matrices
            self.by_one_thread |= by_one_thread(launch.body)
            if lowered is not None:
                self.by_one_thread -= kept_by_barriers(self.by_one_thread, lowered)
            self._numbers = Numbers(launch, params)
            self._block(launch.body, _Around(), set())
        self._finder.written_twice(self._ways)
        self._of.update(
            (op, replace(self._of[op], points=self._of[op].points[:0])) for op in self._finder.met
        )
        for launch in kernel.launches():
            warps = max(launch.block_threads // _WARP, 1)
            self.warps.update((op, warps) for op in ir.walk(launch.body))

    def layout(self, value: ir.Value) -> SharedLayout | None:
        """Return the layout of a shared buffer."""
        held = self._buffers.get(value)
        return held.layout if isinstance(held, SharedBuffer) else None

    def of(self, op: ir.OpBase, iterations: Sequence[int]) -> tuple[Form | None, Hashable]:
        """Return how threads make an access in an iteration of the loops around, the outermost
        first, and which text of these loops it is; None for an access outside of layouts."""
        if op not in self._texts:
            return self._of.get(op), ()
        text = tuple(each.text(iterations[each.depth]) for each in self._written[op])
        return self._texts[op][text], text

    def _block(self, block: ir.Block, around: _Around, loaded: set[Hashable]) -> None:
        """Plan the loops of a block.  loaded: what threads hold already, to which is added what
        they load here."""
        for at, op in enumerate(block.ops):
            self._numbers.visit(op, around.varying)
            if isinstance(op, ir.For):
                last = len(iterations_of(op) or ()) - 1
                for load in loads_ahead(block.ops[:at], op, self.warps[op] * _WARP):
                    self._ahead[load] = around.depth, last
            match op:
                case ir.Load() if op not in self.by_one_thread:
                    loaded.add(self._numbers.scalar(op))
                case ir.Parallel():
                    self.points.update(ir.walk(op.body))
                    if op.layout:
                        self._loop(op, around, loaded)
                case ir.Scope():
                    self._block(op.body, around, loaded)
                case ir.For():
                    # What is asked for by iterations that run for certain is there behind them.
                    held = loaded if runs_through(op) else set(loaded)
                    self._iterations(op, around, held)
                case _:
                    whiles = (op,) if isinstance(op, ir.While) else ()
                    inside = replace(
                        around, varying=around.varying | {*whiles},
                        certain=(*whiles, *around.certain) if whiles else (),
                    )  # fmt: skip
                    for each in op.blocks():
                        for value in each.args:
                            self._numbers.bind(value, self._numbers.fresh(inside.varying))
                        self._block(each, inside, set(loaded))

    def _iterations(self, op: ir.For, around: _Around, loaded: set[Hashable]) -> None:
        """Plan the body of a loop, once for each text that the machine code has of it."""
        numbers, inside = self._numbers, around.inside(op)
        made = written(op, around.depth, around.copies, self.warps[op] * _WARP)
        if made is None:
            numbers.bind(op.body.args[0], numbers.fresh(inside.varying))
            self._block(op.body, inside, loaded)
            return
        for text, is_run in texts(op, made, numbers, around.varying):
            self._block(op.body, around.text(made, text, inside if is_run else None), loaded)

    def _loop(self, op: ir.Parallel, around: _Around, loaded: set[Hashable]) -> None:
        if op not in self._ways:
            ways = self._finder.find(op)
            if ways is None:
                return
            self._ways[op] = ways
            for each in (ways.fast, ways.slow):
                if each is not None:
                    if each.loop is not op:
                        self._numbers.visit(each.loop, around.varying)
                    self._plan(each)
                    self._meet(each)
                    self._meet_before(each)
                    for load in _made_twice(each):
                        form = self._of[load]
                        points = np.concatenate([form.points, form.points])
                        self._of[load] = replace(form, points=points)
        fast, slow = self._ways[op].fast, self._ways[op].slow
        if slow is not None:
            # What one of two ways loads is not there behind both of them.
            loaded, around = set(loaded), replace(around, certain=())
            if slow.loop is not op:
                self._numbers.visit(slow.loop, around.varying)
            for access in slow.loads:
                form = self._without_scalar(access, loaded)
                self._of_text(access.op, self._behind_guards(access, form, set(loaded)), around)
        if fast.loop is not op:
            self._numbers.visit(fast.loop, around.varying)
        own: set[Hashable] = set()
        for access in fast.loads:
            for other in access.ops[1:]:
                self._of_text(other, self._of[other], around)
            held = loaded if self._numbers.is_fixed(access.op.buffer) else own
            self._of_text(access.op, self._loaded(fast.planner, access, around, held), around)

    def _of_text(self, op: ir.OpBase, form: Form, around: _Around) -> None:
        """Note the form of a load in one text of the loops around."""
        self._texts.setdefault(op, {})[around.texts] = form
        self._written[op] = around.written

    def _without_scalar(self, access: VectorAccess, loaded: set[Hashable]) -> Form:
        """Return the form of a load in front of a loop's points; no instruction where it is that of
        an element that a load outside of loops over points asked for before."""
        form = self._of[access.op]
        scalar = isinstance(access.op, ir.Load) and self._numbers.scalar(access.op)
        return replace(form, points=form.points[:0]) if scalar and scalar in loaded else form

    def _behind_guards(self, access: VectorAccess, form: Form, loaded: set[Hashable]) -> Form:
        """Return the form of a load behind guards, without what was asked for behind the same ones:
        NVRTC 13.0 knows what a second branch would give, NVRTC 13.5 asks again.  Adds to `loaded`.
        """
        numbers, op = self._numbers, access.op
        if not access.guards or not len(form.points) or not numbers.is_fixed(op.buffer):
            return form
        guards = tuple((numbers.of(each.condition), each.holds) for each in access.guards)
        places = places_of(form.points, form.shape)
        found = numbers.keys(op.indices, places.reshape(len(places), -1, len(form.shape)))
        keys = [(op.buffer, form.width, each, guards) for each in found]
        new = np.array([each not in loaded for each in keys], np.bool_)
        loaded.update(keys)
        return replace(form, points=form.points[new])

    def _plan(self, way: Way) -> None:
        """Note how threads make all accesses of a loop that goes one way."""
        op, planner = way.loop, way.planner
        self.points.update(ir.walk(op.body))
        shape = planner.layout.shape
        widths: dict[ir.OpBase, int] = {each.op: each.width for each in (*way.loads, *way.stores)}
        front = {each.op: each for each in way.loads}
        behind: set[ir.OpBase] = {op for each in way.stores for op in each.ops}
        moved_at = {each.op: each for each in (*way.loads, *way.stores)}
        with_others = {op for each in moved_at.values() for op in each.ops if op is not each.op}
        written = [
            each
            for each in ir.walk(op.body)
            if isinstance(each, ir.Store | ir.Atomic) and each.buffer.buffer.space == "shared"
        ]
        once = _by_first_threads(way)
        for each in ir.walk(op.body):
            if isinstance(each, ir.Load | ir.Store | ir.Atomic):
                width, moved = widths.get(each, 1), front.get(each)
                parts = moved_at[each].step if each in moved_at else 1
                step = max(width // parts, moved.repeats if moved else 1)
                points = points_of(planner.layout, step, each in once)
                if isinstance(each, ir.Store) and (turn := self._turn(way, each, width)):
                    points = in_turns(points, planner.layout, turn, width)
                form = Form(shape, points, width)
                if each in with_others:
                    # The instruction is that of the first of these.
                    form = Form(shape, points[:0], 1)
                elif moved is None and behind.issuperset(written) and isinstance(each, ir.Load):
                    form = self._joined(planner, each, form, moved_at, through=not written)
                elif moved is not None and (way.is_fast or each.in_bounds) and not _is_cut(planner):
                    # Under different conditions the same address is asked for each time.
                    asked = [*each.indices, *(guard.condition for guard in moved.guards)]
                    form = replace(form, points=once_along(points, shape, _moving(asked, op)))
                self._of[each] = form

    def _turn(self, way: Way, store: ir.Store, width: int) -> Turn | None:
        """Return the lanes of a store that begin with another register; None where none do."""
        layout = self.layout(store.buffer)
        moved = [each for each in way.stores if each.op is store]
        if layout is None or not moved or moved[0].guards or moved[0].members:
            return None
        if width != way.planner.width:
            return None
        return turn_of(way.loop, way.planner.layout, layout, width)

    def _meet(self, way: Way) -> None:
        """Leave out loads of single elements of shared memory that ask for what another one of the
        loop does, or of the same vector under guards, where nothing is written between."""
        planner, behind = way.planner, {op for each in way.stores for op in each.ops}
        # Those of the fast way are met where loops around are known.
        loads = way.loads if way.is_fast else [each for each in way.loads if each.members]
        front = {op for each in loads for op in each.ops}
        ops = list(ir.walk(way.loop.body))
        writes = {each for each in ops if _writes_shared(each)}
        # What is written in its place parts the points of a vector, too.
        apart = 1 if writes - behind else planner.width
        seen = set(self._words(way, writes, apart))
        for op in ops:
            if op in writes - behind:
                seen.clear()
            if not isinstance(op, ir.Load) or op in front or planner.guards.get(op):
                continue
            form = self._of[op]
            if op.buffer.buffer.space != "shared" or not len(form.points):
                continue
            places = places_of(form.points, form.shape)
            keys = self._numbers.keys(op.indices, places.reshape(len(places), -1, len(form.shape)))
            kept = np.ones(len(keys), np.bool_)
            for at, each in enumerate(keys):
                vector = -1 if way.is_fast and not writes else at * form.width // apart
                key = op.buffer, form.width, vector, each
                kept[at] = key not in seen
                seen.add(key)
            if not writes:
                groups = kept.reshape(-1, form.together)
                whole = (groups.all(axis=1) == groups.any(axis=1)).all()
                together = form.together if whole else 1
                self._of[op] = replace(form, points=form.points[kept], together=together)
            elif not kept.any():
                self._of[op] = replace(form, points=form.points[kept], together=1)

    def _words(self, way: Way, writes: set[ir.OpBase], apart: int) -> Iterator[Hashable]:
        """Yield what names the elements, as `_meet` does, with which words of vectors begin that
        are loaded from shared memory in front of the points: NVRTC takes those from the registers,
        but not others of the same word."""
        planner = way.planner
        for access in way.loads:
            op, form = access.op, self._of[access.op]
            size, is_one = access.op.buffer.dtype.bytes, access.step == 1 and not access.members
            if op.buffer.buffer.space != "shared" or access.guards or not is_one:
                continue
            if (
                access.width == 1
                or len(form.points) * access.width != planner.layout.registers_per_thread
            ):
                continue
            for element in range(0, access.width, max(WORD // size, 1)):
                places = places_of(form.points, form.shape)
                places[..., planner.dim] += np.where(places[..., planner.dim] < 0, 0, element)
                flat = places.reshape(len(places), -1, len(form.shape))
                for at, each in enumerate(self._numbers.keys(op.indices, flat)):
                    vector = -1 if way.is_fast and not writes else at * access.width // apart
                    yield op.buffer, 1, vector, each

    def _meet_before(self, way: Way) -> None:
        """Leave out loads that stay with their points and ask for what one before them in their
        block, or in one around, asked for: of memory that the loop leaves as it is."""
        front = {op for access in way.loads for op in access.ops}
        still = not any(map(_writes_shared, ir.walk(way.loop.body)))
        users = ir.users(ir.walk(way.loop.body))

        def visit(block: ir.Block, seen: set[Hashable]) -> None:
            for op in block.ops:
                if isinstance(op, ir.Load) and op in self._of and op not in front and op.in_bounds:
                    form, space = self._of[op], op.buffer.buffer.space
                    fixed = still if space == "shared" else self._numbers.is_fixed(op.buffer)
                    if fixed and len(form.points):
                        places = places_of(form.points, form.shape)
                        flat = places.reshape(len(places), -1, len(form.shape))
                        key = op.buffer, tuple(self._numbers.keys(op.indices, flat))
                        checked = _behind_check(op, users)
                        if not seen.isdisjoint({key, (key, checked)}):
                            self._of[op] = replace(form, points=form.points[:0], together=1)
                        seen.add((key, checked) if checked is not None else key)
                for each in op.blocks():
                    visit(each, set(seen))

        visit(way.loop.body, set())

    def _is_met(self, planner: Planner, load: ir.Load, vectors: Container[ir.OpBase]) -> bool:
        """Return whether a load of global memory under guards is made once for the points of a
        vector that ask for the same."""
        conditions = [op.condition for op in planner.ops if isinstance(op, ir.If)]
        # The place of a vector is asked for once. Values are, where NVRTC sees that a branch is the
        # same one for all points: it does not know multiples.
        fixed = planner.dim not in _moving(conditions, planner.op) or _only_places(
            load, planner, vectors
        )
        alike = planner.decides_once([Guard(each, holds=True) for each in conditions])
        return self._numbers.is_fixed(load.buffer) and fixed and alike

    def _joined(
        self,
        planner: Planner,
        load: ir.Load,
        form: Form,
        vectors: Container[ir.OpBase],
        *,
        through: bool,
    ) -> Form:
        """Return the form of loads of single elements of shared memory that stay with their points:
        NVRTC loads the same once, `through` the whole loop, or for the points of a vector behind
        which shared memory is written."""
        if self._is_met(planner, load, vectors):
            conditions = [each.condition for each in planner.ops if isinstance(each, ir.If)]
            axes = _moving([*load.indices, *conditions], planner.op)

            def moves(op: ir.OpBase) -> bool:
                if not isinstance(op, ir.Load | ir.Store | ir.Atomic):
                    return False
                if op.buffer.buffer.space not in ("shared", "global"):
                    return False
                alike = planner.dim not in _moving(op.indices, planner.op)
                return not (
                    isinstance(op, ir.Load) and alike and self._is_met(planner, op, vectors)
                )

            if planner.dim in axes or any(map(moves, planner.ops)):
                return replace(form, together=planner.width)
            # The branches of all vectors are one where nothing in them differs between points.
            return replace(form, points=once_along(form.points, form.shape, axes))
        if load.buffer.buffer.space != "shared" or planner.guards.get(load):
            return form
        axes = _moving(load.indices, planner.op)
        if not through:
            return replace(form, together=planner.width)
        together = planner.width if planner.dim in axes else 1
        return replace(form, points=once_along(form.points, form.shape, axes), together=together)

    def _loaded(
        self, planner: Planner, access: VectorAccess, around: _Around, loaded: set[Hashable]
    ) -> Form:
        """Return the form of a load in front of a loop's points, but for what threads hold already:
        `loaded`, to which it is added."""
        op, numbers, loop = access.op, self._numbers, planner.op
        form = self._without_scalar(access, loaded)
        if access.guards:
            return self._behind_guards(access, form, loaded)
        if not len(form.points):
            return form
        places = places_of(form.points, form.shape)
        found = numbers.keys(op.indices, places.reshape(len(places), -1, len(form.shape)))
        keys = [(op.buffer, form.width, each) for each in found]
        if _is_cut(planner):
            # Vectors that are cut alike stand in one branch.
            step = planner.width // max(form.width // access.step, access.repeats)
            extents = zip(planner.layout.covered, planner.layout.shape, strict=True)
            along = places[..., [a != b for a, b in extents]]
            parts = [(key, along[at - at % step].tobytes()) for at, key in enumerate(keys)]
            new = np.array([each not in parts[:at] for at, each in enumerate(parts)], np.bool_)
            new &= np.array([(loop, each) not in loaded for each in parts], np.bool_)
            loaded.update((loop, each) for each in parts)
            return replace(form, points=form.points[new])
        new = np.array([each not in loaded for each in keys], np.bool_)
        loaded.update(keys)
        changes = numbers.changes(op.indices)
        stays = (
            bool(around.certain)
            and around.certain[0] not in changes
            and numbers.is_fixed(op.buffer)
        )
        made = replace(form, points=form.points[new], stays=stays)
        # NVRTC makes phis of addresses of single elements, but not of vectors.
        return replace(made, unused=self._ahead.get(op)) if form.width == 1 else made


@dataclass(frozen=True, slots=True)
class _Around:
    """Place of a block in a launch."""

    depth: int = 0
    """Number of `for` loops around."""
    copies: int = 1
    """Number of copies of it in the machine code."""
    written: tuple[Written, ...] = ()
    """Loops around of which iterations are told apart, the outermost first."""
    texts: tuple[int, ...] = ()
    """Text of each of them."""
    varying: Loops = frozenset()
    """Loops around of which iterations are not told apart."""
    certain: tuple[ir.OpBase, ...] = ()
    """Those of them in which the block stands unconditionally, the innermost first."""

    def inside(self, loop: ir.For) -> _Around:
        """Return where the body of a loop stands whose iterations are not told apart."""
        return replace(
            self, depth=self.depth + 1, varying=self.varying | {loop}, certain=(loop, *self.certain)
        )

    def text(self, made: Written, text: int, inside: _Around | None) -> _Around:
        """Return where a text of a loop stands; inside: where that is if a loop runs it."""
        held = inside or replace(self, depth=self.depth + 1)
        return replace(
            held, copies=self.copies * made.texts, written=(*self.written, made),
            texts=(*self.texts, text),
        )  # fmt: skip


def _is_cut(planner: Planner) -> bool:
    """Return whether threads have registers for points beyond a loop's extents: a branch stands
    around each vector then, behind which what it loads is not known."""
    return any(a != b for a, b in zip(planner.layout.covered, planner.layout.shape, strict=True))


def _by_first_threads(way: Way) -> set[ir.OpBase]:
    """Return what only the first of threads with the same point does: changes of memory that others
    see, and loads that nothing else needs, which NVRTC puts behind the branch.

    A load of global memory stays in front where a guard chooses between it and another value, or
    where it stands in a branch of its own, of which NVRTC makes one with that of the only change.
    Indices that are checked stay, too, because all threads note one that is outside.
    """
    ops = list(ir.walk(way.loop.body))
    users = ir.users(ops)
    found: set[ir.OpBase] = set()
    changes = [each for each in ops if isinstance(each, ir.Store | ir.Atomic)]
    stay = _is_cut(way.planner) and len(changes) == 1
    checked = {index for each in changes for index in checked_indices(each)}
    for op in reversed(ops):
        match op:
            case _ if not checked.isdisjoint(op.results):
                checked.update(op.operand_values())
            case ir.Store() | ir.Atomic() if op.buffer.buffer.space in ("shared", "global"):
                found.add(op)
            case ir.Load(buffer=buffer) if buffer.buffer.space == "global" and (
                stay or not (way.is_fast or op.in_bounds)
            ):
                pass
            case ir.Load(buffer=buffer) if buffer.buffer.space not in ("global", "shared"):
                pass
            case _ if isinstance(op, ir.Load) or is_pure(op):
                needed = [each for value in op.results for each in users.get(value, ())]
                if needed and found.issuperset(needed):
                    found.add(op)
    return found


def _made_twice(way: Way) -> set[ir.OpBase]:
    """Return the loads under conditions that loads in front of the points need for their own
    conditions and places, and the points need as well: the branch in front ends before that of the
    points begins, so that neither load stands for the other."""
    front = {op for access in way.loads for op in access.ops}
    ahead = {
        op
        for access in way.loads
        for ops in (access.slice, *(guard.slice for guard in access.guards))
        for op in ops
        if isinstance(op, ir.Load) and op not in front and way.planner.guards.get(op)
    }
    found: set[ir.OpBase] = set()
    needed: set[ir.Value] = set()
    for op in reversed(way.planner.ops):
        computes = is_pure(op) or isinstance(op, ir.Load)
        if op not in front and (not computes or not needed.isdisjoint(op.results)):
            needed.update([op.condition] if isinstance(op, ir.If) else op.operand_values())
            found.add(op)
    return found & ahead


def _writes_shared(op: ir.OpBase) -> bool:
    """Return whether an op of a point changes shared memory."""
    return isinstance(op, ir.Store | ir.Atomic) and op.buffer.buffer.space == "shared"


def _behind_check(load: ir.Load, users: Mapping[ir.Value, Sequence[ir.OpBase]]) -> ir.OpBase | None:
    """Return the one access that needs a load, where the text has the load in its branch behind a
    check of indices: what follows cannot rely on it."""
    value = load.result
    while len(needed := set(users.get(value, ()))) == 1:
        (op,) = needed
        if isinstance(op, ir.Store | ir.Atomic):
            return op if value not in op.indices and checked_indices(op) else None
        if not is_pure(op):
            return None
        (value,) = op.results
    return None


def _only_places(load: ir.Load, planner: Planner, vectors: Container[ir.OpBase]) -> bool:
    """Return whether what a load gives is needed for places of these accesses alone."""
    users = ir.users(planner.ops)
    waiting = [load.result]
    while waiting:
        value = waiting.pop()
        for op in users.get(value, ()):
            if is_pure(op):
                waiting += op.results
            elif op not in vectors or (isinstance(op, ir.Store | ir.Atomic) and op.value is value):
                return False
    return True


def _moving(values: Iterable[ir.Value], loop: ir.Parallel) -> list[int]:
    """Return the axes of a loop on which some values depend."""
    seen: set[ir.Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting += value.owner.operand_values() if value.owner is not None else ()
    return [axis for axis, variable in enumerate(loop.body.args) if variable in seen]
