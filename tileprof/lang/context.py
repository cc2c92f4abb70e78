"""The operations of the language, as an interface; a context gives them a meaning.

`T.copy(...)` normalises its arguments and calls `current().copy(...)`.  While a kernel is compiled
the context is `TraceContext`, which writes the program; running a kernel as plain Python puts
another one in its place.  Scalars are whatever the context makes of them, or Python numbers.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.errors import UsageError

from .spans import here

__all__ = ["Context", "Loop", "activate", "active", "current"]

Hints = tuple[tuple[str, bool | int | float | str], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Object that `for … in` iterates over: `T.serial`, `T.Pipelined`, `T.Parallel`,
    `T.Persistent`, …

    kind `parallel`: `stop` is the tuple of extents.  kind `persistent`: the block `start` of `step`
    blocks takes its share of the tiles of the domain `stop`, in groups of `group` columns.
    """

    kind: str
    start: Any
    stop: Any
    step: Any = 1
    num_stages: int = 0
    group: int = 1
    hints: Hints = ()

    def __iter__(self) -> Iterator[Any]:
        return current().iterate(self)


class Context(ABC):
    """Interface to the meaning of the language's operations.  Buffers and scalars are the context's
    own."""

    # -- scalars

    @abstractmethod
    def binary(self, kind: str, left: Any, right: Any) -> Any:
        """Arithmetic; `kind` as in `ir.Binary`, and `div` of integers is an error."""

    @abstractmethod
    def unary(self, kind: str, value: Any, *, fast: bool = False) -> Any:
        """Return a function of one scalar; `kind` and `fast` as in `ir.Unary`."""

    @abstractmethod
    def compare(self, kind: str, left: Any, right: Any) -> Any:
        """Return a comparison; `kind` as in `ir.Compare`."""

    @abstractmethod
    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """`a * b + c`, rounded once."""

    @abstractmethod
    def select(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two values, both computed."""

    @abstractmethod
    def cast(self, value: Any, kind: ir.DType) -> Any:
        """Convert a scalar."""

    @abstractmethod
    def bitcast(self, value: Any, kind: ir.DType) -> Any:
        """Return the same bits as another type of the same size."""

    @abstractmethod
    def dtype(self, value: Any) -> ir.DType:
        """Return the type of a scalar or of a buffer's elements."""

    # -- buffers

    @abstractmethod
    def alloc(self, space: ir.Space, shape: Sequence[Any], kind: ir.DType) -> Any:
        """Return a buffer of a block (`shared`, `fragment`) or of a thread (`local`)."""

    @abstractmethod
    def alloc_var(self, kind: ir.DType, init: Any) -> Any:
        """Return a scalar variable; `init` is None to leave it unset."""

    @abstractmethod
    def empty(self, shape: Sequence[Any], kind: ir.DType) -> Any:
        """Return a tensor that the call allocates and the function returns."""

    @abstractmethod
    def alloc_global(self, shape: Sequence[Any], kind: ir.DType) -> Any:
        """Return a tensor that the call allocates for what one launch leaves to the next."""

    @abstractmethod
    def reinterpret(self, buffer: Any, shape: Sequence[Any] | None, kind: ir.DType | None) -> Any:
        """Return the same memory with another shape or element type."""

    # -- tiles

    @abstractmethod
    def copy(self, source: Any, target: Any, hints: Hints) -> None:
        """Copy a tile or an element."""

    @abstractmethod
    def fill(self, target: Any, value: Any) -> None:
        """Write one value to every element."""

    @abstractmethod
    def gemm(
        self,
        a: Any,
        b: Any,
        c: Any,
        *,
        transpose_a: bool,
        transpose_b: bool,
        clear: bool,
        policy: str,
        hints: Hints,
    ) -> None:
        """`c += a @ b`."""

    @abstractmethod
    def reduce(self, kind: str, source: Any, target: Any, dim: int, clear: bool) -> None:
        """Reduce one dimension."""

    @abstractmethod
    def scan(self, kind: str, source: Any, target: Any, dim: int, reverse: bool) -> None:
        """Inclusive scan along one dimension; `target` may be None for in place."""

    @abstractmethod
    def atomic(self, kind: str, target: Any, value: Any, return_prev: bool, hints: Hints) -> Any:
        """Combine an element or a tile at once; the element before where `return_prev`."""

    @abstractmethod
    def print(self, value: Any, message: str) -> None:
        """Print a scalar, a buffer, or only the message (`value` None)."""

    @abstractmethod
    def device_assert(self, condition: Any, message: str) -> None:
        """Stop with an error where the condition does not hold."""

    # -- control

    @abstractmethod
    def launch(self, grid: Sequence[Any], threads: tuple[int, ...]) -> AbstractContextManager[Any]:
        """Return the blocks of a grid; gives the index of the block, or the tuple of its
        indices."""

    @abstractmethod
    def scope(self, name: str) -> AbstractContextManager[None]:
        """Return a named part of the kernel, for measurement."""

    @abstractmethod
    def iterate(self, loop: Loop) -> Iterator[Any]:
        """Return the points of a loop, for a `for` statement that was not rewritten."""

    # -- wishes and signature

    @abstractmethod
    def annotate(self, name: str, target: Any, hints: Hints) -> None:
        """A wish about the block (`target` None) or a buffer that changes no result."""

    @abstractmethod
    def safe_value(self, buffer: Any, value: Any) -> None:
        """Set the value of guarded reads outside a global tensor."""

    @abstractmethod
    def const(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Extents that are bound from the arguments' shapes at compile time."""

    @abstractmethod
    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """Return a parameter that the body of an eager function annotates."""

    @abstractmethod
    def symbol(self, name: str) -> Any:
        """Return the value of a symbol that is known at launch."""

    @abstractmethod
    def call(self, macro: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the body of a macro here."""


class _Active(threading.local):
    context: Context | None = None


_active = _Active()


def active() -> Context | None:
    """Return the context in which a kernel is being traced or run by this thread, if any."""
    return _active.context


def current() -> Context:
    """Return the context in which a kernel is being traced or run; UsageError outside of one."""
    found = _active.context
    if found is None:
        raise UsageError(
            "this operation of tileprof.lang works inside a kernel only",
            location=here(),
            hint="Call it in a function under `@tileprof.jit`, `@T.prim_func` or `@T.macro`.",
        )
    return found


@contextmanager
def activate(context: Context) -> Iterator[None]:
    """Make `context` the current one for a while."""
    before = _active.context
    _active.context = context
    try:
        yield
    finally:
        _active.context = before
