"""The vector at hand: loops over vectors, coordinates and registers of its elements, and the places
where its accesses begin.

    for (int r = 0; r < 4; ++r) {          // a vector of this thread
      const int i = i_at + r * 8;          // where its first element is
      if (i < 30) {                        // registers beyond the shape are left out
        const bool v0 = i < m;
        if (v0) …                          // an access under its guards
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, plus, times
from tileprof.compiler.codegen.expressions import bare
from tileprof.compiler.cuda.emit.access import checked, shared_address
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.context import Context, EmitBlock
from tileprof.compiler.cuda.layouts import RegisterLayout
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.compiler.cuda.tuning import (
    FUNCTION_INSTRUCTIONS,
    UNROLLED_INSTRUCTIONS,
    UNROLLED_POINTS,
)
from tileprof.ir.types import index as INDEX
from tileprof.once import cached_property

from .digit_runs import Run, points
from .points import Frame, leader
from .vectors import Planner, VectorAccess


@dataclass(kw_only=True)
class VectorLoops:
    """The loops of one parallel loop that has a layout, and where they are."""

    ctx: Context
    op: ir.Parallel
    layout: RegisterLayout
    emit_block: EmitBlock
    bases: list[Extent] = field(default_factory=list)
    """Coordinates of the thread's first point."""
    vector: list[Run] = field(default_factory=list)
    groups: list[Run] = field(default_factory=list)
    loops: tuple[Run, ...] = ()
    """Those around the vector at hand, named."""
    outer: Sequence[Run] = ()
    """Those of the loops around whatever is loaded at once: they may stay loops."""
    first: list[Extent] = field(default_factory=list)
    """Coordinates of its first element."""
    indices: dict[ir.Value, str] = field(default_factory=dict)
    """Values that have been computed for it."""

    def __post_init__(self) -> None:
        self.frame = Frame(self.op, self.layout, leader(self.layout))
        ctx = self.ctx
        self.planner = Planner(
            op=self.op,
            layout=self.layout,
            buffers=ctx.buffers,
            text=lambda value: ctx.values.get(value),
            aliased=ctx.aliased,
            vectorize=ctx.controls.vectorize,
            adds=ctx.target.adds_vectors,
        )

    # -- loops

    def _named(self, runs: Iterable[Run], hint: str = "r") -> list[Run]:
        return [replace(r, name=self.ctx.names.fresh(hint)) for r in runs if r.count > 1]

    @contextmanager
    def _nest(self, runs: Sequence[Run]) -> Iterator[None]:
        """Loops over register numbers, the last run outermost."""
        if not runs:
            yield
            return
        *rest, run = runs
        unrolled = self.frame.fragments or run not in self.outer or not self._is_long
        self.ctx.writer.line("#pragma unroll" if unrolled else "#pragma unroll 1")
        head = f"for (int {run.name} = 0; {run.name} < {run.count}; ++{run.name})"
        with self.ctx.writer.braces(head), self.ctx.scope(), self._nest(rest):
            yield

    @cached_property
    def _is_long(self) -> bool:
        """Whether the loops would fill too much of the instruction cache if they were unrolled."""
        total = points(self.groups) * self.planner.width
        return total > UNROLLED_POINTS or total * _instructions(self.op) > UNROLLED_INSTRUCTIONS

    @contextmanager
    def _once(self) -> Iterator[None]:
        """Something that `continue` can leave, where there is no loop."""
        if self.loops or self.vector or not self.planner.leaves:
            yield
            return
        with self.ctx.writer.braces("do", "} while (false);"):
            yield

    @contextmanager
    def _vector_begins(self) -> Iterator[None]:
        """Name the coordinates of the vector at hand.  Registers beyond the shape are left out; a
        vector is inside or outside of it as a whole."""
        layout, ctx = self.layout, self.ctx
        self.first = []
        for dim, variable in enumerate(self.op.body.args):
            steps = [times(r.name, r.step[dim]) for r in self.loops]
            text = plus(self.bases[dim], *steps)
            self.first.append(self._coordinate(variable, text))
        needed = [
            f"{at} < {extent}"
            for at, extent, covered in zip(self.first, layout.shape, layout.covered, strict=True)
            if covered != extent
        ]
        self.indices = {}
        if not needed:
            yield
            return
        with ctx.writer.braces(f"if ({' && '.join(needed)})"), ctx.scope():
            yield

    def _coordinate(self, variable: ir.Value, text: Extent) -> Extent:
        """A coordinate under a name, where it is a sum that somebody uses."""
        if isinstance(text, int) or text.isidentifier() or not self.ctx.uses.get(variable):
            return text
        name = self.ctx.names.fresh(
            variable.name or "ijklmn"[self.op.body.args.index(variable) % 6]
        )
        self.ctx.writer.line(f"const int {name} = {text};")
        return name

    @contextmanager
    def _at(self, position: Extent, named: Collection[ir.Value] = ()) -> Iterator[None]:
        """The loop variables and registers of the element at `position` of the vector at hand;
        `named`: what the text of the point will mention."""
        ctx, frame, dim = self.ctx, self.frame, self.planner.dim
        before = ctx.values, ctx.inline, ctx.raw, ctx.point
        ctx.values, ctx.inline, ctx.raw = dict(ctx.values), set(ctx.inline), dict(ctx.raw)
        ctx.point = list(ctx.point)
        for at, variable in enumerate(self.op.body.args):
            text = self.first[at]
            if at == dim and position != 0:
                text = plus(text, position)
                text = self._coordinate(variable, text) if variable in named else text
            ctx.values[variable] = paren(text)
            ctx.point.append((variable.name or "i", str(text)))
        elements = [replace(r, name=self._digit(position, r)) for r in self.vector]
        frame.runs, frame.position = (*elements, *self.loops), position
        yield
        ctx.values, ctx.inline, ctx.raw, ctx.point = before

    def _digit(self, position: Extent, run: Run) -> str:
        """The digit of a run of the vector at a place of it."""
        step = run.step[self.planner.dim]
        if isinstance(position, int):
            return str(position // step % run.count)
        text = f"({paren(position)} / {step})" if step > 1 else paren(position)
        return text if step * run.count == self.planner.width else f"({text} % {run.count})"

    # -- one access

    @contextmanager
    def _piece(self, access: VectorAccess) -> Iterator[tuple[str, str, int]]:
        """Address, guard, and how many elements are moved, at each place of the vector where an
        instruction begins; one place where the whole vector is moved without a question."""
        ctx, width = self.ctx, self.planner.width
        count = self._elements(access)
        # Points of which the first one's element is that of all, too.
        points = max(count // access.step, access.repeats)
        if points == width:
            with self._at(0), self._guarded(access, keep=True), ctx.writer.at(access.op.span):
                yield self._place(access, count)
            return
        step = tuple(points * (d == self.planner.dim) for d in range(self.layout.rank))
        with ctx.scope():
            loop = self._named([Run(width // points, step)], "e")
            with (
                self._nest(loop),
                self._at(times(loop[0].name, points), self.op.body.args),
                self._guarded(access, keep=False),
                ctx.writer.at(access.op.span),
            ):
                yield self._place(access, count)

    def _elements(self, access: VectorAccess) -> int:
        """Elements that are moved at each place where an instruction begins."""
        width = self.planner.width * access.step
        inside = all(op.in_bounds or op in self.ctx.inside for op in access.ops)
        widest = min(width, WIDEST_ACCESS // access.buffer.dtype.bytes)
        if isinstance(access.buffer, SharedBuffer) and access.buffer.layout.swizzle:
            # What follows a chunk of a row lies elsewhere.
            return access.width
        whole = inside and access.width == widest and self.planner.decides_once(access.guards)
        return width if whole and access.follows else access.width

    @contextmanager
    def _guarded(self, access: VectorAccess, *, keep: bool) -> Iterator[None]:
        """Compute the indices of an access under its guards; where `keep`, what stands outside of
        guards is computed once for all accesses of the vector."""
        seen: set[ir.OpBase] = set()
        known = self.indices if keep else {}
        self.ctx.values.update(known)
        with ExitStack() as stack:
            for guard in access.guards:
                self._slice(guard.slice, seen, known)
                text = self.ctx.text(guard.condition)
                head = f"if ({bare(text) if guard.holds else '!' + paren(text)})"
                stack.enter_context(self.ctx.writer.braces(head))
                stack.enter_context(self.ctx.scope())
                # Names inside of the branch end with it.
                known = dict(known)
            self._slice(access.slice, seen, known)
            yield

    def _slice(
        self, ops: Iterable[ir.OpBase], seen: set[ir.OpBase], known: dict[ir.Value, str]
    ) -> None:
        """Emit the ops that are not known yet, and note what their results are called."""
        missing = [o for o in ops if o not in seen and o.result not in known]
        seen |= set(missing)
        self.emit_block(self.ctx, ir.Block([], missing))
        # Constants stand where they are used and have no text of their own.
        held = self.ctx.values
        known |= {o.result: held[o.result] for o in missing if o.result in held}

    def _place(self, access: VectorAccess, count: int) -> tuple[str, str, int]:
        buffer, op = access.buffer, access.op
        if isinstance(buffer, FragmentBuffer):
            indices = [self.ctx.index(v) for v in op.indices]
            number = self.frame.register(buffer, self.frame.dims(op.indices), indices)
            return str(plus(buffer.array, number)), "", count
        indices, guard = checked(self.ctx, op, buffer, op.indices, op.in_bounds)
        if isinstance(buffer, SharedBuffer):
            return shared_address(self.ctx, op, buffer, indices), guard, count
        offset = buffer.offset(indices)
        at = offset
        if isinstance(offset, str) and not self.ctx.multiplies:
            # As one number: each term that is added to a pointer of its own takes 64 bits.  Beside
            # products, where registers are scarce, the assembler then keeps more addresses.
            at = paren(offset)
        return str(plus(buffer.pointer, at)), guard, count


def _instructions(loop: ir.Parallel) -> int:
    """Return about how many instructions one point takes, without addresses."""
    count = 0
    for op in ir.walk(loop.body):
        if isinstance(op, ir.Unary) and op.kind not in _SIMPLE:
            count += FUNCTION_INSTRUCTIONS
        elif isinstance(op, ir.Unary | ir.Binary | ir.Compare | ir.Select | ir.Fma | ir.Cast):
            count += op.result.dtype != INDEX
    return count


_SIMPLE = frozenset({"neg", "not", "abs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite"})
