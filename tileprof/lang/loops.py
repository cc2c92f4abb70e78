"""Launches, loops and scopes as the author writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from tileprof.errors import KernelError

from .context import Hints, Loop, current
from .spans import here

__all__ = [
    "Else", "Frame", "If", "Kernel", "Parallel", "Persistent", "Pipelined", "Serial", "Then",
    "Unroll", "Vectorized", "grid", "loop_break", "scope", "serial", "unroll", "vectorized",
]  # fmt: skip

_THREADS = 128


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


class _Part(Frame):
    """A part of a branch that is written as context managers.

    Only the well-formed ones are replaced by an `if` before the kernel runs; this is the rest.
    """

    def _open(self) -> AbstractContextManager[Any]:
        raise KernelError(
            f"`T.{type(self).__name__}` outside of a branch",
            location=here(),
            hint="Write `with T.If(condition):` around `with T.Then():` and, where it is wanted, "
            "`with T.Else():`, in a kernel or a `@T.macro`; or a plain `if` with `else`.",
        )


class If(_Part):
    """`with T.If(condition):` around `with T.Then():` and `with T.Else():` is a plain `if`."""

    def __init__(self, condition: Any) -> None:
        self.condition = condition


class Then(_Part):
    """Part of a branch that runs where the condition of `T.If` holds."""


class Else(_Part):
    """Part of a branch that runs where the condition of `T.If` does not hold."""


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


def parallel(start: Any, stop: Any = None, *, annotations: dict[str, Any] | None = None) -> Loop:
    """`for i in T.parallel(n)`: as `Parallel` of one extent.  Inside of another one it adds an
    axis to its points where the outer loop does nothing else, and runs in order otherwise."""
    if stop is not None:
        return serial(start, stop, annotations=annotations)
    return Loop("parallel", 0, (start,), hints=_hints(annotations), nests=True)


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


def grid(*extents: Any) -> Loop:
    """Loop over all points of a box, one after the other: `for i, j in T.grid(M, N)` stands for
    a `T.serial` loop in a `T.serial` loop."""
    raise KernelError(
        "`T.grid` in a form that does not stand for loops in loops",
        location=here(),
        hint="Write `for i, j in T.grid(m, n):` with one name for each extent and no `break`, or "
        "loops in loops: `for i in T.serial(m):` around `for j in T.serial(n):`.",
    )


def loop_break() -> None:
    """Leave the loop around: another word for `break`."""
    raise KernelError(
        "`T.loop_break()` outside of a loop",
        location=here(),
        hint="It ends the `for` or `while` of the kernel that it stands in, as `break` does.",
    )


def Persistent(
    domain: Sequence[Any], wave_size: Any, index: Any, group_size: int | None = 8
) -> Loop:
    """`for bx, by in T.Persistent([tiles_m, tiles_n], wave_size, block)`: block `index` of
    `wave_size` takes every `wave_size`-th tile; each tile of the domain is visited once.

    Tiles are counted down groups of `group_size` columns of the last two dimensions.
    """
    return Loop("persistent", index, tuple(domain), wave_size, group=int(group_size or 1))
