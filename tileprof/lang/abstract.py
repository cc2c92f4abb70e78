"""Abstract calls: the results' shapes and types of a call, without a kernel and without data.

In: a call whose arguments may be tensors without memory and extents that are symbols of somebody
else, as PyTorch's `SymInt`.  Out: what `Calls.result` makes of the shape and type of each result.
The lines of the function around `T.Kernel` run as plain Python over these extents, so a shape
depends on them exactly as the function says, and only its own `if`s fix one.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast

from tileprof import ir
from tileprof.errors import ArgumentError, KernelError, Location, UsageError

from .context import activate, current
from .dtypes import dtype, of
from .functions import Kernelized, PrimFunc
from .rewrite.shaping import without_launches
from .rewrite.source import build
from .spans import here
from .tensors import TensorType
from .values import Deferred, Placeholder, Symbol


@dataclass(frozen=True, slots=True)
class AbstractTensor:
    """A tensor of which only shape and element type are known."""

    shape: tuple[Any, ...]
    kind: ir.DType

    @property
    def dtype(self) -> dtype:
        """The element type, by the author's name."""
        return of(self.kind)


class Calls(Protocol):
    """A framework's stand-ins for arrays while calls are abstract."""

    def tensor(self, value: Any) -> AbstractTensor | None:
        """Return what is known of an argument; None for one that is no array."""

    def number(self, value: Any) -> Any:
        """Return a number for an argument that has to be known, as a factory's."""

    def result(self, shape: tuple[Any, ...], kind: ir.DType) -> Any:
        """Return an array of the framework that stands for a result."""


class _State(threading.local):
    calls: Calls | None = None
    written: Callable[[str, Sequence[Any]], None] | None = None


state = _State()
"""The answers to calls of this thread's kernels; `written` hears of the kernel's name and of the
arguments that it writes, before it runs."""


@contextmanager
def abstract(calls: Calls) -> Iterator[None]:
    """Answer calls of kernels by the shapes of their results."""
    before, state.calls = state.calls, calls
    try:
        yield
    finally:
        state.calls = before


@contextmanager
def watched(written: Callable[[str, Sequence[Any]], None]) -> Iterator[None]:
    """Report the arguments that kernels write."""
    before, state.written = state.written, written
    try:
        yield
    finally:
        state.written = before


class _Again(Exception):
    """All extents are known: run the function from its start."""


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "floormod": operator.mod, "div": operator.truediv, "pow": operator.pow,
    "max": lambda a, b: a if a >= b else b, "min": lambda a, b: a if a <= b else b,
    "shl": operator.lshift, "shr": operator.rshift, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "not": operator.invert, "abs": abs, "round": round,
}  # fmt: skip


