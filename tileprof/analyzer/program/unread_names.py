"""Names of a function that are assigned and that nothing reads, by its source text.

In: a file's text.  Out: assignments whose values do not reach what the function returns:

    kept = exp(x)           # read by the next line alone
    total = dot(kept, x)    # never read
    return x + 1

A name counts as read wherever it occurs, in nested functions too, except in the values of such
assignments. Functions without a result are left out, since they work by their effects, and so are
those that look names up by text (`locals`, `eval`). Whether a value had an effect of its own is for
the caller to say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_BY_TEXT = {"locals", "vars", "eval", "exec"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unread(NamedTuple):
    """An assignment whose value nobody reads."""

    function: str
    names: tuple[str, ...]
    first: int
    """Line of its beginning, from 1."""
    last: int


def unread_names(text: str) -> list[Unread]:
    """Return the assignments that nothing reads, in the order of the file's functions."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    functions = (node for node in ast.walk(tree) if isinstance(node, _Function))
    return [each for function in functions for each in _of_function(function)]


def _of_function(function: _Function) -> Iterator[Unread]:
    everything = list(ast.walk(function))
    own = list(_own(function))
    names = [node for node in everything if isinstance(node, ast.Name)]
    kept = {name for node in everything if isinstance(node, ast.Global | ast.Nonlocal)
            for name in node.names}  # fmt: skip
    kept |= {node.target.id for node in everything
             if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}  # fmt: skip
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in own)
    if not returns or any(node.id in _BY_TEXT for node in names):
        return
    assigned = {node: set(found) for node in own if (found := _targets(node))}
    unread = {node: targets for node, targets in assigned.items()
              if not targets & kept and targets != {"_"}}  # fmt: skip
    while unread:
        inside = {id(each) for node in unread for each in ast.walk(node)}
        read = {node.id for node in names
                if isinstance(node.ctx, ast.Load | ast.Del) and id(node) not in inside}  # fmt: skip
        left = {node: targets for node, targets in unread.items() if not targets & read}
        if len(left) == len(unread):
            break
        unread = left
    for node, targets in unread.items():
        yield Unread(
            function.name, tuple(sorted(targets)), node.lineno, node.end_lineno or node.lineno
        )


def _own(function: _Function) -> Iterator[ast.stmt]:
    """Statements of a function, without those of functions and classes in it."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop(0)
        if isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.stmt):
            yield node
        left += ast.iter_child_nodes(node)


def _targets(statement: ast.stmt) -> list[str]:
    """Names that an assignment gives a computed value; none where it gives one to anything else."""
    match statement:
        case ast.Assign(targets=[target], value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pass
        case _:
            return []
    if not any(isinstance(each, ast.Call | ast.BinOp) for each in ast.walk(value)):
        return []
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    names = [each.id for each in parts if isinstance(each, ast.Name)]
    return names if len(names) == len(parts) else []
