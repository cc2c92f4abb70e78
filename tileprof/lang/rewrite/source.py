"""The syntax tree of a user's function, and a new function made from a changed tree.

Positions stay those of the user's file, so tracebacks, `pdb` and source spans point there.  The new
function shares the globals and the closure cells of the original: names that are defined or changed
later mean what they mean in Python.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from tileprof.errors import UnsupportedPython
from tileprof.lang.spans import function_location

from .plain_forms import with_plain_forms

HOOKS = "__tileprof"
"""The name under which a rewritten function finds what its control flow calls."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function and its syntax tree; line numbers are those of the file."""

    function: FunctionType
    tree: ast.FunctionDef
    text: str

    def fresh_tree(self) -> ast.FunctionDef:
        """Return a tree that can be changed, without decorators."""
        node = _function_node(self.text, self.function.__code__)
        assert node is not None
        node.decorator_list = []
        return node

    @property
    def file(self) -> str:
        """The file that the function is in."""
        return self.function.__code__.co_filename


def parse(function: Callable[..., Any]) -> FunctionSource:
    """Find and parse the text of a function; UnsupportedPython where there is none."""
    if not isinstance(function, FunctionType):
        raise UnsupportedPython(
            f"{function!r} is not a Python function", hint="Decorate a function made with `def`."
        )
    code = function.__code__
    try:
        lines, start = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UnsupportedPython(
            f"the source text of `{function.__name__}` cannot be found",
            location=function_location(code),
            hint="Define it in a file: text given to `exec` or typed into `python` has no source.",
        ) from None
    # Under `if 1:` an indented function parses as it stands, with its columns; the empty lines give
    # it those of the file.
    head = "if 1:\n" if lines[0][:1].isspace() else "\n"
    text = "\n" * max(start - 2, 0) + (head if start > 1 else "") + "".join(lines)
    node = _function_node(text, code)
    if node is None:
        kind = "a lambda" if code.co_name == "<lambda>" else "not a plain `def`"
        raise UnsupportedPython(
            f"`{code.co_name}` is {kind}",
            location=function_location(code),
            hint="Write the kernel as a function with `def`.",
        )
    return FunctionSource(function, node, text)


def _function_node(text: str, code: CodeType) -> ast.FunctionDef | None:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return with_plain_forms(node)
    return None


def build(source: FunctionSource, tree: ast.FunctionDef, hooks: object) -> FunctionType:
    """Return the function that `tree` defines, with the globals, closure and defaults of the
    original and `hooks` under the name `HOOKS`.
    """
    original = source.function
    # Under its own name it would hide the global one from itself.
    tree.name = "__function"
    free = original.__code__.co_freevars
    outer = ast.FunctionDef(
        name="outer",
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=n) for n in (HOOKS, *free)],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        body=[tree],
        decorator_list=[],
    )
    module = ast.Module(body=[outer], type_ignores=[])
    ast.copy_location(outer, tree)
    _locate(module, tree.lineno, tree.col_offset, tree.lineno, tree.col_offset)
    code = compile(module, source.file, "exec", dont_inherit=True)
    inner = _nested(_nested(code, "outer"), tree.name).replace(
        co_name=original.__name__, co_qualname=original.__qualname__
    )
    cells = dict(zip(free, original.__closure__ or ()))
    cells[HOOKS] = CellType(hooks)
    made = FunctionType(
        inner,
        original.__globals__,
        original.__name__,
        original.__defaults__,
        tuple(cells[n] for n in inner.co_freevars),
    )
    made.__kwdefaults__ = original.__kwdefaults__
    return made


def _locate(node: ast.AST, line: int, column: int, end_line: int, end_column: int) -> None:
    """Give every node that has no place that of the node around it.  The name of a hook gets one
    point: Python would report a call that spans several lines on the line of its name."""
    if "lineno" in node._attributes:
        held: Any = node
        if hasattr(node, "lineno"):
            line, column = held.lineno, held.col_offset
            end_line, end_column = held.end_lineno, held.end_col_offset
        else:
            held.lineno, held.col_offset = line, column
            held.end_lineno, held.end_col_offset = end_line, end_column
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Attribute(value=ast.Name(id=name)) if name[:3] == "__t":
                for part in (child, child.value):
                    part.lineno = part.end_lineno = line
                    part.col_offset = part.end_col_offset = column
            case _:
                _locate(child, line, column, end_line, end_column)


def _nested(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
