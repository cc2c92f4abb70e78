"""A kernel as one CUDA C++ text: a `__global__` function for each launch, and what a host needs.

Blocks are numbered along one axis; a function turns its number into the indices of the author's
grid.  A persistent function loops over numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.codegen.captures import captured
from tileprof.compiler.codegen.places import Place
from tileprof.compiler.codegen.types import is_narrow, storage
from tileprof.compiler.codegen.writer import Line, Names, Writer
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import has_open_rows
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, ArgumentKind, CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import Target
from tileprof.errors import KernelError
from tileprof.instrument import Mode

from .buffers import GlobalBuffer, wide_row_major
from .context import INT32, Context
from .gemm.wgmma_header import WgmmaShape, header
from .grid import COUNTER, emit_indices, takes_tiles
from .marks import Marks, marks_of
from .rings import producer_threads
from .statements import emit_block
from .text import render, uses, without_unused

WGMMA_HEADER = "wgmma.cuh"


def emit(
    kernel: ir.Kernel,
    target: Target,
    controls: Controls,
    unaligned: frozenset[int] = frozenset(),
    aliased: bool = False,
    instrument: Mode = "off",
) -> CudaSource:
    """The CUDA text of a lowered kernel; the same text for the same kernel.

    `unaligned`: positions of parameters whose address, or rows, may be no multiples of 16 bytes;
    `aliased`: a tensor that is written may overlap another; `instrument`: what its marks are for.
    """
    return _Unit(kernel, target, controls, unaligned, aliased, instrument).source()


@dataclass
class _Function:
    """Needs of the launch of one function."""

    lines: list[Line]
    spec: LaunchSpec


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a function, where its text needs one."""

    type: str
    name: str
    source: Argument | ir.Value
    """The argument, or the value that the host computes."""
    dtype: ir.DType | None = None
    """Type of such a value, as the function takes it."""


