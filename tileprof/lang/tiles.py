"""Operations on whole tiles, atomics, and what helps to find mistakes."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tileprof.errors import KernelError

from .context import Hints, current
from .functions import macro
from .loops import Parallel, parallel, vectorized
from .scalar_math import all_of, if_then_else
from .spans import here
from .values import BufferRegion

__all__ = [
    "GemmWarpPolicy", "atomic_add", "atomic_addx2", "atomic_addx4", "atomic_max", "atomic_min",
    "clear", "copy", "cummax", "cumsum", "device_assert", "fill", "finalize_reducer", "gemm",
    "im2col", "print", "reduce", "reduce_absmax",
    "reduce_abssum", "reduce_bitand", "reduce_bitor", "reduce_bitxor", "reduce_max", "reduce_min",
    "reduce_sum", "reducer_init", "reducer_update",
]  # fmt: skip


_POLICIES = (None, "evict_normal", "evict_first", "evict_last")
"""Cache policies of L2 for the data of a copy."""


def _hints(annotations: dict[str, Any] | None, **given: Any) -> Hints:
    held = {**given, **(annotations or {})}
    return tuple(
        (str(k), v if isinstance(v, (bool, int, float, str)) else repr(v))
        for k, v in held.items()
        if v is not None and v is not False
    )


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    annotations: dict[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copy a tile, converting elements if the types differ.

    Each side is a buffer, a region (`A[0:64, k]`), or an element, which stands for the tile that
    begins there, in the other side's shape. Shapes must be equal, except for extents of 1. Elements
    outside of a global tensor are read as the safe value (0) and are not written. The size of a
    slice may be computed in the kernel, if the other side is a tile on the chip or a part of one:
    elements that the source lacks are read as 0. The keywords are hints about the instruction and
    change no result.

        T.copy(A[by * 128, k * 64], A_shared)
    """
    if eviction_policy not in _POLICIES:
        raise KernelError(
            f"`eviction_policy={eviction_policy!r}` of `T.copy`",
            location=here(),
            hint='Policies are "evict_normal", "evict_first" and "evict_last".',
        )
    hints = _hints(
        annotations,
        coalesced_width=coalesced_width,
        disable_tma=disable_tma,
        eviction_policy=eviction_policy,
        prefer_instruction=prefer_instruction,
        loop_layout=loop_layout,
    )
    if _is_counted(src) or _is_counted(dst):
        _copy_counted(*_matched(src, dst))
    else:
        current().copy(src, dst, hints)


def _is_counted(held: Any) -> bool:
    """Return whether an operand is a slice whose size only the kernel knows."""
    return isinstance(held, BufferRegion) and bool(held.counts)


@dataclass(frozen=True)
class _Axis:
    """A dimension of a copy: the one of its source, of its target, and its points."""

    source: int
    target: int
    extent: int
    """Points that are looked at: as many as the side on the chip has elements."""
    reads: Any = None
    """Number of points that the source has; None for all of them."""
    writes: Any = None
    """Number of points that the target has; None for all of them."""


_Side = tuple[Any, tuple[Any, ...], list[tuple[int, Any, Any]]]


def _side(held: Any) -> _Side:
    """Return a buffer, where a part of it begins, and its dimensions: number, extent, count."""
    if isinstance(held, BufferRegion):
        extents = held.extents
        sizes = [(n, e, held.counts.get(n)) for n, e in enumerate(extents)]
        return held.buffer, tuple(current().as_scalar(o) for o in held.offsets), sizes
    place = current().need_place("an operand of `T.copy`", held)
    if isinstance(place, BufferRegion):
        return _side(place)
    shape = place.type.shape
    return place, (0,) * len(shape), [(n, e, None) for n, e in enumerate(shape)]


