"""The context in which a kernel runs as plain Python: every op runs as soon as it is written.

It is the tracing context, so literals, types, shapes and errors are those of a compiled kernel; but
an op that is emitted goes to the interpreter at once, for one block, and its result is known.
Control flow is Python's own and never becomes an op.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NoReturn, TypeVar

from tileprof import ir
from tileprof.errors import ArgumentError, ExecutionError, TileprofError, UnsupportedPython
from tileprof.ir.scalar import zero_of
from tileprof.ir.types import index
from tileprof.lang.context import Loop
from tileprof.lang.regions import Region
from tileprof.lang.static import as_number, is_number
from tileprof.lang.trace import Given, Knowledge, Tracer
from tileprof.lang.trace.scalars import literal_type
from tileprof.lang.values import Expr, Placeholder, Var
from tileprof.runtime.interpreter.convert import constant
from tileprof.runtime.interpreter.dispatch import HANDLERS

from .debugger import untraced
from .known import Fault, Known
from .machine import base_of, machine, written_by
from .points import Points
from .values import LiveBuffer, LiveRegion, LiveScalar, LiveVar, number_of

_CONTROL, _WRITES = (
    frozenset(kind for kind in ir.OPS.values() if effect in kind.SPEC.effect)
    for effect in (ir.Effect.CONTROL, ir.Effect.WRITE)
)
O = TypeVar("O", bound=ir.OpBase)  # noqa: E741 - the field's letter for an op


class Live(Tracer):
    """Runs ops; see the module's text."""

    def __init__(
        self,
        root: CodeType,
        rewritten: Callable[[Any], FunctionType],
        strict: bool,
        given: Mapping[str, Given],
        knowledge: Knowledge,
    ) -> None:
        super().__init__(root, given, knowledge, ())
        self._rewritten = rewritten
        """Gives the function to run for a macro."""
        self.machine = machine(strict, self.location)
        self.points: Points | None = None
        """The `T.Parallel` that is running."""
        self._block: tuple[Any, ...] = ()
        """Numbers of the block that runs."""
        self.trying = 0
        """Inside how many values that are not wanted: computed for their types, without effect."""

    # -- ops

    def emit(self, op: O, span: Any = None) -> O:
        """Run an op."""
        if op.results:
            op.results = tuple([Known(v.type, v.name, op) for v in op.results])
        kind = type(op)
        if kind in _CONTROL:
            return op
        if kind in _WRITES:
            self.epoch += 1
        if self.trying:
            self._attempt(op)
            return op
        try:
            self._run(op)
        except TileprofError as error:
            if error.location is None:
                error.location = self.location()
            if not isinstance(op, ir.Load):
                raise
            # An element may only name a place: `T.copy(A[i, j], tile)`.
            self.machine.env[op.result] = Fault(error)
        return op

    def _run(self, op: ir.OpBase) -> None:
        if isinstance(op, ir.Constant):
            self.machine.env[op.result] = constant(op.value, op.dtype)
            return
        if self.points is not None:
            self.points.before(op)
        if type(op) in _WRITES:
            self._check_writable(op)
        self.machine.missed = False
        self.machine.op = op
        HANDLERS[type(op)](self.machine, op)
        if self.points is not None:
            self.points.after(op)
        if self.machine.missed and isinstance(op, ir.Load):
            op.result.guarded = True  # type: ignore[attr-defined]  # results are `Known`

    def _check_writable(self, op: ir.OpBase) -> None:
        held = written_by(op)
        if held is None or held.buffer.space != "global":
            return
        buffer = self.machine.env[base_of(held)]
        if not buffer.data.flags.writeable:
            raise ArgumentError(
                f"`{buffer.name}` is written by the kernel, but the array is read-only",
                location=self.location(),
                hint="Pass a copy, which can be written.",
            )

    def _attempt(self, op: ir.OpBase) -> None:
        """Compute what has no effect; 0 for what goes wrong."""
        guarded = dict(self.machine.guarded)
        try:
            if type(op) not in _WRITES:
                self._run(op)
                return
        except TileprofError:
            pass
        finally:
            self.machine.guarded.clear()
            self.machine.guarded.update(guarded)
        for value in op.results:
            if isinstance(value.type, ir.DType):
                self.machine.env[value] = constant(0, value.type)

    def result(self, op: ir.OpBase) -> LiveScalar:
        """Run an op and give its result."""
        return LiveScalar(self.emit(op).result, self.regions[-1])

    # -- what the author sees

    def live(self, value: Any) -> Any:
        """Return a scalar that shows its value."""
        if type(value) is Expr:
            return LiveScalar(value.value, value.region)
        return value

    def scalar(self, kind: ir.DType, name: str, held: Any, region: Region) -> LiveScalar:
        """Return a scalar that no op computes."""
        return LiveScalar(Known(kind, name, held=held), region)

    def number(self, value: Any) -> int:
        """Return the number that an index is."""
        return int(number_of(self.index(value)))

    def unary(self, kind: Any, value: Any, *, fast: bool = False) -> Any:
        """See `Scalars.unary`."""
        return self.live(super().unary(kind, value, fast=fast))

    def cast(self, value: Any, kind: ir.DType) -> Any:
        """See `Scalars.cast`."""
        return self.live(super().cast(value, kind))

    def bitcast(self, value: Any, kind: ir.DType) -> Any:
        """See `Scalars.bitcast`."""
        return self.live(super().bitcast(value, kind))

    def buffer(self, value: ir.Value, shape: Sequence[Any] | None = None) -> LiveBuffer:
        """Return the author's handle of a buffer value."""
        made = LiveBuffer(value, self.regions[-1], tuple(shape or value.buffer.shape))
        self.by_value[value] = made
        return made

    def _region(self, buffer: Any, parts: list[Any]) -> LiveRegion:
        held = super()._region(buffer, parts)
        return LiveRegion(held.buffer, held.offsets, held.extents)

    def forget(self, expr: Expr) -> None:
        """A load only named a place: it does not count as guarded."""
        value = expr.value
        if isinstance(value, Known) and value.guarded:
            value.guarded = False
            self.machine.uncount()

    def truth(self, value: Any) -> LiveScalar:
        """Return a bool of the kernel."""
        return LiveScalar(self.condition(value), self.regions[-1])

    def chosen(self, wanted: Any, other: Any) -> Any:
        """One of two values in the type in which they meet."""
        self.need_scalars(wanted, other)
        kind = self._meeting(wanted, other)
        return self.cast(self.live(Expr(self.value(wanted, kind), self.regions[-1])), kind)

    def _meeting(self, a: Any, b: Any) -> ir.DType:
        first, second = (None if is_number(v) else self.value(v).dtype for v in (a, b))
        if first is None and second is None:
            first, second = (literal_type(as_number(v), None) for v in (a, b))
        first = first or literal_type(as_number(a), second)
        return ir.promote(first, second or literal_type(as_number(b), first))

    def extent(self, value: Placeholder) -> Any:
        """Return the value of a `T.const`, or itself where no argument has given it yet."""
        raise NotImplementedError

    # -- variables

    def alloc_var(self, kind: ir.DType, init: Any) -> LiveVar:
        """Return a variable, set where `init` is given."""
        made = super().alloc_var(kind, init)
        return LiveVar(made.buffer, known=made.known)

    def clear_where(self, condition: ir.Value, tile: ir.Value) -> None:
        """Set a tile to 0 if a condition holds."""
        if self.machine.env[condition]:
            zero = self.emit(zero_of(tile.dtype))
            self.emit(ir.Fill(tile, zero.result))

    def store_var(self, var: Var, value: Any) -> None:
        """Assign to a variable; a promoted name takes the type that its values need."""
        if var.promoted is not None:
            kind = var.buffer.type.dtype
            needed = self._needed(value, kind)
            if needed != kind:
                before = self.load(var.buffer, ())
                name = var.buffer.name
                var.buffer = self.alloc("local", (), needed)
                self.name(var.buffer.value, name)
                var.buffer[()] = before
        var.buffer[var.indices] = value
        self.epoch += 1

    def reference(self, expr: Expr) -> Any:
        """See `Buffers.reference`."""
        held = super().reference(expr)
        return LiveVar(held.buffer, held.indices) if isinstance(held, Var) else held

    def name(self, value: Any, name: str) -> None:
        """Name a value, and the memory of a buffer."""
        super().name(value, name)
        if isinstance(value, Known) and isinstance(value.type, ir.BufferType) and value.name:
            value.held.name = value.name

    def collects(self, buffer: Any) -> bool:
        """Return False: points that run one after the other update a reducer where it is."""
        return False

    # -- control

    def sync_grid(self) -> NoReturn:
        """Refuse: blocks run one after the other, each to its end."""
        self.fail(
            UnsupportedPython,
            "`T.sync_grid` in a kernel that runs as plain Python",
            "Its blocks run one after the other, each to its end: write two `with T.Kernel(…)`, or "
            "run it on the interpreter without debugging.",
        )

    def thread_number(self, axis: int) -> Any:
        """Refuse: a block runs as one."""
        self.fail(
            UnsupportedPython,
            "`T.get_thread_binding` in a kernel that runs as plain Python",
            "There, a block runs as one: run it on the interpreter without debugging.",
        )

    def each(self, count: int, body: Callable[[Any], None]) -> None:
        """Run the body for each number."""
        for number in range(count):
            body(number)

    def begin_sequence(self, seed: Any, number: Any, start: Any) -> None:
        """Refuse: which number a point takes follows from the whole loop over points."""
        self.fail(
            UnsupportedPython,
            "`T.rng_init` in a kernel that runs as plain Python",
            "Its numbers are given out to a whole loop at once: run it on the interpreter without "
            "debugging.",
        )

    def block_number(self, axis: int) -> Any:
        """Return the number of the block that runs along an axis of its grid."""
        self.need_launch("`T.get_block_binding`")
        return self._block[axis] if axis < len(self._block) else 0

    @contextmanager
    def launch(self, grid: Sequence[Any], threads: tuple[int, ...]) -> Iterator[Any]:
        """A launch that was not rewritten into a loop over its blocks."""
        self.fail(
            UnsupportedPython,
            "`T.Kernel(…)` does not stand in the `with` statement itself",
            "When a kernel runs as plain Python, write `with T.Kernel(…) as …:` in its function.",
        )
        yield

    def blocks(self, grid: Sequence[Any], threads: tuple[int, ...], names: Any) -> Iterator[Any]:
        """Yield the indices of each block, one after the other, the first axis fastest."""
        state = self.machine
        with super().launch(grid, threads) as held:
            shown = self._block_names(names, held if isinstance(held, tuple) else (held,))
            state.grid = tuple(self.number(g) for g in grid)
            state.grids.append(state.grid)
            outside = dict(self.by_value)
            region = self.regions[-1]
            for linear in range(math.prod(max(n, 0) for n in state.grid)):
                state.start(linear)
                self.by_value = dict(outside)
                self._loaded.clear()
                at = _unravel(linear, state.grid)
                indices = tuple(self.scalar(index, n, i, region) for n, i in zip(shown, at))
                self._block = indices
                yield indices if isinstance(names, tuple) or len(indices) > 1 else indices[0]
            self.by_value = outside
        state.stop()

    def _block_names(self, names: Any, held: Sequence[Any]) -> list[str]:
        shown = names if isinstance(names, tuple) else (names,)
        if isinstance(names, tuple) and len(names) != len(held):
            self.fail(
                UnsupportedPython,
                f"the grid has {len(held)} axes and `as` names {len(names)}",
                "Name one index for each axis: `with T.Kernel(m, n) as (bx, by):`.",
            )
        return [n if isinstance(n, str) else "" for n in (*shown, *("",) * len(held))]

    def iterate_points(self, loop: Loop, names: Any) -> Iterator[Any]:
        """Yield the points of a loop in order."""
        loop = self.nested(loop)
        if loop.kind == "parallel":
            yield from self._parallel(loop, names)
            return
        stop = math.prod(loop.stop) if loop.kind == "persistent" else loop.stop
        start, step = self.number(loop.start), self.number(loop.step)
        region = self.regions[-1]
        for at in range(start, self.number(stop), step):
            name = names if isinstance(names, str) else ""
            point = self.scalar(index, name, at, region)
            yield self._unravel(point, loop) if loop.kind == "persistent" else point

    def _parallel(self, loop: Loop, names: Any) -> Iterator[Any]:
        extents = [self.number(e) for e in loop.stop]
        region, _ = self.open_loop(loop, names)
        shown = [arg.name for arg in region.block.args]
        self.points = Points(self.machine, shown)
        for at in itertools.product(*(range(n) for n in extents)):
            self.points.begin(at)
            self.epoch += 1
            held = tuple(self.scalar(index, n, i, region) for n, i in zip(shown, at))
            yield held[0] if len(held) == 1 else held
            self.points.end()
        points, self.points = self.points, None
        self.pop(region)
        points.finish()

    def fail_endless(self) -> NoReturn:
        """The error of a `while` that does not end."""
        state = self.machine
        self.fail(
            ExecutionError,
            f"a `while` still runs after {state.options.while_limit:,} iterations,"
            f" in {state.where((0,))}",
            "Where it does end, set TILEPROF_WHILE_LIMIT to a larger number.",
        )

    def call(self, macro: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the body of a macro here."""
        with untraced():
            function = self._rewritten(macro)
        rewritten = SimpleNamespace(__name__=macro.__name__, staged=function)
        return super().call(rewritten, args, kwargs)


def _unravel(linear: int, grid: tuple[int, ...]) -> list[int]:
    made = []
    for extent in grid:
        linear, at = divmod(linear, extent)
        made.append(at)
    return made
