"""Scalar functions.  Of numbers that are known at compile time they give numbers."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from tileprof import ir
from tileprof.errors import DTypeError, KernelError
from tileprof.ir.types import bool_

from .context import active, current
from .dtypes import dtype_of
from .spans import here
from .static import FUNCTIONS, as_number, is_number, range_of
from .values import Buffer, BufferRegion, Deferred, Scalar

__all__ = [
    "FAST", "And", "Cast", "Not", "Or", "Select", "abs", "acos", "all_of", "any_of", "asin", "atan",
    "atan2", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "ceil", "ceildiv",
    "clamp", "clz", "copysign", "cos", "cosh", "dp4a", "erf", "exp", "exp2", "exp10", "fabs",
    "floor", "floordiv", "floormod", "fma", "fmod", "if_then_else", "infinity", "isfinite", "isinf",
    "isnan", "log", "log1p", "log2", "log10", "max", "max_value", "min", "min_value", "nearbyint",
    "popcount", "pow", "reinterpret", "round", "rsqrt", "shift_left", "shift_right", "sigmoid",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "truncdiv", "truncmod",
]  # fmt: skip


def _function(kind: str, *, fast: bool = False) -> Callable[[Any], Any]:
    static = FUNCTIONS[kind]

    def function(x: Any) -> Any:
        if is_number(x):
            return _static(lambda: static(as_number(x)), kind)
        if active() is None:
            return Deferred(kind, (x,))
        return current().unary(kind, x, fast=fast)

    function.__name__ = function.__qualname__ = kind
    function.__doc__ = f"`{kind}` of a scalar, in its element type."
    return function


def _static(compute: Callable[[], Any], shown: str) -> Any:
    try:
        return compute()
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise KernelError(
            f"`T.{shown}` of a number known at compile time: {error}",
            location=here(),
            hint="Its argument is outside of the function's domain.",
        ) from None


exp, exp2, exp10 = _function("exp"), _function("exp2"), _function("exp10")
log, log2, log10, log1p = (_function(k) for k in ("log", "log2", "log10", "log1p"))
sqrt, rsqrt, erf, sigmoid = (_function(k) for k in ("sqrt", "rsqrt", "erf", "sigmoid"))
sin, cos, tan = _function("sin"), _function("cos"), _function("tan")
sinh, cosh, tanh = _function("sinh"), _function("cosh"), _function("tanh")
asin, acos, atan = _function("asin"), _function("acos"), _function("atan")
floor, ceil, trunc = _function("floor"), _function("ceil"), _function("trunc")
isnan, isinf, isfinite = _function("isnan"), _function("isinf"), _function("isfinite")
popcount, clz, bitwise_not = _function("popcount"), _function("clz"), _function("not")
nearbyint = _function("round")
abs = fabs = _function("abs")

FAST = {
    f"__{name}": function
    for name, function in (
        ("exp", exp), ("exp2", _function("exp2", fast=True)), ("exp10", exp10), ("log", log),
        ("log2", log2), ("log10", log10), ("sin", sin), ("cos", cos), ("tan", tan),
    )
}  # fmt: skip
"""Fast-math names of TileLang; they compute the same function, `__exp2` without denormal results
where that is faster."""


def round(x: Any, rounding_mode: str = "ties-to-even") -> Any:
    """Return the nearest integer, ties to even, in the element type of `x`."""
    if rounding_mode != "ties-to-even":
        raise KernelError(
            f"`T.round` with rounding mode {rounding_mode!r}",
            location=here(),
            hint='The mode is "ties-to-even".',
        )
    return nearbyint(x)


def _pair(kind: str, shown: str, static: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        if is_number(a) and is_number(b):
            return _static(lambda: static(as_number(a), as_number(b)), shown)
        return Deferred(kind, (a, b)) if active() is None else current().binary(kind, a, b)

    function.__name__ = function.__qualname__ = shown
    function.__doc__ = f"`{shown}` of two scalars, in the type in which they meet."
    return function


def _exact(a: int, b: int) -> int:
    quotient = builtins.abs(a) // builtins.abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


floordiv = _pair("floordiv", "floordiv", lambda a, b: a // b)
floormod = _pair("floormod", "floormod", lambda a, b: a % b)
truncdiv = _pair("truncdiv", "truncdiv", _exact)
truncmod = _pair("truncmod", "truncmod", lambda a, b: a - b * _exact(a, b))
shift_left = _pair("shl", "shift_left", lambda a, b: a << b)
shift_right = _pair("shr", "shift_right", lambda a, b: a >> b)
bitwise_and = _pair("and", "bitwise_and", lambda a, b: a & b)
bitwise_or = _pair("or", "bitwise_or", lambda a, b: a | b)
bitwise_xor = _pair("xor", "bitwise_xor", lambda a, b: a ^ b)
pow = _pair("pow", "pow", lambda a, b: a**b)
atan2 = _pair("atan2", "atan2", math.atan2)
copysign = _pair("copysign", "copysign", math.copysign)
_least = _pair("min", "min", lambda a, b: a if b != b or a < b else b)
_greatest = _pair("max", "max", lambda a, b: a if b != b or a > b else b)


def max(*values: Any) -> Any:
    """Return the greatest of its arguments; a NaN loses against a number."""
    return _fold(_greatest, values, "max")


def min(*values: Any) -> Any:
    """Return the least of its arguments; a NaN loses against a number."""
    return _fold(_least, values, "min")


def _fold(function: Callable[[Any, Any], Any], values: tuple[Any, ...], name: str) -> Any:
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    if not values:
        raise KernelError(f"`T.{name}` of nothing", location=here(), hint=f"`T.{name}(a, b)`.")
    made = values[0]
    for each in values[1:]:
        made = function(made, each)
    return made


def fmod(a: Any, b: Any) -> Any:
    """Return the remainder of a floating-point division that rounds toward zero."""
    if is_number(a) and is_number(b):
        return _static(lambda: math.fmod(as_number(a), as_number(b)), "fmod")
    quotient = trunc(a / b)
    return a - quotient * b


def ceildiv(a: Any, b: Any) -> Any:
    """`a / b` rounded up, of integers: how many tiles of `b` cover `a`."""
    for each in (a, b):
        if isinstance(each, str):
            raise KernelError(
                f"`T.ceildiv` takes numbers, not the text {each!r}",
                location=here(),
                hint="Pass a number; `int` makes one of a text.",
            )
    if is_number(a) and is_number(b):
        return _static(lambda: -(-as_number(a) // as_number(b)), "ceildiv")
    return (a + (b - 1)) // b


def clamp(x: Any, low: Any, high: Any) -> Any:
    """Return `x` limited to the range from the lower to the upper bound."""
    return min(max(x, low), high)


def fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once."""
    if all(is_number(v) for v in (a, b, c)):
        return a * b + c
    return current().fma(a, b, c)


