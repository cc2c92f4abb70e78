"""Loops that launch one Triton kernel again and again, on another part of the same tensors.

In: the text of a file, as a profile keeps it, with a kernel and the function that launches it.
Out: `Split`, where one launch over all parts could take the place of the loop.

    for part in range(8):
        kernel[(rows // 8,)](x, out, part)

Launches are parts of one where only numbers that follow from the loop's index differ between them,
and the kernel loads from no tensor that it stores to, so that none needs what another one wrote.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.program.calls import parsed

_LOADS, _STORES = ("load",), ("store",)
_ATOMIC = "atomic_"


@dataclass(frozen=True, slots=True)
class Split:
    """A loop whose launches could be one."""

    line: int
    """Line of the statement that launches."""
    index: str
    """Name of the loop's index."""
    count: int
    """Iterations, the most that the text allows; 0 where it does not say how many."""
    may_be_one: bool = False
    """Whether the text has a case in which the loop runs once."""


@lru_cache(maxsize=64)
def split_launch(text: str, kernel: str) -> Split | None:
    """Return the loop that holds the only statement of a file that launches a kernel, if its
    launches could be one; None otherwise."""
    tree = parsed(text)
    function = _kernel(tree, kernel) if tree is not None else None
    if tree is None or function is None:
        return None
    launches = [each for each in ast.walk(tree) if _launched(each, kernel) is not None]
    for around in ast.walk(tree) if len(launches) == 1 else ():
        if isinstance(around, ast.FunctionDef):
            for loop in ast.walk(around):
                if isinstance(loop, ast.For) and launches[0] in loop.body:
                    return _of_loop(loop, kernel, function, around)
    return None


def _kernel(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    return next(
        (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name
         and any(ast.unparse(e).endswith(".jit") for e in each.decorator_list)), None,
    )  # fmt: skip


def _launched(node: ast.AST, kernel: str) -> ast.Call | None:
    """Return the call of a statement `kernel[grid](arguments)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    is_launch = (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)
        and isinstance(call.func.value, ast.Name) and call.func.value.id == kernel
    )  # fmt: skip
    return call if is_launch and isinstance(call, ast.Call) else None


def _of_loop(
    loop: ast.For, name: str, kernel: ast.FunctionDef, around: ast.FunctionDef
) -> Split | None:
    index = loop.target
    call = next(found for each in loop.body if (found := _launched(each, name)) is not None)
    if not isinstance(index, ast.Name) or not _is_range(loop.iter):
        return None
    derived = {index.id}
    for statement in loop.body:
        if _launched(statement, name) is not None:
            continue
        # Numbers of a part, as `first = part * rows`: nothing else is done between launches.
        if not isinstance(statement, ast.Assign) or any(
            isinstance(node, ast.Call) for node in ast.walk(statement.value)
        ):
            return None
        derived |= {name for each in statement.targets for name in _names(each)}
    accesses = _accesses(kernel)
    parameters = [each.arg for each in kernel.args.args]
    given = dict(zip(parameters, call.args)) | {e.arg: e.value for e in call.keywords if e.arg}
    differ = {name for name, value in given.items() if _names(value) & derived}
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if accesses is None or starred or not differ & _stored_by(kernel):
        return None
    loads, stores = ({_tensor(given, e, derived) for e in each} for each in accesses)
    if not stores or None in loads | stores or loads & stores:
        return None
    counts = _counts(loop.iter, around)
    return Split(call.lineno, index.id, max(counts, default=0), 1 in counts)


def _is_range(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    )


def _tensor(given: Mapping[str, ast.expr], parameter: str, derived: set[str]) -> str | None:
    """The tensor that is given for a parameter, a part of it included: `x` of `x[part]`; None where
    the loop may give another one each time."""
    value = given.get(parameter)
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Name | ast.Attribute) or _names(value) & derived:
        return None
    return ast.unparse(value)


def _counts(iterations: ast.expr, around: ast.FunctionDef) -> tuple[int, ...]:
    """How many iterations there are, in each case that the text has; nothing if it does not say."""
    assert isinstance(iterations, ast.Call)
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


def _accesses(kernel: ast.FunctionDef) -> tuple[set[str], set[str]] | None:
    """Parameters that a kernel loads from, and those that it stores to; None where a pointer's
    origin is not known, or an atomic operation reads what it writes for more than a sum."""
    parameters = {each.arg for each in kernel.args.args}
    origins = {name: name for name in parameters}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, base = node.targets[0], _base(node.value, origins)
            if isinstance(target, ast.Name) and base in parameters:
                origins[target.id] = origins.get(target.id, base) and base
    loads, stores = set[str](), set[str]()
    for call in ast.walk(kernel):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name = call.func.attr
        if name not in (*_LOADS, *_STORES) and not name.startswith(_ATOMIC):
            continue
        base = _base(call, origins)
        if base is None or (name.startswith(_ATOMIC) and name != "atomic_add"):
            return None
        (loads if name in _LOADS else stores).add(base)
    return loads, stores


def _writes(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else ""
    return name in _STORES or name.startswith(_ATOMIC)


def _stored_by(kernel: ast.FunctionDef) -> set[str]:
    """Names that the addresses of a kernel's stores follow from."""
    made = dict[str, set[str]]()
    found = list[str]()
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {name for each in targets for name in _names(each)}:
                made.setdefault(name, set()).update(_names(node.value))
        elif isinstance(node, ast.Call) and _writes(node.func):
            found += [name for each in (node.func, *node.args[:1]) for name in _names(each)]
    seen = set[str]()
    while found:
        if (name := found.pop()) not in seen:
            seen.add(name)
            found += made.get(name, ())
    return seen


def _base(node: ast.expr, origins: Mapping[str, str]) -> str | None:
    """The parameter that an address begins with: `x` of `x + row * stride`, and what is made of it
    by a call."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            method = isinstance(node.func, ast.Attribute) and _base(node.func.value, origins)
            if method:
                return method
            bases = [each.value for each in node.keywords if each.arg in ("base", "pointer")]
            if not node.args and not bases:
                return None
            node = node.args[0] if node.args else bases[0]
        else:
            return None
    return origins.get(node.id)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def splits(texts: Mapping[str, str], kernel: str) -> Iterator[tuple[str, Split]]:
    """Yield the file and the loop of a kernel's launches, where one file alone launches it."""
    is_name = kernel.isidentifier()  # functions of C++ have types in their names
    files = [file for file, text in texts.items() if is_name and f"{kernel}[" in text]
    if len(files) == 1 and (found := split_launch(texts[files[0]], kernel)) is not None:
        yield files[0], found
