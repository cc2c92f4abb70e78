"""Loops that launch one Triton kernel again and again, on another part of the same tensors.

In: the text of a file, as a profile keeps it, with a kernel and the function that launches it.
Out: `Split`, where one launch over all parts could take the place of the loop.

    for part in range(8):
        kernel[(rows // 8,)](x, out, part)

Launches are parts of one where only numbers that follow from the loop's index differ between them,
and the kernel loads from no tensor that it stores to, so that none needs what another one wrote.
Two names may be of one tensor, and a text may not say how often a loop runs: where launches were
seen, their arguments tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tileprof.analyzer.program.calls import parsed
from tileprof.analyzer.program.triton_kernels import TritonKernel, launched, triton_kernels
from tileprof.profile import LaunchVariant, seen_at


@dataclass(frozen=True, slots=True)
class Split:
    """A loop whose launches could be one."""

    line: int
    """First line of the statement that launches."""
    end_line: int
    index: str
    """Name of the loop's index."""
    count: int
    """Iterations, the most that the text allows; 0 where it does not say how many."""
    may_be_one: bool = False
    """Whether the loop may run once: the text has a case of that, and no launch was seen."""
    parameter: str = ""
    """Parameter that is given the index itself, where that goes up by one; empty if none is."""


@lru_cache(maxsize=64)
def split_launch(text: str, kernel: str) -> Split | None:
    """Return the loop that holds the only statement of a file that launches a kernel, if its
    launches could be one; None otherwise."""
    tree = parsed(text)
    kernels = {each.name: each for each in triton_kernels(text) if each.name == kernel}
    if tree is None or not kernels:
        return None
    grids = [
        each for each in ast.walk(tree) if isinstance(each, ast.Subscript)
        and isinstance(each.value, ast.Name) and each.value.id == kernel
    ]  # fmt: skip
    for around in ast.walk(tree) if len(grids) == 1 else ():
        if isinstance(around, ast.FunctionDef):
            for loop in ast.walk(around):
                if isinstance(loop, ast.For) and any(launched(e, kernels) for e in loop.body):
                    return _of_loop(loop, kernels, around)
    return None


def _of_loop(
    loop: ast.For, kernels: Mapping[str, TritonKernel], around: ast.FunctionDef
) -> Split | None:
    index = loop.target
    if not isinstance(index, ast.Name) or (iterations := _range(loop.iter)) is None:
        return None
    launches = [launched(each, kernels) for each in loop.body]
    derived = {index.id}
    for statement, launch in zip(loop.body, launches):
        if launch is not None:
            continue
        # Numbers of a part, as `first = part * rows`: nothing else is done between launches.
        if not isinstance(statement, ast.Assign) or any(
            isinstance(node, ast.Call) for node in ast.walk(statement.value)
        ):
            return None
        derived |= {name for each in statement.targets for name in _names(each)}
    held = [each for each in launches if each is not None]
    if len(held) != 1:
        return None
    kernel, given, call = held[0].kernel, held[0].given, held[0].call
    differ = {name for name, value in given.items() if _names(value) & derived}
    if kernel.unknown or not differ & kernel.placed:
        return None
    loads, stores = (
        {_tensor(given, each, derived) for each in accessed}
        for accessed in (kernel.loads, {*kernel.stores, *kernel.added})
    )
    if not stores or None in loads | stores or loads & stores:
        return None
    counts = _counts(iterations, around)
    given_index = (
        name for name, each in given.items() if isinstance(each, ast.Name) and each.id == index.id
        and len(iterations.args) < 3
    )  # fmt: skip
    return Split(
        call.lineno, call.end_lineno or call.lineno, index.id, max(counts, default=0), 1 in counts,
        next(given_index, ""),
    )  # fmt: skip


def _range(node: ast.expr) -> ast.Call | None:
    is_range = isinstance(node, ast.Call) and ast.unparse(node.func) == "range"
    return node if is_range and isinstance(node, ast.Call) else None


def _tensor(given: Mapping[str, ast.expr], parameter: str, derived: set[str]) -> str | None:
    """The tensor that is given for a parameter, a part of it included: `x` of `x[part]`; None where
    the loop may give another one each time."""
    value = given.get(parameter)
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Name | ast.Attribute) or _names(value) & derived:
        return None
    return ast.unparse(value)


def _counts(iterations: ast.Call, around: ast.FunctionDef) -> tuple[int, ...]:
    """How many iterations there are, in each case that the text has; nothing if it does not say."""
    end = iterations.args[0] if len(iterations.args) == 1 else None
    if isinstance(end, ast.Name):
        values = [
            each.value for each in ast.walk(around) if isinstance(each, ast.Assign)
            and any(isinstance(e, ast.Name) and e.id == end.id for e in each.targets)
        ]  # fmt: skip
        end = values[0] if len(values) == 1 else None
    choices = [end.body, end.orelse] if isinstance(end, ast.IfExp) else [end]
    numbers = [e.value for e in choices if isinstance(e, ast.Constant) and type(e.value) is int]
    return tuple(numbers) if len(numbers) == len(choices) else ()


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def splits(
    texts: Mapping[str, str], launches: Sequence[LaunchVariant], kernel: str
) -> Iterator[tuple[str, Split]]:
    """Yield the file and the loop of a kernel's launches, where one file alone launches it and
    nothing that was seen of them speaks against."""
    is_name = kernel.isidentifier()  # functions of C++ have types in their names
    files = [file for file, text in texts.items() if is_name and f"{kernel}[" in text]
    if len(files) != 1 or (found := split_launch(texts[files[0]], kernel)) is None:
        return
    read = {each.name: each for each in triton_kernels(texts[files[0]])}[kernel]
    lines = range(found.line, found.end_line + 1)
    seen = _as_seen(found, read, seen_at(launches, kernel, files[0], lines))
    if seen is not None:
        yield files[0], seen


def _as_seen(split: Split, kernel: TritonKernel, seen: Sequence[LaunchVariant]) -> Split | None:
    """Return a loop as its launches were seen; None where one may need what another one wrote, or
    there was but one."""
    for each in seen:
        loads, stores = (
            {held.memory for name in names if (held := each.tensor(name)) is not None}
            for names in (kernel.loads, {*kernel.stores, *kernel.added})
        )
        if loads & stores:
            return None
    given = (each.number(split.parameter) for each in seen)
    numbers = [each for each in given if each is not None]
    if not numbers or sum(each.looked_at for each in seen) < 2:
        return split
    least, most = min(each.low for each in numbers), max(each.high for each in numbers)
    if least == most:
        return None
    return replace(split, count=split.count or int(most - least) + 1, may_be_one=False)
