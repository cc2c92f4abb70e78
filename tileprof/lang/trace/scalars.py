"""Scalars of a trace: literals adapt to the other operand, types meet by `ir.promote`."""

from __future__ import annotations

from types import CodeType
from typing import Any

from tileprof import ir
from tileprof.errors import DTypeError, KernelError, Location, UnsupportedPython
from tileprof.ir.scalar import FLOAT_ONLY
from tileprof.ir.types import bool_, float32, index, int32, int64
from tileprof.lang.regions import Region
from tileprof.lang.static import Number, as_number, cast_number, fits, is_number
from tileprof.lang.values import (
    Buffer,
    BufferRegion,
    Deferred,
    Expr,
    Placeholder,
    Poison,
    Scalar,
    Symbol,
    Var,
)

from .core import Core

_BITWISE = ("and", "or", "xor", "shl", "shr")
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
DIVISION = "`/` gives a float: use `//` to round down, `T.ceildiv(a, b)` to round up."
"""The way out where a float stands for an integer."""
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
_MAX_POWER = 8
_MAX_CHEAP = 12


class Scalars(Core):
    """Arithmetic and conversions."""

    def __init__(self, root: CodeType | None) -> None:
        super().__init__(root)
        self.known: set[ir.Value] = set()
        """The buffers of variables that have had a value from the start."""

    # -- values

    def value(self, held: Any, like: ir.DType | None = None) -> ir.Value:
        """Return the SSA value of a scalar; a number becomes a constant of a type that suits
        `like`.
        """
        match held:
            case Expr():
                return self.visible(held)
            case Var():
                return self.load_var(held).value
            case Symbol():
                return self.symbol(held.name).value
            case Deferred():
                return self.value(self._deferred(held), like)
            case Poison():
                held.fail()
            case Placeholder():
                bool(held)
            case _ if is_number(held):
                number = as_number(held)
                return self.constant(number, literal_type(number, like)).value
            case Buffer() | BufferRegion():
                self.fail(
                    DTypeError,
                    f"a scalar is expected here, not {held!r}",
                    "Take an element of it, `buffer[i, j]`, inside `T.Parallel`.",
                )
        return self.fail(
            DTypeError,
            f"a scalar is expected here, not {type(held).__name__} {held!r:.60}",
            "Scalars are numbers, elements of buffers, loop variables and what is made of them.",
        )

    def _deferred(self, held: Deferred) -> Any:
        method = self.binary if len(held.operands) == 2 else self.unary
        return method(held.kind, *held.operands)

    def load_var(self, var: Var) -> Expr:
        """Return the value of a variable."""
        raise NotImplementedError

    def symbol(self, name: str) -> Expr:
        """Return the value of a symbol."""
        raise NotImplementedError

    def constant(self, number: Number, kind: ir.DType) -> Expr:
        """Return a constant; an equal one of an open block is used again."""
        if kind.is_float != isinstance(number, float):
            number = float(number) if kind.is_float else int(number)
        key = repr(number), kind
        for region in reversed(self.regions):
            known = region.constants.get(key)
            if known is not None:
                return Expr(known, region)
        hint = f"c{number}" if kind == index and number >= 0 else ""
        made = self.result(ir.Constant(number, kind, hint=hint))
        self.regions[-1].constants[key] = made.value
        return made

    def dtype(self, value: Any) -> ir.DType:
        """Return the type of a scalar or of a buffer's elements."""
        if isinstance(value, (Buffer, BufferRegion)):
            return ir.DTYPES[value.dtype]
        if isinstance(value, Var):
            return value.buffer.type.dtype
        return self.value(value).dtype

    def index(self, held: Any) -> ir.Value:
        """Return an integer scalar as an `index`."""
        value = self.value(held, index)
        if value.dtype == index:
            return value
        made: ir.Value = self.cast(self._integer(value), index).value
        return made

    def _integer(self, value: ir.Value) -> Expr:
        if not value.dtype.is_integer and value.dtype != bool_:
            # Of numbers known at compile time, `/` is done when its result comes here.
            divided = isinstance(value.owner, ir.Constant) or (
                isinstance(value.owner, ir.Binary) and value.owner.kind == "div"
            )
            self.fail(
                DTypeError,
                f"an integer is expected here, not {value.dtype}",
                DIVISION if divided else 'Convert it with `T.cast(x, "int32")`.',
            )
        return Expr(value, self.regions[-1])

    def condition(self, held: Any) -> ir.Value:
        """Return a scalar as a bool: what is not zero is true."""
        value = self.value(held)
        if value.dtype == bool_:
            return value
        made: ir.Value = self.compare("ne", Expr(value, self.regions[-1]), 0).value
        return made

    # -- arithmetic

    def pair(self, left: Any, right: Any) -> tuple[ir.Value, ir.Value]:
        """Two scalars in the type in which they meet."""
        a = None if is_number(left) else self.value(left)
        b = None if is_number(right) else self.value(right)
        a = a or self.value(left, b.dtype if b else None)
        b = b or self.value(right, a.dtype)
        kind = ir.promote(a.dtype, b.dtype)
        return self._as(a, kind), self._as(b, kind)

    def _as(self, value: ir.Value, kind: ir.DType) -> ir.Value:
        if value.dtype == kind:
            return value
        return self.result(ir.Cast(value, kind)).value

    def binary(self, kind: Any, left: Any, right: Any) -> Any:
        """Arithmetic; Python's meaning for `//` and `%`, no `/` of integers."""
        if isinstance(left, Placeholder) or isinstance(right, Placeholder):
            return Placeholder()
        if kind == "pow" and is_number(right):
            return self._power(left, as_number(right))
        a, b = self.pair(left, right)
        if a.dtype == bool_ and kind not in ("and", "or", "xor"):
            a, b = self._as(a, int32), self._as(b, int32)
        self._check_binary(kind, a.dtype)
        if kind in _DIVISIONS and isinstance(b.owner, ir.Constant) and b.owner.value == 0:
            self._refuse_zero(a.dtype)
        return self.result(ir.Binary(kind, a, b))

    def _refuse_zero(self, at: ir.DType) -> None:
        """A division of integers by the number 0 has no result on any device."""
        if not at.is_float:
            self.fail(
                KernelError,
                "an integer is divided by 0",
                "Give the divisor, perhaps a parameter of the function, a value of 1 or more.",
            )

    def _check_binary(self, kind: str, at: ir.DType) -> None:
        shown = _SIGNS.get(kind, f"T.{kind}")
        if kind == "div" and not at.is_float:
            self.fail(
                DTypeError,
                f"`/` of integers ({at})",
                "Use `//` to round down, `T.ceildiv(a, b)` to round up, or convert first: "
                '`T.cast(a, "float32") / b`.',
            )
        if kind in _BITWISE and at.is_float:
            self.fail(
                DTypeError,
                f"`{shown}` of {at}: it is for integers",
                "Convert with `T.cast`, or use the bits with `T.reinterpret`.",
            )
        if kind in ("pow", "atan2", "copysign") and not at.is_float:
            self.fail(
                DTypeError, f"`{shown}` of {at}: it is for floats", 'Use `T.cast(x, "float32")`.'
            )

    def _power(self, base: Any, exponent: Number) -> Any:
        value = self.value(base)
        if isinstance(exponent, int) and 1 <= exponent <= _MAX_POWER:
            held: Any = Expr(value, self.regions[-1])
            made = held
            for _ in range(exponent - 1):
                made = self.binary("mul", made, held)
            return made
        self._check_binary("pow", value.dtype)
        power = self.constant(float(exponent), value.dtype)
        return self.result(ir.Binary("pow", value, power.value))

    def unary(self, kind: Any, value: Any, *, fast: bool = False) -> Any:
        """Return a function of one scalar; integers go into float functions as float32."""
        if isinstance(value, Placeholder):
            return Placeholder()
        held = self.value(value, float32 if kind in FLOAT_ONLY else None)
        if kind in FLOAT_ONLY and not held.dtype.is_float:
            if kind in ("floor", "ceil", "trunc", "round"):
                return Expr(held, self.regions[-1])
            held = self._as(held, float32)
        if held.dtype == bool_ and kind != "not":
            held = self._as(held, int32)
        if held.dtype.is_float and kind in ("not", "popcount", "clz"):
            self.fail(
                DTypeError,
                f"`{kind}` of {held.dtype}: it is for integers",
                "Convert with `T.cast`.",
            )
        return self.result(ir.Unary(kind, held, fast))

    def compare(self, kind: Any, left: Any, right: Any) -> Any:
        """Return a comparison."""
        if isinstance(left, Placeholder) or isinstance(right, Placeholder):
            return Placeholder()
        for side in (left, right):
            if not isinstance(side, Scalar) and not is_number(side):
                # As in Python: a number equals no string, no None, no buffer.
                if kind in ("eq", "ne"):
                    return kind == "ne"
                self.value(side)
        return self.result(ir.Compare(kind, *self.pair(left, right)))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """`a * b + c`, rounded once."""
        first, second = self.pair(a, b)
        kind = ir.promote(first.dtype, self.value(c, first.dtype).dtype)
        if not kind.is_float:
            self.fail(DTypeError, f"`fma` of {kind}: it is for floats", "Use `a * b + c`.")
        held = [self._as(v, kind) for v in (first, second, self.value(c, kind))]
        return self.result(ir.Fma(*held))

    def select(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two values, both computed."""
        return self.result(ir.Select(self.condition(condition), *self.pair(then, otherwise)))

    def cast(self, value: Any, kind: ir.DType) -> Any:
        """Convert a scalar; a number becomes a constant."""
        if isinstance(value, Placeholder):
            return value
        if is_number(value):
            return self.constant(cast_number(value, kind), kind)
        held = self.value(value)
        if held.dtype == kind:
            return value if isinstance(value, Expr) else Expr(held, self.regions[-1])
        return self.result(ir.Cast(held, kind))

    def bitcast(self, value: Any, kind: ir.DType) -> Any:
        """Return the same bits as another type of the same size."""
        held = self.value(value)
        if held.dtype.bits != kind.bits:
            self.fail(
                DTypeError,
                f"{held.dtype} has {held.dtype.bits} bits and {kind} has {kind.bits}",
                "`T.reinterpret` keeps the bits; to convert the value use `T.cast`.",
            )
        return (
            Expr(held, self.regions[-1])
            if held.dtype == kind
            else self.result(ir.Bitcast(held, kind))
        )

    # -- two ways to one value

    def need_scalars(self, *choices: Any) -> None:
        """Raise an error where a choice is no scalar."""
        for held in choices:
            if not isinstance(held, Scalar) and not is_number(held):
                self.fail(
                    UnsupportedPython,
                    f"a choice made when the kernel runs gives a scalar, not {held!r:.60}",
                    "Use an `if` statement, with the operations in its branches.",
                )

    def type_in(self, region: Region, held: Any) -> ir.DType | None:
        """Return the type of what a closed block gives; None for a number."""
        if is_number(held):
            return None
        with self.inside(region):
            return self.value(held).dtype

    def join(
        self, condition: ir.Value, then: tuple[Region, Any], otherwise: tuple[Region, Any]
    ) -> Expr:
        """Return the value of one of two closed blocks.

        Where both are cheap and cannot go wrong they are computed and one is selected; else the
        block that is not wanted does not run.
        """
        self.need_scalars(then[1], otherwise[1])
        _, values = self._settle(then, otherwise)
        if self.cheap(then[0]) and self.cheap(otherwise[0]):
            self.splice(then[0])
            self.splice(otherwise[0])
            return self.result(ir.Select(condition, values[0], values[1]))
        for (region, _), value in zip((then, otherwise), values):
            with self.inside(region):
                self.emit(ir.Yield([value]))
        return self.result(ir.If(condition, then[0].block, otherwise[0].block))

    def merge(
        self,
        condition: ir.Value,
        regions: tuple[Region, Region],
        pairs: list[tuple[Any, Any]],
        span: Location | None,
    ) -> list[Expr]:
        """Write a branch; each pair is what a name stands for after its two blocks."""
        then, otherwise = regions
        settled = [self._settle((then, a), (otherwise, b))[1] for a, b in pairs]
        if pairs:
            for at, region in enumerate(regions):
                with self.inside(region):
                    self.emit(ir.Yield([values[at] for values in settled]))
        op = self.emit(ir.If(condition, then.block, otherwise.block), span)
        return [Expr(r, self.regions[-1]) for r in op.results]

    def _settle(
        self, then: tuple[Region, Any], otherwise: tuple[Region, Any]
    ) -> tuple[ir.DType, list[ir.Value]]:
        """Return the types and values of two closed blocks in one type, written at the end of
        each."""
        first, second = self.type_in(*then), self.type_in(*otherwise)
        numbers = [as_number(h) for _, h in (then, otherwise) if is_number(h)]
        if first is None and second is None:
            first = literal_type(numbers[0], None)
            second = literal_type(numbers[1], None)
        kind = ir.promote(
            first or literal_type(numbers[0], second), second or literal_type(numbers[-1], first)
        )
        values = []
        for region, held in (then, otherwise):
            with self.inside(region):
                values.append(self._as(self.value(held, kind), kind))
        return kind, values

    def cheap(self, region: Region) -> bool:
        """Return whether a block may be computed though its result may not be wanted."""
        ops = region.block.ops
        return len(ops) <= _MAX_CHEAP and all(self._harmless(op) for op in ops)

    def _harmless(self, op: ir.OpBase) -> bool:
        match op:
            case ir.Binary(kind=kind, right=divisor) if kind.endswith(("div", "mod")):
                constant = divisor.owner
                return op.left.dtype.is_float or (
                    isinstance(constant, ir.Constant) and constant.value != 0
                )
            case ir.Load(buffer=buffer):
                return buffer in self.known
            case ir.Unary() | ir.Binary() | ir.Compare() | ir.Select() | ir.Fma():
                return True
            case ir.Constant() | ir.Cast() | ir.Bitcast():
                return True
            case _:
                return False


def literal_type(number: Number, like: ir.DType | None) -> ir.DType:
    """Return the type of a number beside an operand of type `like`."""
    if isinstance(number, bool):
        return bool_ if like is None or like == bool_ else literal_type(int(number), like)
    if isinstance(number, float):
        # TileLang's float literals are float32: what they meet is widened, never narrowed.
        return like if like is not None and like.is_float and like.bits >= 32 else float32
    # TileLang's integer literals are int32, or int64 where that is too narrow.
    wide = int32 if fits(number, int32) else int64
    return wide if like is None else ir.promote(like, wide)
