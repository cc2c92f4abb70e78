"""Cut a kernel's function down to its signature: the lines that say which tensors it makes.

    A: T.Tensor((M, K), kind)            A = __tileprof.argument('A', A, T.Tensor((M, K), kind))
    C = T.empty((M, N), kind)            C = T.empty((M, N), kind)
    with T.Kernel(…) as (bx, by):        pass
        …
    return C                             return C

Everything outside of `T.Kernel` stays plain Python, which computes with the extents of a call.
"""

from __future__ import annotations

import ast
from typing import Any

from .source import HOOKS, FunctionSource


def without_launches(source: FunctionSource) -> ast.FunctionDef:
    """Return the function without its launches, its parameters' annotations as calls of a hook."""
    tree = source.fresh_tree()
    names = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
    made = _Shaping(names).function(tree)
    made.returns = None
    for arg in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        arg.annotation = None
    return made


def annotated_tensors(source: FunctionSource) -> dict[str, ast.expr]:
    """Return the annotations that stand in the function's body, by parameter."""
    args = source.tree.args
    names = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    return {
        n.target.id: n.annotation
        for n in ast.walk(source.tree)
        if isinstance(n, ast.AnnAssign)
        and n.value is None
        and isinstance(n.target, ast.Name)
        and n.target.id in names
    }


def returned_names(source: FunctionSource) -> tuple[str, ...]:
    """Return the names in the function's last `return`, '' for what is no plain name."""
    found = [n for n in _own_nodes(source.tree) if isinstance(n, ast.Return)]
    if not found or found[-1].value is None:
        return ()
    value = found[-1].value
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    return tuple(p.id if isinstance(p, ast.Name) else "" for p in parts)


def _own_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a function in the order of its text, without those of inner functions."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(tree):
        found.append(child)
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            found += _own_nodes(child)
    return found


class _Shaping(ast.NodeTransformer):
    """Replaces launches and annotations of parameters."""

    def __init__(self, params: set[str]) -> None:
        self._params = params

    def function(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite the body of the kernel's function."""
        held: list[ast.stmt] = []
        for statement in tree.body:
            held.append(self.visit(statement))
        tree.body = held
        return tree

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Functions inside the kernel's stay as they are."""
        return node

    def visit_With(self, node: ast.With) -> Any:
        """Take a launch out."""
        if any(_is_launch(item.context_expr) for item in node.items):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Hand the annotation of a parameter to the hook."""
        if not isinstance(node.target, ast.Name) or node.value is not None:
            return node
        name = node.target.id
        if name not in self._params:
            return ast.copy_location(ast.Pass(), node)
        hook = ast.Attribute(ast.Name(HOOKS, ast.Load()), "argument", ast.Load())
        call = ast.Call(hook, [ast.Constant(name), ast.Name(name, ast.Load()), node.annotation], [])
        made = ast.Assign([ast.Name(name, ast.Store())], call)
        ast.copy_location(call, node.annotation)
        return ast.copy_location(made, node)


def _is_launch(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (
        getattr(value.func, "attr", getattr(value.func, "id", "")) == "Kernel"
    )