def _matched(src: Any, dst: Any) -> tuple[Any, ...]:
    """Return buffers and first elements of both sides of a copy, and its axes."""
    (one, starts, sizes), (other, ends, places) = _side(src), _side(dst)
    rank = max(len(_longer(sizes)), len(_longer(places)))
    sizes, places = _longer(sizes, rank), _longer(places, rank)
    axes = []
    for (a, reads, read), (b, writes, written) in zip(sizes[::-1], places[::-1]):
        extent = reads if reads is not None else writes
        if extent is None:
            extent = _room(one, a) or _room(other, b)
        if extent is None or (writes is not None and writes != extent):
            current().refuse_counts(src if _is_counted(src) else dst)
        axes.append(_Axis(a, b, extent, read, written))
    if len(sizes) != len(places):
        current().refuse_counts(src if _is_counted(src) else dst)
    return one, starts, other, ends, axes[::-1]


def _longer(sizes: list[Any], rank: int = 0) -> list[Any]:
    """Return dimensions without those of one element, of which the last ones are kept for `rank`
    dimensions: a slice of `n` elements matches a tile of one."""
    made = list(sizes)
    for each in sizes:
        if len(made) > rank and each[1] == 1:
            made.remove(each)
    return made


def _room(buffer: Any, at: int) -> int | None:
    """Return how many elements a tile has along a dimension; None for a tensor."""
    extent = buffer.type.shape[at]
    return extent if buffer.type.space != "global" and isinstance(extent, int) else None


