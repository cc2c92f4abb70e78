"""A kernel as one C++ unit: a function for each launch, and the entry that the host calls."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tileprof import ir
from tileprof.errors import KernelError
from tileprof.instrument.records import c_struct

from .buffers import Buffer, Extent
from .captures import captured
from .context import Context, Place, aligned
from .inlining import inlined
from .narrow_conditions import PRAGMA, has_narrow_conditions
from .statements import STACK_LIMIT, emit_block, emit_op
from .types import is_narrow, storage, value_type
from .writer import Line, Names, Writer

ENTRY = "tileprof_kernel"
"""`int tileprof_kernel(const uint64_t *words, TpRun *run)`: a word for each body argument."""
_HEADERS = (
    "tiles.h", "functions.h", "reduce.h", "gemm.h", "atomics.h", "print.h", "measure.h", "marks.h",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CppSource:
    """Text that the emitter made of a kernel, and what the host needs to understand its answers."""

    name: str
    text: str
    headers: tuple[str, ...]
    """Headers of the prelude, in the order in which they are included."""
    places: tuple[Place, ...]
    launches: int
    measured: bool
    """Whether it writes records."""
    sites: tuple[ir.Site, ...] = ()
    states: tuple[ir.State, ...] = ()
    """States that its marks name; none where nobody samples it."""

    @property
    def file(self) -> str:
        """Return what lines that come from no Python line belong to."""
        return f"{self.name}.cpp"


def emit(kernel: ir.Kernel) -> CppSource:
    """The C++ of a kernel; the same text for the same kernel."""
    unit = _Unit(kernel)
    entry = unit.entry()
    measured = "measure.h" in unit.headers
    lines = [Line(f"// kernel {kernel.name}")]
    lines += [Line(t) for t in PRAGMA] if has_narrow_conditions(kernel) else []
    lines += [Line(t) for t in c_struct().splitlines()] if measured else []
    headers = tuple(h for h in _HEADERS if h in unit.headers)
    lines += [Line(f'#include "{h}"') for h in headers]
    for function in (*unit.functions, entry):
        lines += [Line(""), *function]
    writer = Writer()
    writer.lines = lines
    name = re.sub(r"\W", "_", kernel.name)
    text = writer.render(f"{name}.cpp")
    places, launches = tuple(unit.places), len(unit.functions)
    return CppSource(name, text, headers, places, launches, measured, kernel.sites, kernel.states)


class _Unit:
    """The functions of one kernel under construction."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.name = re.sub(r"\W", "_", kernel.name)
        self.places: list[Place] = []
        self.headers = {"tiles.h"}
        self.functions: list[list[Line]] = []
        self.uses = ir.users(kernel.ops())

    def _context(self) -> Context:
        return Context(Writer(), Names(), self.places, self.headers, self.uses)

    def entry(self) -> list[Line]:
        """The function that the host calls: arguments, scalar ops, launches."""
        ctx = self._context()
        signature = f"int {ENTRY}(const uint64_t *words, TpRun *run)"
        visible = 'extern "C" __attribute__((visibility("default")))'
        with ctx.writer.braces(f"{visible} {signature}"):
            self._arguments(ctx)
            start = len(ctx.writer.lines)
            ctx.inline |= inlined(self.kernel.body.ops, self.uses)
            for op in self.kernel.body.ops:
                ctx.writer.location = op.span
                if isinstance(op, ir.Launch):
                    self._launch(ctx, op)
                else:
                    emit_op(ctx, op)
            ctx.writer.location = None
            ctx.writer.line("return 0;")
        if any("worker" in line.text for line in ctx.writer.lines[start:]):
            ctx.writer.lines.insert(
                start, Line("  TpWorker host = {run, 0, 0, -1}, *worker = &host;")
            )
        return ctx.writer.lines

    def _arguments(self, ctx: Context) -> None:
        kernel = self.kernel
        for at, (name, value) in enumerate(
            kernel.symbol_values().items(), start=len(kernel.params)
        ):
            text = ctx.names.fresh(name)
            ctx.values[value] = ctx.symbols[name] = text
            ctx.writer.line(f"const int64_t {text} = (int64_t)words[{at}];")
            ctx.known[value] = (None, None)
        for at, (param, value) in enumerate(zip(kernel.params, kernel.param_values())):
            text = ctx.names.fresh(param.name)
            if isinstance(param.type, ir.BufferType):
                type_ = storage(param.type.dtype)
                ctx.writer.line(f"{type_} *const {text} = ({type_} *)words[{at}];")
                ctx.buffers[value] = _parameter(ctx, param, param.type, text)
            else:
                type_ = storage(param.type)
                read = f"tp_argument<{type_}>(words[{at}])"
                read = f"tp_value({read})" if is_narrow(param.type) else read
                ctx.writer.line(f"const {value_type(param.type)} {text} = {read};")
                ctx.values[value] = text

    # -- launches

    def _launch(self, host: Context, op: ir.Launch) -> None:
        if len(op.grid) > 3:
            raise KernelError(
                f"a grid of {len(op.grid)} axes", location=op.span, hint="A grid has up to three."
            )
        number = len(self.functions)
        function, frame = f"{self.name}_{number}", f"Frame{number}"
        grid = [host.index(g) for g in op.grid]
        captured = _captured(op, self.kernel)
        body = self._context()
        fields, given = self._share(host, body, captured)
        self.functions.append([])  # keeps the number of this one
        arena = self._body(body, op, function, frame, grid)
        struct = Writer()
        with struct.braces(f"struct {frame}", "};"):
            for field in [*fields, "int64_t grid[3];"]:
                struct.line(field)
        self.functions[number] = [*struct.lines, Line(""), *body.writer.lines]
        extents = ", ".join(str(e) for e in [*grid, 1, 1][:3])
        values = ", ".join([*given, f"{{{extents}}}"])
        name = host.names.fresh(f"frame{number}")
        host.writer.line(f"const {frame} {name} = {{{values}}};")
        host.writer.line(f"run->launch(run, {function}, &{name}, {name}.grid, {arena});")

    def _share(
        self, host: Context, body: Context, captured: list[ir.Value]
    ) -> tuple[list[str], list[str]]:
        """The fields of the frame and what the host puts in; the body reads them back by name."""
        fields, given = [], []
        symbols = {v: n for n, v in self.kernel.symbol_values().items()}
        for value in captured:
            if value in host.buffers:
                buffer = host.buffers[value]
                name = body.names.fresh(buffer.pointer)
                fields.append(f"{buffer.type} *{name};")
                given.append(buffer.pointer)
            else:
                name = body.names.fresh(host.values[value])
                fields.append(f"{value_type(value.dtype)} {name};")
                given.append(host.values[value])
                body.values[value] = name
                body.known[value] = host.interval(value)
                if value in symbols:
                    body.symbols[symbols[value]] = name
        for value in captured:
            if value in host.buffers:
                held = host.buffers[value]
                body.buffers[value] = _moved(held, host, body)
        return fields, given

    def _body(
        self, ctx: Context, op: ir.Launch, function: str, frame: str, grid: list[Extent]
    ) -> int:
        """The function that runs one block; gives the bytes of memory that it needs."""
        _lay_out(ctx, op)
        ctx.writer.location = None
        head = f"static int {function}(const void *frame, TpWorker *worker, int64_t block)"
        with ctx.writer.braces(head):
            ctx.writer.line(f"const {frame} &in = *(const {frame} *)frame;")
            for value, buffer in ctx.buffers.items():
                del value
                ctx.writer.line(f"{buffer.type} *const {buffer.pointer} = in.{buffer.pointer};")
            for value, name in ctx.values.items():
                ctx.writer.line(f"const {value_type(value.dtype)} {name} = in.{name};")
            _block_indices(ctx, op, grid)
            emit_block(ctx, op.body, outermost=True)
            ctx.writer.location = None
            ctx.writer.line("return 0;")
        return max(ctx.arena_size, 64)


