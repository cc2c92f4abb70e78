"""The errors of a running kernel: what, which element, which block, and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NoReturn

from tileprof import ir
from tileprof.errors import (
    BoundsError,
    Element,
    ExecutionError,
    InternalError,
    RaceError,
    UninitializedError,
)

from .buffers import Buffer
from .state import State, named

Access = Literal["read", "written"]
Index = Sequence[int]


def _in(state: State, lane: tuple[int, ...]) -> str:
    where = state.where(lane)
    return f", in {where}" if where else ""


def _element(state: State, name: str, index: Index, lane: tuple[int, ...]) -> Element:
    return Element(name, tuple(index), *state.lane_place(lane))


def negative(
    state: State, op: ir.OpBase, name: str, access: Access, index: Index, lane: tuple[int, ...]
) -> NoReturn:
    """An index below 0."""
    raise BoundsError(
        f"`{name}` is {access} at {list(index)}: the index is negative{_in(state, lane)}",
        location=op.span,
        hint="Only a number known at compile time counts from the end, as in `A[-1]`;"
        " guard the access with `if`.",
    ).at(_element(state, name, index, lane))


def outside(
    state: State,
    op: ir.OpBase,
    buffer: Buffer,
    access: Access,
    index: Index,
    lane: tuple[int, ...],
) -> NoReturn:
    """An index beyond the edge, where nothing guards it."""
    said = f"`{buffer.name}` is {access} at {list(index)}, outside its shape {list(buffer.shape)}"
    if buffer.is_global:
        raise InternalError(
            f"{said}, although the access was proved to be inside{_in(state, lane)}",
            location=op.span,
            hint="Please report this with the kernel.",
        )
    raise BoundsError(
        f"{said}{_in(state, lane)}",
        location=op.span,
        hint=f"Only global tensors are guarded; a {buffer.type.space} buffer is not. "
        "Keep the index below the extent, or guard the access with `if`.",
    ).at(_element(state, buffer.name, index, lane))


def nothing_inside(
    state: State,
    op: ir.OpBase,
    buffer: Buffer,
    access: Access,
    index: Index,
    lane: tuple[int, ...],
) -> NoReturn:
    """A global access that misses its tensor altogether, with strict bounds."""
    raise BoundsError(
        f"`{buffer.name}` is {access} from {list(index)} on, where no element lies inside its shape"
        f" {list(buffer.shape)}{_in(state, lane)}",
        location=op.span,
        hint="Strict bounds (--debug, TILEPROF_CHECK=1) refuse an access that is guarded as a"
        " whole. Check the grid and the offsets, or skip such blocks with `if`.",
    ).at(_element(state, buffer.name, index, lane))


def unwritten(
    state: State, op: ir.OpBase, name: str, out: bool, index: Index, lane: tuple[int, ...]
) -> NoReturn:
    """A read of an element that nobody wrote."""
    at = f" at {list(index)}" if len(index) else ""
    raise UninitializedError(
        f"`{name}` is read{at} before anything was written there{_in(state, lane)}",
        location=op.span,
        hint=_way_to_write(op, out, in_loop=bool(state.parallels)),
    ).at(_element(state, name, index, lane))


def _way_to_write(op: ir.OpBase, out: bool, *, in_loop: bool) -> str:
    """Return what to do about a read of an element that nobody wrote."""
    if out:
        return "It is an output, allocated by the call with no values in it: write it first."
    if in_loop and isinstance(op, ir.Load) and op.buffer.buffer.space == "local":
        return (
            "Each point of a `T.Parallel` has its own: what a point writes there is gone after its"
            " loop. Write it before it is read, or use a fragment, which all points share."
        )
    return "Write it first, with T.clear, T.fill, T.copy or an assignment."


def zero_divisor(state: State, op: ir.OpBase, lane: tuple[int, ...]) -> NoReturn:
    """An integer division by zero."""
    raise ExecutionError(
        f"an integer is divided by zero{_in(state, lane)}",
        location=op.span,
        hint="Guard the division with `if`.",
    )


def race(state: State, op: ir.OpBase, buffer: Buffer, a: Element, b: Element) -> NoReturn:
    """Two blocks, or two points of one `parallel`, write one element."""
    if op in state.facts.accumulating:
        hint = (
            "`x[i] += …` from several of them loses updates:"
            " use T.atomic_add, or T.reduce_sum over a tile."
        )
    else:
        hint = "They run in any order: give each its own elements, or combine with T.atomic_add."
    first, second = (named(element.block) for element in (a, b))
    if a.block == b.block:
        first, second = (f"point ({_shown(element)})" for element in (a, b))
        second += f" of one T.Parallel in {named(a.block)}"
    at = f" at {list(a.index)}" if a.index else ""
    raise RaceError(
        f"{first} and {second} both write `{buffer.name}`{at} of shape {list(buffer.shape)}",
        location=op.span,
        hint=hint,
    ).at(a, b)


def _shown(element: Element) -> str:
    return ", ".join(f"{name}={value}" for name, value in element.point)
