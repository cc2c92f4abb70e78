"""Mutations of a program's text, each at one place.

In: the text of a script.  Out: mutants: the operator, the line, and the text with that one change.
Operators are those of mistakes in a rewrite: another number, a term or factor that is left out or
turned round, a call that is left out or whose result is rounded or cut off from the gradient, an
argument that is left out, a slice or an axis off by one, a statement that is left out.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LEFT_ALONE = ("__init__", "manual_seed", "print", "super", "get_default_dtype", "range", "main")
"""Calls that are no part of what is computed, or without which nothing runs."""
_OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_ROUNDED = "_rounded"
_HELPER = f"def {_ROUNDED}(x):\n    import torch\n    return x.to(torch.bfloat16).to(x.dtype)\n"


@dataclass(frozen=True)
class Mutant:
    """A text that differs from the program's at one place."""

    operator: str
    line: int
    before: str
    after: str
    text: str


Change = Callable[[ast.AST], ast.AST | None]
"""Returns what stands in place of a node; None where it does not apply."""


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every mutant of a program, one for each operator and place."""
    tree = ast.parse(text)
    places = list(_places(tree))
    seen = {ast.unparse(tree)}
    for operator, change in OPERATORS.items():
        for parent, field, at, node in places:
            new = change(node)
            if new is None:
                continue
            before, after = ast.unparse(node), ast.unparse(new)
            with _in_place(parent, field, at, new):
                written = ast.unparse(tree)
            if _ROUNDED in after:
                written = f"{_HELPER}{written}"
            if written not in seen:
                seen.add(written)
                yield Mutant(operator, getattr(node, "lineno", 0), before, after, written)


@contextmanager
def _in_place(parent: ast.AST, field: str, at: int | None, new: ast.AST) -> Iterator[None]:
    """Let a node stand in the field of its parent meanwhile."""
    held = getattr(parent, field)
    if at is None:
        setattr(parent, field, new)
        yield
        setattr(parent, field, held)
    else:
        old, held[at] = held[at], new
        yield
        held[at] = old


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield each node with its parent, the field that holds it and its place in a list."""
    for parent in ast.walk(tree):
        for field, held in ast.iter_fields(parent):
            if isinstance(held, ast.AST):
                yield parent, field, None, held
            elif isinstance(held, list):
                for at, node in enumerate(held):
                    if isinstance(node, ast.AST):
                        yield parent, field, at, node


# -- operators


def _scaled(factor: float) -> Change:
    def change(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
            return ast.copy_location(ast.Constant(node.value * factor), node)
        return None

    return change


def _counted(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.copy_location(ast.Constant(node.value + 1), node)
    return None


def _turned(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER:
        node = copy.deepcopy(node)
        node.op = _OTHER[type(node.op)]()
        return node
    return None


def _first_only(node: ast.AST) -> ast.AST | None:
    return node.left if isinstance(node, ast.BinOp) else None


def _second_only(node: ast.AST) -> ast.AST | None:
    return node.right if isinstance(node, ast.BinOp) else None


def _name(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _call_left_out(node: ast.AST) -> ast.AST | None:
    """`f(x)` becomes `x`, and `x.f(…)` becomes `x`."""
    if not isinstance(node, ast.Call) or _name(node) in _LEFT_ALONE:
        return None
    if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        return node.func.value
    return None


def _wrapped(before: str) -> Change:
    def change(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, (ast.Call, ast.BinOp)):
            return None
        if isinstance(node, ast.Call) and _name(node) in _LEFT_ALONE:
            return None
        made = ast.parse(before.format(ast.unparse(node)), mode="eval").body
        return ast.copy_location(made, node)

    return change


def _keyword_left_out(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and node.keywords:
        made = copy.deepcopy(node)
        del made.keywords[-1]
        return made
    return None


def _arguments_turned(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Call) and len(node.args) == 2 and _name(node) not in _LEFT_ALONE:
        made = copy.deepcopy(node)
        made.args.reverse()
        return made
    return None


def _slice_shorter(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Slice) and isinstance(node.upper, (ast.Constant, ast.UnaryOp)):
        made = copy.deepcopy(node)
        assert made.upper is not None
        made.upper = ast.BinOp(made.upper, ast.Sub(), ast.Constant(1))
        return made
    return None


def _left_out(node: ast.AST) -> ast.AST | None:
    """A statement whose value nobody uses."""
    match node:
        case ast.Expr(value=ast.Call() as call) if _name(call) not in (*_LEFT_ALONE, "backward"):
            return ast.copy_location(ast.Pass(), node)
    return None


def _assignment_left_out(node: ast.AST) -> ast.AST | None:
    """An assignment that only renews a variable."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value)):
            return ast.copy_location(ast.Pass(), node)
    return None


def _mean_as_sum(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Attribute) and node.attr in ("mean", "sum"):
        made = copy.deepcopy(node)
        made.attr = "sum" if node.attr == "mean" else "mean"
        return made
    return None


def _negated(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return None


OPERATORS: dict[str, Change] = {
    "a number 10 % larger": _scaled(1.1),
    "a number 0.3 % larger": _scaled(1.003),
    "a whole number larger by one": _counted,
    "the opposite operation": _turned,
    "without the second operand": _first_only,
    "without the first operand": _second_only,
    "without a call": _call_left_out,
    "rounded to bfloat16": _wrapped(f"{_ROUNDED}({{}})"),
    "cut off from the gradient": _wrapped("({}).detach()"),
    "without an argument": _keyword_left_out,
    "arguments exchanged": _arguments_turned,
    "a slice shorter by one": _slice_shorter,
    "without a statement": _left_out,
    "without an assignment": _assignment_left_out,
    "a mean for a sum": _mean_as_sum,
    "without a sign": _negated,
}
