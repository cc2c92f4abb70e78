"""Reductions of fragments: in each thread, between lanes, between warps.

    float sum_part[2];
    sum_part[0] = (x[0] + x[1]) + (x[2] + x[3]);                     // registers, as a tree
    …
    sum_part[r] = sum_part[r] + tp_shuffle_xor(sum_part[r], 1);      // lanes, as a butterfly
    …
    …[warp] = …;  tp_barrier();  …                                   // warps, through `scratch`
    sum[0] = sum_part[0];

All threads that hold an element of the target get the result.  A partial reduction ends after the
registers; `all_reduce` is what it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.expressions import bare
from tileprof.compiler.codegen.types import is_narrow, literal, storage, stored, value_type
from tileprof.compiler.cuda.layouts.exchange import (
    Reduction,
    plan_all_reduce,
    plan_reduce,
    unreduced,
    working_type,
)
from tileprof.compiler.cuda.layouts.registers import RegisterLayout
from tileprof.errors import InternalError

from .buffers import FragmentBuffer
from .context import Context
from .loops.points import thread_coordinates

_INFIX = {"sum": "+", "abssum": "+", "bitand": "&", "bitor": "|", "bitxor": "^"}
_CALLS = {"max": "tp_max", "absmax": "tp_max", "min": "tp_min"}


def joined(kind: str, dtype: ir.DType, left: str, right: str) -> str:
    """Two values of a working type as one."""
    type_ = value_type(dtype)
    if kind in _CALLS:
        chosen = "" if dtype.is_float else f"<{type_}>"
        return f"{_CALLS[kind]}{chosen}({bare(left)}, {bare(right)})"
    text = f"({left} {_INFIX[kind]} {right})"
    # C++ computes with small integers as `int`.
    return f"({type_}){text}" if dtype.bits < 32 else text


def identity(kind: str, dtype: ir.DType) -> str:
    """Return what changes nothing when it is joined."""
    if kind not in ("max", "min", "absmax", "bitand"):
        number: int | float = 0
    elif kind == "bitand":
        number = -1
    elif dtype.is_float:
        # An infinity would win against elements that are all NaN.
        number = float("nan")
    else:
        number = dtype.limits[kind == "min"]
    return literal(number, dtype)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The results of a reduction on their way: `name[r]` is what a thread knows of result r."""

    name: str
    dtype: ir.DType
    """The type in which elements are joined."""
    kind: str
    plan: Reduction

    @property
    def type(self) -> str:
        """The C++ type of a part."""
        return value_type(self.dtype)

    def join(self, left: str, right: str) -> str:
        """Two parts as one."""
        return joined(self.kind, self.dtype, left, right)


def emit_reduce(ctx: Context, op: ir.Reduce) -> None:
    """A reduction of a fragment into a fragment."""
    source, target = ctx.fragment(op.source), ctx.fragment(op.target)
    working = working_type(op.source.dtype, op.target.dtype)
    plan = plan_reduce(source.layout, op.dim)
    with ctx.names.scope(), ctx.writer.braces(""):
        parts = _Parts(ctx.names.fresh(f"{target.array}_part"), working, op.kind, plan)
        ctx.writer.line(f"{parts.type} {parts.name}[{len(plan.groups)}];")
        _in_threads(ctx, op, source, parts)
        if not op.partial:
            _between_threads(ctx, op, source.layout, parts)
        _stored(ctx, op, source, target, parts)


def emit_all_reduce(ctx: Context, op: ir.AllReduce) -> None:
    """The parts of a fragment, each register with the same register of other threads."""
    target = ctx.fragment(op.target)
    plan = plan_all_reduce(target.layout, op.lanes, op.warps)
    with ctx.names.scope(), ctx.writer.braces(""):
        parts = _Parts(target.array, op.target.dtype, op.kind, plan)
        _between_threads(ctx, op, target.layout, parts)


def _tree(parts: Sequence[str], join: Callable[[str, str], str]) -> str:
    """All parts as one, in as few steps as possible."""
    while len(parts) > 1:
        pairs = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return parts[0]


def _in_threads(ctx: Context, op: ir.Reduce, source: FragmentBuffer, parts: _Parts) -> None:
    """Join what the thread itself holds of each result."""
    coordinate, offsets, limit = _padding(ctx, source.layout, op.dim)
    of, extent = op.source.dtype, op.source.buffer.static_shape[op.dim]

    def element(register: int) -> str:
        text = f"{source.array}[{register}]"
        if is_narrow(of):
            text = f"tp_value({text})"
        if value_type(of) != parts.type:
            text = f"({parts.type}){text}"
        if op.kind.startswith("abs"):
            text = f"tp_abs({text})"
        if coordinate and offsets[register] >= limit:
            inside = f"{coordinate} < {extent - offsets[register]}"
            text = f"({inside} ? {text} : {identity(op.kind, parts.dtype)})"
        return text

    for number, registers in enumerate(parts.plan.groups):
        whole = _tree([element(r) for r in registers if offsets[r] < extent], parts.join)
        ctx.writer.line(f"{parts.name}[{number}] = {bare(whole)};")


