"""Sorts and scans of a Triton kernel of whose result a single number is used.

In: the text of a file, and the name of a kernel.  Out: the call, and the reduction that gives the
same number.

    tl.max(tl.sort(x), 0)                                     tl.max(x, 0)
    tl.sum(tl.where(at == n - 1, tl.cumsum(x, 0), 0.0), 0)    tl.sum(x, 0)

A sort of n numbers exchanges them in log2(n) (log2(n) + 1) / 2 steps, and a scan keeps all sums so
far, where a reduction meets in log2(n) steps and keeps one number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.program.calls import called, parsed
from tileprof.analyzer.program.triton.functions import imported_names, is_kernel

__all__ = ["NeedlessOrder", "needless_orders"]

_EXTREMES = ("max", "min")
_SELECTING = ("sum", "max", "min")
"""Reductions of a tensor in which all but one element were set to a constant."""


@dataclass(frozen=True, slots=True)
class NeedlessOrder:
    """A call of a sort or of a scan."""

    line: int
    function: str
    """`sort` or `cumsum`."""
    instead: str
    """The reduction that gives what is used of its result."""


@lru_cache(maxsize=64)
def needless_orders(text: str, kernel: str) -> tuple[NeedlessOrder, ...]:
    """Return such calls of the only kernel of that name in a file; none where it is no Python."""
    tree, imported = parsed(text), imported_names(text)
    found = [
        node for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.FunctionDef) and node.name == kernel and is_kernel(node, imported)
    ]  # fmt: skip
    return tuple(_orders(found[0])) if len(found) == 1 else ()


def _orders(function: ast.FunctionDef) -> Iterator[NeedlessOrder]:
    above = {below: node for node in ast.walk(function) for below in ast.iter_child_nodes(node)}
    for call in ast.walk(function):
        name = called(call) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or name not in ("sort", "cumsum"):
            continue
        used = _used_once(function, above, call)
        user = above.get(used)
        if isinstance(user, ast.Attribute):
            user = above.get(user)
        if not isinstance(user, ast.Call):
            continue
        if name == "sort" and called(user) in _EXTREMES and _is_value(user, used):
            yield NeedlessOrder(call.lineno, name, called(user))
        elif name == "cumsum" and _selects_one(user, used):
            outer = above.get(_used_once(function, above, user))
            if isinstance(outer, ast.Call) and called(outer) in _SELECTING:
                yield NeedlessOrder(call.lineno, name, "sum")


def _used_once(
    function: ast.FunctionDef, above: dict[ast.AST, ast.AST], value: ast.expr
) -> ast.expr:
    """Return where a value is used: itself, or the only use of the name that it is given to, which
    nothing else is given to."""
    statement = above.get(value)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return value
    name = statement.targets[0].id
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
    read = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return read[0] if len(read) == 1 and len(uses) == 2 else value


def _is_value(call: ast.Call, node: ast.expr) -> bool:
    """Whether a reduction, a function or a method, is of a value."""
    method = isinstance(call.func, ast.Attribute) and call.func.value is node
    return method or (bool(call.args) and call.args[0] is node)


def _selects_one(call: ast.Call, value: ast.expr) -> bool:
    """Whether a call takes a value where an index equals a number, and a constant elsewhere."""
    if called(call) != "where" or len(call.args) != 3:
        return False
    condition, one, other = call.args
    equal = isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Eq)
    return equal and one is value and isinstance(other, ast.Constant)
