"""Tensors that Triton kernels hand to each other, as the text of a program tells.

In: the text of a file, as a profile keeps it, with kernels and the statements that launch them.
Out: pairs of launches, one right after the other over the same grid, of which the second loads what
the first stores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tileprof.analyzer.program.calls import bodies
from tileprof.analyzer.program.triton_kernels import (
    Launch,
    TritonKernel,
    launched,
    triton_kernels,
)


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A tensor that one launch stores and the next one loads."""

    tensor: str
    """Its name, as both statements have it."""
    first: str
    second: str
    """Names of the kernels."""
    first_line: int
    second_line: int
    """Lines of the statements that launch them."""


@lru_cache(maxsize=64)
def handed_over(text: str) -> tuple[HandedOver, ...]:
    """Return all such pairs of a file, none where it is no Python."""
    kernels = {each.name: each for each in triton_kernels(text) if not each.multiplies}
    return tuple(pair for body in bodies(text) for pair in _pairs(body, kernels))


def _pairs(body: list[ast.stmt], kernels: Mapping[str, TritonKernel]) -> Iterator[HandedOver]:
    statements = (each if isinstance(each, ast.Expr) else None for each in body)
    launches = [each and launched(each, kernels) for each in statements]
    for one, other in pairwise(launches):
        if one is None or other is None or ast.dump(one.grid) != ast.dump(other.grid):
            continue
        stored = _names(one, one.kernel.stores)
        handed = [each for each in _names(other, other.kernel.loads) if each in stored]
        if handed:
            names = one.kernel.name, other.kernel.name
            yield HandedOver(handed[0], *names, one.call.lineno, other.call.lineno)


def _names(launch: Launch, parameters: Iterable[str]) -> list[str]:
    """Names that a launch is given for these parameters."""
    given = (launch.given.get(each) for each in sorted(parameters))
    return [each.id for each in given if isinstance(each, ast.Name)]