def _padding(ctx: Context, layout: RegisterLayout, dim: int) -> tuple[str, list[int], int]:
    """The thread's coordinate along `dim` where some elements are padding ('' otherwise), what each
    register adds to it, and from which of these on a register may be padding."""
    offsets = layout.register_offsets()[:, dim].tolist()
    threads = sum((d.radix - 1) * d.step[dim] for d in (*layout.lanes, *layout.warps))
    limit = layout.shape[dim] - threads
    if layout.covered[dim] == layout.shape[dim] or max(offsets) < limit:
        return "", offsets, limit
    coordinate = thread_coordinates(layout)[dim]
    if isinstance(coordinate, int):
        return "", offsets, limit
    name = ctx.names.fresh("at")
    ctx.writer.line(f"const int {name} = {coordinate};")
    return name, offsets, limit


def _between_threads(
    ctx: Context, op: ir.Reduce | ir.AllReduce, layout: RegisterLayout, parts: _Parts
) -> None:
    """Join what all threads together hold of each result."""
    _between_lanes(ctx, parts)
    if len(parts.plan.warps) > 1:
        _between_warps(ctx, op, layout, parts)


def _between_lanes(ctx: Context, parts: _Parts) -> None:
    if not parts.plan.masks:
        return
    ctx.headers.add("shuffle.cuh")
    head, at = _each(ctx, parts)
    for mask in parts.plan.masks:
        ctx.writer.line(f"{head}{at} = {bare(parts.join(at, f'tp_shuffle_xor({at}, {mask})'))};")


def _each(ctx: Context, parts: _Parts) -> tuple[str, str]:
    """The head of a statement for each result, and the result in it."""
    count = len(parts.plan.groups)
    if count == 1:
        return "", f"{parts.name}[0]"
    name = ctx.names.fresh("r")
    head = f"TP_UNROLL_ALL for (int {name} = 0; {name} < {count}; ++{name}) "
    return head, f"{parts.name}[{name}]"


def _between_warps(
    ctx: Context, op: ir.Reduce | ir.AllReduce, layout: RegisterLayout, parts: _Parts
) -> None:
    """Partial results of warps meet in the scratch memory: result, warp, lane."""
    if op.scratch is None:
        raise InternalError(f"{op!r} goes through shared memory and has none")
    writer, type_, plan = ctx.writer, parts.type, parts.plan
    scratch = ctx.names.fresh("parts")
    writer.line(f"{type_} *const {scratch} = ({type_} *){ctx.shared(op.scratch).pointer};")
    slot, idle = _slot(plan)
    head, at = _each(ctx, parts)
    number = at[len(parts.name) + 1 : -1]

    def place(warp: str) -> str:
        row = warp if number == "0" else f"({number} * {layout.threads // 32} + {warp})"
        return f"{scratch}[{row}{'' if plan.slots == 1 else f' * {plan.slots} + {slot}'}]"

    # Who used the memory before has met the others: `insert_barriers` knows of it.
    writer.line(f"if ((tp_lane & {idle}) == 0) {{" if idle else "{")
    with writer.deeper():
        writer.line(f"{head}{place('tp_warp')} = {at};")
    writer.close("}")
    writer.line(ctx.barrier())
    first = ctx.names.fresh("first")
    writer.line(f"const int {first} = {_first_warp(plan)};")
    others = [place(f"({first} + {d})" if d else first) for d in plan.warps]
    writer.line(f"{head}{at} = {bare(_tree(others, parts.join))};")


def _slot(plan: Reduction) -> tuple[str, int]:
    """The number of a lane among those with results of their own, and the bits of the others."""
    terms, idle, position = [], 31, 0
    bits = list(plan.kept)
    while bits:
        run = 1
        while run < len(bits) and bits[run] == bits[0] + run:
            run += 1
        idle &= ~(((1 << run) - 1) << bits[0])
        text = f"tp_lane >> {bits[0]}" if bits[0] else "tp_lane"
        text = f"({text} & {(1 << run) - 1})" if bits[0] + run < 5 else f"({text})"
        terms.append(f"({text} << {position})" if position else text)
        position += run
        bits = bits[run:]
    return " + ".join(terms) if len(terms) < 2 else f"({' + '.join(terms)})", idle


def _first_warp(plan: Reduction) -> str:
    """The warp with the first part of what this warp has a part of."""
    if all(radix == 2 for _, radix in plan.radices):
        mask = sum(weight for weight, _ in plan.radices)
        return f"tp_warp & ~{mask}"
    away = " - ".join(f"tp_warp / {w} % {radix} * {w}" for w, radix in plan.radices)
    return f"tp_warp - {away}"


def _stored(
    ctx: Context, op: ir.Reduce, source: FragmentBuffer, target: FragmentBuffer, parts: _Parts
) -> None:
    """Results into the registers of the target."""
    dims = unreduced(op)
    left = source.layout.select(dims, target.shape)
    weights = left.register_weights(tuple(range(left.rank)), target.layout)
    if weights is None:
        raise InternalError(f"{op!r} reduces {source.layout} into {target.layout}")
    places = np.zeros(1, np.int64)
    for digit, weight in zip(left.registers, weights, strict=True):
        places = (np.arange(digit.radix)[:, None] * weight + places[None, :]).reshape(-1)
    narrow, type_ = is_narrow(op.target.dtype), value_type(op.target.dtype)
    for number, place in enumerate(places.tolist()):
        at, value = f"{target.array}[{place}]", f"{parts.name}[{number}]"
        if not op.clear:
            old = f"tp_value({at})" if narrow else at
            if type_ != parts.type:
                old = f"({parts.type}){old}"
            value = parts.join(old, value)
        if not narrow and type_ != parts.type:
            value = f"({storage(op.target.dtype)}){value}"
        value = stored(bare(value), op.target.dtype) if narrow else bare(value)
        ctx.writer.line(f"{at} = {value};")
