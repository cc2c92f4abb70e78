"""Scalar ops: constants, arithmetic, comparison, conversion.

Each computes in the type of its operands and rounds its result to it, bfloat16 and float8 included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from .core import OpBase, Value, attribute, op, operand
from .effects import Effect
from .types import DType, Type, bool_

BinaryKind = Literal[
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max",
    "pow", "atan2", "copysign", "and", "or", "xor", "shl", "shr",
]  # fmt: skip
UnaryKind = Literal[
    "neg", "not", "abs", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt",
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "erf", "sigmoid",
    "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "popcount", "clz",
]  # fmt: skip
CompareKind = Literal["lt", "le", "gt", "ge", "eq", "ne"]

PREDICATES = ("isnan", "isinf", "isfinite")
FLOAT_ONLY = frozenset(get_args(UnaryKind)) - {"neg", "not", "abs", "popcount", "clz"}


@op("constant", effect=Effect.PURE, gives="dtype")
class Constant(OpBase):
    """A number of a type."""

    value: bool | int | float = attribute(positional=True)
    dtype: DType = attribute()


def zero_of(dtype: DType) -> Constant:
    """Return the number 0 of a type, False for bool."""
    return Constant(0.0 if dtype.is_float else 0 if dtype.is_integer else False, dtype)


def constant_of(value: Value) -> bool | int | float | None:
    """Return the number that a value is; None where it is no constant."""
    return value.owner.value if isinstance(value.owner, Constant) else None


@op("binary", effect=Effect.PURE, mnemonics=get_args(BinaryKind), by="kind", gives="left")
class Binary(OpBase):
    """Two operands of one type.  `div` is for floats; `floordiv` and `floormod` round down as
    Python does and take integers (`floormod` and `floordiv` of floats are allowed too);
    `min` and `max` give the other operand for a NaN, as `fminf` does; `and`, `or`, `xor` are
    bitwise on integers and logical on bool.  Integers wrap around; a division of them by zero is an
    error in the interpreter; a shift by the width or more, or by less than 0, leaves only the sign
    of `shr`."""

    kind: BinaryKind = attribute()
    left: Value = operand()
    right: Value = operand()

    def verify(self) -> Iterator[str]:
        """Check that both operands are scalars of one type that has this operation."""
        if self.left.type != self.right.type:
            yield f"{self.kind} of {self.left.type} and {self.right.type}: both must be one type"
        if self.kind in ("div", "pow", "atan2", "copysign") and not self.left.dtype.is_float:
            yield f"{self.kind} of {self.left.type}: it is for floats"


@op("unary", effect=Effect.PURE, mnemonics=get_args(UnaryKind), by="kind")
class Unary(OpBase):
    """One operand.  `round` goes to the nearest, ties to even; `not` is bitwise on integers and
    logical on bool; `isnan`, `isinf`, `isfinite` give bool; `sigmoid(x) = 1 / (1 + exp(-x))`."""

    kind: UnaryKind = attribute()
    operand: Value = operand()
    fast: bool = attribute(default=False)
    """Whether `exp2` may give 0 for a denormal result."""

    def result_types(self) -> tuple[Type, ...]:
        """Return the type of the operand, bool for predicates."""
        return (bool_ if self.kind in PREDICATES else self.operand.type,)

    def verify(self) -> Iterator[str]:
        """Float functions take floats; one of them has a faster form."""
        if self.fast and self.kind != "exp2":
            yield f"{self.kind} has no faster form"
        if self.kind in FLOAT_ONLY and not self.operand.dtype.is_float:
            yield f"{self.kind} of {self.operand.type}: it is for floats"


@op("compare", effect=Effect.PURE, mnemonics=get_args(CompareKind), by="kind", gives=bool_)
class Compare(OpBase):
    """Compare two operands of one type; a NaN is unequal to everything."""

    kind: CompareKind = attribute()
    left: Value = operand()
    right: Value = operand()

    def verify(self) -> Iterator[str]:
        """Check that both operands are of one type."""
        if self.left.type != self.right.type:
            yield f"{self.kind} of {self.left.type} and {self.right.type}: both must be one type"


@op("fma", effect=Effect.PURE, gives="a")
class Fma(OpBase):
    """`a * b + c`, rounded once."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()

    def verify(self) -> Iterator[str]:
        """Check that all operands are of one float type."""
        if not self.a.type == self.b.type == self.c.type or not self.a.dtype.is_float:
            yield f"fma of {self.a.type}, {self.b.type}, {self.c.type}: all must be one float type"


@op("select", effect=Effect.PURE, gives="then")
class Select(OpBase):
    """`then` where `condition` holds, else `otherwise`; both are computed before."""

    condition: Value = operand()
    then: Value = operand()
    otherwise: Value = operand()

    def verify(self) -> Iterator[str]:
        """The condition is bool and both choices are of one type."""
        if self.condition.type != bool_:
            yield f"the condition is {self.condition.type}, not bool"
        if self.then.type != self.otherwise.type:
            yield f"select between {self.then.type} and {self.otherwise.type}: must be one type"


@op("cast", effect=Effect.PURE, gives="dtype")
class Cast(OpBase):
    """Convert to another element type.  To a narrower float it rounds to nearest even and overflows
    to infinity (float8_e4m3: to NaN); to an integer it truncates toward zero; to bool it is `!= 0`.
    A float outside the integer's range gives an unspecified value; an integer wraps around."""

    operand: Value = operand()
    dtype: DType = attribute()


@op("bitcast", effect=Effect.PURE, gives="dtype")
class Bitcast(OpBase):
    """The same bits read as another element type of the same size."""

    operand: Value = operand()
    dtype: DType = attribute()

    def verify(self) -> Iterator[str]:
        """Sizes agree."""
        if self.operand.dtype.bits != self.dtype.bits:
            yield f"bitcast of {self.operand.type} to {self.dtype}: sizes differ"


ScalarOp = Constant | Binary | Unary | Compare | Fma | Select | Cast | Bitcast
"""Any op that computes a value from values and does nothing else."""
