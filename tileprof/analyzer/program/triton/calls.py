"""Tensors that Triton kernels hand to each other, as the text of a program tells.

In: the text of a file, as a profile keeps it, with kernels and the statements that launch them; the
arguments of launches, where they were seen.  Out: pairs of launches, one right after the other over
the same grid, of which the second loads what the first stores: by a name that both are given, or as
was seen. Functions of their own may launch them; then what was seen tells all but what the kernels
do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tileprof.analyzer.program.calls import bodies, called
from tileprof.analyzer.program.host_functions import EMPTY
from tileprof.analyzer.program.triton.kernels import Launch, kernels_of, launched, triton_kernels
from tileprof.profile import LaunchVariant, seen_at


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A tensor that one launch stores and the next one loads."""

    tensor: str
    """Its name, as the second statement has it."""
    first: str
    second: str
    """Names of the kernels."""
    first_line: int
    second_line: int
    """Lines of the statements that launch them."""
    size: float = 0.0
    """Bytes of the tensor; 0 where launches were not seen, or had tensors of several sizes."""


def handed_over(
    text: str, file: str = "", launches: Sequence[LaunchVariant] = ()
) -> tuple[HandedOver, ...]:
    """Return all such pairs of a file, none where it is no Python; `launches`: those seen."""
    found = list[HandedOver]()
    for one, other in _neighbours(text):
        stored = _names(one, one.kernel.stores)
        named = (each for each in _names(other, other.kernel.loads) if each in stored)
        if tensor := next(named, "") or _seen(one, other, file, launches):
            names = one.kernel.name, other.kernel.name
            lines = one.call.lineno, other.call.lineno
            size = _size(other, tensor, file, launches)
            found.append(HandedOver(tensor, *names, *lines, size=size))
    return tuple(found)


def handed_over_unnamed(
    texts: Mapping[str, str], launches: Sequence[LaunchVariant]
) -> Iterator[tuple[HandedOver, str, str]]:
    """Yield pairs of which no text has both launches one right after the other, with the files of
    the two: what the second loads of other kernels is a tensor that the first one alone wrote."""
    kernels = {each.name: each for each in kernels_of(texts.values())}
    for other in launches:
        kernel = kernels.get(other.kernel)
        seen = [each for each in launches if each.kernel == other.kernel]
        if kernel is None or kernel.multiplies or len(seen) != 1 or other.others:
            continue
        loaded = {
            (each.origin.kernel, each.origin.line): each
            for name in kernel.loads if kernel.only_loads(name)
            if (each := other.tensor(name)) is not None and each.origin is not None
        }  # fmt: skip
        others = (other.tensor(name) for name in {*kernel.parameters} - {*loaded})
        makers = {(e.origin.kernel, e.origin.line) for e in others if e and e.origin}
        if len(loaded) != 1 or makers != {*loaded}:
            continue
        (tensor,) = loaded.values()
        assert tensor.origin is not None
        first, line = kernels.get(tensor.origin.kernel), tensor.origin.line
        firsts = [each for each in launches if each.kernel == tensor.origin.kernel]
        if (
            first is None or first.multiplies or first is kernel or len(firsts) != 1
            or firsts[0].place.line != line or firsts[0].looked_at != other.looked_at
            or not first.only_stores(tensor.origin.parameter)
        ):  # fmt: skip
            continue
        names = first.name, kernel.name
        size = float(tensor.elements * tensor.width)
        pair = HandedOver(tensor.parameter, *names, line, other.place.line, size)
        yield pair, firsts[0].place.file, other.place.file


@lru_cache(maxsize=64)
def _neighbours(text: str) -> tuple[tuple[Launch, Launch], ...]:
    """Launches, one right after the other over the same grid, of kernels that multiply no tiles."""
    kernels = {each.name: each for each in triton_kernels(text) if not each.multiplies}
    return tuple(
        (one, other)
        for body in bodies(text)
        for one, other in pairwise(
            launched(each, kernels) if isinstance(each, ast.Expr) else None
            for each in body if not _makes_empty(each)
        )
        if one is not None and other is not None and ast.dump(one.grid) == ast.dump(other.grid)
    )  # fmt: skip


def _makes_empty(statement: ast.stmt) -> bool:
    """Whether a statement only makes a tensor that is not written yet."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and called(value) in EMPTY


def _names(launch: Launch, parameters: Iterable[str]) -> list[str]:
    """Names that a launch is given for these parameters."""
    given = (launch.given.get(each) for each in sorted(parameters))
    return [each.id for each in given if isinstance(each, ast.Name)]


def _seen(one: Launch, other: Launch, file: str, launches: Sequence[LaunchVariant]) -> str:
    """Return the text of a launch's argument whose tensor the launch before it stored, by the
    recording; empty if there is none."""
    seen = seen_at(launches, other.kernel.name, file, [other.call.lineno])
    for parameter in sorted({*other.kernel.loads} & {*other.given}):
        tensors = (each.tensor(parameter) for each in seen)
        origins = (each.origin for each in tensors if each is not None)
        makers = {(each.kernel, each.line) for each in origins if each is not None}
        if makers == {(one.kernel.name, one.call.lineno)}:
            return ast.unparse(other.given[parameter])
    return ""


def _size(launch: Launch, tensor: str, file: str, launches: Sequence[LaunchVariant]) -> float:
    """Return the bytes of the tensor that a launch is given by a text; 0 where not known."""
    seen = seen_at(launches, launch.kernel.name, file, [launch.call.lineno])
    given = [name for name, each in launch.given.items() if ast.unparse(each) == tensor]
    held = (each.tensor(name) for each in seen for name in given)
    sizes = {each.elements * each.width for each in held if each is not None}
    return float(sizes.pop()) if len(sizes) == 1 else 0.0
