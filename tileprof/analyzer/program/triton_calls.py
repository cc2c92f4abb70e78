"""Tensors that Triton kernels hand to each other, as the text of a program tells.

In: the text of a file, as a profile keeps it, with kernels and the statements that launch them.
Out: pairs of launches, one right after the other over the same grid, of which the second loads what
the first stores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tileprof.analyzer.program.calls import bodies, parsed

_LOADS, _STORES, _PRODUCTS = ("load",), ("store",), ("dot", "dot_scaled")


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


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Parameters of a kernel, and those whose tensors it loads from and stores to."""

    parameters: tuple[str, ...]
    loads: frozenset[str]
    stores: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Launch:
    """A statement `kernel[grid](arguments)`."""

    kernel: str
    grid: str
    line: int
    arguments: Mapping[str, str]
    """Names that are given, by the parameter that they are given for."""


@lru_cache(maxsize=64)
def handed_over(text: str) -> tuple[HandedOver, ...]:
    """Return all such pairs of a file, none where it is no Python."""
    kernels = dict(_kernels(text))
    return tuple(pair for body in bodies(text) for pair in _pairs(body, kernels))


def _kernels(text: str) -> Iterator[tuple[str, _Kernel]]:
    """Functions that are compiled as kernels and multiply no tiles."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.FunctionDef):
            continue
        if not any(ast.unparse(each).endswith(".jit") for each in node.decorator_list):
            continue
        parameters = tuple(each.arg for each in node.args.args)
        if not _given_to(node, _PRODUCTS):
            loads, stores = (
                frozenset(_given_to(node, names)).intersection(parameters)
                for names in (_LOADS, _STORES)
            )
            yield node.name, _Kernel(parameters, loads, stores)


def _given_to(function: ast.FunctionDef, names: tuple[str, ...]) -> set[str]:
    """Names in the first argument of calls of such methods, as `x` in `tl.load(x + at)`."""
    return {
        name.id
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and call.args
        if isinstance(call.func, ast.Attribute) and call.func.attr in names
        for name in ast.walk(call.args[0])
        if isinstance(name, ast.Name)
    }


def _pairs(body: list[ast.stmt], kernels: Mapping[str, _Kernel]) -> Iterator[HandedOver]:
    launches = [_launch(statement, kernels) for statement in body]
    for one, other in pairwise(launches):
        if one is None or other is None or one.grid != other.grid:
            continue
        stored = {one.arguments.get(each) for each in kernels[one.kernel].stores}
        loaded = [other.arguments.get(each) for each in sorted(kernels[other.kernel].loads)]
        handed = [each for each in loaded if each is not None and each in stored]
        if handed:
            yield HandedOver(handed[0], one.kernel, other.kernel, one.line, other.line)


def _launch(statement: ast.stmt, kernels: Mapping[str, _Kernel]) -> _Launch | None:
    """The launch of one of these kernels that a statement is, if it is one."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Subscript):
        return None
    name = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if name not in kernels or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    given = [
        *zip(kernels[name].parameters, call.args),
        *((each.arg, each.value) for each in call.keywords if each.arg),
    ]
    arguments = {parameter: each.id for parameter, each in given if isinstance(each, ast.Name)}
    return _Launch(name, ast.dump(call.func.slice), statement.lineno, arguments)
