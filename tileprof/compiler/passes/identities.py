"""Laws of arithmetic that hold for every value of a type, NaN, infinities and -0.0 included.

integers    x+0  x-0  x*1  x*0  x-x  x//1  x%1  x&x  x|x  x^x  x&0  x|0  x^0  x<<0  x>>0
            (x+a)+b → x+(a+b)    (x*a)*b → x*(a*b)
floats      x*1  x/1  x-0.0  x+(-0.0)            not x+0.0 (-0.0 becomes 0.0), not x*0 (NaN)
bool        x&true  x&false  x|true  x|false  x&x  x|x  not not x
any         min(x,x)  max(x,x)  -(-x)  select(c,x,x)  select(c,true,false)  casts there and back
"""

from __future__ import annotations

import math

from tileprof import ir

from .folding import Number, exact, fold, holds_every, wrap


def number_of(value: ir.Value) -> Number | None:
    """The number that a value is known to be."""
    owner = value.owner
    return exact(owner.value, owner.dtype) if isinstance(owner, ir.Constant) else None


def identity(op: ir.OpBase, builder: ir.Builder) -> ir.Value | None:
    """A value that `op` is always equal to; new ops for it go through `builder`.  None: no law."""
    match op:
        case ir.Binary(left=left) if left.dtype.is_float:
            return _float(op)
        case ir.Binary(left=left) if left.dtype.kind == "bool":
            return _bool(op)
        case ir.Binary():
            return _integer(op, builder)
        case ir.Unary(kind=("neg" | "not") as kind, operand=operand):
            inner = operand.owner
            again = isinstance(inner, ir.Unary) and inner.kind == kind
            return inner.operand if again and isinstance(inner, ir.Unary) else None
        case ir.Compare(kind=kind, left=left, right=right):
            if left is right and not left.dtype.is_float:
                return builder.constant(kind in ("le", "ge", "eq"), ir.dtype("bool"))
            return None
        case ir.Select():
            return _select(op)
        case ir.Cast():
            return _cast(op)
        case _:
            return None


def folded(op: ir.Binary | ir.Compare, builder: ir.Builder) -> ir.Value:
    """The result of a scalar op: a constant or an operand where it is one, else computed."""
    numbers = [n for n in map(number_of, op.operand_values()) if n is not None]
    if len(numbers) == 2 and (known := fold(op, numbers)) is not None:
        return builder.constant(known, op.result.dtype)
    equal = identity(op, builder)
    return builder.emit(op).result if equal is None else equal


def _float(op: ir.Binary) -> ir.Value | None:
    left, right = number_of(op.left), number_of(op.right)
    match op.kind:
        case "mul" if right == 1:
            return op.left
        case "mul" if left == 1:
            return op.right
        case "div" if right == 1:
            return op.left
        case "sub" if _is_zero(right, 1.0):
            return op.left
        case "add" if _is_zero(right, -1.0):
            return op.left
        case "add" if _is_zero(left, -1.0):
            return op.right
        case "min" | "max" if op.left is op.right:
            return op.left
        case _:
            return None


def _is_zero(number: Number | None, sign: float) -> bool:
    return number == 0 and math.copysign(1.0, float(number)) == sign


def _bool(op: ir.Binary) -> ir.Value | None:
    if op.kind not in ("and", "or"):
        return None
    if op.left is op.right:
        return op.left
    neutral = op.kind == "and"
    for side, other in ((op.left, op.right), (op.right, op.left)):
        known = number_of(side)
        if known is not None:
            return other if bool(known) == neutral else side
    return None


_COMMUTES = frozenset({"add", "mul", "and", "or", "xor", "min", "max"})
_RIGHT_NEUTRAL = {
    **dict.fromkeys(("add", "sub", "or", "xor", "shl", "shr"), 0),
    **dict.fromkeys(("mul", "floordiv", "truncdiv"), 1),
}
"""The right operand that leaves the left one as it is."""
_RIGHT_CONSTANT = {("mul", 0): 0, ("and", 0): 0, ("floormod", 1): 0, ("truncmod", 1): 0}
"""Return what any left operand gives with this right one."""


def _integer(op: ir.Binary, builder: ir.Builder) -> ir.Value | None:
    left, right = op.left, op.right
    if left is right and op.kind in ("min", "max", "and", "or"):
        return left
    if left is right and op.kind in ("sub", "xor"):
        return builder.constant(0, left.dtype)
    number = number_of(right)
    if op.kind in _COMMUTES and number is None and number_of(left) is not None:
        left, right, number = right, left, number_of(left)
    if number is None:
        return None
    if _RIGHT_NEUTRAL.get(op.kind) == number:
        return left
    if (op.kind, number) in _RIGHT_CONSTANT:
        return builder.constant(_RIGHT_CONSTANT[op.kind, int(number)], left.dtype)
    joined = _joined(op, left, int(number), builder)
    if joined is not None or left is op.left:
        return joined
    # The constant goes to the right, so that equal expressions look alike.
    return builder.emit(ir.Binary(op.kind, left, right, hint=op.hint)).result


def _joined(op: ir.Binary, left: ir.Value, number: int, builder: ir.Builder) -> ir.Value | None:
    inner = left.owner
    if op.kind not in ("add", "mul") or not isinstance(inner, ir.Binary) or inner.kind != op.kind:
        return None
    other = number_of(inner.right)
    if other is None:
        return None
    both = other + number if op.kind == "add" else other * number
    joined = builder.constant(wrap(int(both), left.dtype), left.dtype)
    return builder.emit(ir.Binary(op.kind, inner.left, joined, hint=op.hint)).result


def _select(op: ir.Select) -> ir.Value | None:
    known = number_of(op.condition)
    if known is not None:
        return op.then if known else op.otherwise
    if op.then is op.otherwise:
        return op.then
    if op.then.dtype.kind == "bool":
        arms = (number_of(op.then), number_of(op.otherwise))
        return op.condition if arms == (True, False) else None
    return None


def _cast(op: ir.Cast) -> ir.Value | None:
    if op.operand.dtype == op.dtype:
        return op.operand
    inner = op.operand.owner
    # There and back through a type that holds every value.
    if isinstance(inner, ir.Cast) and inner.operand.dtype == op.dtype:
        return inner.operand if holds_every(inner.dtype, op.dtype) else None
    return None
