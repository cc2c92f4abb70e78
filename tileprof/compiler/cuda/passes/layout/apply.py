"""Write layouts into the ops of a launch, with conversions and scratch memory where needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.cuda.layouts.exchange import (
    convert_scratch,
    is_within_threads,
    reduce_scratch,
    working_type,
)
from tileprof.compiler.cuda.layouts.registers import RegisterLayout
from tileprof.compiler.cuda.lowering import Lowering, line_of
from tileprof.instrument.placement.stages import buffer_name, op_name
from tileprof.ir.rewriter import clone, with_originals
from tileprof.remarks.layouts import Converted, NeedsAnother, OtherLayout, Through

from .flow import down
from .graph import Graph, Link
from .once import fills
from .solve import Solution


@dataclass(eq=False)
class _Conversion:
    """A fragment in another layout for the duration of one op."""

    value: ir.Value
    """Fragment of the launch as it was."""
    made: ir.Alloc
    layout: RegisterLayout
    reads: bool
    writes: bool
    field: str = ""
    """The operand of the op; '' for accesses inside a loop."""


@dataclass
class _Plan:
    """Conversions by the op around which they stand, and by access."""

    around: dict[ir.OpBase, list[_Conversion]] = field(default_factory=dict)
    accesses: dict[ir.OpBase, _Conversion] = field(default_factory=dict)


def apply(
    graph: Graph, solution: Solution, texts: dict[ir.Value, str], lowering: Lowering
) -> ir.Launch:
    """The launch with its layouts; `texts` are those of the shared buffers."""
    return with_originals(graph.launch, _Writer(graph, solution, texts, lowering).rule)


class _Writer:
    """The rule that rebuilds a launch, and what it has built so far."""

    def __init__(
        self, graph: Graph, solution: Solution, texts: dict[ir.Value, str], lowering: Lowering
    ) -> None:
        self.known = solution.known
        self.texts = texts
        self.plan = _planned(graph, solution, lowering)
        self.renamed: dict[ir.Value, ir.Value] = {}
        """Fragments of the launch as it was, and what stands for them now."""

    def rule(self, op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        """Apply the layouts to one op; a `PairRule`."""
        match op, new:
            case ((ir.Load() | ir.Store()), (ir.Load() | ir.Store())) if op in self.plan.accesses:
                made = self.plan.accesses[op].made.result
                return list(builder.emit(clone(new, {new.buffer: made}, {})).results)
            case ir.Alloc(), ir.Alloc():
                self.renamed[op.result] = new.result
                held = self.known.get(op.result)
                new.layout = str(held) if held else self.texts.get(op.result, new.layout)
            case ir.Reinterpret(), ir.Reinterpret():
                self.renamed[op.result] = new.result
            case ir.Parallel(), ir.Parallel() if op in self.known:
                new.layout = str(self.known[op])
            case _:
                pass
        conversions = self.plan.around.get(op, [])
        if not conversions and not isinstance(op, ir.Reduce):
            return None
        for each in conversions:
            self._before(builder, each, new)
        if isinstance(new, ir.Reduce):
            assert isinstance(op, ir.Reduce)
            self._scratch(builder, op, new)
        builder.emit(new)
        for each in conversions:
            if each.writes:
                known = self.known[each.value]
                value = self.renamed[each.value]
                _convert(builder, each.made.result, value, each.layout, known)
        return list(new.results)

    def _before(self, builder: ir.Builder, each: _Conversion, new: ir.OpBase) -> None:
        """The fragment in the other layout, and the op made to use it."""
        each.made.layout = str(each.layout)
        builder.emit(each.made)
        if each.reads:
            known = self.known[each.value]
            _convert(builder, self.renamed[each.value], each.made.result, known, each.layout)
        if each.field:
            setattr(new, each.field, each.made.result)

    def _scratch(self, builder: ir.Builder, op: ir.Reduce, new: ir.Reduce) -> None:
        working = working_type(op.source.dtype, op.target.dtype)
        needed = reduce_scratch(self.known[op.source], op.dim, working)
        if needed:
            new.scratch = shared_scratch(builder, needed)


def _planned(graph: Graph, solution: Solution, lowering: Lowering) -> _Plan:
    plan, known = _Plan(), solution.known
    for operand in solution.operands:
        writes = operand.field == "c"
        reads = not (writes and operand.op.clear)
        made = _conversion(operand.value, operand.layout, reads, writes, operand.field)
        plan.around.setdefault(operand.op, []).append(made)
        _tell(operand.op, made, solution, lowering)
    for link in solution.links:
        needed = down(known[link.parent], link.dims, graph.shapes[link.child])
        field_ = "target" if isinstance(link.op, ir.Reduce) else ""
        # Elements that a loop leaves out keep what they had.
        reads = link.reads or (isinstance(link.op, ir.Parallel) and not _filled(link.op, link))
        made = _conversion(link.child, needed, reads, link.writes, field_)
        plan.around.setdefault(link.op, []).append(made)
        plan.accesses.update(dict.fromkeys(link.uses, made))
        _tell(link.op, made, solution, lowering)
    return plan


def _filled(loop: ir.Parallel, link: Link) -> bool:
    return any(isinstance(use, ir.Store) and fills(loop, use) for use in link.uses)


def _conversion(
    value: ir.Value, layout: RegisterLayout, reads: bool, writes: bool, field_: str
) -> _Conversion:
    made = ir.Alloc("fragment", value.buffer.static_shape, value.dtype, hint=value.name)
    return _Conversion(value, made, layout, reads, writes, field_)


def _convert(
    builder: ir.Builder,
    source: ir.Value,
    target: ir.Value,
    before: RegisterLayout,
    after: RegisterLayout,
) -> None:
    needed = convert_scratch(before, after, source.dtype)
    scratch = shared_scratch(builder, needed) if needed else None
    builder.emit(ir.ConvertLayout(source, target, scratch))


def shared_scratch(builder: ir.Builder, size: int) -> ir.Value:
    """So many bytes of shared memory, with which an op exchanges between threads."""
    alloc = ir.Alloc("shared", (size,), ir.dtype("uint8"), layout="rows", hint="scratch")
    return builder.emit(alloc).result


def _tell(op: ir.OpBase, made: _Conversion, solution: Solution, lowering: Lowering) -> None:
    """Remark on a conversion, with the line that has the fragment otherwise."""
    before = solution.known[made.value]
    fixing = solution.fixed.get(made.value) or made.value.owner
    line = 0 if fixing is None else line_of(fixing)
    where: Through = "shared memory"
    if is_within_threads(before, made.layout):
        where = "registers of each thread"
    else:
        ways = [(before, made.layout)] if made.reads else []
        ways += [(made.layout, before)] if made.writes else []
        if not any(convert_scratch(*way, made.value.dtype) for way in ways):
            where = "shuffles"
    lowering.remarks.add(
        "buffer",
        buffer_name(made.value),
        op.span,
        Converted(str(made.layout), where),
        (OtherLayout(line, str(before)), NeedsAnother(op_name(op) or op.mnemonic)),
        severity="missed",
    )
