"""What the text of a program says of its calls: which are repeated, and which a loop carries on.

In: the text of a file, as a profile keeps it.  Out: lines. A tree of calls has no arguments, so
only what is plain in the text counts: names, attributes and constants, in statements that follow
each other or in the body of a loop.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

_BODIES = ("body", "orelse", "finalbody")
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Load)

_GO_ON = {"next", "get", "pop", "read", "recv", "sample", "send", "step"}
"""Functions that go on with each call, so that the next one returns something else."""


@dataclass(frozen=True, slots=True)
class Twins:
    """Two statements that assign the same call of the same names, none of which changes between."""

    call: str
    first: int
    second: int
    """Their lines."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that each iteration of a loop computes from its last one: by a call, always of the
    same function, or by a formula that multiplies it."""

    call: str
    """The function, as the text names it; the value's name where a formula gives it."""
    is_call: bool
    line: int
    head: int
    """The line of the loop."""
    last: int
    """The last line of the loop's body."""


@lru_cache(maxsize=64)
def twins(text: str) -> tuple[Twins, ...]:
    """Return all pairs of a file, none where it is no Python."""
    return tuple(each for body in bodies(text) for each in _twins(body))


@lru_cache(maxsize=64)
def carried(text: str) -> tuple[Carried, ...]:
    """Return such values of all `for` loops in functions, none where it is no Python."""
    found = list[Carried]()
    for function in _walk(parsed(text)):
        if isinstance(function, ast.FunctionDef):
            for loop in _walk(function):
                if isinstance(loop, ast.For):
                    found += _carried(loop)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a file, None where it is no Python that this version reads."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _walk(top: ast.AST | None) -> Iterator[ast.AST]:
    """Yield a node and all statements below it, in the order of `ast.walk` without expressions,
    which are nine tenths of a tree."""
    left = deque([] if top is None else [top])
    while left:
        node = left.popleft()
        yield node
        for name in (*_BODIES, "handlers", "cases"):
            below = getattr(node, name, None)
            if isinstance(below, list):
                left.extend(below)


def bodies(text: str) -> Iterator[list[ast.stmt]]:
    """Yield each list of statements of a file, as the body of a loop or a function."""
    for node in _walk(parsed(text)):
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                yield body


def called(call: ast.Call) -> str:
    """Return the last name of the function that is called, as `store` of `tl.store(…)`; empty where
    it has none."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def calls_in_function(text: str, line: int, name: str) -> list[int]:
    """Return the lines on which the innermost function around a line, or the module, calls
    `name`. Functions inside that one do not count; there are none where it is no Python."""
    spans, calls = _spans_and_calls(text, name)

    def around(at: int) -> tuple[int, int]:
        return max((each for each in spans if each[0] <= at <= each[1]), default=(0, 0))

    return [each for each in calls if around(each) == around(line)]


@lru_cache(maxsize=64)
def _spans_and_calls(text: str, name: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return first and last lines of functions, and the lines of calls of a function or method."""
    tree = parsed(text)
    nodes = [] if tree is None else list(ast.walk(tree))
    spans = [
        (each.lineno, each.end_lineno or each.lineno)
        for each in nodes
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    calls = [each.lineno for each in nodes if isinstance(each, ast.Call) and called(each) == name]
    return spans, calls


def _twins(body: list[ast.stmt]) -> Iterator[Twins]:
    calls = [(at, call) for at, each in enumerate(body) if (call := _assigned(each)) is not None]
    for (early, one), (late, other) in combinations(calls, 2):
        if ast.dump(one) == ast.dump(other) and _only_assigned(body[early:late], _names(one)):
            yield Twins(ast.unparse(one), body[early].lineno, body[late].lineno)


def _assigned(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement assigns, if it is one of plain names to plain names."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    parts = (call.func, *call.args, *(each.value for each in call.keywords))
    plain = all(isinstance(node, _PLAIN) for part in parts for node in ast.walk(part))
    taken = any(isinstance(node, ast.Name) for part in parts[1:] for node in ast.walk(part))
    other = called(call) in _GO_ON
    return call if plain and taken and not other else None


def _only_assigned(between: list[ast.stmt], names: set[str]) -> bool:
    """Whether statements assign plain calls, to other names: none changes an object in place."""
    for each in between:
        call = _assigned(each)
        if call is None or _targets(each) & names:
            return False
    return True


def _carried(loop: ast.For) -> Iterator[Carried]:
    turns = _names(loop.target)
    for statement in loop.body:
        if not isinstance(statement, ast.Assign):
            continue
        made, last = statement.value, loop.end_lineno or loop.lineno
        if isinstance(made, ast.BinOp) and (scaled := _targets(statement) & _factors(made)):
            yield Carried(scaled.pop(), False, statement.lineno, loop.lineno, last)
        if not isinstance(made, ast.Call):
            continue
        arguments = {
            argument.id
            for argument in (*made.args, *(each.value for each in made.keywords))
            if isinstance(argument, ast.Name)
        }
        if _targets(statement) & arguments and not _names(made.func) & turns:
            yield Carried(ast.unparse(made.func), True, statement.lineno, loop.lineno, last)


def _factors(formula: ast.expr) -> set[str]:
    """Return the names that a formula multiplies: what is only added could be added at once."""
    if not isinstance(formula, ast.BinOp):
        return set()
    sides = (formula.left, formula.right)
    found = {name for side in sides for name in _factors(side)}
    if isinstance(formula.op, ast.Mult | ast.MatMult):
        found |= {side.id for side in sides if isinstance(side, ast.Name)}
    return found


def _targets(statement: ast.stmt) -> set[str]:
    """What a statement assigns: names, and those whose parts it changes."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {name for each in targets for name in _names(each)}


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
