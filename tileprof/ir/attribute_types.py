"""Check of an op's attributes against their declared types.

In: an op's class and the values that a text gives.  Out: a clause about the first value that does
not fit.  The types are those of the fields: numbers, words, choices, tuples of these.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .core import OpBase
from .types import DType


def problem_of(op: type[OpBase], held: Mapping[str, Any]) -> str:
    """Return what is wrong with the attributes of an op, as a clause; '' where nothing is."""
    # Declarations of all ops are worked out once.
    if op not in _DECLARED:
        _DECLARED[op] = _declared(op)
    for name, wanted in _DECLARED[op].items():
        if name in held and not _fits(held[name], wanted):
            return f"`{name}` cannot be {held[name]!r:.80}"
    return ""


def is_shape(held: Any) -> bool:
    """Return whether this is a tuple of numbers and names."""
    return _fits(held, tuple[int | str, ...])


_DECLARED: dict[type[OpBase], dict[str, Any]] = {}


def _declared(op: type[OpBase]) -> dict[str, Any]:
    spec = op.SPEC
    names = {*spec.positional, *(name for name, _ in spec.attributes)}
    return {name: hint for name, hint in get_type_hints(op).items() if name in names}


def _fits(value: Any, wanted: Any) -> bool:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return type(value) is str and value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if arguments[-1] is Ellipsis:
            return all(_fits(each, arguments[0]) for each in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if wanted is float:
        return type(value) in (int, float)
    # A truth value is no number here.
    return type(value) is wanted or (wanted is DType and isinstance(value, DType))
