"""A number that is known when the kernel runs: operators on it go to the active context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from tileprof.errors import UnsupportedPython

from .context import active, current
from .dtypes import dtype, dtype_of, of
from .foreign import Foreign, called_function, other_name
from .spans import here

__all__ = ["Deferred", "Scalar", "refuse"]


def refuse(what: str, hint: str) -> NoReturn:
    """An error about the line that is running."""
    raise UnsupportedPython(what, location=here(), hint=hint)


def _binary(kind: str, left: Any, right: Any) -> Any:
    context = active()
    return Deferred(kind, (left, right)) if context is None else context.binary(kind, left, right)


def _unary(kind: str, value: Any) -> Any:
    context = active()
    return Deferred(kind, (value,)) if context is None else context.unary(kind, value)


def _refuse_number(what: str, hint: str) -> NoReturn:
    """`refuse`; the way out is the operation that stands for a function which wants a number."""
    name = called_function(here())
    other = name and other_name(name)
    refuse(what, f"In place of `{name}` the language has {other}." if other else hint)


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

    def __add__(self, other: Any) -> Any:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary("floormod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("floormod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return _binary("floordiv", self, other), _binary("floormod", self, other)

    def __pow__(self, other: Any) -> Any:
        return _binary("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("pow", other, self)

    def __and__(self, other: Any) -> Any:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> Any:
        return _binary("and", other, self)

    def __or__(self, other: Any) -> Any:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> Any:
        return _binary("or", other, self)

    def __xor__(self, other: Any) -> Any:
        return _binary("xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _binary("xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return _binary("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _binary("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return _binary("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _binary("shr", other, self)

    def __neg__(self) -> Any:
        return _unary("neg", self)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return _unary("not", self)

    def __abs__(self) -> Any:
        return _unary("abs", self)

    def __lt__(self, other: Any) -> Any:
        return current().compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return current().compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return current().compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return current().compare("ge", self, other)

    def __eq__(self, other: object) -> Any:
        return current().compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return current().compare("ne", self, other)

    def __bool__(self) -> bool:
        _refuse_number(
            "this condition is known only when the kernel runs, and plain Python needs it now",
            "In a kernel or a `@T.macro`, `if`, `while`, `and`, `or`, `not` and `a if c else b` "
            "work; put `@T.macro` above a plain helper function, or use `T.if_then_else`.",
        )

    def __index__(self) -> int:
        _refuse_number(
            "this number is known only when the kernel runs, and plain Python needs it now",
            "It cannot index a list or be a size. To loop over Python objects, iterate over them "
            "(`for x in items`) or over `list(range(n))`: the compiler then unrolls the loop.",
        )

    def __int__(self) -> int:
        _refuse_number(
            "this number is known only when the kernel runs, and plain Python needs it now",
            'To convert the element type use `T.cast(x, "int32")`.',
        )

    def __float__(self) -> float:
        _refuse_number(
            "this number is known only when the kernel runs, and plain Python needs it now",
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
