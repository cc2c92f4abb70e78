"""Changes of layout: registers renamed within a thread, shuffles within a warp, or elements passed
through shared memory.

tp_store_vector<4>(held + at + 0, x);  …            // as the threads have them
tp_barrier();
tp_load_vector<2>(y, held + to + 0);  …             // as the threads need them
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.cuda.layouts.exchange import (
    staged_row,
    staged_shape,
    staged_strides,
    staged_width,
)
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout, weighted
from tileprof.compiler.cuda.layouts.shuffles import Shuffles, Swap, plan_shuffles
from tileprof.compiler.cuda.target import WORD
from tileprof.errors import InternalError

from .context import Context
from .loops.digit_runs import Run, runs_of
from .loops.points import leader, thread_coordinates


def emit_convert(ctx: Context, op: ir.ConvertLayout) -> None:
    """A fragment into one of another layout."""
    source, target = ctx.fragment(op.source), ctx.fragment(op.target)
    same = tuple(range(source.layout.rank))
    weights = target.layout.register_weights(same, source.layout)
    plan = plan_shuffles(source.layout, target.layout, source.dtype.bytes)
    with ctx.names.scope(), ctx.writer.braces(""):
        if weights is not None:
            digits = [(d, (w,)) for d, w in zip(target.layout.registers, weights, strict=True)]
            to, (at,) = _loops(ctx, runs_of(digits))
            ctx.writer.line(f"{target.array}[{to}] = {source.array}[{at}];")
        elif plan is not None:
            _by_shuffles(ctx, op, plan)
        else:
            _through_memory(ctx, op)


def _loops(ctx: Context, runs: Sequence[Run]) -> tuple[Extent, list[Extent]]:
    """The heads of unrolled loops; the register number inside, and what the weights say."""
    terms: list[Extent] = []
    others: list[list[Extent]] = [[] for _ in (runs[0].weights if runs else (0,))]
    weight = 1
    for run in runs:
        name = ctx.names.fresh("r")
        ctx.writer.line(f"TP_UNROLL_ALL for (int {name} = 0; {name} < {run.count}; ++{name})")
        terms.append(times(name, weight))
        for held, distance in zip(others, run.weights, strict=True):
            held.append(times(name, distance))
        weight *= run.count
    return plus(*terms), [plus(*held) for held in others]


def _by_shuffles(ctx: Context, op: ir.ConvertLayout, plan: Shuffles) -> None:
    """Between the lanes of each warp, by words."""
    ctx.headers.add("shuffle.cuh")
    source, target, writer = ctx.fragment(op.source), ctx.fragment(op.target), ctx.writer
    count = source.layout.registers_per_thread // plan.pack
    words, lane, i = (ctx.names.fresh(n) for n in ("words", "lane", "i"))
    each = f"TP_UNROLL_ALL for (int {i} = 0; {i} < {count}; ++{i})"
    writer.line(f"uint32_t {words}[{count}];")
    start = plus(source.array, times(i, plan.pack))
    writer.line(f"{each} {words}[{i}] = tp_join<{plan.pack}>({start});")
    for swap in plan.swaps:
        writer.line(f"tp_swap<{count}, {swap.word}>({words}, tp_lane & {1 << swap.source});")
    writer.line(f"const int {lane} = {_read_lane(plan)};")
    swaps = [f"({i} / {s.word} & 1) << {s.source}" for s in plan.swaps]
    away = " | ".join(swaps) if swaps else "0"
    given = f"{words}[{i}] = tp_shuffle_index({words}[{i}], {lane} ^ ({away}));"
    writer.line(f"{each} {f'if ({away}) ' if plan.keeps_lanes else ''}{given}")
    joint = _joint(plan, op.source.dtype)
    for swap in plan.swaps:
        if swap is not joint:
            writer.line(f"tp_swap<{count}, {swap.word}>({words}, tp_lane & {1 << swap.target});")
    whole = plan.pack // len(plan.parts)
    weighted_ = weighted(Digit(radix, (weight,)) for radix, weight in plan.digits)
    runs = runs_of([
        (digit, (place, *digit.step)) for digit, place in weighted_
        if joint is None or place != joint.word
    ])  # fmt: skip
    # No loop where one word, or one pair of them, is all that there is.
    _, (number, at) = _loops(ctx, runs) if runs else (0, [0, 0])
    if joint is not None:
        turned = f"tp_lane & {1 << joint.target}"
        pair = f"{words}[{number}], {words}[{plus(number, joint.word)}]"
        writer.line(f"tp_split_pair({plus(target.array, at)}, {pair}, {turned});")
        return
    shifts = [n * whole * 8 * op.source.dtype.bytes for n in range(len(plan.parts))]
    split = [
        f"tp_split<{whole}>({plus(target.array, at, part)}, {words}[{number}]"
        f"{f' >> {shift}' if shift else ''});"
        for part, shift in zip(plan.parts, shifts, strict=True)
    ]
    writer.line(split[0] if len(split) == 1 else f"{{ {' '.join(split)} }}")


def _joint(plan: Shuffles, dtype: ir.DType) -> Swap | None:
    """A swap of words whose halves form two words of the target: one permutation of bytes for each
    does both."""
    whole = plan.pack // 2
    if plan.parts != (0, plan.pack) or plan.pack * dtype.bytes != WORD:
        return None
    places = {w: digit for digit, w in weighted(Digit(r, (s,)) for r, s in plan.digits)}
    fits = (s for s in plan.swaps if places[s.word] == Digit(2, (whole,)))
    return next(fits, None)


def _read_lane(plan: Shuffles) -> str:
    """The lane that a lane reads from, as far as its own number says."""
    masks: dict[int, int] = {}
    for bit, own in enumerate(plan.lanes):
        masks[bit - own] = masks.get(bit - own, 0) | 1 << own
    if list(masks) == [0]:
        return "tp_lane"
    shifts = {by: f"<< {by}" if by > 0 else f">> {-by}" for by in masks}
    parts = [f"(tp_lane & {m}) {shifts[by]}" if by else f"tp_lane & {m}" for by, m in masks.items()]
    return " | ".join(parts)


def _through_memory(ctx: Context, op: ir.ConvertLayout) -> None:
    if op.scratch is None:
        raise InternalError(f"{op!r} goes through shared memory and has none")
    ctx.headers.add("memory.cuh")
    source, target = ctx.fragment(op.source), ctx.fragment(op.target)
    shape = staged_shape(source.layout, target.layout)
    strides = staged_strides(shape, staged_row(shape, op.source.dtype))
    type_ = storage(op.source.dtype)
    held = ctx.names.fresh("held")
    pointer = ctx.shared(op.scratch).pointer
    ctx.writer.line(f"{type_} *const {held} = ({type_} *){pointer};")
    # Who used the memory before has met the others: `insert_barriers` knows of it.
    first = leader(source.layout)
    ctx.writer.line(f"if ({first}) {{" if first else "{")
    with ctx.writer.deeper():
        _pass(ctx, op, source.layout, strides, source.array, held, store=True)
    ctx.writer.close("}")
    ctx.writer.line(ctx.barrier())
    _pass(ctx, op, target.layout, strides, target.array, held, store=False)


def _pass(
    ctx: Context,
    op: ir.ConvertLayout,
    layout: RegisterLayout,
    strides: Sequence[int],
    array: str,
    held: str,
    *,
    store: bool,
) -> None:
    """All registers of a thread to or from the memory."""

    def offset(step: Sequence[int]) -> int:
        return sum(a * b for a, b in zip(step, strides, strict=True))

    width = staged_width(layout, op.source.dtype)
    base = plus(*(times(c, s) for c, s in zip(thread_coordinates(layout), strides, strict=True)))
    at = ctx.names.fresh("at")
    ctx.writer.line(f"const int {at} = {base};")
    runs = runs_of([(d, (offset(d.step),)) for d in layout.registers])
    if width > 1:
        inner, rest = runs[0].split(width)
        del inner
        runs = [*([rest] if rest.count > 1 else []), *runs[1:]]
    number, (place,) = _loops(ctx, runs)
    register, memory = plus(times(number, width)), plus(held, at, place)
    name = f"tp_{'store' if store else 'load'}_vector<{width}>"
    first, second = (
        (memory, f"{array} + {register}") if store else (f"{array} + {register}", memory)
    )
    ctx.writer.line(f"{name}({first}, {second});")