class _Signature:
    """The context of a function without its launches."""

    def __init__(self, name: str, extents: dict[str, Any], values: Mapping[str, Any]) -> None:
        self._name = name
        self._extents = extents
        self._open: set[str] = set()
        self._values = values

    # -- extents

    def const(self, names: Sequence[str]) -> tuple[Any, ...]:
        """Extents that are known, else placeholders until the arguments give them."""
        self._open |= {n for n in names if n not in self._extents}
        return tuple(self._extents[n] if n in self._extents else Placeholder(n) for n in names)

    def number(self, value: Any) -> Any:
        """Return a value with its symbols replaced; it stays deferred where one is unknown."""
        match value:
            case Symbol(name=name):
                return self._extents.get(name, value)
            case Deferred(kind=kind, operands=operands):
                parts = [self.number(o) for o in operands]
                if any(isinstance(p, (Symbol, Deferred, Placeholder)) for p in parts):
                    return Deferred(kind, tuple(parts))
                return (_OPERATORS if len(parts) == 2 else _UNARY)[kind](*parts)
            case _:
                return value

    def binary(self, kind: str, left: Any, right: Any) -> Any:
        """Arithmetic of symbols; of a placeholder another one."""
        if isinstance(left, Placeholder) or isinstance(right, Placeholder):
            return Placeholder()
        return self.number(Deferred(kind, (left, right)))

    def compare(self, kind: str, left: Any, right: Any) -> Any:
        """Comparison of symbols."""
        return self.binary(kind, left, right)

    def unary(self, kind: str, value: Any) -> Any:
        """A sign of a symbol."""
        if isinstance(value, Placeholder):
            return Placeholder()
        return self.number(Deferred(kind, (value,)))

    # -- tensors

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """Bind the extents of an argument; what is no tensor stays what it is."""
        if not isinstance(annotation, TensorType):
            return value
        if not isinstance(value, AbstractTensor):
            self._fail(name, f"is {value!r:.60}, and a tensor is expected")
        if value.kind != annotation.kind:
            self._fail(
                name,
                f"has elements of type {value.kind}, and {annotation.kind} is expected",
            )
        if len(value.shape) != len(annotation.shape):
            self._fail(
                name,
                f"has {len(value.shape)} dimensions, and {len(annotation.shape)} are expected",
            )
        for at, (extent, actual) in enumerate(zip(annotation.shape, value.shape)):
            self._bind(name, at, self.number(extent), actual)
        return value

    def _bind(self, name: str, at: int, extent: Any, actual: Any) -> None:
        match extent:
            case Placeholder(name=wanted):
                if wanted in self._open:
                    self._extents.setdefault(wanted, actual)
                    self._open.discard(wanted)
                    if not self._open:
                        raise _Again
            case Symbol(name=wanted):
                self._extents[wanted] = actual
            case Deferred():
                pass
            case _ if extent != actual:
                self._fail(name, f"has {actual} in dimension {at}, and {extent} is expected")

    def _fail(self, name: str, found: str) -> NoReturn:
        raise ArgumentError(
            f"argument `{name}` of `{self._name}` {found}",
            location=here(),
            hint="See the annotation of the argument.",
        )

    def empty(self, shape: Sequence[Any], kind: ir.DType) -> AbstractTensor:
        """Return a result."""
        dims = tuple(self.number(d) for d in shape)
        if self._open or any(isinstance(d, (Symbol, Deferred, Placeholder)) for d in dims):
            raise KernelError(
                f"no argument gives the value of `{next(iter(sorted(self._open)), dims)}`",
                location=here(),
                hint="Use it as an extent of an argument, `A: T.Tensor((N, …), dtype)`.",
            )
        return AbstractTensor(dims, kind)

    alloc_global = empty

    def reinterpret(self, held: Any, shape: Any, kind: ir.DType | None) -> AbstractTensor:
        """Return a view, which no result can be."""
        return AbstractTensor(held.shape if shape is None else tuple(shape), kind or held.kind)

    def annotate(self, *_: Any) -> None:
        """Take a hint, which changes no shape."""

    def safe_value(self, *_: Any) -> None:
        """Take the value of reads outside, which changes no shape."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(
            f"`{self._name}` uses `T.{name}` outside of `T.Kernel`, and its results' shapes depend "
            "on it",
            location=here(),
            hint="Give the operator its results' shapes: `tileprof.op(fake=…)`.",
        )


class _Hooks:
    """The hook of a function without launches."""

    def argument(self, name: str, value: Any, annotation: Any) -> Any:
        """`A: T.Tensor(…)` in the body."""
        return current().argument(name, value, annotation)


def results_of(
    function: Kernelized, args: Mapping[str, Any], annotations: Mapping[str, Any], calls: Calls
) -> Any:
    """Return the results of an eager function for arguments by name, or the `prim_func` that it
    returns."""
    extents: dict[str, Any] = {}
    shaped = _shaped(function)
    held = {n: calls.tensor(v) for n, v in args.items()}
    given = {n: v if (t := held[n]) is None else t for n, v in args.items()}
    for _ in range(2):
        signature = _Signature(function.__name__, extents, given)
        with activate(cast(Any, signature)):
            try:
                bound = [
                    signature.argument(n, v, annotations.get(n))
                    if isinstance(annotations.get(n), TensorType)
                    else v
                    for n, v in given.items()
                ]
                returned = shaped(*bound)
                break
            except _Again:
                continue
    if returned is None or isinstance(returned, PrimFunc):
        return returned
    if isinstance(returned, (tuple, list)):
        return tuple(_result(function, each, calls) for each in returned)
    return _result(function, returned, calls)


def _result(function: Kernelized, held: Any, calls: Calls) -> Any:
    if not isinstance(held, AbstractTensor):
        raise KernelError(
            f"`{function.__name__}` returns {held!r:.60}",
            location=function.location,
            hint="A kernel returns tensors from `T.empty(shape, dtype)`, or nothing.",
        )
    return calls.result(held.shape, held.kind)


def _shaped(function: Kernelized) -> Callable[..., Any]:
    made: Callable[..., Any] | None = function.__dict__.get("_without_launches")
    if made is None:
        made = build(function.source, without_launches(function.source), _Hooks())
        function.__dict__["_without_launches"] = made
    return made


def kernel_results(
    kernel: ir.Kernel,
    derived: Mapping[str, Callable[[Sequence[Any], Mapping[str, int]], int]],
    returned: Sequence[int],
    args: Sequence[Any],
    calls: Calls,
    location: Location | None,
) -> Any:
    """Return the results of a kernel whose parameters are known; `args` stand for those that are
    given."""
    symbols: dict[str, Any] = {}
    values: list[Any] = []
    given = iter(args)
    for param in kernel.params:
        value = next(given) if param.role == "in" else None
        values.append(value)
        if not isinstance(param.type, ir.BufferType) or param.role != "in":
            continue
        tensor = calls.tensor(value)
        found = (tensor.shape, tensor.kind) if tensor is not None else ((), None)
        right = found[1] == param.type.dtype and len(found[0]) == param.type.rank
        for extent, actual in zip(param.type.shape, found[0]):
            wanted = symbols.setdefault(extent, actual) if isinstance(extent, str) else extent
            right = right and bool(wanted == actual)
        if not right:
            shown = f"{param.type.dtype}[{', '.join(map(str, param.type.shape))}]"
            raise ArgumentError(
                f"argument `{param.name}` of `{kernel.name}` is {tensor}, and {shown} is expected",
                location=location,
                hint="See the annotation of the argument.",
            )
    for name, compute in derived.items():
        symbols.setdefault(name, compute(values, symbols))
    made = []
    for at in returned:
        held = kernel.params[at].type
        assert isinstance(held, ir.BufferType)
        shape = tuple(symbols[d] if isinstance(d, str) else d for d in held.shape)
        made.append(calls.result(shape, held.dtype))
    return made[0] if len(made) == 1 else tuple(made) or None
