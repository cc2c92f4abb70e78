"""Launches, scopes and loops of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tileprof import ir
from tileprof.errors import KernelError, Location, UnsupportedPython
from tileprof.ir.memory import base
from tileprof.lang.context import Loop
from tileprof.lang.regions import Region
from tileprof.lang.static import is_number
from tileprof.lang.values import Buffer, Expr

from .grid_barriers import BARRIER, parts
from .reducers import Reducers
from .threads.differences import MEETING
from .threads.distribution import distributed

_MAX_MACRO_DEPTH = 100
_MAX_THREADS = 1024


class Control(Reducers):
    """Blocks inside blocks."""

    launch_hints: list[tuple[str, bool | int | float | str]]
    macro_depth = 0
    block_shape: tuple[int, ...] = ()
    """Threads of a block of the open launch along each axis."""
    grid_extents: Sequence[ir.Value] = ()
    """Blocks of the open launch along each axis."""
    work_shape: tuple[int, ...] | None = None
    """Threads of a block that share its work, where the author's are not the best number."""
    combination = ""
    """The way in which values of threads are combined; '' where none is given."""
    thread_numbers: dict[int, ir.Value]
    """The number of a thread along an axis, where the author has asked for it."""
    _nested_loops: set[ir.For]
    """Loops of `T.parallel` inside of a loop over points."""

    def alloc_global(self, shape: Sequence[Any], kind: ir.DType) -> Buffer:
        """Return a tensor for what one launch leaves to the next."""
        raise NotImplementedError

    @contextmanager
    def launch(self, grid: Sequence[Any], threads: tuple[int, ...]) -> Iterator[Any]:
        """The blocks of a grid."""
        if self.regions[-1] is not self.top:
            self.fail(
                KernelError,
                "`T.Kernel` stands inside another block",
                "Launches stand one after the other at the top of the function; a condition around "
                "one must be known at compile time.",
            )
        if math.prod(threads) > _MAX_THREADS or min(threads) < 1 or len(threads) > 3:
            self.fail(
                KernelError,
                f"a block of {'×'.join(map(str, threads))} threads",
                f"A block has 1 to {_MAX_THREADS} threads on up to three axes.",
            )
        span = self.location()
        extents = [self._grid_extent(g) for g in grid]
        args = [ir.Value(ir.dtype("index")) for _ in extents]
        self.launch_hints = []
        region = self.push("launch", args)
        held = [Expr(a, region) for a in args]
        self.block_shape, self.thread_numbers, self._nested_loops = threads, {}, set()
        self.grid_extents = extents
        yield held[0] if len(held) == 1 else tuple(held)
        self.pop(region)
        hints = tuple(self.launch_hints)

        def workspace(shape: Sequence[int], kind: ir.DType, name: str) -> ir.Value:
            made = self.alloc_global((*grid, *shape), kind).value
            self.name(made, name)
            return made

        for body in parts(self.finished(region.block), self._refuse_part, workspace):
            self.emit(ir.Launch(extents, self.work_shape or threads, body, hints), span)

    def finished(self, body: ir.Block) -> ir.Block:
        """Return the body of a launch without numbers of threads."""
        if not self.thread_numbers:
            return body
        numbers = {value: axis for axis, value in self.thread_numbers.items()}
        return distributed(body, numbers, self.block_shape, self._refuse_part)

    def block_number(self, axis: int) -> Any:
        """Return the number of a block in its grid along an axis, 0 where the grid has none."""
        self.need_launch("`T.get_block_binding`")
        launch = self.inner("launch")
        assert launch is not None
        args = launch.block.args
        return Expr(args[axis], launch) if axis < len(args) else 0

    def thread_number(self, axis: int) -> Any:
        """Return the number of a thread in its block along an axis, 0 where the block has one."""
        self.need_launch("`T.get_thread_binding`")
        if axis >= len(self.block_shape) or self.block_shape[axis] == 1:
            return 0
        if self.inner("parallel") is not None:
            self.fail(
                KernelError,
                "`T.get_thread_binding` inside `T.Parallel`",
                "Its points are dealt to threads by the compiler: take the loop's variable.",
            )
        if axis not in self.thread_numbers:
            self.thread_numbers[axis] = ir.Value(ir.dtype("index"))
        launch = self.inner("launch")
        assert launch is not None
        return Expr(self.thread_numbers[axis], launch)

    def sync_threads(self, count: int | None = None) -> None:
        """Let threads of a block meet, all or `count`, where their author works with single
        ones."""
        self.need_tile_place("`T.sync_threads`")
        if self.thread_numbers:
            hints = () if count is None else (("threads", count),)
            self.emit(ir.Annotate(MEETING, None, hints))

    def thread_return(self) -> None:
        """Let the threads that come here do nothing more in this launch."""
        self.need_tile_place("`T.thread_return`")
        for region in reversed(self.regions):
            if region.kind == "launch":
                break
            if region.kind != "if":
                self.fail(
                    KernelError,
                    "`T.thread_return` inside of a loop or a scope",
                    "Leave the loop with `break` and return after it, or put the rest of the "
                    "kernel under a condition.",
                )
        region = self.regions[-1]
        if not region.ended:
            region.returns.append(region.cursor)
            region.ended = True

    def emit_with_returns(
        self, condition: ir.Value, then: Region, otherwise: Region, span: Location | None
    ) -> None:
        """Write a branch after which some threads may have returned; what follows runs for the
        others."""
        returns = [*then.returns, *otherwise.returns]
        gone = self.emit(ir.Alloc("local", (), ir.dtype("bool"), hint="returned")).result
        self.emit(ir.Store(self.constant(False, ir.dtype("bool")).value, gone, []))
        for block in returns:
            yes = ir.Constant(True, ir.dtype("bool"), span=span)
            block.ops += [yes, ir.Store(yes.result, gone, [], span=span)]
        self.emit(ir.If(condition, then.block, otherwise.block), span)
        stays = self.result(ir.Unary("not", self.emit(ir.Load(gone, [])).result)).value
        rest = ir.Block()
        self.emit(ir.If(stays, rest, ir.Block()), span)
        parent = self.regions[-1]
        parent.rest, parent.returns = rest, [*parent.returns, *returns]
        self.epoch += 1

    @contextmanager
    def combining(self, kind: str) -> Iterator[None]:
        """Combine values of threads in this way inside."""
        before, self.combination = self.combination, kind
        yield
        self.combination = before

    def reduce_threads(self, value: Any, place: Any, threads: Sequence[Any]) -> None:
        """Combine a value of each thread along axes of the block, and keep the result."""
        self.need_tile_place("`T.tvm_thread_allreduce`")
        numbers = {number: axis for axis, number in self.thread_numbers.items()}
        known = [t.value for t in threads if isinstance(t, Expr) and t.value in numbers]
        if not self.combination or len(known) < len(threads) or not known:
            self.fail(
                KernelError,
                "`T.tvm_thread_allreduce` of no numbers of threads"
                if self.combination
                else "`T.tvm_thread_allreduce` outside of `T.attr`",
                'In `with T.attr(T.comm_reducer(…), "reduce_scope", None):`, with what '
                "`T.get_thread_binding` gives.",
            )
        buffer, indices = self.element(place, "the result of `T.tvm_thread_allreduce`")
        held = self.emit(ir.Alloc("local", (), buffer.dtype)).result
        self.emit(ir.Store(self.cast(value, buffer.dtype).value, held, []))
        kind: Any = self.combination
        for number in known:
            made = self.emit(ir.Alloc("local", (), buffer.dtype)).result
            self.emit(ir.Reduce(kind, held, made, numbers[number]))
            held = made
        self.emit(ir.Store(self.emit(ir.Load(held, [])).result, buffer, indices))
        self.epoch += 1

    def need_thread_range(self, axis: int, start: Any, stop: Any) -> None:
        """An error unless the block has the threads from `start` to `stop` along an axis."""
        self.need_launch("`T.thread_binding`")
        has = self.block_shape[axis] if axis < len(self.block_shape) else 1
        if self.static(start, "a thread") != 0 or self.static(stop, "a thread") != has:
            self.fail(
                KernelError,
                f"`T.thread_binding` from {start!r} to {stop!r}, where the block has {has} threads",
                f"Take them all, `T.thread_binding(0, {has}, …)`, or set `T.Kernel(threads=…)`.",
            )

    def _refuse_part(self, message: str, hint: str, at: Location | None) -> NoReturn:
        self.fail(KernelError, message, hint, at=at)

    def sync_grid(self) -> None:
        """Let all blocks of the launch come here before any goes on."""
        self.need_launch("`T.sync_grid`")
        if self.regions[-1].kind != "launch":
            self.fail(
                KernelError,
                "`T.sync_grid` stands inside of a loop, a branch or a scope",
                "All blocks must meet there once: put it directly into the body of `T.Kernel`.",
            )
        self.emit(ir.Annotate(BARRIER, None, ()))
        self.epoch += 1

    def _grid_extent(self, extent: Any) -> ir.Value:
        number = self.static(extent, "a grid")
        if number is not None and number < 0:
            self.fail(
                KernelError,
                f"a grid of {number} blocks",
                "An axis of the grid has 0 blocks, for tensors without elements, or more.",
            )
        return self.index(extent)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """A named part of the kernel."""
        self.need_launch("`T.scope`")
        if self.inner("parallel") is not None:
            self.fail(
                KernelError,
                "`T.scope` inside `T.Parallel`",
                "Its points run at once and have no time of their own: put it around the loop.",
            )
        span = self.location()
        region = self.push("scope")
        yield
        self.pop(region)
        self.emit(ir.Scope(name, region.block), span)
        if region.ended:
            self.regions[-1].ended = True

    def iterate(self, loop: Loop) -> NoReturn:
        """A `for` of a function that was not rewritten."""
        self.fail(
            UnsupportedPython,
            "a loop of the kernel in a plain Python function",
            "Put `@T.macro` above the function: its loops and branches then go into the kernel.",
        )

    # -- loops

    def nested(self, loop: Loop) -> Loop:
        """Return a loop over points inside of another one, which may nest, as one that runs in
        order; any other loop as it is."""
        if loop.kind == "parallel" and loop.nests and self.inner("parallel") is not None:
            return Loop("serial", 0, loop.stop[0], hints=loop.hints, nests=True)
        return loop

    def open_loop(self, loop: Loop, names: Any) -> tuple[Region, Any]:
        """Open the body of a loop; gives the region and what the loop variables are bound to."""
        if loop.kind == "parallel":
            return self._open_parallel(loop, names)
        region = self.push("for", [ir.Value(ir.dtype("index"))])
        (arg,) = region.block.args
        tile = Expr(arg, region)
        if loop.kind == "persistent":
            self.name(arg, "tile")
            return region, self._unravel(tile, loop)
        self.name(arg, names if isinstance(names, str) else "")
        return region, tile

    def _open_parallel(self, loop: Loop, names: Any) -> tuple[Region, Any]:
        if self.inner("parallel") is not None:
            self.fail(
                UnsupportedPython,
                "`T.Parallel` inside `T.Parallel`",
                "Give one loop all extents, `for i, j in T.Parallel(M, N)`, or make the inner one "
                "`T.serial`.",
            )
        args = [ir.Value(ir.dtype("index")) for _ in loop.stop]
        region = self.push("parallel", args)
        self.begin_points(region, loop)
        hints = names if isinstance(names, tuple) else (names,)
        for arg, name in zip(args, hints):
            self.name(arg, name if isinstance(name, str) else "")
        held = tuple(Expr(a, region) for a in args)
        return region, held[0] if len(held) == 1 else held

    def bounds(self, loop: Loop) -> list[ir.Value]:
        """Return the operands of a loop op, written before its body."""
        if loop.kind == "parallel":
            return [self._points(e) for e in loop.stop]
        stop = math.prod(loop.stop) if loop.kind == "persistent" else loop.stop
        return [self.index(loop.start), self.index(stop), self.index(loop.step)]

    def _points(self, extent: Any) -> ir.Value:
        """One extent of a `T.Parallel`."""
        if is_number(extent) and extent < 0:
            self.fail(KernelError, f"a loop over {extent} points", "An extent is 0 points or more.")
        return self.index(extent)

    def close_loop(
        self, loop: Loop, region: Region, bounds: list[ir.Value], span: Location | None
    ) -> None:
        """Close the body and write the loop."""
        self.pop(region)
        if loop.kind == "parallel":
            self.before_points(region)
            bounds, body = self._with_nested(bounds, region.block)
            self.join_updates(bounds, body)
            self.emit(ir.Parallel(bounds, body, loop.hints), span)
            self.after_points()
            return
        kind: Any = loop.kind
        start, stop, step = bounds
        made = ir.For(kind, start, stop, step, region.block, loop.num_stages, loop.hints)
        self.emit(made, span)
        if loop.nests:
            self._nested_loops.add(made)

    def flat(self, buffer: Buffer) -> Buffer | None:
        """Return a buffer as a row of its elements, seen from outside of the open loops over
        points; None where it has no constant size."""
        shape = buffer.type.shape
        if buffer.type.strides is not None or not all(isinstance(n, int) for n in shape):
            return None
        size = math.prod(n for n in shape if isinstance(n, int))
        points = self.inner("parallel")
        end = len(self.regions) if points is None else self.regions.index(points)
        inner, self.regions[end:] = self.regions[end:], []
        made: Buffer = self.reinterpret(buffer, (size,), None)
        self.regions += inner
        return made

    def each(self, count: int, body: Callable[[Any], None]) -> None:
        """Write a loop over the first numbers, whose iterations are points of a loop around."""
        loop = self.nested(Loop("parallel", 0, (count,), nests=True))
        bounds = self.bounds(loop)
        region, number = self.open_loop(loop, "e")
        body(number)
        self.close_loop(loop, region, bounds, self.location())

    def _with_nested(
        self, bounds: list[ir.Value], body: ir.Block
    ) -> tuple[list[ir.Value], ir.Block]:
        """Make loops that are the last that the points of another one do axes of it, where what
        stands before may be done again for each of their points."""
        while True:
            *before, loop = body.ops or [ir.Break()]
            if not isinstance(loop, ir.For) or loop not in self._nested_loops:
                return bounds, body
            written = {base(a.value) for a in loop.all_accesses() if a.writes}
            if loop.stop in {v for op in before for v in op.results}:
                # An extent that is known at compile time stands before the points.
                if not isinstance(loop.stop.owner, ir.Constant):
                    return bounds, body
                before.remove(loop.stop.owner)
                self.regions[-1].cursor.ops.append(loop.stop.owner)
            if not all(_again(op, written) for op in before):
                return bounds, body
            bounds = [*bounds, loop.stop]
            body = ir.Block([*body.args, *loop.body.args], [*before, *loop.body.ops])

    def _unravel(self, tile: Expr, loop: Loop) -> Any:
        """Return the coordinates of a tile, its number counted down the rows of a group of columns,
        then the next group: tiles that run together share rows and columns of the operands.
        """
        *lead, rows, columns = loop.stop if len(loop.stop) > 1 else (1, *loop.stop)
        at: Any = tile
        outer: list[Any] = []
        if lead:
            rest = tile // (rows * columns)
            at = tile % (rows * columns)
            for extent in reversed(lead):
                outer.insert(0, rest % extent)
                rest = rest // extent
        if len(loop.stop) == 1:
            return at
        if loop.group <= 1:
            return (*outer, at // columns, at % columns)
        first = at // (rows * loop.group) * loop.group
        width = self.binary("min", columns - first, loop.group)
        within = at % (rows * loop.group)
        return (*outer, within // width, first + within % width)

    # -- macros

    def call(self, macro: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the body of a macro here."""
        if self.macro_depth >= _MAX_MACRO_DEPTH:
            self.fail(
                KernelError,
                f"`{macro.__name__}` calls itself more than {_MAX_MACRO_DEPTH} times",
                "A macro that calls itself must end by a condition that is known at compile time.",
            )
        self.macro_depth += 1
        try:
            return macro.staged(*args, **kwargs)
        finally:
            self.macro_depth -= 1


def _again(op: ir.OpBase, written: set[ir.Value]) -> bool:
    """Return whether an op gives the same however often it is run beside writes to buffers."""
    if isinstance(op, ir.Load):
        return base(op.buffer) not in written
    return isinstance(op, ir.ScalarOp)
