"""Loops that launch one Triton kernel again and again, on another part of the same tensors.

In: the text of a file, as a profile keeps it, with a kernel and the function that launches it.
Out: `Split`, where one launch over all parts could take the place of the loop.

    for part in range(8):
        kernel[(rows // 8,)](x, out, part)
    for one, other in zip(x.chunk(8), out.chunk(8)):
        kernel[(rows // 8,)](one, other)

Launches are parts of one where only numbers that follow from the loop's index differ between them,
and the kernel loads from no tensor that it stores to, so that none needs what another one wrote.
Two names may be of one tensor, and a text may not say how often a loop runs: where launches were
seen, their arguments tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tileprof.analyzer.program.calls import called, parsed
from tileprof.analyzer.program.host_functions import VIEWS
from tileprof.analyzer.program.triton.functions import TritonKernel
from tileprof.analyzer.program.triton.kernels import launched, triton_kernels
from tileprof.profile import LaunchVariant, seen_at

_NUMBERS = ("min", "max", "int", "len", "cdiv", "size", "stride", "numel", "slice",
            "next_power_of_2")  # fmt: skip
"""Functions of numbers, by which a loop finds out about its part."""
_PARTS = (*VIEWS, "narrow", "select", "movedim", "transpose", "permute", "t")
"""Methods that give a part of a tensor, or all of it in another order."""
_CUT = ("chunk", "split", "tensor_split", "unbind")
"""Methods that give all parts of a tensor."""


@dataclass(frozen=True, slots=True)
class Split:
    """A loop whose launches could be one."""

    line: int
    """First line of the statement that launches."""
    end_line: int
    index: str
    """Name of what the loop goes over, as the loop's head has it."""
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
                if isinstance(loop, ast.For):
                    body = list(_straight(loop.body))
                    if any(launched(each, kernels) for each in body):
                        return _of_loop(loop, body, kernels, around)
    return None


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body, those under a `with` included."""
    for each in body:
        if isinstance(each, ast.With):
            yield from _straight(each.body)
        else:
            yield each


def _of_loop(
    loop: ast.For, body: list[ast.stmt], kernels: Mapping[str, TritonKernel],
    around: ast.FunctionDef,
) -> Split | None:  # fmt: skip
    if (iterations := _iterations(loop)) is None:
        return None
    parts = dict(iterations.parts)
    launches = [launched(each, kernels) for each in body]
    derived = _names(loop.target)
    for statement, launch in zip(body, launches):
        if launch is not None:
            continue
        # What a part is, as `first = part * rows`: nothing else is done between launches.
        if not isinstance(statement, ast.Assign) or not all(
            called(node) in (*_NUMBERS, *_PARTS)
            for node in ast.walk(statement.value) if isinstance(node, ast.Call)
        ):  # fmt: skip
            return None
        for target in statement.targets:
            parts |= _parts(target, statement.value, parts)
            derived |= _names(target)
    held = [each for each in launches if each is not None]
    if len(held) != 1:
        return None
    kernel, given, call = held[0].kernel, held[0].given, held[0].call
    differ = {name for name, value in given.items() if _names(value) & derived}
    if kernel.unknown or not differ & {*kernel.placed, *kernel.indices}:
        return None
    loads, stores = (
        {_tensor(given.get(each), derived, parts) for each in accessed}
        for accessed in (kernel.loads, {*kernel.stores, *kernel.added})
    )
    if not stores or None in loads | stores or loads & stores:
        return None
    counts = _counts(iterations.count, around)
    given_index = (
        name for name, each in given.items()
        if isinstance(each, ast.Name) and each.id == iterations.index
    )  # fmt: skip
    return Split(
        call.lineno, call.end_lineno or call.lineno, ast.unparse(loop.target),
        max(counts, default=0), 1 in counts, next(given_index, ""),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Iterations:
    """What a loop goes over."""

    count: ast.expr | None = None
    """How many iterations there are; None if the text does not say."""
    index: str = ""
    """Name of a number that goes up by one; empty if there is none."""
    parts: Mapping[str, str | None] = field(default_factory=dict)
    """By name that stands for a part of a tensor each time, that tensor."""


def _iterations(loop: ast.For) -> _Iterations | None:
    """What a loop goes over: numbers, parts of tensors, or both; None for anything else."""
    iterable, target = loop.iter, loop.target
    if not isinstance(iterable, ast.Call):
        return None
    name = called(iterable)
    if name == "enumerate" and iterable.args and isinstance(target, ast.Tuple):
        first, *others = target.elts
        inner = _of_parts(others[0], iterable.args[0]) if len(others) == 1 else None
        index = first.id if isinstance(first, ast.Name) else ""
        return None if inner is None else replace(inner, index=index)
    if name != "range" or not isinstance(target, ast.Name):
        return _of_parts(target, iterable)
    given = iterable.args
    return _Iterations(given[0] if len(given) == 1 else None, target.id if len(given) < 3 else "")


def _of_parts(target: ast.expr, iterable: ast.expr) -> _Iterations | None:
    """The parts of tensors that a loop goes over."""
    if not isinstance(iterable, ast.Call):
        return None
    if called(iterable) == "zip" and isinstance(target, ast.Tuple):
        pairs = [_of_parts(one, each) for one, each in zip(target.elts, iterable.args)]
        held = [each for each in pairs if each is not None]
        if len(held) != len(target.elts) or not held:
            return None
        return replace(held[0], parts={k: v for each in held for k, v in each.parts.items()})
    method = iterable.func
    if (
        called(iterable) not in _CUT or not isinstance(method, ast.Attribute)
        or not isinstance(target, ast.Name)
    ):  # fmt: skip
        return None
    of_torch = ast.unparse(method.value) == "torch"
    tensor, *more = [*iterable.args] if of_torch else [method.value, *iterable.args]
    count = more[0] if more and called(iterable) == "chunk" else None
    return _Iterations(count, parts={target.id: _tensor(tensor, set(), {})})


def _parts(
    target: ast.expr, value: ast.expr, parts: Mapping[str, str | None]
) -> dict[str, str | None]:
    """By name that is bound to a part of a tensor, that tensor."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts)
        return {k: v for one, of in pairs for k, v in _parts(one, of, parts).items()}
    part = isinstance(value, ast.Subscript) or (
        isinstance(value, ast.Call) and called(value) in _PARTS
    )
    if not isinstance(target, ast.Name) or not part:
        return {}
    return {target.id: _tensor(value, set(), parts)}


def _tensor(
    value: ast.expr | None, derived: set[str], parts: Mapping[str, str | None]
) -> str | None:
    """The tensor that an argument is, or is a part of: `x` of `x[part]`; None where a loop may give
    another one each time, by names that its part decides (`derived`)."""
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and called(value) in _PARTS:
            value = value.func.value if isinstance(value.func, ast.Attribute) else None
        else:
            break
    if isinstance(value, ast.Name) and value.id in parts:
        return parts[value.id]
    if not isinstance(value, ast.Name | ast.Attribute) or _names(value) & derived:
        return None
    return ast.unparse(value)


def _counts(end: ast.expr | None, around: ast.FunctionDef) -> tuple[int, ...]:
    """How many iterations there are, in each case that the text has; nothing if it does not say."""
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
