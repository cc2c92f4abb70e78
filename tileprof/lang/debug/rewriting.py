"""Rewrite a kernel's function to run as plain Python, statement by statement.

    M = T.const("M")                 __t1 = …; M = …
    A: T.Tensor((M, 4), dtype)       A = __tileprof.argument('A', A, …); M = __tileprof.extent(M)
    with T.Kernel(n) as bx:          for bx in __tileprof.blocks(T.Kernel(n), 'bx'):
        for i in T.serial(4):            __t2 = __tileprof.loop(T.serial(4), 'i')
            acc += A[bx, i]              if __t2.wants('acc'): acc = __t2.take()
                                         for i in __t2:
                                             acc = __tileprof.augment('acc', '+', acc, A[bx, i])

Branches, loops and their ends stay what they are; every statement keeps its line, so `pdb` steps
through the text that the author wrote.
"""

from __future__ import annotations

import ast
import copy
from types import FunctionType
from typing import Any

from tileprof.lang.functions import Kernelized
from tileprof.lang.rewrite.liveness import stores
from tileprof.lang.rewrite.rewriting import ControlRewriter, target_names
from tileprof.lang.rewrite.source import FunctionSource, build
from tileprof.once import once

from .debugger import Inline
from .hooks import HOOKS


@once
def direct(function: Kernelized) -> FunctionType:
    """The function to run instead."""
    source = function.source
    tree = copy.deepcopy(source.tree)
    tree.decorator_list = []
    return build(source, _Direct(source).function(tree, root=True), HOOKS)


class _Direct(ControlRewriter):
    """Names, values and refusals as when staging; control flow is left to Python."""

    def __init__(self, source: FunctionSource) -> None:
        super().__init__(source)
        self._extents: list[str] = []
        self._launch: tuple[str, int] | None = None
        """Name that holds the value of `return` in a launch, and the number of loops around."""

    # -- statements

    def visit_Assign(self, node: ast.Assign) -> Any:
        if _is_call(node.value, "const"):
            self._extents += [n for t in node.targets for n in sorted(stores(t))]
        return super().visit_Assign(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        made = super().visit_AnnAssign(node)
        if node.value is not None or not isinstance(made, ast.Assign):
            return made
        # The argument may have given the extents that its annotation names.
        return [made, *(self._store(n, self._hook("extent", self._load(n)), node)
                        for n in self._extents)]  # fmt: skip

    def visit_Expr(self, node: ast.Expr) -> Any:
        node.value = self.visit(node.value)
        if not (_is_call(node.value, "breakpoint") or _is_call(node.value, "set_trace")):
            return node
        (inline,) = ast.parse(Inline.TEXT).body
        for inner in ast.walk(inline):
            ast.copy_location(inner, node)
        return [node, inline]

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> Any:
        flow, token = self._flows[node], self._token()
        begin = self._hook("loop", self._iterable(node.iter), target_names(node.target))
        names = flow.carried | flow.after - stores(node.target)
        adopted = self._adopt(token, sorted(names), node)
        self._loops.append(token)
        body = self.block(node.body)
        self._loops.pop()
        loop = ast.For(node.target, self._load(token), body, self.block(node.orelse))
        return [self._store(token, begin, node.iter), *adopted, self._at(loop, node)]

    def visit_While(self, node: ast.While) -> Any:
        self._refuse_endless(node)
        flow, token = self._flows[node], self._token()
        test = self._call(self._load(token), "test", self.visit(node.test))
        self._loops.append(token)
        body = self.block(node.body)
        self._loops.pop()
        adopted = self._adopt(token, sorted(flow.carried | flow.after), node)
        loop = ast.While(test, [*adopted, *body], self.block(node.orelse))
        begin = self._store(token, self._hook("loop_while"), node.test)
        return [begin, self._at(loop, node)]

    def visit_Break(self, node: ast.Break) -> Any:
        asked = self._call(self._load(self._loops[-1]), "breaks")
        return self._at(ast.If(asked, [node], []), node)

    def visit_Continue(self, node: ast.Continue) -> Any:
        return node

    def visit_With(self, node: ast.With) -> Any:
        if not any(_is_call(item.context_expr, "Kernel") for item in node.items):
            for item in node.items:
                item.context_expr = self.visit(item.context_expr)
            node.body = self.block(node.body)
            return node
        first, *rest = node.items
        if rest:
            inner = ast.copy_location(ast.With(rest, node.body), node)
            node = ast.copy_location(ast.With([first], [inner]), node)
        return self._blocks(node) if _is_call(first.context_expr, "Kernel") else self.visit(node)

    def _blocks(self, node: ast.With) -> list[ast.stmt]:
        """Return a loop over the blocks; `return` inside ends a block, and the function after the
        last.
        """
        (item,) = node.items
        result, outer = self._token(), self._launch
        self._launch = result, len(self._loops)
        target = item.optional_vars
        shape = target_names(target) if target else ast.Constant(None)
        each = self._hook("blocks", self.visit(item.context_expr), shape)
        bound = target or ast.Name(self._token(), ast.Store())
        loop = ast.For(bound, self._at(each, item.context_expr), self.block(node.body), [])
        self._launch = outer
        given = ast.Subscript(self._load(result), ast.Constant(0), ast.Load())
        return [
            self._store(result, ast.Constant(None), node),
            self._at(loop, node),
            self._at(ast.If(self._load(result), [ast.Return(given)], []), node),
        ]

    def visit_Return(self, node: ast.Return) -> Any:
        made = super().visit_Return(node)
        if self._launch is None:
            return made
        result, loops = self._launch
        if len(self._loops) > loops:
            self._refuse(
                node, "`return` inside a loop", "Leave the loop with `break` and return after it."
            )
        held = ast.Tuple([made.value], ast.Load())
        return [self._store(result, held, node), self._at(ast.Continue(), node)]

    # -- expressions

    def _choice(self, node: ast.expr, test: ast.expr, body: ast.expr, orelse: ast.expr) -> ast.expr:
        """Rewrite as for staging; a value that is not wanted is computed only for its type, and
        only where it calls nothing of the author's."""
        plain = ast.Constant(_is_plain(body)), ast.Constant(_is_plain(orelse))
        made = super()._choice(node, test, body, orelse)
        assert isinstance(made, ast.Call)
        for side, flag in zip(made.args, plain):
            assert isinstance(side, ast.IfExp)
            assert isinstance(side.test, ast.Call)
            side.test.args.append(self._at(flag, node))
        return made


def _is_call(node: ast.expr, name: str) -> bool:
    """Return whether it is `T.name(…)` or `name(…)`."""
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "attr", getattr(node.func, "id", "")) == name


def _is_plain(node: ast.expr) -> bool:
    """Return whether an expression calls attributes of a name only: `T.exp(x)`."""
    return all(
        isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name)
        for n in ast.walk(node)
        if isinstance(n, ast.Call)
    )
