"""Element types and numbers as C++ text."""

from __future__ import annotations

import math

import numpy as np

from tileprof import ir

_NARROW = {
    "float16": "TpHalf",
    "bfloat16": "TpBfloat",
    "float8_e4m3": "TpE4m3",
    "float8_e5m2": "TpE5m2",
}
_PLAIN = {"bool": "bool", "float32": "float", "float64": "double", "index": "int64_t"}


def is_narrow(dtype: ir.DType) -> bool:
    """Whether values of the type are held as float in registers."""
    return dtype.name in _NARROW


def storage(dtype: ir.DType) -> str:
    """The C++ type of an element in memory."""
    return _NARROW.get(dtype.name) or _PLAIN.get(dtype.name) or f"{dtype.name}_t"


def value_type(dtype: ir.DType) -> str:
    """The C++ type of a value in a register."""
    return "float" if is_narrow(dtype) else storage(dtype)


def literal(number: bool | int | float, dtype: ir.DType) -> str:
    """A number of the type, as a value."""
    if dtype.kind == "bool":
        return "true" if number else "false"
    if dtype.is_float:
        return _float(float(number), dtype)
    return _integer(int(number) if math.isfinite(number) else 0, dtype)


def stored(text: str, dtype: ir.DType) -> str:
    """A value as an element in memory."""
    type_ = storage(dtype)
    if is_narrow(dtype):
        # Storing rounds: what was rounded as the last thing need not be rounded twice.
        inner = text.removeprefix(f"tp_round<{type_}>")
        return f"tp_store<{type_}>{inner if inner != text and is_pair(inner) else f'({text})'}"
    # Templates take a literal for an `int`.
    return f"({type_})({text})" if dtype.is_integer else text


def is_pair(text: str) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _float(number: float, dtype: ir.DType) -> str:
    double = dtype.name == "float64"
    if not double:
        with np.errstate(over="ignore"):
            number = float(np.asarray(number, np.float64).astype(dtype.to_numpy()))
    suffix = "" if double else "f"
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    text = repr(number) if double else str(np.float32(number))
    return f"{text}{suffix}" if "." in text or "e" in text else f"{text}.0{suffix}"


def _integer(number: int, dtype: ir.DType) -> str:
    bits = dtype.bits
    number %= 1 << bits
    if dtype.kind == "uint":
        return f"{number}u" if bits <= 32 else f"{number}ull"
    if number >= 1 << (bits - 1):
        number -= 1 << bits
    if number == -(1 << 63):
        return "INT64_MIN"
    return str(number) if -(1 << 31) < number < 1 << 31 else f"{number}ll"
