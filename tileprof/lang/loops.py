"""Launches, loops and scopes as the author writes them, numbers of threads, and what threads
combine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tileprof.errors import KernelError

from .context import Hints, Loop, current
from .spans import here

__all__ = [
    "Frame", "Kernel", "Parallel", "Persistent", "Pipelined", "Serial", "Unroll", "Vectorized",
    "attr", "comm_reducer", "evaluate", "get_thread_binding", "get_thread_bindings", "scope",
    "serial", "thread_binding", "tvm_thread_allreduce", "unroll", "vectorized",
]  # fmt: skip

_THREADS = 128
_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


class Frame(AbstractContextManager[Any]):
    """Context manager of a kernel: a launch or a scope."""

    def _open(self) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._inner = self._open()
        return self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An error leaves the blocks as they are: the trace is given up.
        if error is None:
            self._inner.__exit__(None, None, None)


class Kernel(Frame):
    """Launch a grid of blocks: `with T.Kernel(gx, gy, threads=128) as (bx, by):`.

    The body is the work of one block; `bx`, `by` are its indices. There are one to three extents.
    `threads` is the number of threads per block, as one number or one per axis. `cluster_dims` is a
    hint: blocks along one axis that load shared tiles only once.
    """

    def __init__(
        self,
        *blocks: Any,
        threads: int | Sequence[int] | None = None,
        prelude: str | None = None,
        is_cpu: bool = False,
        cluster_dims: Sequence[int] | None = None,
    ) -> None:
        if not 1 <= len(blocks) <= 3:
            raise KernelError(
                f"`T.Kernel` with {len(blocks)} extents",
                location=here(),
                hint="A grid has one to three: `T.Kernel(T.ceildiv(N, 128), threads=128)`.",
            )
        self.blocks = blocks
        given = _THREADS if threads is None else threads
        self.threads = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if not all(isinstance(t, int) for t in self.threads):
            raise KernelError(
                f"`threads={threads!r}`",
                location=here(),
                hint="The size of a block is a number known at compile time: `threads=128`.",
            )

        self.cluster = _cluster(cluster_dims, len(blocks))

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with current().launch(self.blocks, self.threads) as indices:
            if self.cluster:
                current().annotate("cluster_dims", None, (("cluster_dims", self.cluster),))
            yield indices


def _cluster(given: Sequence[int] | None, axes: int) -> str:
    """Blocks of a cluster along each axis, as the hint has them; '' for clusters of one block."""
    if given is None:
        return ""
    held = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    sizes = [n for n in held if isinstance(n, int) and n >= 1]
    if len(sizes) < len(held) or sum(n > 1 for n in sizes) > 1 or any(n > 1 for n in sizes[axes:]):
        raise KernelError(
            f"`cluster_dims={given!r}`",
            location=here(),
            hint="It is a number for each axis of the grid, one of them above 1: `(1, 2)`.",
        )
    return " ".join(map(str, sizes[:axes])) if max(sizes, default=1) > 1 else ""


class scope(Frame):
    """Name a part of the kernel, whose time is measured: `with T.scope("softmax"):`."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise KernelError(
                f"`T.scope({name!r})`", location=here(), hint="A scope has a name: a string."
            )
        self.name = name

    def _open(self) -> AbstractContextManager[Any]:
        return current().scope(self.name)


def _hints(annotations: dict[str, Any] | None, **given: Any) -> Hints:
    held = {**(annotations or {}), **given}
    return tuple(
        (k, v if isinstance(v, (bool, int, float, str)) else repr(v))
        for k, v in held.items()
        if v is not None and v != []
    )


def _counted(kind: str, start: Any, stop: Any, step: Any, hints: Hints) -> Loop:
    if stop is None:
        start, stop = 0, start
    if isinstance(step, int) and step == 0:
        raise KernelError("a loop with a step of 0", location=here(), hint="Use 1, or -1.")
    return Loop(kind, start, stop, 1 if step is None else step, hints=hints)


def serial(
    start: Any, stop: Any = None, step: Any = None, *, annotations: dict[str, Any] | None = None
) -> Loop:
    """`for i in T.serial(n)` or `(start, stop, step)`: one after the other."""
    return _counted("serial", start, stop, step, _hints(annotations))


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: dict[str, Any] | None = None,
) -> Loop:
    """Loop like `serial`, unrolled in the compiled kernel."""
    hints = _hints(annotations, explicit=explicit or None, unroll_factor=unroll_factor)
    return _counted("unroll", start, stop, step, hints)


def vectorized(start: Any, stop: Any = None, *, annotations: dict[str, Any] | None = None) -> Loop:
    """Loop like `serial`, for the lanes of a vector access."""
    return _counted("vectorized", start, stop, None, _hints(annotations))