@macro
def _copy_counted(
    one: Any, starts: Sequence[Any], other: Any, ends: Sequence[Any], axes: Sequence[_Axis]
) -> None:
    """Copy the elements that both sides have; a target that has more gets 0 there."""
    for point in Parallel(*[axis.extent for axis in axes]):
        points = point if len(axes) > 1 else (point,)
        here, there = list(starts), list(ends)
        for n in list(range(len(axes))):
            here[axes[n].source] = here[axes[n].source] + points[n]
            there[axes[n].target] = there[axes[n].target] + points[n]
        written = [points[n] < a.writes for n, a in enumerate(axes) if a.writes is not None]
        read = [
            points[n] < a.reads
            for n, a in enumerate(axes)
            if a.reads is not None and a.writes is None
        ]
        if written:
            if all_of(*written):
                value = one[tuple(here)]
                other[tuple(there)] = if_then_else(all_of(*read), value, 0) if read else value
        else:
            other[tuple(there)] = if_then_else(all_of(*read), one[tuple(here)], 0)


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    *,
    eviction_policy: str | None = None,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Write a tile of the matrix whose product with a flattened filter is a 2-D convolution.

    img: (N, H, W, C) in global memory; col: (m, k) on the chip.  Row i of the tile is output place
    `nhw_step * m + i` of N × OH × OW, column j is `c_step * k + j` of kernel × kernel × C, where
    OH = (H + 2 pad - dilation (kernel - 1) - 1) // stride + 1, and OW likewise of W.  Elements
    outside of the image are 0.

    Raises:
        KernelError: a buffer of another rank.
    """
    if len(img.shape) != 4 or len(col.shape) != 2:
        raise KernelError(
            f"`T.im2col` of buffers with {len(img.shape)} and {len(col.shape)} dimensions",
            location=here(),
            hint="It takes an image of (N, H, W, C) and a tile of 2 dimensions.",
        )
    _patches(img, col, nhw_step, c_step, kernel, stride, dilation, pad)


@macro
def _patches(
    img: Any, col: Any, nhw_step: Any, c_step: Any, kernel: int, stride: int, dilation: int,
    pad: int,
) -> None:  # fmt: skip
    images, height, width, channels = img.shape
    rows, columns = col.shape
    reach = dilation * (kernel - 1) + 1
    high, wide = ((extent + 2 * pad - reach) // stride + 1 for extent in (height, width))
    # Of a tile within one tap the channels are neighbours, and conditions are those of rows.
    whole = isinstance(channels, int) and channels % columns == 0
    first = c_step * columns
    for i, j in Parallel(rows, columns):
        at, tap = nhw_step * rows + i, first if whole else first + j
        channel = first - first // channels * channels + j if whole else tap % channels
        y = at % (high * wide) // wide * stride + tap // (kernel * channels) * dilation - pad
        x = at % wide * stride + tap // channels % kernel * dilation - pad
        inside = all_of(
            at < images * high * wide, tap < kernel * kernel * channels,
            y >= 0, y < height, x >= 0, x < width,
        )  # fmt: skip
        col[i, j] = if_then_else(inside, img[at // (high * wide), y, x, channel], 0)


def fill(buffer: Any, value: Any, annotations: dict[str, Any] | None = None) -> None:
    """Set every element of a buffer or region to `value`."""
    if _is_counted(buffer):
        _fill_counted(*_matched(buffer, buffer), value)
    else:
        current().fill(buffer, value)


def clear(buffer: Any, annotations: dict[str, Any] | None = None) -> None:
    """Set every element of a buffer or region to 0."""
    fill(buffer, 0)


@macro
def _fill_counted(
    one: Any, starts: Sequence[Any], other: Any, ends: Sequence[Any], axes: Sequence[_Axis],
    value: Any,
) -> None:  # fmt: skip
    for point in Parallel(*[axis.extent for axis in axes]):
        points = point if len(axes) > 1 else (point,)
        there = list(ends)
        for n in list(range(len(axes))):
            there[axes[n].target] = there[axes[n].target] + points[n]
        if all_of(*[points[n] < a.writes for n, a in enumerate(axes) if a.writes is not None]):
            other[tuple(there)] = value


class GemmWarpPolicy(StrEnum):
    """Division of a matrix product among warps; a text, which tuned configurations can hold."""

    Square = "square"
    FullRow = "full_row"
    FullCol = "full_col"


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    k_pack: int = 1,
    wg_wait: int = 0,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Multiply tiles: `C += A @ B`, or `C = A @ B` with `clear_accum`, in the element type of `C`.

    Shapes: A is M×K (K×M if transposed), B is K×N (N×K if transposed), C is M×N. A and B have
    elements of one width; C is usually a float32 fragment. `clear_accum` may be computed in the
    kernel: `k == 0` clears `C` in the first iteration of a loop.
    """
    if policy not in [*GemmWarpPolicy]:
        raise KernelError(
            f"`policy={policy!r}` of `T.gemm`",
            location=here(),
            hint="Policies are `T.GemmWarpPolicy.Square`, `.FullRow` and `.FullCol`.",
        )
    policy = GemmWarpPolicy(policy)
    current().gemm(
        A,
        B,
        C,
        transpose_a=bool(transpose_A),
        transpose_b=bool(transpose_B),
        clear=clear_accum,
        policy=policy.value,
        hints=_hints(annotations, k_pack=None if k_pack == 1 else k_pack),
    )


_REDUCTIONS = ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor")


