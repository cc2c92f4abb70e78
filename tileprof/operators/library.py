"""Operators in `torch.library`: definition, shapes for fake tensors, what clashes.

The way of every call that more than autograd listens to: `torch.compile`, fake tensors, functorch,
modes, profilers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tileprof import ir
from tileprof.errors import DTypeError, Location, UsageError
from tileprof.lang.abstract import AbstractTensor, abstract
from tileprof.once import Guard

_defining = Guard()
_defined: dict[str, Definition] = {}
_TAGS = (torch.Tag.pt2_compliant_tag,)


@dataclass(slots=True)
class Definition:
    """An operator's entry in `torch.library`."""

    name: str
    origin: tuple[str, str]
    """Module and qualified name of the function: the same ones define it anew."""
    location: Location | None
    library: Any
    overload: Any


def define(
    name: str, schema: str, origin: tuple[str, str], location: Location | None
) -> Definition:
    """Define an operator; UsageError where another one has its name.

    The same function of the same module replaces its operator: a cell of a notebook that runs
    again, a module that is loaded again.
    """
    namespace, _, short = name.partition("::")
    with _defining:
        before = _defined.get(name)
        if before is not None and before.origin != origin:
            raise _taken(name, f"defined at {before.location}", location)
        if before is not None:
            before.library._destroy()
            del _defined[name]
        library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
        try:
            library.define(short + schema, tags=_TAGS)
        except RuntimeError as error:
            if "already" not in str(error) and "multiple times" not in str(error):
                raise
            raise _taken(name, "not one of tileprof's", location) from None
        overload = getattr(getattr(torch.ops, namespace), short).default
        made = _defined[name] = Definition(name, origin, location, library, overload)
    return made


def _taken(name: str, by: str, location: Location | None) -> UsageError:
    return UsageError(
        f"there is an operator `{name}` already, {by}",
        location=location,
        hint='Give this one another name: `@tileprof.op("namespace::name")`.',
    )


class FakeCalls:
    """Kernels answered with tensors of the kind of their arguments, which may have no data."""

    def __init__(self) -> None:
        self._like: Any = None

    def tensor(self, value: Any) -> AbstractTensor | None:
        """Return what is known of a tensor."""
        if not isinstance(value, torch.Tensor):
            return None
        self._like = value
        name = str(value.dtype).removeprefix("torch.")
        try:
            return AbstractTensor(tuple(value.shape), ir.dtype(name))
        except DTypeError as error:
            raise TypeError(f"no kernel has elements of {value.dtype}") from error

    def number(self, value: Any) -> Any:
        """Return an extent's value, which what is compiled for it depends on."""
        return int(value) if isinstance(value, torch.SymInt) else value

    def result(self, shape: tuple[Any, ...], kind: ir.DType) -> Any:
        """Return a tensor like the last argument, of this shape and type."""
        name = {"float8_e4m3": "float8_e4m3fn", "index": "int64"}.get(kind.name, kind.name)
        return self._like.new_empty(shape, dtype=getattr(torch, name))


def faked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that gives results' shapes: the same one with its kernels answered."""

    def fake(*args: Any, **kwargs: Any) -> Any:
        with abstract(FakeCalls()):
            return function(*args, **kwargs)

    return fake


def without_elements(results: Any) -> bool:
    """Return whether none of these tensors has an element."""
    for each in results if isinstance(results, (tuple, list)) else (results,):
        if each.numel():
            return False
    return True
