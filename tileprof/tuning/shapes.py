"""What a tuned result holds for: the shapes and values of one call.

In: a traced kernel and the values of a call.  Out: `Shapes`, equal for calls that one result
serves, and how far apart two of them are.  Extents that are compiled in have to be the same.
Extents that are known at launch (`T.dynamic`) may differ: one compiled kernel serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.runtime.typed_json import read_as


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of a call."""

    compiled: tuple[tuple[str, str], ...]
    """Types of tensors and values of arguments that a kernel is compiled for, as text by name."""
    extents: tuple[tuple[str, int], ...]
    """Extents that are known at launch, by name."""

    def ratio(self, other: Shapes) -> float:
        """Return the largest factor between two extents; inf where other results are needed."""
        ours, theirs = dict(self.extents), dict(other.extents)
        if self.compiled != other.compiled or ours.keys() != theirs.keys():
            return math.inf
        pairs = [(ours[name], theirs[name]) for name in ours]
        if any((a == 0) != (b == 0) for a, b in pairs):
            return math.inf
        return max((max(a / b, b / a) for a, b in pairs if a and b), default=1.0)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"compiled": dict(self.compiled), "extents": dict(self.extents)}

    @classmethod
    def from_json(cls, held: Any) -> Shapes:
        """Return the reverse of `as_json`; ValueError for anything else."""
        if not isinstance(held, dict):
            raise ValueError("shapes are no object")
        compiled = read_as(dict[str, str], held.get("compiled"), "compiled")
        extents = read_as(dict[str, int], held.get("extents"), "extents")
        return cls(tuple(compiled.items()), tuple(extents.items()))


def shapes_of(
    kernel: ir.Kernel, values: Mapping[str, Any], symbols: Mapping[str, int],
    ignored: frozenset[str] = frozenset(),
) -> Shapes:  # fmt: skip
    """Return the shapes of a call: `values` are compile-time arguments, `symbols` the extents known
    at launch.  Names in `ignored` say nothing about which configuration is fast."""
    held = {p.name: str(p.type) for p in kernel.params if isinstance(p.type, ir.BufferType)}
    held |= {name: repr(value) for name, value in values.items() if not hasattr(value, "shape")}
    compiled = tuple(sorted((n, text) for n, text in held.items() if n not in ignored))
    extents = tuple(sorted((n, int(v)) for n, v in symbols.items() if n not in ignored))
    return Shapes(compiled, extents)
