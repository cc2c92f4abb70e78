"""Liveness: names that matter after a branch or from one iteration to the next.

    x = 0
    for i in T.serial(n):      carried {x}: read before it is assigned, so it is a loop variable
        x = x + i
        y = x * 2              not carried, and not read after the loop: a temporary

Backward over the statements of one function.  Conservative: a name that a nested function reads is
always live.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

Names = frozenset[str]
_NONE: Names = frozenset()
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Flow:
    """Effect of a loop or a branch on names."""

    carried: Names
    """Loops: assigned in the body and read before that in the next iteration."""
    after: Names
    """Assigned inside and read afterwards."""
    restored: Names = _NONE
    """Branches: assigned in `if` and read in `else`."""


def analyze(function: ast.FunctionDef) -> dict[ast.stmt, Flow]:
    """Return the flow of every `for`, `while` and `if` of a function (nested functions left
    out)."""
    finder = _Analysis(_captured(function))
    finder.block(function.body, _NONE)
    return finder.flows


def assigned(statements: Iterable[ast.AST]) -> Names:
    """Names that the statements bind, without those that nested functions bind."""
    found: set[str] = set()
    for statement in statements:
        found |= stores(statement)
    return frozenset(found)


def stores(node: ast.AST) -> Names:
    """Names that a node binds in its own function."""
    found: set[str] = set()
    pending = [node]
    while pending:
        each = pending.pop()
        match each:
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.alias(name=name, asname=renamed):
                found.add(renamed or name.split(".")[0])
            case ast.Lambda():
                continue
            case _ if isinstance(each, _COMPREHENSIONS):
                # Its own variables stay inside; only `:=` gets out.
                found |= {n.target.id for n in ast.walk(each) if isinstance(n, ast.NamedExpr)}
                continue
        pending.extend(ast.iter_child_nodes(each))
    return frozenset(found)


def _reads(node: ast.AST | None) -> Names:
    if node is None:
        return _NONE
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def _captured(function: ast.FunctionDef) -> Names:
    found: set[str] = set()
    for node in ast.walk(function):
        if node is not function and isinstance(node, _SCOPES):
            found |= _reads(node)
    return frozenset(found)


class _Analysis:
    def __init__(self, always: Names) -> None:
        self.always = always
        self.flows: dict[ast.stmt, Flow] = {}
        # A loop is gone through until nothing changes; its parts are looked at once.
        self._known_stores: dict[ast.AST, Names] = {}
        self._known_reads: dict[ast.AST, Names] = {}
        self._break: Names = _NONE
        self._continue: Names = _NONE

    def _stores(self, node: ast.AST) -> Names:
        if node not in self._known_stores:
            self._known_stores[node] = stores(node)
        return self._known_stores[node]

    def _assigned(self, nodes: Iterable[ast.AST]) -> Names:
        return _NONE.union(*(self._stores(n) for n in nodes))

    def _reads(self, node: ast.AST | None) -> Names:
        if node is None:
            return _NONE
        if node not in self._known_reads:
            self._known_reads[node] = _reads(node)
        return self._known_reads[node]

    def block(self, statements: Iterable[ast.stmt], after: Names) -> Names:
        live = after | self.always
        for statement in reversed(list(statements)):
            live = self._statement(statement, live)
        return live

    def _statement(self, node: ast.stmt, live: Names) -> Names:
        match node:
            case ast.Assign(targets=targets, value=value):
                reads = self._reads(value).union(*(self._reads(t) for t in targets))
                return (live - self._assigned(targets)) | reads
            case ast.AugAssign(target=target, value=value):
                own = (
                    frozenset({target.id}) if isinstance(target, ast.Name) else self._reads(target)
                )
                return live | own | self._reads(value)
            case ast.AnnAssign(target=target, value=value):
                bound = self._stores(target) if value is not None else _NONE
                return (live - bound) | self._reads(node)
            case ast.If(test=test, body=body, orelse=orelse):
                then, other = self.block(body, live), self.block(orelse, live)
                bound = self._assigned([*body, *orelse])
                self.flows[node] = Flow(_NONE, bound & live, self._assigned(body) & other)
                return self._reads(test) | then | other
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                after = self.block(orelse, live)
                bound = self._stores(target)
                head = self._loop(node, body, after, bound, _NONE)
                return (head - bound) | after | self._reads(iterable)
            case ast.While(test=test, body=body, orelse=orelse):
                after = self.block(orelse, live)
                return self._loop(node, body, after, _NONE, self._reads(test)) | after
            case ast.With(items=items, body=body):
                bound = self._assigned(
                    i.optional_vars for i in items if i.optional_vars is not None
                )
                reads = _NONE.union(*(self._reads(i.context_expr) for i in items))
                return (self.block(body, live) - bound) | reads
            case ast.Return(value=value):
                return self._reads(value) | self.always
            case ast.Raise():
                return self._reads(node) | self.always
            case ast.Break():
                return self._break
            case ast.Continue():
                return self._continue
            case _:
                return (live - self._assigned([node])) | self._reads(node)

    def _loop(
        self, node: ast.stmt, body: list[ast.stmt], after: Names, targets: Names, test: Names
    ) -> Names:
        outer = self._break, self._continue
        head: Names = test
        while True:
            self._break, self._continue = after, head | after
            entry = (self.block(body, head | after) | test) - targets
            if entry <= head:
                break
            head = head | entry
        self._break, self._continue = outer
        bound = self._assigned(body)
        self.flows[node] = Flow(bound & head, (bound | targets) & after)
        return head
