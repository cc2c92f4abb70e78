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

from .spans import function_location

__all__ = ["HOOKS", "FunctionSource", "build", "parse"]

HOOKS = "__tileprof"
"""The name under which a rewritten function finds what its control flow calls."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function and its syntax tree; line numbers are those of the file."""

    function: FunctionType
    tree: ast.FunctionDef

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
    # Under `if 1:` an indented function parses as it stands, with its columns.
    text = "if 1:\n" + "".join(lines) if lines[0][:1].isspace() else "\n" + "".join(lines)
    tree = ast.parse(text)
    ast.increment_lineno(tree, start - 2)
    node = next(
        (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == code.co_name),
        None,
    )
    if node is None:
        kind = "a lambda" if code.co_name == "<lambda>" else "not a plain `def`"
        raise UnsupportedPython(
            f"`{code.co_name}` is {kind}",
            location=function_location(code),
            hint="Write the kernel as a function with `def`.",
        )
    return FunctionSource(function, node)


def build(source: FunctionSource, tree: ast.FunctionDef, hooks: object) -> FunctionType:
    """The function that `tree` defines, with the globals, closure and defaults of the original and
    `hooks` under the name `HOOKS`."""
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
    ast.fix_missing_locations(module)
    _settle_hooks(module)
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


def _settle_hooks(module: ast.Module) -> None:
    """The name of a hook begins where its call does; else Python gives the last line of a call that
    spans several."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name)) as function) if (
                name[:3] == "__t"
            ):
                for part in (function, function.value):
                    part.lineno = part.end_lineno = node.lineno
                    part.col_offset = part.end_col_offset = node.col_offset


def _nested(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
