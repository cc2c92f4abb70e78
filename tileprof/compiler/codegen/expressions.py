"""Scalar ops as C++ expressions; 16- and 8-bit floats are floats, rounded after each op."""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.errors import InternalError

from .ranges import is_exact
from .types import is_narrow, is_pair, literal, storage, value_type

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# Exact in the narrow type: nothing to round.
_EXACT = frozenset({"neg", "abs", "floor", "ceil", "trunc", "round", "min", "max", "copysign"})
_PREDICATES = frozenset({"isnan", "isinf", "isfinite"})


def is_pure(op: ir.OpBase) -> bool:
    """Whether the op is a scalar computation."""
    return isinstance(op, ir.ScalarOp)


_PLAIN = frozenset({"neg", "not", "abs", "popcount", "clz"})


def needs_functions(op: ir.OpBase) -> bool:
    """Whether the op calls something of `functions.h`."""
    match op:
        case ir.Unary(kind=kind):
            return kind not in _PLAIN
        case ir.Binary(kind=kind):
            return kind in ("pow", "atan2", "copysign")
        case _:
            return False


def render(op: ir.OpBase, operands: Sequence[str]) -> str:
    """The value of the op from the texts of its operands, in parentheses where it is compound."""
    match op:
        case ir.Constant(value=value, dtype=dtype):
            text = literal(value, dtype)
            return f"({text})" if text.startswith("-") else text
        case ir.Binary():
            return _rounded(op.kind, op.left.dtype, _binary(op, *operands))
        case ir.Unary():
            return _rounded(op.kind, op.operand.dtype, _unary(op, *operands))
        case ir.Compare(kind=kind):
            return f"({operands[0]} {_COMPARE[kind]} {operands[1]})"
        case ir.Fma():
            return _fma(op.a.dtype, operands)
        case ir.Select():
            return "({} ? {} : {})".format(*operands)
        case ir.Cast(operand=value, dtype=dtype):
            if is_narrow(dtype) and value.dtype.bits == 32 and is_exact(value):
                # One conversion on the way to a narrow float: only the second one rounds.
                return _cast(value.dtype, dtype, f"(float){operands[0]}")
            return _cast(value.dtype, dtype, operands[0])
        case ir.Bitcast(operand=value, dtype=dtype):
            return _bitcast(value.dtype, dtype, operands[0])
        case _:
            raise InternalError(f"{op!r} is not a scalar computation")


def _rounded(kind: str, dtype: ir.DType, text: str) -> str:
    if is_narrow(dtype) and kind not in _EXACT and kind not in _PREDICATES:
        return f"tp_round<{storage(dtype)}>({bare(text)})"
    # C++ computes with small integers as `int`.
    if dtype.is_integer and dtype.bits < 32 and not text.startswith(("tp_", "!")):
        return f"({storage(dtype)}){text}"
    return text


def bare(text: str) -> str:
    """Without the outer parentheses, where they are one pair."""
    return text[1:-1] if text.startswith("(") and is_pair(text) else text


def _call(function: str, dtype: ir.DType, *arguments: str) -> str:
    # The type is given for whole numbers: a literal alone would be an `int`.
    chosen = "" if dtype.is_float else f"<{value_type(dtype)}>"
    return f"{function}{chosen}({', '.join(bare(a) for a in arguments)})"


def _binary(op: ir.Binary, left: str, right: str) -> str:
    dtype = op.left.dtype
    match op.kind:
        case "add" | "sub" | "mul" | "div" | "and" | "or" | "xor":
            return f"({left} {_INFIX[op.kind]} {right})"
        case "floordiv" | "floormod" | "shl" | "shr" if (known := _positive(op.right)) is not None:
            return _by_constant(op.kind, dtype, left, known)
        case "floordiv" | "floormod" | "truncdiv" | "truncmod" | "min" | "max" | "shl" | "shr":
            return _call(f"tp_{op.kind}", dtype, left, right)
        case "pow" | "atan2" | "copysign":
            return _call(f"tp_{op.kind}", dtype, left, right)


def _positive(value: ir.Value) -> int | None:
    """The value of a whole-number constant that is not negative."""
    owner = value.owner
    if isinstance(owner, ir.Constant) and value.dtype.is_integer and owner.value >= 0:
        return int(owner.value)
    return None


def _by_constant(kind: str, dtype: ir.DType, left: str, right: int) -> str:
    power = right > 0 and right & (right - 1) == 0
    if kind in ("shl", "shr") and right < dtype.bits:
        return f"({left} {'<<' if kind == 'shl' else '>>'} {right})"
    # Shifting rounds down and masking gives the remainder for negative numbers too.
    if kind == "floordiv" and power:
        return f"({left} >> {right.bit_length() - 1})"
    if kind == "floormod" and power:
        return f"({left} & {right - 1})"
    return _call(f"tp_{kind}", dtype, left, str(right))


def _unary(op: ir.Unary, value: str) -> str:
    dtype = op.operand.dtype
    match op.kind:
        case "neg":
            return f"(-{value})"
        case "not":
            return f"(!{value})" if dtype.kind == "bool" else f"(~{value})"
        case "round":
            return _call("tp_round_even", dtype, value)
        case "abs" if dtype.kind in ("uint", "bool"):
            return value
        case _:
            return _call(f"tp_{op.kind}{'_flush' * op.fast}", dtype, value)


def _fma(dtype: ir.DType, operands: Sequence[str]) -> str:
    arguments = ", ".join(bare(o) for o in operands)
    if is_narrow(dtype):
        return f"tp_round<{storage(dtype)}>(tp_fma_odd({arguments}))"
    return f"__builtin_fma{'f' if dtype.name == 'float32' else ''}({arguments})"


def _cast(source: ir.DType, target: ir.DType, value: str) -> str:
    if source == target:
        return value
    if target.kind == "bool":
        return f"({value} != 0)"
    if is_narrow(target):
        return f"tp_round<{storage(target)}>({bare(value)})"
    if value_type(source) == value_type(target):
        return value
    return f"({value_type(target)}){value}"


def _bitcast(source: ir.DType, target: ir.DType, value: str) -> str:
    stored = f"tp_store<{storage(source)}>({bare(value)})" if is_narrow(source) else bare(value)
    # The cast pins the type of a literal.
    stored = stored if is_narrow(source) else f"({value_type(source)})({stored})"
    bits = f"tp_bit_cast<{storage(target)}>({stored})"
    return f"tp_value({bits})" if is_narrow(target) else bits