@dataclass
class _Unit:
    kernel: ir.Kernel
    target: Target
    controls: Controls
    unaligned: frozenset[int]
    aliased: bool
    instrument: Mode
    places: list[Place] = field(default_factory=list)
    headers: set[str] = field(default_factory=lambda: {"base.cuh", "numbers.cuh"})
    wgmma: dict[WgmmaShape, None] = field(default_factory=dict)
    host: dict[ir.Value, int] = field(default_factory=dict)
    marks: Marks | None = None
    """Emitter of marks, once a function has some."""

    def __post_init__(self) -> None:
        self.name = re.sub(r"\W", "_", self.kernel.name)
        self.uses = ir.users(self.kernel.ops())

    def source(self) -> CudaSource:
        """Everything."""
        launches = self.kernel.launches()
        functions = [self._function(op, n) for n, op in enumerate(launches)]
        texts = dict(with_dependencies(self.headers))
        if self.wgmma:
            texts[WGMMA_HEADER] = header(self.wgmma)
        if self.marks:
            texts |= [self.marks.header]
        lines = [Line(f"// kernel {self.kernel.name}")]
        if self.controls.changed():
            lines.append(Line(f"// controls: {self.controls}"))
        lines += [Line(f'#include "{name}"') for name in texts]
        for function in functions:
            lines += [Line(""), *function.lines]
        return CudaSource(
            self.name,
            render(lines, f"{self.name}.cu"),
            tuple(texts.items()),
            tuple(f.spec for f in functions),
            tuple(self.places),
            tuple(self.host),
            self.kernel.sites,
            self.kernel.states,
        )

    def _function(self, op: ir.Launch, number: int) -> _Function:
        if len(op.grid) > 3:
            raise KernelError(
                f"a grid of {len(op.grid)} axes", location=op.span, hint="A grid has up to three."
            )
        ctx = self._context(op)
        candidates = self._parameters(ctx, op)
        body = self._body(ctx, op)
        # What is copied through a tensor map needs no pointer, what is proven no extent.
        needed = [each for each in candidates if uses(body, each.name)]
        passed = [(f"{each.type} {each.name}", self._argument(each)) for each in needed]
        passed += self._implicit(ctx, op)
        spec = LaunchSpec(
            function=f"{self.name}_{number}",
            arguments=tuple(argument for _, argument in passed),
            maps=tuple(ctx.maps),
            grid=tuple(op.grid),
            threads=ctx.threads + sum(map(producer_threads, _roles_of(op))),
            shared=op.schedule.shared,
            cluster=op.schedule.cluster,
            persistent=op.schedule.persistent,
            in_order=not (op.schedule.persistent or op.schedule.raster or op.schedule.cluster > 1),
            consumer_warps=ctx.threads // 32,
            sampled_warps=op.schedule.sampled_warps,
            waits=op.schedule.waits,
            rows=tuple(ctx.rows),
        )
        head = _head(op, spec, [text for text, _ in passed])
        return _Function([*head, *body, Line("}")], spec)

    def _context(self, op: ir.Launch) -> Context:
        """Return the context that all steps of a launch's emission share."""
        # Layouts go by whole warps: threads that fill the last one hold copies or padding.
        threads = -(-op.block_threads // 32) * 32
        return Context(
            Writer(),
            Names(),
            self.places,
            self.headers,
            self.uses,
            target=self.target,
            controls=self.controls,
            threads=threads,
            wgmma=self.wgmma,
            aliased=self.aliased,
            multiplies=_branches_by_warp(op),
            marks=marks_of(op, self.instrument, len(self.kernel.states)),
        )

    def _body(self, ctx: Context, op: ir.Launch) -> list[Line]:
        """The statements of a function."""
        # Where a block stands and which threads it has is what the author's `with` says.
        ctx.writer.location = op.span
        self._prologue(ctx, op)
        begin = len(ctx.writer.lines)
        with ctx.writer.deeper():
            emit_indices(ctx, op)
            _emit_body(ctx, op.body, roles=bool(_roles_of(op)))
        lines = ctx.writer.lines
        first = [*_fetched_maps(ctx, op), *self._wait(op)]
        return without_unused([*lines[:begin], *first, *lines[begin:]])

    def _implicit(self, ctx: Context, op: ir.Launch) -> list[tuple[str, Argument]]:
        """Parameters that the author's kernel has not, each with what the launch passes."""
        made = [
            (f"const __grid_constant__ TpTensorMap map{at}", Argument("map", at))
            for at, _ in enumerate(ctx.maps)
        ]
        if ctx.maps:
            self.headers.add("async.cuh")
        if takes_tiles(op):
            made.append((f"uint32_t *const {COUNTER}", Argument("counter", 0)))
        if ctx.tells:
            kind: ArgumentKind = "report" if "report" in ctx.tells else "notes"
            made.append(("TpReport *const report", Argument(kind, 0)))
        if ctx.marks:
            self.marks = ctx.marks
            made.append((ctx.marks.parameter, ctx.marks.argument))
        return made

    # -- parameters

    def _parameters(self, ctx: Context, op: ir.Launch) -> list[_Parameter]:
        """Return what the body may need from outside, and the context's names of it."""
        kernel = self.kernel
        used = captured(op, ir.View, ir.Reinterpret, grid=True)
        made: list[_Parameter] = []
        extents = {
            d for p in kernel.params if isinstance(p.type, ir.BufferType) for d in p.type.shape
        }
        for at, (name, value) in enumerate(kernel.symbol_values().items()):
            text = ctx.names.fresh(name)
            ctx.symbols[name] = ctx.values[value] = text
            # The host refuses extents that do not fit into 31 bits; strides may.
            ctx.known[value] = (0, INT32 - 1) if name in extents else (None, None)
            kind = ctx.type_of(value)
            dtype = ir.dtype("int32" if kind == "int" else "int64")
            made.append(_Parameter(f"const {kind}", text, Argument("symbol", at, dtype)))
        for at, (param, value) in enumerate(zip(kernel.params, kernel.param_values())):
            if isinstance(param.type, ir.BufferType):
                buffer = self._tensor(ctx, param, param.type, at)
                ctx.buffers[value] = buffer
                if value in used:
                    # What is said to change never could be read before the launch may read.
                    plain = self.aliased or op.schedule.waits
                    kind = f"{buffer.type} {'*' if plain else '*__restrict__'} const"
                    made.append(_Parameter(kind, buffer.pointer, Argument("pointer", at)))
            elif value in used:
                text = ctx.names.fresh(param.name)
                kind = storage(param.type)
                made.append(_Parameter(f"const {kind}", text, Argument("scalar", at, param.type)))
                ctx.values[value] = f"tp_value({text})" if is_narrow(param.type) else text
        for value in used:
            if value in ctx.values or value in ctx.buffers or value.dtype.kind == "handle":
                continue
            text = ctx.values[value] = ctx.names.fresh(value.name or "host")
            if value in op.grid and ctx.interval(value)[1] is None:
                # A launch of more blocks than 31 bits count fails before a block starts.
                ctx.known[value] = (0, INT32 - 1)
            # In 32 bits where it fits: a division by 64 bits, as those of the grid's indices, takes
            # a hundred instructions and their registers.
            kind, dtype = ctx.type_of(value), value.dtype
            if dtype.kind == "index":
                dtype = ir.dtype("int32" if kind == "int" else "int64")
            made.append(_Parameter(f"const {kind}", text, value, dtype))
        return made

    def _argument(self, parameter: _Parameter) -> Argument:
        """Return what a launch passes; values of the host get their position when a function needs
        them."""
        value = parameter.source
        if isinstance(value, Argument):
            return value
        at = self.host.setdefault(value, len(self.host))
        return Argument("host", at, parameter.dtype)

    def _tensor(self, ctx: Context, param: ir.Param, type_: ir.BufferType, at: int) -> GlobalBuffer:
        count = 1
        for extent in type_.shape:
            count = count * extent if isinstance(extent, int) else INT32
        shape = ctx.extents(type_.shape)
        return GlobalBuffer(
            ctx.names.fresh(param.name),
            type_.dtype,
            shape,
            wide_row_major(shape) if type_.strides is None else ctx.strides(type_),
            param.name,
            type_.shape,
            param.safe_value,
            at,
            type_.dtype.bytes if at in self.unaligned else 16,
            wide=count >= INT32 or type_.strides is not None,
            steps=type_.strides,
            looks=has_open_rows(type_),
        )

    def _prologue(self, ctx: Context, op: ir.Launch) -> None:
        """Names that every statement may use."""
        writer = ctx.writer
        with writer.deeper():
            if op.schedule.shared:
                writer.line("TP_SHARED_MEMORY(tp_shared);")
            if op.schedule.releases:
                writer.line("tp_launch_dependents();")
            writer.line("const int tp_thread = threadIdx.x;")
            writer.line("const int tp_lane = tp_thread & 31;")
            if ctx.multiplies:
                # The same in all lanes, and the compiler may know it.
                writer.line("const int tp_warp = tp_uniform(tp_thread >> 5);")
            else:
                # Nothing but an address, which loads need as soon as the block starts.
                writer.line("const int tp_warp = tp_thread >> 5;")

    def _wait(self, op: ir.Launch) -> list[Line]:
        """Wait for the launch before, in front of all that accesses memory."""
        if op.schedule.releases or op.schedule.waits:
            self.headers.add("barriers.cuh")
        writer = Writer()
        writer.location = op.span
        with writer.deeper():
            if op.schedule.waits:
                writer.line("tp_wait_dependencies();")
        return writer.lines


def _branches_by_warp(op: ir.Launch) -> bool:
    """Whether warps of a launch do different things, or products take descriptors of their own."""
    kinds = ir.Roles | ir.Gemm | ir.AsyncGemm | ir.Scan
    return any(isinstance(o, kinds) for o in ir.walk(op.body))


def _fetched_maps(ctx: Context, op: ir.Launch) -> list[Line]:
    """The first thread of the producer, or of the block, fetches tensor maps as the block starts:
    the first copy through one would wait for it.

    Not where the assembler has to leave registers for other blocks, which work while one waits.
    """
    if not ctx.maps or (op.schedule.residents and not _roles_of(op)):
        return []
    writer = Writer()
    writer.location = op.span
    with writer.deeper():
        thread = ctx.threads if any(map(producer_threads, _roles_of(op))) else 0
        calls = " ".join(f"tp_prefetch_map(&map{at});" for at, _ in enumerate(ctx.maps))
        several = len(ctx.maps) > 1
        writer.line(f"if (tp_thread == {thread}) " + (f"{{ {calls} }}" if several else calls))
    return writer.lines


def _roles_of(op: ir.Launch) -> list[ir.Roles]:
    """Its one op with two roles, if it has one."""
    return [o for o in ir.walk(op.body) if isinstance(o, ir.Roles)]


def _head(op: ir.Launch, spec: LaunchSpec, parameters: Sequence[str]) -> list[Line]:
    """The declaration of a function, up to its opening brace."""
    minimum = max(int(dict(op.hints).get("blocks", 1)), op.schedule.residents, 1)
    attribute = f"__launch_bounds__({spec.threads}, {minimum}) "
    if spec.cluster > 1:
        attribute += f"__cluster_dims__({spec.cluster}, 1, 1) "
    head = Writer()
    head.location = op.span
    head.line(f'extern "C" __global__ void {attribute}{spec.function}(')
    for text in parameters[:-1]:
        head.line(f"    {text},")
    head.line(f"    {parameters[-1]}) {{" if parameters else "    ) {")
    return head.lines


def _emit_body(ctx: Context, body: ir.Block, *, roles: bool) -> None:
    """The body; twice where only some blocks run it with marks: others pay nothing for them."""
    marks = ctx.marks
    if marks is None:
        emit_block(ctx, body)
        return
    with ctx.writer.braces(f"if ({marks.choice})"), ctx.scope():
        if roles:  # which begin and end by themselves
            emit_block(ctx, body)
        else:
            marks.begin(ctx)
            emit_block(ctx, body)
            marks.end(ctx)
    ctx.marks = None
    with ctx.writer.braces("else"), ctx.scope():
        emit_block(ctx, body)
    ctx.marks = marks
