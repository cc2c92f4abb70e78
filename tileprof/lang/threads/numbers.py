"""Numbers of threads, what threads combine, and their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tileprof.errors import KernelError
from tileprof.lang.context import current
from tileprof.lang.loops import Frame
from tileprof.lang.spans import here

__all__ = [
    "attr", "comm_reducer", "evaluate", "get_block_binding", "get_block_bindings",
    "get_thread_binding", "get_thread_bindings", "thread_binding", "thread_return",
    "tvm_thread_allreduce",
]  # fmt: skip

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


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


def get_block_binding(dim: int = 0) -> Any:
    """Return the number of a block in its grid along an axis: 0, 1 or 2."""
    if dim not in (0, 1, 2):
        raise KernelError(
            f"`T.get_block_binding({dim!r})`",
            location=here(),
            hint="A grid has the axes 0, 1 and 2: `T.get_block_binding(0)`.",
        )
    return current().block_number(dim)


def get_block_bindings() -> list[Any]:
    """Return the numbers of a block along the three axes of its grid."""
    return [get_block_binding(dim) for dim in range(3)]


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


def thread_return() -> None:
    """End the threads that come here; the others go on.

    Stands in the body of `T.Kernel` or under an `if`, not in a loop.
    """
    current().thread_return()
