"""`@T.prim_func` and `@T.macro`: functions that are read, rewritten and run by a context."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from tileprof.errors import Location, UsageError
from tileprof.once import cached_property

from .context import active, current
from .rewrite.rewriting import rewrite
from .rewrite.source import FunctionSource, build, parse
from .rewrite.staging import STAGING
from .spans import function_location, here
from .tensors import Ref, TileType
from .values import Expr, Var


class Kernelized:
    """A user's function, with its tree and the rewritten function made when first wanted."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Any = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @cached_property
    def kernel_name(self) -> str:
        """Name of the kernel; `main`, as factories call theirs by convention, gives the factory's
        name."""
        outer, inside, _ = self.function.__qualname__.partition(".<locals>.")
        own = str(self.function.__name__)
        return outer.rpartition(".")[2] if inside and own == "main" else own

    @cached_property
    def source(self) -> FunctionSource:
        """The text and tree."""
        return parse(self.function)

    @cached_property
    def staged(self) -> FunctionType:
        """The function whose control flow goes through `staging.py`."""
        return build(self.source, rewrite(self.source), STAGING)

    @cached_property
    def location(self) -> Location:
        """Location of the function, from its first line to its last."""
        tree = self.source.tree
        start = function_location(self.source.function.__code__)
        return replace(start, line=tree.lineno, end_line=tree.end_lineno or tree.lineno)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters."""
        return inspect.signature(self.function)


class Macro(Kernelized):
    """A function whose body goes into the kernel wherever it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the body here; scalars are passed by value, `T.Ref` parameters by reference."""
        context = active()
        if context is None:
            return current()
        bound = self._bind(args, kwargs)
        for name, value in bound.arguments.items():
            annotation = self._annotations.get(name)
            if isinstance(annotation, TileType):
                annotation.check(name, value)
            if annotation is Ref:
                bound.arguments[name] = _reference(value)
            elif isinstance(value, Var):
                bound.arguments[name] = context.cast(value, context.dtype(value))
        return context.call(self, bound.args, bound.kwargs)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(
                f"`{self.function.__name__}`: {error}",
                location=here(),
                hint=f"It is defined as `{self.function.__name__}{self.signature}`.",
            ) from None
        bound.apply_defaults()
        return bound

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        return annotations_of(self.function, {})


def _reference(value: Any) -> Any:
    if isinstance(value, Expr):
        return current().reference(value)
    return value


class PrimFunc(Kernelized):
    """A kernel with typed parameters, for `tileprof.compile` or as what a factory returns."""

    def __init__(self, function: Callable[..., Any], names: dict[str, Any]) -> None:
        super().__init__(function)
        self.annotations = annotations_of(function, names)

    def compile(self, out_idx: Any = None, **extents: int) -> Any:
        """Return the kernel (see `tileprof.compile`); `extents` fixes symbols at compile time."""
        from .compiled import compile  # the compiler comes with it

        return compile(self, out_idx, extents=extents)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A program has to be compiled before it is called."""
        raise UsageError(
            f"`{self.function.__name__}` is a program, not yet a kernel",
            location=here(),
            hint=f"Compile it: `kernel = tileprof.compile({self.function.__name__})`.",
        )


def prim_func(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a kernel with annotated parameters: `def main(A: T.Tensor((M, K), dtype), …)`."""
    # Names of the factory around it are needed where annotations are kept as text.
    names = dict(sys._getframe(1).f_locals)
    if function is None:
        return lambda held: PrimFunc(held, names)
    return PrimFunc(function, names)


def macro(function: Callable[..., Any] | None = None) -> Any:
    """Declare a helper that is inlined into the kernels that call it, control flow included."""
    return Macro if function is None else Macro(function)


def annotations_of(function: Callable[..., Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of a function, those kept as text evaluated."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    scope = {**names, **{n: c.cell_contents for n, c in cells if _filled(c)}}
    made: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str) and type(annotation) is str:
            try:
                annotation = eval(annotation, function.__globals__, scope)
            except NameError:
                continue
        made[name] = annotation
    return made


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where the name is not bound yet
    except ValueError:
        return False
    return True
