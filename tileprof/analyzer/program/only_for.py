"""What a loop of a kernel does for one of its statements alone, as the program's text tells.

In: the text of a file, and a line in a loop.  Out: lines of the loop's statements whose results no
other statement of the loop uses than that one, and those that it alone needs. What the next
iteration goes on with is not among them. Instructions of Triton's own functions have lines of its
files, so whether such functions are called for that statement alone is told apart:

    for n in range(0, N, others):
        less += tl.load(x_ptr + n + j) < own        used in the next iteration
        rank = tl.sum(less, 1)                      used by the store alone
        tl.store(out_ptr + i, rank)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from tileprof.analyzer.program.calls import called, parsed

_LOOPS = (ast.For, ast.While)
_LIBRARY = ("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce_or", "cumsum", "cumprod",
            "sort", "topk", "flip", "softmax", "sigmoid")  # fmt: skip
"""Functions of Triton that are kernels' code of its own files, whose lines instructions have."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What is done for one statement of a loop alone."""

    lines: frozenset[int] = frozenset()
    """Lines of the statements."""
    library: bool = False
    """Whether they call functions of Triton's own files, and nothing else in the loop does."""


@lru_cache(maxsize=64)
def only_for(text: str, line: int) -> Alone:
    """Return what a loop does for the statement at a line, it included; nothing where no loop has
    it."""
    tree = parsed(text)
    loops = [
        node for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, _LOOPS) and _first(node) <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    if not loops:
        return Alone()
    loop = max(loops, key=lambda each: each.lineno)
    held = [each for each in loop.body if each.lineno <= line <= (each.end_lineno or 0)]
    found, names = set(held), _loaded(*held)
    while True:
        more = {
            each for each in loop.body
            if isinstance(each, ast.Assign) and each not in found and _stored(each) & names
            if not _stored(each) & _loaded(*_others(loop, {*found, each}))
            if not _stored(each) & _loaded(*(e for e in loop.body if e.lineno <= each.lineno))
        }  # fmt: skip
        if not more:
            lines = frozenset(n for e in found for n in range(e.lineno, (e.end_lineno or 0) + 1))
            others = _others(loop, found)
            return Alone(lines, _calls_library(*found) and not _calls_library(*others))
        found |= more
        names |= _loaded(*more)


def _calls_library(*nodes: ast.AST) -> bool:
    calls = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(called(each) in _LIBRARY for each in calls)


def _first(loop: ast.For | ast.While) -> int:
    return loop.body[0].lineno


def _others(loop: ast.For | ast.While, found: set[ast.stmt]) -> list[ast.AST]:
    """What else of a loop there is: its condition, and its other statements."""
    head = loop.test if isinstance(loop, ast.While) else loop.iter
    return [head, *(each for each in loop.body if each not in found)]


def _loaded(*nodes: ast.AST) -> set[str]:
    names = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Load)}


def _stored(node: ast.AST) -> set[str]:
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}
