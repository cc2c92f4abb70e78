"""Numbers of warps, and what their threads exchange."""

from __future__ import annotations

from typing import Any

from tileprof.errors import KernelError
from tileprof.lang.context import current
from tileprof.lang.scalar_math import all_of, cast, if_then_else, max, min
from tileprof.lang.spans import here

__all__ = [
    "all_sync",
    "any_sync",
    "ballot",
    "ballot_sync",
    "check_mask",
    "get_lane_idx",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "match_any_sync",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "sync_warp",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
    "warp_reduce_bitand",
    "warp_reduce_bitor",
    "warp_reduce_max",
    "warp_reduce_min",
    "warp_reduce_sum",
]  # fmt: skip

_WARP = 32
"""Threads of a warp."""
_ALL = 0xFFFFFFFF
"""Mask of all threads of a warp."""


# -- numbers


def get_lane_idx(warp_size: int | None = None) -> Any:
    """Return the number of a thread in its warp."""
    return current().linear_thread() % (warp_size or _WARP)


def get_warp_idx(warp_size: int | None = None) -> Any:
    """Return the number of a thread's warp in its block."""
    return current().linear_thread() // (warp_size or _WARP)


get_warp_idx_sync = get_warp_idx


def get_warp_group_idx(warp_size: int | None = None, warps_per_group: int | None = None) -> Any:
    """Return the number of a thread's warp group, of four warps, in its block."""
    return current().linear_thread() // ((warp_size or _WARP) * (warps_per_group or 4))


def shuffle_elect(thread_extent: int = 0) -> Any:
    """Return whether a thread is the first of `thread_extent` neighbours; 0: of its block."""
    number = current().linear_thread()
    return (number % thread_extent if thread_extent else number) == 0


# -- exchanges


def sync_warp(mask: Any = None) -> None:
    """Do nothing: all threads end a statement before any begins the next."""
    current().sync_threads()


def _width(width: Any, name: str) -> int:
    found = current().static(width)
    if found not in (1, 2, 4, 8, 16, 32):
        raise KernelError(
            f"`width={width!r}` of `T.{name}`",
            location=here(),
            hint="Threads of a warp exchange values in groups of 2, 4, 8, 16 or 32.",
        )
    return found


def check_mask(mask: Any, name: str) -> None:
    """Error for a mask that leaves threads out: which ones take part follows from the branches."""
    found = current().static(getattr(mask, "value", mask) if isinstance(mask, int) else mask)
    if found is None or found & _ALL != _ALL:
        raise KernelError(
            f"`T.{name}` with a mask of some threads",
            location=here(),
            hint="Leave the mask out: all threads that come here take part.",
        )


def shfl_sync(value: Any, srcLane: Any, width: Any = _WARP, mask: Any = _ALL) -> Any:
    """Return the value of the thread `srcLane` of each group of `width` neighbours."""
    size = _width(width, "shfl_sync")
    check_mask(mask, "shfl_sync")
    return current().shuffle(
        value, lambda me: me - me % size + cast(srcLane, "int32") % size, "`T.shfl_sync`"
    )


def shfl_xor(value: Any, delta: Any, width: Any = _WARP, mask: Any = _ALL) -> Any:
    """Return the value of the thread whose number differs in the bits of `delta`; a thread whose
    partner is in a later group of `width` keeps its own."""
    size = _width(width, "shfl_xor")
    check_mask(mask, "shfl_xor")

    def source(me: Any) -> Any:
        lane = me % _WARP
        other = lane ^ delta
        inside = other < (lane // size + 1) * size
        return me - lane + if_then_else(inside, other, lane)

    return current().shuffle(value, source, "`T.shfl_xor`")


def shfl_up(value: Any, delta: Any, width: Any = _WARP, mask: Any = _ALL) -> Any:
    """Return the value of the thread `delta` places before, in its group of `width`; the first ones
    keep their own."""
    size = _width(width, "shfl_up")
    check_mask(mask, "shfl_up")
    return current().shuffle(
        value,
        lambda me: if_then_else(me % size >= delta, me - delta, me),
        "`T.shfl_up`",
    )


def shfl_down(value: Any, delta: Any, width: Any = _WARP, mask: Any = _ALL) -> Any:
    """Return the value of the thread `delta` places behind, in its group of `width`; the last ones
    keep their own."""
    size = _width(width, "shfl_down")
    check_mask(mask, "shfl_down")
    return current().shuffle(
        value,
        lambda me: if_then_else(me % size + delta < size, me + delta, me),
        "`T.shfl_down`",
    )


def tvm_warp_shuffle(mask: Any, value: Any, lane: Any, width: Any, warp_size: Any) -> Any:
    """Do what `shfl_sync` does."""
    return shfl_sync(value, lane, width, mask)


def tvm_warp_shuffle_up(mask: Any, value: Any, delta: Any, width: Any, warp_size: Any) -> Any:
    """Do what `shfl_up` does."""
    return shfl_up(value, delta, width, mask)


def tvm_warp_shuffle_down(mask: Any, value: Any, delta: Any, width: Any, warp_size: Any) -> Any:
    """Do what `shfl_down` does."""
    return shfl_down(value, delta, width, mask)


def _combined(value: Any, combine: Any) -> Any:
    for delta in (16, 8, 4, 2, 1):
        value = combine(value, shfl_xor(value, delta))
    return value


def warp_reduce_sum(value: Any) -> Any:
    """Return the sum of the values of a warp's threads, in each of them."""
    return _combined(value, lambda a, b: a + b)


def warp_reduce_max(value: Any) -> Any:
    """Return the greatest value of a warp's threads, in each of them."""
    return _combined(value, max)


def warp_reduce_min(value: Any) -> Any:
    """Return the least value of a warp's threads, in each of them."""
    return _combined(value, min)


def warp_reduce_bitand(value: Any) -> Any:
    """Return the bits that all values of a warp's threads have, in each of them."""
    return _combined(value, lambda a, b: a & b)


def warp_reduce_bitor(value: Any) -> Any:
    """Return the bits that any value of a warp's threads has, in each of them."""
    return _combined(value, lambda a, b: a | b)


def any_sync(predicate: Any, mask: Any = _ALL) -> Any:
    """Return 1 where a condition holds for any thread of a warp, else 0."""
    check_mask(mask, "any_sync")
    return warp_reduce_bitor(if_then_else(_holds(predicate), cast(1, "int32"), cast(0, "int32")))


def all_sync(predicate: Any, mask: Any = _ALL) -> Any:
    """Return 1 where a condition holds for all threads of a warp, else 0."""
    check_mask(mask, "all_sync")
    return warp_reduce_bitand(if_then_else(_holds(predicate), cast(1, "int32"), cast(0, "int32")))


def ballot_sync(predicate: Any, mask: Any = _ALL) -> Any:
    """Return the threads of a warp for which a condition holds, a bit of a uint64 for each."""
    check_mask(mask, "ballot_sync")
    bit = cast(1, "uint64") << cast(get_lane_idx(), "uint64")
    return warp_reduce_bitor(if_then_else(_holds(predicate), bit, cast(0, "uint64")))


def match_any_sync(value: Any, mask: Any = _ALL) -> Any:
    """Return the threads of a warp that have the same value, a bit of a uint32 for each."""
    check_mask(mask, "match_any_sync")
    return current().same_in_warp(value)


def ballot(predicate: Any) -> Any:
    """Do what `ballot_sync` does for all threads."""
    return ballot_sync(predicate)


def _holds(predicate: Any) -> Any:
    return all_of(predicate != 0) if not isinstance(predicate, bool) else predicate
