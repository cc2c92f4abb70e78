"""Shapes and values of one call, which a tuned result holds for.

In: a traced kernel and the values of a call.  Out: `Shapes`, equal for calls that one result
serves, and how far apart two of them are.  Extents that are compiled in have to be the same.
Extents that are known at launch (`T.dynamic`) may differ: one compiled kernel serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tileprof import ir
from tileprof.lang.dtypes import dtype
from tileprof.runtime.typed_json import read_as

from .configurations import Value


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument, or a result, of a kernel."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    """Extents: numbers, and names of those that are known at launch."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of a call."""

    tensors: tuple[Tensor, ...] = ()
    values: tuple[tuple[str, Value], ...] = ()
    """Values of arguments that a kernel is compiled for, by name."""
    extents: tuple[tuple[str, int], ...] = ()
    """Extents that are known at launch, by name."""

    def ratio(self, other: Shapes) -> float:
        """Return the largest factor between two extents; inf where other results are needed."""
        ours, theirs = dict(self.extents), dict(other.extents)
        if self.tensors != other.tensors or repr(self.values) != repr(other.values):
            return math.inf
        if ours.keys() != theirs.keys():
            return math.inf
        pairs = [(ours[name], theirs[name]) for name in ours]
        if any((a == 0) != (b == 0) for a, b in pairs):
            return math.inf
        return max((max(a / b, b / a) for a, b in pairs if a and b), default=1.0)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "tensors": [asdict(each) for each in self.tensors],
            "values": dict(self.values),
            "extents": dict(self.extents),
        }

    @classmethod
    def from_json(cls, held: Any) -> Shapes:
        """Return the reverse of `as_json`; ValueError for anything else."""
        if not isinstance(held, dict):
            raise ValueError("shapes are no object")
        tensors = read_as(tuple[Tensor, ...], held.get("tensors"), "tensors")
        values = read_as(dict[str, bool | int | float | str | None], held.get("values"), "values")
        extents = read_as(dict[str, int], held.get("extents"), "extents")
        return cls(tensors, tuple(values.items()), tuple(extents.items()))


def shapes_of(
    kernel: ir.Kernel, values: Mapping[str, Any], symbols: Mapping[str, int],
    ignored: frozenset[str] = frozenset(),
) -> Shapes:  # fmt: skip
    """Return the shapes of a call: `values` are compile-time arguments, `symbols` the extents known
    at launch.  Names in `ignored` say nothing about which configuration is fast."""
    tensors = [
        Tensor(p.name, p.type.dtype.name, tuple(p.type.shape))
        for p in kernel.params
        if isinstance(p.type, ir.BufferType) and p.role == "in" and p.name not in ignored
    ]
    plain = {n: _plain(v) for n, v in values.items() if not hasattr(v, "shape")}
    kept = tuple(sorted((n, v) for n, v in plain.items() if n not in ignored))
    extents = tuple(sorted((n, int(v)) for n, v in symbols.items() if n not in ignored))
    return Shapes(tuple(tensors), kept, extents)


def _plain(value: Any) -> Value:
    """Return a value as JSON has it: an element type as its name, any other object as its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, dtype) else repr(value)
