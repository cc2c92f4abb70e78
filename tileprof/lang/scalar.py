"""A number that is known when the kernel runs: operators on it go to the active context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tileprof.errors import UnsupportedPython

from .context import active, current
from .dtypes import dtype, dtype_of, of
from .foreign import Foreign, called_function, other_name
from .spans import here


def refuse(what: str, hint: str) -> NoReturn:
    """An error about the line that is running."""
    raise UnsupportedPython(what, location=here(), hint=hint)


def _binary(kind: str, left: Any, right: Any) -> Any:
    context = active()
    return Deferred(kind, (left, right)) if context is None else context.binary(kind, left, right)


def _unary(kind: str, value: Any) -> Any:
    context = active()
    return Deferred(kind, (value,)) if context is None else context.unary(kind, value)


def _operators(kind: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return an operator and its reflection, as methods."""

    def operator(self: Any, other: Any) -> Any:
        return _binary(kind, self, other)

    def reflected(self: Any, other: Any) -> Any:
        return _binary(kind, other, self)

    return operator, reflected


def _comparison(kind: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: current().compare(kind, self, other)


def _refusal(what: str, hint: str) -> Callable[[Any], Any]:
    """Return the method of a function that wants a number; the way out is the operation that
    stands for that function, or `hint`."""

    def refused(self: Any) -> NoReturn:
        name = called_function(here())
        other = name and other_name(name)
        refuse(
            f"this {what} is known only when the kernel runs, and plain Python needs it now",
            f"In place of `{name}` the language has {other}." if other else hint,
        )

    return refused


class Scalar(Foreign):
    """A number that is known when the kernel runs: operators on it write the program."""

    __slots__ = ()
    __hash__ = object.__hash__

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return of(current().dtype(self))

    def astype(self, kind: Any) -> Any:
        """Return the value converted to another element type."""
        return current().cast(self, dtype_of(kind))

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __truediv__, __rtruediv__ = _operators("div")
    __floordiv__, __rfloordiv__ = _operators("floordiv")
    __mod__, __rmod__ = _operators("floormod")
    __pow__, __rpow__ = _operators("pow")
    __and__, __rand__ = _operators("and")
    __or__, __ror__ = _operators("or")
    __xor__, __rxor__ = _operators("xor")
    __lshift__, __rlshift__ = _operators("shl")
    __rshift__, __rrshift__ = _operators("shr")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")
    __eq__, __ne__ = _comparison("eq"), _comparison("ne")

    def __divmod__(self, other: Any) -> Any:
        return _binary("floordiv", self, other), _binary("floormod", self, other)

    def __neg__(self) -> Any:
        return _unary("neg", self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return _unary("not", self)

    def __abs__(self) -> Any:
        return _unary("abs", self)

    __bool__ = _refusal(
        "condition",
        "In a kernel or a `@T.macro`, `if`, `while`, `and`, `or`, `not` and `a if c else b` "
        "work; put `@T.macro` above a plain helper function, or use `T.if_then_else`.",
    )
    __index__ = _refusal(
        "number",
        "It cannot index a list or be a size. To loop over Python objects, iterate over them "
        "(`for x in items`) or over `list(range(n))`: the compiler then unrolls the loop.",
    )
    __int__ = _refusal("number", 'To convert the element type use `T.cast(x, "int32")`.')
    __float__ = _refusal(
        "number",
        'To convert the element type use `T.cast(x, "float32")`; for functions use `T.exp`, '
        "`T.sqrt`, … in place of `math` or `numpy`.",
    )

    def __iter__(self) -> Iterator[Any]:
        refuse("a scalar of a kernel cannot be iterated over", "Use `T.serial(n)`.")

    def __round__(self, digits: int | None = None) -> Any:
        return _unary("round", self)


class Deferred(Scalar):
    """Arithmetic on symbols outside of a kernel, written when the kernel is."""

    __slots__ = ("kind", "operands")

    def __init__(self, kind: str, operands: tuple[Any, ...]) -> None:
        self.kind = kind
        self.operands = operands
