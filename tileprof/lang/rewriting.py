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
what the calls reach while a kernel is traced.  With `staged=False` only that is rewritten which
Python itself cannot do: assignment to `T.alloc_var`, and `with T.Kernel` as a loop over blocks.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import Any, NoReturn

from tileprof.errors import UnsupportedPython

from .liveness import Flow, analyze, assigned, stores
from .source import HOOKS, FunctionSource
from .spans import node_location

__all__ = ["rewrite"]

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


def rewrite(source: FunctionSource, *, staged: bool = True) -> ast.FunctionDef:
    """The function with its control flow rewritten; decorators and annotations are left out."""
    tree = copy.deepcopy(source.tree)
    tree.decorator_list = []
    rewriter = (_Staging if staged else _Direct)(source)
    return rewriter.function(tree, root=True)


class _Names(ast.NodeTransformer):
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
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        if node.decorator_list:
            # A decorator such as `T.macro` reads the text from the file itself.
            return node
        return self.function(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
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
        value = self.visit(node.value)
        if not isinstance(node.target, ast.Name):
            node.target, node.value = self.visit(node.target), value
            return node
        name = node.target.id
        operator = ast.Constant(_OPERATORS[type(node.op)])
        made = self._hook("augment", ast.Constant(name), operator, self._load(name), value)
        return self._at(ast.Assign([ast.Name(name, ast.Store())], made), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return ast.Pass() if node.value is None else self._plain(node)
        name = node.target.id
        if node.value is None:
            if name not in self._params:
                return self._at(ast.Pass(), node)
            made = self._hook(
                "argument", ast.Constant(name), self._load(name), self.visit(node.annotation)
            )
            return self._at(ast.Assign([ast.Name(name, ast.Store())], made), node)
        typed = self._hook("typed", self.visit(node.annotation), self.visit(node.value))
        return self._at(ast.Assign([ast.Name(name, ast.Store())], self._bound(name, typed)), node)

    def _plain(self, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _bound(self, name: str, value: ast.expr) -> ast.expr:
        which = "assign" if name in self._rebound else "name"
        return self._hook(which, ast.Constant(name), value)

    # -- expressions

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and node.id in self._rebound:
            return self._at(self._hook("read", ast.Name(node.id, ast.Load())), node)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
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
        return ast.fix_missing_locations(ast.copy_location(new, node))


class _Staging(_Names):
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
        flow, token = self._flows[node], self._token()
        bound = _shape(node.target)
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
        if isinstance(node.test, ast.Constant) and node.test.value:
            self._refuse(
                node.test,
                "`while` with a condition that is always true",
                "Give it a condition that the kernel computes, or use `for i in T.serial(n)`.",
            )
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
        for item in node.items:
            shape = _shape(item.optional_vars) if item.optional_vars else ast.Constant(None)
            value = item.context_expr
            item.context_expr = self._at(self._hook("enter", self.visit(value), shape), value)
        node.body = self.block(node.body)
        # Python 3.13 reports an error of entering there, earlier ones on the whole head.
        return self._at(node, node.items[0].context_expr)

    def visit_Break(self, node: ast.Break) -> Any:
        return self._leave(node, "breaks")

    def visit_Continue(self, node: ast.Continue) -> Any:
        return self._leave(node, "continues")

    def _leave(self, node: ast.stmt, method: str) -> ast.stmt:
        asked = self._call(self._load(self._loops[-1]), method)
        made: ast.stmt = self._at(ast.If(asked, [node], []), node)
        return made

    def visit_Return(self, node: ast.Return) -> Any:
        value = self.visit(node.value) if node.value else ast.Constant(None)
        node.value = self._call(self._load(self._entry[-1]), "returns", value)
        return self._at(node, node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        self.generic_visit(node)
        return [self._do(self._entry[-1], "raises", node), node]

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        node.test = self._at(self._hook("check", node.test), node.test)
        return node

    # -- expressions

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self._no_walrus(node)
        kind = "and" if isinstance(node.op, ast.And) else "or"
        first, *others = [self.visit(v) for v in node.values]
        node.values = [self._at(self._hook("bool_first", ast.Constant(kind), first), first)]
        node.values += [self._at(self._hook("bool_next", v), v) for v in others]
        return self._at(self._hook("bool_end", node), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
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
        return self._boolean_chain(chain)

    def _boolean_chain(self, chain: ast.BoolOp) -> ast.expr:
        visited: list[Any] = [self.generic_visit(v) for v in chain.values]
        first, *others = visited
        values = [self._at(self._hook("bool_first", ast.Constant("and"), first), first)]
        values += [self._at(self._hook("bool_next", v), v) for v in others]
        chain.values = values
        made: ast.expr = self._at(self._hook("bool_end", chain), chain)
        return made

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._at(self._hook("negate", node.operand), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self._choice(node, node.test, node.body, node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "if_then_else" and len(node.args) == 3 and not node.keywords:
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


class _Direct(_Names):
    """Names only, and each `with T.Kernel` is a loop over the blocks."""

    def visit_With(self, node: ast.With) -> Any:
        items = [self.visit(i.context_expr) for i in node.items]
        targets = [i.optional_vars for i in node.items]
        body = self.block(node.body)
        for value, target in zip(reversed(items), reversed(targets)):
            bound = target or ast.Name(self._token(), ast.Store())
            shape = _shape(target) if target else ast.Constant(None)
            each = self._hook("blocks", value, shape)
            body = [self._at(ast.For(bound, each, body, []), node)]
        return body[0]


def _own_nodes(tree: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of a function without those of nested functions."""
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


def _shape(target: ast.expr) -> ast.expr:
    """The names of a target as a literal: 'i', or a tuple of them for `i, j`."""
    match target:
        case ast.Name(id=name):
            return ast.Constant(name)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return ast.Tuple([_shape(e) for e in elements], ast.Load())
        case _:
            return ast.Constant("")


def _strings(names: list[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())