Serial, Unroll, Vectorized = serial, unroll, vectorized


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: dict[str, Any] | None = None,
) -> Loop:
    """Loop over all points of a box, in any order: `for i, j in T.Parallel(M, N)`.

    No two points may write the same element. `continue` is allowed, `break` is not.
    """
    if not extents:
        raise KernelError(
            "`T.Parallel` without extents", location=here(), hint="`for i in T.Parallel(n)`."
        )
    hints = _hints(
        annotations,
        coalesced_width=coalesced_width,
        loop_layout=loop_layout,
        prefer_async=prefer_async,
    )
    return Loop("parallel", 0, extents, hints=hints)


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    sync: Sequence[Sequence[int]] | None = None,
    group: Sequence[Sequence[int]] | None = None,
    annotations: dict[str, Any] | None = None,
) -> Loop:
    """Loop like `serial`, in which copies of later iterations overlap with earlier work.

    `num_stages` is the number of tiles in flight for each copied buffer.
    """
    if stop is None:
        start, stop = 0, start
    hints = _hints(annotations, order=order, stage=stage, sync=sync, group=group)
    return Loop("pipelined", start, stop, num_stages=int(num_stages), hints=hints)


def Persistent(
    domain: Sequence[Any], wave_size: Any, index: Any, group_size: int | None = 8
) -> Loop:
    """`for bx, by in T.Persistent([tiles_m, tiles_n], wave_size, block)`: block `index` of
    `wave_size` takes every `wave_size`-th tile; each tile of the domain is visited once.

    Tiles are counted down groups of `group_size` columns of the last two dimensions.
    """
    return Loop("persistent", index, tuple(domain), wave_size, group=int(group_size or 1))


def get_thread_binding(dim: int = 0) -> Any:
    """Return the number of a thread in its block along an axis: 0, 1 or 2.

    Statements that depend on it are run for all threads, one statement after the other, and what
    `alloc_local` gives is each thread's own.
    """
    if dim not in (0, 1, 2):
        raise KernelError(
            f"`T.get_thread_binding({dim!r})`",
            location=here(),
            hint="A block has the axes 0, 1 and 2: `T.get_thread_binding(0)`.",
        )
    return current().thread_number(dim)


def get_thread_bindings() -> list[Any]:
    """Return the numbers of a thread along the three axes of its block."""
    return [get_thread_binding(dim) for dim in range(3)]


def thread_binding(start: Any, stop: Any = None, thread: str = _AXES[0], **options: Any) -> Any:
    """Return what `get_thread_binding` does for the axis `thread`, which has `stop` threads."""
    if isinstance(stop, str):
        start, stop, thread = 0, start, stop
    elif stop is None:
        start, stop = 0, start
    if thread not in _AXES:
        raise KernelError(
            f"`T.thread_binding` along {thread!r}",
            location=here(),
            hint=f"Axes are {', '.join(map(repr, _AXES))}.",
        )
    current().need_thread_range(_AXES.index(thread), start, stop)
    return get_thread_binding(_AXES.index(thread))


@dataclass(frozen=True, slots=True)
class Combination:
    """Way in which values of threads are combined; from `comm_reducer`."""

    kind: str
    """sum, max or min."""


def comm_reducer(combine: Callable[[Any, Any], Any], identity: Any = None) -> Combination:
    """Return the way in which a function of two values combines those of threads: their sum, the
    greater or the lesser one."""
    found = [int(combine(a, b)) for a, b in ((2, 5), (7, 3))]
    kind = {(7, 10): "sum", (5, 7): "max", (2, 3): "min"}.get((found[0], found[1]))
    if kind is None:
        raise KernelError(
            "`T.comm_reducer` of a function that is not a sum, maximum or minimum",
            location=here(),
            hint="`T.comm_reducer(lambda x, y: x + y, [0.0])`.",
        )
    return Combination(kind)


class attr(Frame):
    """`with T.attr(T.comm_reducer(…), "reduce_scope", …):`, how `tvm_thread_allreduce` combines."""

    def __init__(self, node: Any, key: str, value: Any = None) -> None:
        if not isinstance(node, Combination) or key != "reduce_scope":
            raise KernelError(
                f"`T.attr` with {key!r}",
                location=here(),
                hint='It takes what `T.comm_reducer` gives, and "reduce_scope".',
            )
        self.node = node

    @contextmanager
    def _open(self) -> Iterator[None]:
        with current().combining(self.node.kind):
            yield


def tvm_thread_allreduce(
    count: Any, value: Any, condition: Any, place: Any, *threads: Any, dtype: Any = None
) -> Any:
    """Combine the values of all threads whose other numbers are equal, and give each the result.

    In `with T.attr(T.comm_reducer(…), "reduce_scope", …)`.  `count`: 1; `condition`: True;
    `place`: an element of a `T.alloc_local`; `threads`: the numbers along which values are
    combined, from `get_thread_binding`.
    """
    current().reduce_threads(value, place, threads)
    return None  # what `evaluate` takes


def evaluate(value: Any) -> None:
    """Evaluate a call and ignore its result."""