def reduce(
    buffer: Any,
    out: Any,
    reduce_type: str,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    nan_propagate: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Reduce dimension `dim` of `buffer` into `out`.

    `out` has the shape of `buffer` without that dimension, or with 1 there. Without `clear`, the
    result is combined with the content of `out`.
    """
    if reduce_type not in _REDUCTIONS:
        raise KernelError(
            f"there is no reduction {reduce_type!r}",
            location=here(),
            hint=f"Reductions are: {', '.join(_REDUCTIONS)}.",
        )
    current().reduce(reduce_type, buffer, out, dim, builtins.bool(clear))


def _reduction(kind: str, what: str) -> Callable[..., None]:
    def function(
        buffer: Any,
        out: Any,
        dim: int = -1,
        clear: bool = True,
        batch: int = 1,
        nan_propagate: bool = False,
        annotations: dict[str, Any] | None = None,
    ) -> None:
        reduce(buffer, out, kind, dim, clear)

    function.__name__ = function.__qualname__ = f"reduce_{kind}"
    function.__doc__ = f"{what} along `dim`; see `reduce`."
    return function


reduce_sum = _reduction("sum", "Sums")
reduce_max, reduce_min = _reduction("max", "Maxima"), _reduction("min", "Minima")
reduce_abssum = _reduction("abssum", "Sums of absolute values")
reduce_absmax = _reduction("absmax", "Maxima of absolute values")
reduce_bitand = _reduction("bitand", "Bitwise and")
reduce_bitor = _reduction("bitor", "Bitwise or")
reduce_bitxor = _reduction("bitxor", "Bitwise exclusive or")


def reducer_init(reducer: Any, init_value: Any = None) -> None:
    """Set all elements of a reducer to a value; without one, to what changes no result."""
    current().reducer_init(reducer, init_value)


def reducer_update(place: Any, value: Any) -> None:
    """Combine an element of a reducer with a value: `T.reducer_update(acc[i], x)`."""
    current().reducer_update(place, value)


def finalize_reducer(
    reducer: Any, dst: Any = None, batch: int = 1, annotations: dict[str, Any] | None = None
) -> None:
    """End the updates of a reducer, and copy its elements to `dst` if there is one."""
    current().finalize_reducer(reducer, dst)


def cumsum(
    src: Any,
    dst: Any = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Compute running sums of `src` along `dim` into `dst`, from the end with `reverse`.

    Without `dst`, the sums replace `src`. Both have the same shape.
    """
    current().scan("sum", src, dst, dim, builtins.bool(reverse))


def cummax(
    src: Any,
    dst: Any = None,
    dim: int = 0,
    reverse: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Running maxima; see `cumsum`."""
    current().scan("max", src, dst, dim, builtins.bool(reverse))


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: dict[str, Any] | None = None,
) -> Any:
    """Add `value` to an element, or a tile to a tile of the same shape, atomically.

    On an element, `return_prev=True` returns the value from before.
    """
    hints = _hints(annotations, memory_order=memory_order, use_tma=use_tma)
    return current().atomic("add", dst, value, return_prev, hints)


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Add two neighbouring elements, from the ones that are named on, each at once."""
    _atomic_neighbours(dst, value, 2, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> None:
    """Add four neighbouring elements, from the ones that are named on, each at once."""
    _atomic_neighbours(dst, value, 4, return_prev)


def _atomic_neighbours(dst: Any, value: Any, count: int, return_prev: bool) -> None:
    if return_prev:
        raise KernelError(
            f"`T.atomic_addx{count}` with `return_prev`",
            location=here(),
            hint="Add elements one by one: `T.atomic_add(A[i], x, return_prev=True)`.",
        )
    context, name = current(), f"`T.atomic_addx{count}`"
    into, at = context.corner(dst, f"the target of {name}")
    source, first = context.corner(value, f"the second operand of {name}")
    loop = parallel if context.inner("parallel") is not None else vectorized
    _add_neighbours(into, at, source, first, loop(count))


@macro
def _add_neighbours(
    into: Any, at: tuple[Any, ...], source: Any, first: tuple[Any, ...], neighbours: Any
) -> None:
    for n in neighbours:
        atomic_add(into[(*at[:-1], at[-1] + n)], source[(*first[:-1], first[-1] + n)])


def atomic_max(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> Any:
    """Combine like `atomic_add`, keeping the greater of the two."""
    hints = _hints(annotations, memory_order=memory_order)
    return current().atomic("max", dst, value, return_prev, hints)


def atomic_min(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> Any:
    """Combine like `atomic_add`, keeping the smaller of the two."""
    hints = _hints(annotations, memory_order=memory_order)
    return current().atomic("min", dst, value, return_prev, hints)


def print(obj: Any = None, msg: str = "", **options: Any) -> None:
    """Print a scalar or a whole buffer while the kernel runs, after the text `msg`."""
    if isinstance(obj, str):
        obj, msg = None, f"{msg}{obj}"
    current().print(obj, msg)


def device_assert(condition: Any, msg: str = "") -> None:
    """Stop the kernel with an error if the condition does not hold."""
    current().device_assert(condition, msg)