def _parameter(ctx: Context, param: ir.Param, type_: ir.BufferType, text: str) -> Buffer:
    shape, strides = ctx.extents(type_.shape), ctx.strides(type_)
    return Buffer(
        text, type_.dtype, "global", shape, strides, param.name, type_.shape, param.safe_value
    )


def _moved(buffer: Buffer, host: Context, body: Context) -> Buffer:
    """A buffer of the caller as the function of a launch names it."""
    names = {text: body.symbols[symbol] for symbol, text in host.symbols.items()}

    def renamed(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
        return tuple(
            re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), e) if isinstance(e, str) else e
            for e in extents
        )

    return Buffer(
        buffer.pointer,
        buffer.dtype,
        buffer.space,
        renamed(buffer.shape),
        renamed(buffer.strides),
        buffer.name,
        buffer.dims,
        buffer.safe,
    )


def _captured(op: ir.Launch, kernel: ir.Kernel) -> list[ir.Value]:
    """Return what a launch uses from outside, in order of definition."""
    used = set(captured(op, ir.View, grid=False))
    # Shapes and strides may name any symbol.
    symbols = list(kernel.symbol_values().values())
    order = [*kernel.param_values(), *symbols]
    order += [v for o in kernel.body.ops for v in o.results]
    return [v for v in order if v in used or v in symbols]


def _lay_out(ctx: Context, op: ir.Launch) -> None:
    """Give every buffer of a block its own place in the thread's memory."""
    at = 0
    for each in ir.walk(op.body):
        if not isinstance(each, ir.Alloc):
            continue
        size = each.dtype.bytes * math.prod(each.shape)
        if each.space != "local" or size > STACK_LIMIT:
            ctx.arena[each] = at
            at += aligned(size)
    ctx.scratch = ctx.arena_size = at


def _block_indices(ctx: Context, op: ir.Launch, grid: list[Extent]) -> None:
    """`bx`, `by`, `bz` of a block from its number, the first axis fastest."""
    left = "block"
    for axis, (variable, extent) in enumerate(zip(op.body.args, grid, strict=True)):
        ctx.known[variable] = (0, extent - 1 if isinstance(extent, int) else None)
        last = axis == len(grid) - 1
        size = extent if isinstance(extent, int) else f"in.grid[{axis}]"
        name = ctx.names.fresh(variable.name or "b" + "xyz"[axis])
        ctx.values[variable] = name
        if ctx.uses.get(variable):
            text = left if last else f"{left} % {size}"
            ctx.writer.line(f"const int64_t {name} = {text};")
        left = f"{left} / {size}" if not last else left
