"""Control flow that is written as calls becomes Python's statements.

    with T.If(a < b):                    if a < b:
        with T.Then():                       x[0] = 1
            x[0] = 1                     else:
        with T.Else():                       x[0] = 2
            x[0] = 2

    for i, j in T.grid(m, n):            for i in T.serial(m):
        y[i, j] = 0                          for j in T.serial(n):
                                                 y[i, j] = 0

    T.loop_break()                       break

In: the syntax tree of a user's function, which is changed in place.  The new statements have the
positions of those that they replace.  What has another form stays a call, and the function that it
calls raises an error that shows the form.
"""

from __future__ import annotations

import ast
from typing import Any, TypeGuard, cast


def with_plain_forms(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Replace the calls that stand for control flow in a function, and return the function."""
    return cast(ast.FunctionDef, _PlainForms().visit(tree))


class _PlainForms(ast.NodeTransformer):
    def __init__(self) -> None:
        self._loops = 0

    def visit(self, node: ast.AST) -> Any:
        """Visit statements; expressions hold none, and may be nested deeply."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A loop around an inner function is none of its own."""
        outer, self._loops = self._loops, 0
        self.generic_visit(node)
        self._loops = outer
        return node

    def visit_With(self, node: ast.With) -> Any:
        """Replace `with T.If(condition):`."""
        self.generic_visit(node)
        first = node.items[0].context_expr
        if not (_is_call(first, "If") and len(first.args) == 1 and not first.keywords):
            return node
        then, *other = node.body
        # `with T.If(a), T.Then():` holds the body of the branch itself.
        if len(node.items) == 2 and _is_call(node.items[1].context_expr, "Then"):
            made = ast.If(first.args[0], node.body, [])
        elif len(node.items) == 1 and _is_part(then, "Then") and len(other) <= 1:
            otherwise: list[ast.stmt] = []
            for part in other:
                if not _is_part(part, "Else"):
                    return node
                otherwise = part.body
            made = ast.If(first.args[0], then.body, otherwise)
        else:
            return node
        return ast.copy_location(made, node)

    def visit_For(self, node: ast.For) -> Any:
        """Replace `for i, j in T.grid(m, n)`."""
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1
        call, target = node.iter, node.target
        if (
            not _is_call(call, "grid")
            or not isinstance(call.func, ast.Attribute)
            or call.keywords
            or not call.args
            or any(isinstance(a, ast.Starred) for a in call.args)
            or node.orelse
            or _breaks(node)
        ):
            return node
        names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if len(names) != len(call.args):
            return node
        body = node.body
        for name, extent in zip(reversed(names), reversed(call.args)):
            serial = ast.Attribute(call.func.value, "serial", ast.Load())
            loop = ast.Call(ast.copy_location(serial, call.func), [extent], [])
            ast.copy_location(loop, call)
            body = [ast.copy_location(ast.For(name, loop, body, []), node)]
        return body[0]

    def visit_While(self, node: ast.While) -> Any:
        """`T.loop_break()` ends this loop too."""
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Replace `T.loop_break()`."""
        if self._loops and _is_call(node.value, "loop_break") and not node.value.args:
            return ast.copy_location(ast.Break(), node)
        return node


def _is_part(node: ast.stmt, name: str) -> TypeGuard[ast.With]:
    """Return whether a statement is `with T.<name>():` and nothing else."""
    return (
        isinstance(node, ast.With)
        and len(node.items) == 1
        and _is_call(node.items[0].context_expr, name)
    )


def _is_call(node: ast.expr, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and (
        getattr(node.func, "attr", getattr(node.func, "id", "")) == name
    )


def _breaks(loop: ast.For) -> bool:
    """Return whether a `break` ends this loop, and not one inside of it."""
    held: list[ast.AST] = list(loop.body)
    while held:
        node = held.pop()
        if isinstance(node, ast.Break):
            return True
        if not isinstance(node, (ast.For, ast.While, ast.FunctionDef)):
            held += ast.iter_child_nodes(node)
    return False
