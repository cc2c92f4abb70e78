"""Facts that are known when a kernel is launched, on which the machine code that runs depends.

In: a kernel and the arguments of a call.  Out: values of symbols, addresses, and the parameters of
which rows cannot be copied in vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent
from tileprof.runtime.arguments import address

ALIGNMENT = 16
"""Bytes of the widest access, of which addresses are taken to be multiples."""


@dataclass(frozen=True)
class LaunchFacts:
    """A call of a kernel."""

    symbols: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[int, int] = field(default_factory=dict)
    """Address of each tensor by its position among the parameters."""
    unaligned: frozenset[int] = frozenset()
    """Positions of parameters whose address or rows may be no multiples of 16 bytes."""

    @classmethod
    def of(
        cls,
        kernel: ir.Kernel,
        values: Sequence[Any],
        symbols: Sequence[int],
        unaligned: frozenset[int] = frozenset(),
    ) -> LaunchFacts:
        """Return the facts of a call with one value for each parameter."""
        addresses = {
            at: address(value)
            for at, (param, value) in enumerate(zip(kernel.params, values, strict=True))
            if isinstance(param.type, ir.BufferType)
        }
        named = dict(zip(kernel.symbols, symbols, strict=True))
        return cls(named, addresses, unaligned | _unaligned(addresses))

    def number(self, dim: ir.Dim) -> int:
        """Return an extent or a stride."""
        return dim if isinstance(dim, int) else self.symbols[dim]

    def strides(self, param: ir.Param, kind: ir.BufferType) -> tuple[Extent, ...]:
        """Return the strides of a parameter: numbers, and names of those known at launch only."""
        given = kind.strides
        if given is None:
            sizes = [kind.shape[axis + 1 :] for axis in range(len(kind.shape))]
            given = tuple(
                math.prod(n for n in each if isinstance(n, int))
                if all(isinstance(n, int) for n in each)
                else ""
                for each in sizes
            )
        return tuple(
            each if isinstance(each, int) else _stride(param, axis)
            for axis, each in enumerate(given)
        )

    def numbers(self, kernel: ir.Kernel) -> dict[str, int]:
        """Return what names of strides, and of parameters as addresses, stand for."""
        found: dict[str, int] = {}
        for at, param in enumerate(kernel.params):
            if isinstance(param.type, ir.BufferType):
                found[param.name] = self.addresses.get(at, 0)
                kind = param.type
                steps = [self.number(each) for each in kind.strides or ()]
                if kind.strides is None:
                    shape = [self.number(each) for each in kind.shape]
                    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
                found |= {_stride(param, axis): each for axis, each in enumerate(steps)}
        return found


def _stride(param: ir.Param, axis: int) -> str:
    return f"{param.name} stride {axis}"


def _unaligned(addresses: Mapping[int, int]) -> frozenset[int]:
    return frozenset(at for at, each in addresses.items() if each % ALIGNMENT)
