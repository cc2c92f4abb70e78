"""Functions of the program replaced where they are defined, in any of its files.

In: a file, a function in it, and what makes another function of it.  Out: the file's code with one
decorator more, when Python loads it; lines stay as they are. A bytecode cache is passed over, as it
holds the file's code without the decorator.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

Decorate = Callable[[Any], Any]
_HOOK = "__tileprof_decorate_{}__"
"""Name among Python's builtins of what a decorated file calls."""


@dataclass(frozen=True, slots=True)
class Decoration:
    """A function, by its name or by a line in it, and what is made of it."""

    file: str
    function: str
    line: int
    decorate: Decorate


_LOOP = "__tileprof_loop__"
"""Name among Python's builtins of what loops call at the beginning of each iteration."""
_decorations: dict[str, list[Decoration]] = {}
_installed: list[Any] = []
_looped: list[str] = []
"""Folder of the program's files whose loops call that."""


def decorate_function(file: str, function: str, line: int, decorate: Decorate) -> None:
    """Replace a function by `decorate(function)` wherever Python loads that file from now on."""
    path = os.path.realpath(file)
    _decorations.setdefault(path, []).append(Decoration(path, function, line, decorate))
    _install()


def watch_loops(folder: str, begun: Callable[[str, int], None]) -> None:
    """Call `begun` with file and line at the beginning of each iteration of loops in a program's
    files: those in `folder` that Python loads from now on, without installed packages."""
    setattr(builtins, _LOOP, begun)
    _looped.append(os.path.realpath(folder) + os.sep)
    _install()


def _install() -> None:
    if not _installed:
        _installed.append(SourceFileLoader.get_code)
        SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


def compiled(source: bytes, path: str) -> CodeType:
    """Compile a file's text with those of its functions decorated that are to be."""
    tree = ast.parse(source, path)
    for each in _decorations.get(os.path.realpath(path), []):
        found = find_function(tree, each.function, each.line)
        if found is not None:
            name = _HOOK.format(id(each))
            setattr(builtins, name, partial(_decorated, each.decorate))
            # Outermost, so that what other decorators make of the function is in it.
            mark = ast.Name(name, ast.Load(), lineno=found.lineno, col_offset=found.col_offset)
            mark.end_lineno, mark.end_col_offset = found.lineno, found.col_offset
            found.decorator_list.insert(0, mark)
    if _has_watched_loops(path):
        _mark_loops(tree, os.path.realpath(path))
    code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code


def _has_watched_loops(path: str) -> bool:
    path = os.path.realpath(path)
    installed = {"site-packages", "dist-packages", "tileprof"} & {*path.split(os.sep)}
    return not installed and any(path.startswith(folder) for folder in _looped)


def _mark_loops(tree: ast.Module, path: str) -> None:
    for node in ast.walk(tree):
        # One that yields gives data to the loop around its use, and holds no results.
        if not isinstance(node, ast.For | ast.While) or any(map(_yields, node.body)):
            continue
        called = ast.parse(f"{_LOOP}({path!r}, {node.lineno})").body[0]
        for each in ast.walk(called):
            ast.copy_location(each, node)
        node.body.insert(0, called)


def _yields(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    found = isinstance(node, ast.Yield | ast.YieldFrom)
    return found or any(map(_yields, ast.iter_child_nodes(node)))


def _decorated(decorate: Decorate, function: Any) -> Any:
    """Decorate a function, also one that is a static method, a class method or a property."""
    match function:
        case staticmethod() | classmethod():
            return type(function)(decorate(function.__func__))
        case property(fget=getter) if getter is not None:
            return function.getter(decorate(getter))
    return decorate(function)


def find_function(
    tree: ast.Module, name: str, line: int = 0
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function of that name with its classes, or the innermost around a line."""
    found = None
    for qualified, node in _functions(tree):
        if qualified == name if name else _holds(node, line):
            found = node  # functions come before those in them
    return found


def function_at(source: str, line: int) -> str:
    """Return the name of the innermost function around a line; empty where there is none."""
    try:
        held = [name for name, node in _functions(ast.parse(source)) if _holds(node, line)]
    except (SyntaxError, ValueError):
        return ""
    return held[-1] if held else ""


def runs_steps(source: str, name: str) -> bool:
    """Return whether a function holds the steps of a program rather than being a part of one.

    It is what the file itself calls, or has a loop in which gradients are made.
    """
    tree = ast.parse(source)
    function = find_function(tree, name)
    if function is None:
        return False
    top = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    called = {getattr(each.func, "id", "") for node in top for each in _calls(node)}
    loops = (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While))
    trains = any(
        getattr(each.func, "attr", "") == "backward" for at in loops for each in _calls(at)
    )
    return trains or name in called


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _holds(node: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def function_names(source: str) -> list[str]:
    """Return the names of a file's functions; none where it is not Python."""
    try:
        return [name for name, _ in _functions(ast.parse(source))]
    except (SyntaxError, ValueError):
        return []


def _functions(
    node: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, child
                yield from _functions(child, f"{prefix}{name}.<locals>.")
            case ast.ClassDef(name=name):
                yield from _functions(child, f"{prefix}{name}.")
            case _:
                yield from _functions(child, prefix)


def _get_code(self: Any, fullname: str) -> CodeType | None:
    """Stand in for `SourceFileLoader.get_code`."""
    path = self.get_filename(fullname)
    if os.path.realpath(path) not in _decorations and not _has_watched_loops(path):
        code: CodeType | None = _installed[0](self, fullname)
        return code
    return compiled(self.get_data(path), path)
