"""Rewrite a kernel's function so that what Python decides itself is decided by the context.

    for i in T.serial(n):            __t1 = __tileprof.loop(T.serial(n), 'i')
        acc = acc + A[i]             if __t1.wants('acc'): acc = __t1.take()
                                     for i in __t1:
                                         acc = __tileprof.assign('acc', read(acc) + A[i])

    if a < b and c: x = 1            __t2 = __tileprof.branch(end(begin(a < b) and next(c)))
                                     if __t2.then(): x = …
                                     if __t2.otherwise(): …
                                     __t2.close()

Bodies stay in place, so locals, line numbers and `break` work as in the original.  `staging.py` is
what the calls reach while a kernel is traced.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from .liveness import Flow, analyze, stores
from .names import NameRewriter
from .source import FunctionSource


def rewrite(source: FunctionSource) -> ast.FunctionDef:
    """Return the function with its control flow rewritten; decorators and annotations are left
    out."""
    return ControlRewriter(source).function(source.fresh_tree(), root=True)


class ControlRewriter(NameRewriter):
    """Control flow goes through `staging.py`."""

    def __init__(self, source: FunctionSource) -> None:
        super().__init__(source)
        self._flows: dict[ast.stmt, Flow] = {}
        self._loops: list[str] = []
        self._entry: list[str] = []

    def _enter_function(self, tree: ast.FunctionDef) -> None:
        self._flows |= analyze(tree)
        self._entry.append(self._token())

    def _leave_function(self, tree: ast.FunctionDef) -> None:
        token = self._entry.pop()
        first = tree.body[0]
        tree.body.insert(0, self._store(token, self._hook("function"), first))

    # -- statements

    def visit_For(self, node: ast.For) -> Any:
        """Names that the body changes are adopted before the loop."""
        flow, token = self._flows[node], self._token()
        bound = target_names(node.target)
        begin = self._hook("loop", self._iterable(node.iter), bound)
        before = self._adopt(
            token, sorted(flow.carried | (flow.after - stores(node.target))), node.iter
        )
        self._loops.append(token)
        node.body = self.block(node.body)
        self._loops.pop()
        node.orelse = self.block(node.orelse)
        if node.orelse:
            node.orelse.insert(0, self._do(token, "no_else", node.orelse[0]))
        made = ast.copy_location(
            ast.For(node.target, self._load(token), node.body, node.orelse), node
        )
        self._at(made, node)
        after = self._take(token, "leaves", sorted(flow.after), node.iter)
        return [self._store(token, begin, node.iter), *before, made, *after]

    def _iterable(self, node: ast.expr) -> ast.expr:
        made: ast.expr
        match node:
            case ast.Call(func=ast.Name(id="range") as function, args=args, keywords=[]):
                hook = self._hook("range", function, *(self.visit(a) for a in args))
                made = self._at(hook, node)
            case _:
                made = self.visit(node)
        return made

    def visit_While(self, node: ast.While) -> Any:
        """The condition is evaluated once to see who decides it, then in a block of its own."""
        self._refuse_endless(node)
        flow, token = self._flows[node], self._token()

        def condition() -> ast.expr:
            made: ast.expr = self.visit(copy.deepcopy(node.test))
            return made

        names = sorted(flow.carried | flow.after)
        staged = [
            *self._adopt(token, names, node.test),
            self._do(token, "open", node.test),
            self._do(token, "condition", node.test, condition()),
        ]
        trial = self._call(self._load(token), "trial", condition())
        more = self._call(self._load(token), "more")
        again = ast.BoolOp(ast.And(), [more, self._call(self._load(token), "test", condition())])
        first = self._call(self._load(token), "first")
        self._loops.append(token)
        body = self.block(node.body)
        self._loops.pop()
        orelse = self.block(node.orelse)
        if orelse:
            orelse.insert(0, self._do(token, "no_else", orelse[0]))
        loop = ast.While(ast.BoolOp(ast.Or(), [first, again]), body, orelse)
        return [
            self._store(token, self._hook("loop_while"), node.test),
            self._at(ast.If(trial, staged, []), node.test),
            self._at(loop, node),
            *self._take(token, "leaves", sorted(flow.after), node.test),
        ]

    def visit_If(self, node: ast.If) -> Any:
        """Place both branches one after the other."""
        flow, token = self._flows[node], self._token()
        joined = sorted(flow.after)
        begin = self._hook("branch", self.visit(node.test), _strings(joined))
        before = self._take(token, "restores", sorted(flow.after | flow.restored), node.test)
        then = self._at(
            ast.If(self._call(self._load(token), "then"), self.block(node.body), []), node
        )
        rest = [*before, *self.block(node.orelse)] or [self._at(ast.Pass(), node.test)]
        other = self._at(ast.If(self._call(self._load(token), "otherwise"), rest, []), node.test)
        return [
            self._store(token, begin, node.test),
            then,
            other,
            self._do(token, "close", node.test),
            *self._take(token, "gives", joined, node.test),
        ]

    def visit_With(self, node: ast.With) -> Any:
        """Return a launch or a scope, with the names of its indices."""
        for item in node.items:
            shape = target_names(item.optional_vars) if item.optional_vars else ast.Constant(None)
            value = item.context_expr
            made = self.visit(value)
            if isinstance(made, ast.Call) and made is value:
                # What is no part of a kernel is refused before it runs: `open` makes files.
                made.func = self._at(self._hook("manager", made.func), value)
            item.context_expr = self._at(self._hook("enter", made, shape), value)
        node.body = self.block(node.body)
        # Python 3.13 reports an error of entering there, earlier ones on the whole head.
        return self._at(node, node.items[0].context_expr)

    def visit_Break(self, node: ast.Break) -> Any:
        """`break`, by Python or in the program."""
        return self._leave(node, "breaks")

    def visit_Continue(self, node: ast.Continue) -> Any:
        """`continue`, by Python or in the program."""
        return self._leave(node, "continues")

    def _leave(self, node: ast.stmt, method: str) -> ast.stmt:
        asked = self._call(self._load(self._loops[-1]), method)
        made: ast.stmt = self._at(ast.If(asked, [node], []), node)
        return made

    def visit_Return(self, node: ast.Return) -> Any:
        """`return`, which no branch of the program may hold."""
        value = self.visit(node.value) if node.value else ast.Constant(None)
        node.value = self._call(self._load(self._entry[-1]), "returns", value)
        return self._at(node, node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """`raise`, which no branch of the program may hold."""
        self.generic_visit(node)
        return [self._do(self._entry[-1], "raises", node), node]

    def visit_Assert(self, node: ast.Assert) -> Any:
        """`assert`, of what is known at compile time."""
        self.generic_visit(node)
        node.test = self._at(self._hook("check", node.test), node.test)
        return node

    # -- expressions

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and`, `or`."""
        self._no_walrus(node)
        kind = "and" if isinstance(node.op, ast.And) else "or"
        return self._chain(node, kind, [self.visit(v) for v in node.values])

    def _chain(self, node: ast.BoolOp, kind: str, visited: list[Any]) -> Any:
        first, *others = visited
        node.values = [self._at(self._hook("bool_first", ast.Constant(kind), first), first)]
        node.values += [self._at(self._hook("bool_next", v), v) for v in others]
        return self._at(self._hook("bool_end", node), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """A chain of comparisons is an `and`."""
        if len(node.ops) == 1:
            return self.generic_visit(node)
        # `a < b < c`: the middle is computed once and kept in a temporary.
        parts: list[ast.expr] = []
        left: ast.expr = node.left
        for operator, right in zip(node.ops, node.comparators):
            keep = self._token()
            held = ast.copy_location(ast.NamedExpr(ast.Name(keep, ast.Store()), right), right)
            last = right is node.comparators[-1]
            pair = ast.Compare(left, [operator], [right if last else held])
            parts.append(ast.copy_location(pair, node))
            left = ast.copy_location(ast.Name(keep, ast.Load()), right)
        chain = self._at(ast.BoolOp(ast.And(), parts), node)
        return self._chain(chain, "and", [self.generic_visit(v) for v in parts])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._at(self._hook("negate", node.operand), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if c else b`."""
        return self._choice(node, node.test, node.body, node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        """`T.if_then_else` and `T.Select` compute only the value that is wanted."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in ("if_then_else", "Select") and len(node.args) == 3 and not node.keywords:
            return self._choice(node, *node.args)
        return self.generic_visit(node)

    def _choice(self, node: ast.expr, test: ast.expr, body: ast.expr, orelse: ast.expr) -> ast.expr:
        """`body if test else orelse`: each side is evaluated only where it is wanted."""
        self._no_walrus(node)
        begin = self._hook("choice", self.visit(test))
        then = self._hook("choice_then", self.visit(body))
        other = self._hook("choice_else", self.visit(orelse))
        nothing = ast.Constant(None)
        made: ast.expr = self._at(
            self._hook(
                "choice_end",
                ast.IfExp(begin, then, nothing),
                ast.IfExp(self._hook("choice_otherwise"), other, nothing),
            ),
            node,
        )
        return made

    def _no_walrus(self, node: ast.expr) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self._refuse(inner, "`:=` inside a condition", "Assign on a line of its own.")

    def _refuse_endless(self, node: ast.While) -> None:
        if isinstance(node.test, ast.Constant) and node.test.value:
            self._refuse(
                node.test,
                "`while` with a condition that is always true",
                "Give it a condition that the kernel computes, or use `for i in T.serial(n)`.",
            )

    # -- pieces

    def _adopt(self, token: str, names: list[str], node: ast.AST) -> list[ast.stmt]:
        return self._take(token, "wants", names, node)

    def _take(self, token: str, method: str, names: list[str], node: ast.AST) -> list[ast.stmt]:
        """`if token.method(name): name = token.take()` for each name."""
        made: list[ast.stmt] = []
        for name in names:
            asked = self._call(self._load(token), method, ast.Constant(name))
            taken = self._store(name, self._call(self._load(token), "take"), node)
            made.append(self._at(ast.If(asked, [taken], []), node))
        return made

    def _do(self, token: str, method: str, node: ast.AST, *args: ast.expr) -> ast.stmt:
        made: ast.stmt = self._at(ast.Expr(self._call(self._load(token), method, *args)), node)
        return made


def target_names(target: ast.expr) -> ast.expr:
    """Return the names of a target as a literal: 'i', or a tuple of them for `i, j`."""
    match target:
        case ast.Name(id=name):
            return ast.Constant(name)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return ast.Tuple([target_names(e) for e in elements], ast.Load())
        case _:
            return ast.Constant("")


def _strings(names: list[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())