def cast(a: Any, b: Any) -> Any:
    """Convert a scalar: `T.cast(x, "float32")`."""
    return current().cast(a, dtype_of(b))


def Cast(dtype: Any, value: Any) -> Any:
    """Convert a scalar: `T.Cast("float32", x)`."""
    return current().cast(value, dtype_of(dtype))


def reinterpret(a: Any, b: Any = None, dtype: Any = None) -> Any:
    """Return the bits of a scalar as another type of the same size; the type first or last."""
    b = b if dtype is None else dtype
    value, kind = (b, a) if isinstance(a, (str, ir.DType)) else (a, b)
    if kind == "handle":
        return value  # TVM's name of a pointer, which `T.attr` takes no notice of
    return current().bitcast(value, dtype_of(kind))


def dp4a(a: Any, b: Any, c: Any) -> None:
    """Add to the element `c` the products of four neighbouring elements, from `a` and `b` on."""
    context = current()
    first, one = context.corner(a, "the first operand of `T.dp4a`")
    second, other = context.corner(b, "the second operand of `T.dp4a`")
    into, at = context.corner(c, "the result of `T.dp4a`")
    for n in range(4):
        x, y = first[(*one[:-1], one[-1] + n)], second[(*other[:-1], other[-1] + n)]
        into[at] = into[at] + cast(x, "int32") * cast(y, "int32")


def if_then_else(condition: Any, then: Any, otherwise: Any) -> Any:
    """Return `then` if `condition` holds, else `otherwise`; a kernel computes only that one."""
    if not isinstance(condition, Scalar):
        return then if condition else otherwise
    return current().select(condition, then, otherwise)


def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """Return what `if_then_else` does: which of both values are computed makes no difference."""
    return if_then_else(condition, true_value, false_value)


def infinity(dtype: Any = "float32") -> float:
    """Positive infinity, for a float type."""
    _need_float(dtype, "infinity")
    return math.inf


def min_value(dtype: Any) -> Any:
    """Return the least finite value of an element type."""
    return range_of(dtype_of(dtype))[0]


def max_value(dtype: Any) -> Any:
    """Return the greatest finite value of an element type."""
    return range_of(dtype_of(dtype))[1]


def _need_float(dtype: Any, name: str) -> None:
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise DTypeError(
            f"`T.{name}` of {kind}",
            location=here(),
            hint=f'It is for float types; for integers use `T.max_value("{kind}")`.',
        )


def any_of(*conditions: Any) -> Any:
    """Return whether at least one condition holds; all of them are evaluated."""
    return _all(conditions, "or")


def all_of(*conditions: Any) -> Any:
    """Return whether all conditions hold; all of them are evaluated."""
    return _all(conditions, "and")


def And(*conditions: Any) -> Any:
    """Return whether all conditions hold: another word for `all_of`."""
    return _all(conditions, "and")


def Or(*conditions: Any) -> Any:
    """Return whether at least one condition holds: another word for `any_of`."""
    return _all(conditions, "or")


def Not(condition: Any) -> Any:
    """Return whether a condition does not hold."""
    if not isinstance(condition, Scalar):
        return not _all((condition,), "and")
    return current().result(ir.Unary("not", current().condition(condition)))


def _all(conditions: tuple[Any, ...], kind: str) -> Any:
    made: Any = None
    for each in conditions:
        if isinstance(each, (Buffer, BufferRegion)):
            raise KernelError(
                f"`T.any_of` and `T.all_of` take conditions, not {each!r}",
                location=here(),
                hint="Reduce the buffer first: `T.reduce_bitor(buffer, out)`.",
            )
        scalar = isinstance(each, Scalar)
        each = current().cast(each, bool_) if scalar else builtins.bool(each)
        if made is None:
            made = each
        elif isinstance(made, builtins.bool) and isinstance(each, builtins.bool):
            made = (made and each) if kind == "and" else (made or each)
        else:
            made = current().binary(kind, made, each)
    return kind == "and" if made is None else made
