"""Rewrite assignment to names, and refuse what a kernel cannot use.

    x = x + A[i]        x = __tileprof.assign('x', __tileprof.read(x) + A[i])

A name that holds a variable of the kernel is stored into where Python would bind it anew.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any, NoReturn

from tileprof.errors import KernelError, UnsupportedPython
from tileprof.lang.spans import node_location

from .liveness import assigned
from .source import HOOKS, FunctionSource

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("`try`", "Check at compile time with `if`, or at run time with `T.device_assert`."),
    ast.TryStar: ("`try`", "Check at compile time with `if`."),
    ast.Delete: ("`del`", "Let the name go out of use."),
    ast.ClassDef: ("`class`", "Define it outside of the kernel."),
    ast.AsyncFor: ("`async for`", "Use `for`."),
    ast.AsyncWith: ("`async with`", "Use `with`."),
    ast.AsyncFunctionDef: ("`async def`", "Use `def`."),
    ast.Await: ("`await`", "Call the function outside of the kernel."),
    ast.Yield: ("`yield`", "Return values, or write a `@T.macro`."),
    ast.YieldFrom: ("`yield`", "Return values, or write a `@T.macro`."),
    ast.Global: ("`global`", "Pass the value as an argument."),
    ast.Nonlocal: ("`nonlocal`", "Return the value, or use `T.alloc_var`."),
    ast.Match: ("`match`", "Use `if` and `elif`."),
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip


_TENSORS = ("Tensor", "Buffer", "StridedTensor")
"""Annotations that only a parameter can have."""


class NameRewriter(ast.NodeTransformer):
    """Assignment to names: one that holds a variable of the kernel stores into it."""

    def __init__(self, source: FunctionSource) -> None:
        self._source = source
        self._function = source.tree.name
        self._tokens = 0
        self._params: frozenset[str] = frozenset()
        # Only a name that is bound twice can be a variable when it is assigned.
        self._rebound: frozenset[str] = frozenset()

    def function(self, tree: ast.FunctionDef, *, root: bool = False) -> ast.FunctionDef:
        """Rewrite one function in place."""
        outer = self._params, self._rebound, self._function
        params = _parameters(tree.args)
        counts = Counter(params)
        for node in _own_nodes(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts[node.id] += 1
            elif isinstance(node, ast.FunctionDef):
                counts[node.name] += 1
        self._params = frozenset(params) if root else frozenset()
        self._rebound = frozenset(n for n, c in counts.items() if c > 1)
        if not root:
            # Names of the function around it can be variables too.
            self._rebound |= outer[1] - assigned(tree.body) - frozenset(params)
        self._function = tree.name
        self._enter_function(tree)
        tree.body = self.block(tree.body)
        tree.returns = None
        if root:
            for arg in _arguments(tree.args):
                arg.annotation = None
        self._leave_function(tree)
        self._params, self._rebound, self._function = outer
        return tree

    def _enter_function(self, tree: ast.FunctionDef) -> None:
        pass

    def _leave_function(self, tree: ast.FunctionDef) -> None:
        pass

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a list of statements."""
        made: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            made.extend(new if isinstance(new, list) else [new])
        return made

    # -- statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A nested function is rewritten where it stands."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        if node.decorator_list:
            # A decorator such as `T.macro` reads the text from the file itself.
            return node
        return self.function(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """`name = value`; several targets are bound one after the other."""
        value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            node.value = self._bound(node.targets[0].id, value)
            return node
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Subscript, ast.Attribute)):
            node.value, node.targets = value, [self.visit(node.targets[0])]
            return node
        return self._unpack(node, value)

    def _unpack(self, node: ast.Assign, value: ast.expr) -> list[ast.stmt]:
        """`a, b[i] = c = v`: first the values into temporaries, then each target by itself."""
        whole = self._token()
        made = [self._store(whole, self._hook("settle", value), node)]
        for target in node.targets:
            made += self._unpack_one(target, self._load(whole), node)
        return made

    def _unpack_one(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(target, (ast.Tuple, ast.List)):
            names = [self._token() for _ in target.elts]
            pattern: list[ast.expr] = [
                ast.Starred(ast.Name(n, ast.Store()), ast.Store())
                if isinstance(t, ast.Starred)
                else ast.Name(n, ast.Store())
                for n, t in zip(names, target.elts)
            ]
            made: list[ast.stmt] = [
                self._at(ast.Assign([ast.Tuple(pattern, ast.Store())], value), node)
            ]
            for name, inner in zip(names, target.elts):
                inner = inner.value if isinstance(inner, ast.Starred) else inner
                made += self._unpack_one(inner, self._load(name), node)
            return made
        if isinstance(target, ast.Name):
            value = self._bound(target.id, value)
        else:
            target = self.visit(target)
        return [self._at(ast.Assign([target], value), node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """`name += value`."""
        value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            node.target, node.value = self.visit(node.target), value
            return node
        name = node.target.id
        operator = ast.Constant(_OPERATORS[type(node.op)])
        made = self._hook("augment", ast.Constant(name), operator, self._load(name), value)
        return self._at(ast.Assign([ast.Name(name, ast.Store())], made), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """`A: T.Tensor(…)` of a parameter, `x: T.int32 = value`."""
        if not isinstance(node.target, ast.Name):
            return ast.Pass() if node.value is None else self._plain(node)
        name = node.target.id
        if node.value is None:
            if name not in self._params:
                if self._params:
                    self._refuse_stray(node, name)
                return self._at(ast.Pass(), node)
            made = self._hook(
                "argument", ast.Constant(name), self._load(name), self.visit(node.annotation)
            )
            return self._at(ast.Assign([ast.Name(name, ast.Store())], made), node)
        typed = self._hook("typed", self.visit(node.annotation), self.visit(node.value))
        return self._at(ast.Assign([ast.Name(name, ast.Store())], self._bound(name, typed)), node)

    def _refuse_stray(self, node: ast.AnnAssign, name: str) -> None:
        """KernelError for a tensor that no parameter is; other annotations say nothing, as in
        Python."""
        kind = node.annotation.func if isinstance(node.annotation, ast.Call) else None
        if getattr(kind, "attr", getattr(kind, "id", "")) in _TENSORS:
            raise KernelError(
                f"`{name}` is annotated as a tensor, and is no parameter of `{self._function}`",
                location=node_location(node, self._source.file, self._function),
                hint=f"Add `{name}` to the parameters; a result is `{name} = T.empty(shape, dtype)`"
                f", and memory of a block `{name} = T.alloc_shared(shape, dtype)`.",
            )

    def _plain(self, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _bound(self, name: str, value: ast.expr) -> ast.expr:
        which = "assign" if name in self._rebound else "name"
        return self._hook(which, ast.Constant(name), value)

    # -- expressions

    def visit_Name(self, node: ast.Name) -> Any:
        """Read a name that may hold a variable through the hook."""
        if isinstance(node.ctx, ast.Load) and node.id in self._rebound:
            return self._at(self._hook("read", ast.Name(node.id, ast.Load())), node)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Refuse what a kernel cannot use."""
        refused = _REFUSED.get(type(node))
        if refused is not None:
            self._refuse(node, *refused)
        return super().generic_visit(node)

    # -- pieces

    def _refuse(self, node: ast.AST, what: str, hint: str) -> NoReturn:
        location = node_location(node, self._source.file, self._function)
        raise UnsupportedPython(f"{what} cannot be used in a kernel", location=location, hint=hint)

    def _token(self) -> str:
        self._tokens += 1
        return f"__t{self._tokens}"

    def _load(self, name: str) -> ast.Name:
        return ast.Name(name, ast.Load())

    def _hook(self, method: str, *args: ast.expr) -> ast.expr:
        return self._call(self._load(HOOKS), method, *args)

    def _call(self, target: ast.expr, method: str, *args: ast.expr) -> ast.expr:
        call = ast.Call(ast.Attribute(target, method, ast.Load()), list(args), [])
        return ast.copy_location(call, args[-1]) if args and hasattr(args[-1], "lineno") else call

    def _store(self, name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
        made: ast.stmt = self._at(ast.Assign([ast.Name(name, ast.Store())], value), node)
        return made

    def _at(self, new: Any, node: ast.AST) -> Any:
        """Place a new node, and the new ones in it, where `node` stands."""
        ast.copy_location(new, node)
        for child in ast.iter_child_nodes(new):
            if "lineno" in child._attributes and not hasattr(child, "lineno"):
                self._at(child, node)
        return new


def _own_nodes(tree: ast.FunctionDef) -> list[ast.AST]:
    """Return the nodes of a function without those of nested functions."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _parameters(args: ast.arguments) -> list[str]:
    return [a.arg for a in _arguments(args)]
