"""Roles of warp groups, and barriers between them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from tileprof.errors import KernelError
from tileprof.lang.context import current
from tileprof.lang.loops import Frame
from tileprof.lang.spans import here
from tileprof.lang.tiles import GemmWarpPolicy, copy, gemm

__all__ = [
    "alloc_barrier", "annotate_consumer_reg_alloc", "annotate_producer_reg_dealloc", "async_copy",
    "barrier_arrive", "barrier_wait", "cp_async_barrier_noinc", "dec_max_nreg",
    "fence_proxy_async", "inc_max_nreg", "mbarrier_arrive", "mbarrier_wait_parity",
    "named_barrier_arrive", "ptx_commit_group", "ptx_wait_group", "set_max_nreg", "tma_copy",
    "wait_wgmma", "warpgroup_fence_operand", "wgmma_gemm", "ws",
]  # fmt: skip

_GROUP = 128
"""Threads of a warp group."""


class ws(Frame):
    """`with T.ws(0):`, what only these groups of 128 threads do."""

    def __init__(self, *warp_group_idx: int) -> None:
        if not warp_group_idx or not all(isinstance(n, int) for n in warp_group_idx):
            raise KernelError(
                f"`T.ws{warp_group_idx!r}`",
                location=here(),
                hint="It takes numbers of warp groups, known at compile time: `with T.ws(0):`.",
            )
        self.groups = warp_group_idx

    def _open(self) -> AbstractContextManager[Any]:
        return current().role(self.groups, _GROUP)


def alloc_barrier(arrive_count: int | Sequence[int]) -> Any:
    """Return barriers, one for each count of threads that arrive in a phase; `b[i]` is one of them.

    Roles run in the order in which they are written.  Barriers are checked against that order and
    need no code.
    """
    several = isinstance(arrive_count, (list, tuple))
    return current().alloc_barrier(arrive_count if several else [arrive_count])  # type: ignore[arg-type]


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Let the threads that come here arrive at a barrier."""
    if cta_id is not None:
        raise KernelError(
            "`T.mbarrier_arrive` at a barrier of another block",
            location=here(),
            hint="Blocks of a cluster load shared tiles together where `cluster_dims` asks for it.",
        )
    current().use_barrier("arrive", mbarrier)


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of a barrier with this parity, 0 or 1, is over."""
    current().use_barrier("wait", mbarrier, parity)


def barrier_arrive(mbarrier: Any) -> None:
    """Do what `mbarrier_arrive` does."""
    mbarrier_arrive(mbarrier)


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """Do what `mbarrier_wait_parity` does."""
    mbarrier_wait_parity(mbarrier, parity)


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    leader_scope_threads: int | None = None,
    eviction_policy: str | None = None,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Copy as `copy` does; `barrier` is the one that says when the tile is there.

    A loop around it loads ahead, as in `Pipelined` with two stages or more.
    """
    if barrier is not None:
        current().barrier(getattr(barrier, "barrier", barrier), "`barrier` of `T.tma_copy`")
        current().note_role_load()
    copy(src, dst, eviction_policy=eviction_policy, annotations=annotations)


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: dict[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copy as `copy` does, by cp.async where that is possible; the tile is there at once.

    The compiler waits for it where it is needed, so `ptx_wait_group` need not be right.
    """
    copy(
        src, dst,
        coalesced_width=coalesced_width, prefer_instruction="cp_async", annotations=annotations,
        loop_layout=loop_layout,
    )  # fmt: skip


def ptx_commit_group() -> None:
    """Do nothing: the compiler says which asynchronous copies it waits for together."""
    current().need_launch("`T.ptx_commit_group`")


def ptx_wait_group(num: Any) -> None:
    """Do nothing: the compiler waits for copies where what they bring is used."""
    current().need_launch("`T.ptx_wait_group`")


def cp_async_barrier_noinc(mbarrier: Any) -> None:
    """Let the threads that come here arrive at a barrier when their asynchronous copies are over,
    which they are at once: see `mbarrier_arrive`."""
    mbarrier_arrive(mbarrier)


def named_barrier_arrive(barrier_id: int, arrive_count: int) -> None:
    """Do nothing: who waits at `sync_threads(barrier_id)` finds what was done before it in the
    program, and the compiler decides which warps take turns."""


def set_max_nreg(reg_count: int, is_inc: int | bool) -> None:
    """Take a wish about registers of a role, which the compiler divides."""
    current().annotate("no_set_max_nreg", None, ())


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Take a wish about registers of a role, which the compiler divides."""
    current().annotate("no_set_max_nreg", None, ())


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Take a wish about registers of a role, which the compiler divides."""
    current().annotate("no_set_max_nreg", None, ())


def inc_max_nreg(reg_count: int) -> None:
    """Take a wish about registers of a role, which the compiler divides."""
    current().annotate("no_set_max_nreg", None, ())


def dec_max_nreg(reg_count: int) -> None:
    """Take a wish about registers of a role, which the compiler divides."""
    current().annotate("no_set_max_nreg", None, ())


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: dict[str, Any] | None = None,
) -> None:
    """Multiply tiles as `gemm` does; the result is there at once, `wait_wgmma` or not.

    The compiler chooses the instruction, and lets products run on where nothing needs them yet.
    """
    gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations=annotations)


def wait_wgmma(num_inflight: int = 0) -> None:
    """Do nothing: the compiler waits for the products of `wgmma_gemm` where they are needed."""


def warpgroup_fence_operand(buffer: Any, *args: Any, num_regs: int | None = None) -> None:
    """Do nothing: the compiler orders accesses of registers around products."""


def fence_proxy_async(*args: Any) -> None:
    """Do nothing: the compiler fences what threads wrote before an asynchronous copy reads it."""
