"""Set values aside where a tile operation writes memory that it also reads at other places.

    copy %s[0:63], %s[1:64]      →      %aside = alloc fragment <63, …>
                                        copy %s[0:63], %aside
                                        copy %aside, %s[1:64]

An operation reads everything before it writes anything, but many threads, and loops that work on
their operands in parts, write while others still read.  Elements of which each is read and written
at one place need nothing, nor do parts that are apart by a constant.  Tiles on chip are set aside
wherever they may overlap, those of tensors only where they surely do: how far two tiles are apart
that begin at computed places is the author's to know, as with two arguments that overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileprof import ir
from tileprof.ir.memory import base
from tileprof.ir.sums import Sum, sum_of

Relation = Literal["apart", "same", "overlapping", "unknown"]


def set_aside(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel whose tile operations write nothing that they have still to read."""
    if not any(_overlaps(op) for op in ir.walk(kernel.body)):
        return kernel

    def rule(op: ir.OpBase, builder: ir.Builder) -> tuple[ir.Value, ...] | None:
        if not _overlaps(op):
            return None
        match op:
            case ir.Copy(source=source, target=target, hints=hints):
                builder.emit(ir.Copy(_kept(source, builder, op), target, hints, span=op.span))
            case ir.TileAtomic(kind=kind, source=source, target=target, hints=hints):
                kept = _kept(source, builder, op)
                builder.emit(ir.TileAtomic(kind, kept, target, hints, span=op.span))
            case ir.Scan():
                kept = _kept(op.source, builder, op)
                builder.emit(ir.Scan(op.kind, kept, op.target, op.dim, op.reverse, span=op.span))
            case ir.Reduce():
                made = _result(op.target, op.clear, builder, op)
                builder.emit(ir.Reduce(op.kind, op.source, made, op.dim, op.clear, span=op.span))
                builder.emit(ir.Copy(made, op.target, span=op.span))
            case ir.Gemm():
                made = _result(op.c, op.clear, builder, op)
                turned = op.transpose_a, op.transpose_b
                builder.emit(
                    ir.Gemm(op.a, op.b, made, *turned, op.clear, op.policy, op.hints, span=op.span)
                )
                builder.emit(ir.Copy(made, op.c, span=op.span))
        return ()

    return ir.rewrite(kernel, rule)


def _aside(value: ir.Value, builder: ir.Builder, op: ir.OpBase) -> ir.Value:
    shape = value.buffer.static_shape
    return builder.emit(ir.Alloc("fragment", shape, value.dtype, hint="aside", span=op.span)).result


def _kept(source: ir.Value, builder: ir.Builder, op: ir.OpBase) -> ir.Value:
    """Return a tile of its own with what is read."""
    made = _aside(source, builder, op)
    builder.emit(ir.Copy(source, made, span=op.span))
    return made


def _result(target: ir.Value, clear: bool, builder: ir.Builder, op: ir.OpBase) -> ir.Value:
    """A tile of its own for what is written, with the content of the target unless it is new."""
    made = _aside(target, builder, op)
    if not clear:
        builder.emit(ir.Copy(target, made, span=op.span))
    return made


def _overlaps(op: ir.OpBase) -> bool:
    """Whether elements that the op still has to read may be among those that it writes."""
    match op:
        case ir.Copy() | ir.TileAtomic() | ir.Scan():
            return _is_read_late(op.source, op.target, elementwise=True)
        case ir.Reduce():
            return _is_read_late(op.source, op.target, elementwise=False)
        case ir.Gemm():
            return any(_is_read_late(v, op.c, elementwise=False) for v in (op.a, op.b))
        case _:
            return False


def _is_read_late(source: ir.Value, target: ir.Value, *, elementwise: bool) -> bool:
    if base(source) is not base(target):
        return False
    if not all(isinstance(e, int) for v in (source, target) for e in v.buffer.shape):
        return False
    relation = _relation(_part(source), _part(target))
    if relation == "same":
        return not elementwise
    certain = source.buffer.space == "global"
    return relation == "overlapping" or (relation == "unknown" and not certain)


@dataclass(frozen=True, slots=True)
class _Part:
    """A box of `whole`."""

    whole: ir.Value
    starts: tuple[Sum, ...]
    sizes: tuple[ir.Dim, ...]


def _part(value: ir.Value) -> _Part:
    sizes = value.buffer.shape
    starts = [Sum()] * len(sizes)
    while isinstance(made := value.owner, ir.View):
        starts = [a.plus(sum_of(b)) for a, b in zip(starts, made.offsets, strict=True)]
        value = made.base
    return _Part(value, tuple(starts), sizes)


def _relation(a: _Part, b: _Part) -> Relation:
    if a.whole is not b.whole:
        return "unknown"
    sure = True
    for first, second, x, y in zip(a.starts, b.starts, a.sizes, b.sizes, strict=True):
        apart = second.constant - first.constant
        if first.terms != second.terms:
            sure = False
        elif isinstance(x, int) and isinstance(y, int) and (x <= apart or y <= -apart):
            return "apart"
    if not sure:
        return "unknown"
    return "same" if (a.starts, a.sizes) == (b.starts, b.sizes) else "overlapping"
