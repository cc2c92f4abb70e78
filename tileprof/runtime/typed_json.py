"""JSON to the dataclasses that it stands for, every value checked against its declaration.

In: a type and what `json.loads` gave.  Out: a value of the type; ValueError names the first field
that holds something else.  Objects may lack fields that have defaults; they have no others.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tileprof import ir
from tileprof.remarks import Statement, from_plain

_WIDEST = 1 << 63
"""Numbers are below this: they go into 64 bits."""
_DEEPEST = 100
"""Values within each other, such as the callers of a place."""


def read_as(wanted: Any, held: Any, name: str = "the file", depth: int = 0) -> Any:
    """Return `held` as a value of the type `wanted`; `name` says what it is, for errors."""
    if depth > _DEEPEST:
        raise ValueError(f"{name} nests too deeply")
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, held, name, depth)
    if origin is Literal:
        # A truth value equals a number, and is none.
        if any(type(held) is type(each) and held == each for each in arguments):
            return held
    elif origin is tuple and isinstance(held, list):
        if arguments[-1] is Ellipsis:
            return tuple(read_as(arguments[0], each, name, depth + 1) for each in held)
        if len(arguments) == len(held):
            pairs = zip(arguments, held, strict=True)
            return tuple(read_as(each, value, name, depth + 1) for each, value in pairs)
    elif isinstance(wanted, type) and issubclass(wanted, Statement) and isinstance(held, Mapping):
        return from_plain(wanted, held.get("code"), held.get("facts"))
    elif wanted is ir.DType and isinstance(held, str) and held in ir.DTYPES:
        return ir.DTYPES[held]
    elif isinstance(wanted, type) and is_dataclass(wanted) and isinstance(held, Mapping):
        return _object(wanted, held, name, depth)
    elif origin is dict and isinstance(held, Mapping):
        return {each: read_as(arguments[1], value, name, depth + 1) for each, value in held.items()}
    elif wanted is Any or _is_plain(wanted, held):
        return held
    raise ValueError(f"{name} cannot be {_shown(held)}")


def _is_plain(wanted: Any, held: Any) -> bool:
    """Return whether this is a number, a truth value or a text as wanted."""
    if wanted is float:
        return type(held) in (int, float)
    return type(held) is wanted and (wanted is not int or abs(held) < _WIDEST)


def _one_of(wanted: tuple[Any, ...], held: Any, name: str, depth: int) -> Any:
    for each in wanted:
        if each is type(None):
            if held is None:
                return None
            continue
        try:
            return read_as(each, held, name, depth + 1)
        except ValueError as error:
            failed = error
    raise failed


def _object(wanted: type[Any], held: Mapping[str, Any], name: str, depth: int) -> Any:
    hints = get_type_hints(wanted)
    known = {f.name: f for f in fields(wanted) if f.compare}
    for each in held:
        if each not in known:
            raise ValueError(f"{name} has no `{_shown(each)}`")
    for each, declared in known.items():
        no_default = declared.default is MISSING and declared.default_factory is MISSING
        if each not in held and no_default:
            raise ValueError(f"{name} lacks `{each}`")
    given = {
        each: read_as(hints[each], value, f"{name}.{each}", depth + 1)
        for each, value in held.items()
    }
    return wanted(**given)


def _shown(held: Any) -> str:
    if isinstance(held, dict | list):
        return "an object" if isinstance(held, dict) else "a list"
    return ascii(held)[:60]
