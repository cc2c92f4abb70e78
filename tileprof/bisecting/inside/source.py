"""Text of a kernel's function, and of the functions that it calls in the author's own files."""

from __future__ import annotations

import inspect
import os
import sysconfig
from types import CodeType
from typing import Any

_MOST = 64
"""Functions that are followed at most."""


def source_of(function: Any, folder: str) -> str:
    """Return the source of a function and of those that it names, each once, itself first.

    Followed are functions whose file lies below `folder`, outside of installed packages.
    """
    installed = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib"))
    texts: list[str] = []
    seen: set[int] = set()
    waiting = [plain(function)]
    while waiting and len(seen) < _MOST:
        each = waiting.pop(0)
        code = getattr(each, "__code__", None)
        if not isinstance(code, CodeType) or id(code) in seen:
            continue
        seen.add(id(code))
        file = os.path.abspath(code.co_filename)
        if texts and (not file.startswith(folder + os.sep) or file.startswith(installed)):
            continue
        try:
            texts.append(inspect.getsource(each))
        except (OSError, TypeError):
            continue
        scope = {**each.__globals__, **_closed(each)}
        waiting += [plain(scope[name]) for name in sorted(_names(code)) if name in scope]
    return "\f".join(texts)


def plain(value: Any) -> Any:
    """Return the Python function inside of a decorated one."""
    for _ in range(8):
        inner = getattr(value, "function", None) or getattr(value, "fn", None)
        if inner is None or isinstance(value, type):
            break
        value = inner
    return value


def _names(code: CodeType) -> set[str]:
    names = {*code.co_names, *code.co_freevars}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _names(each)
    return names


def _closed(function: Any) -> dict[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    found = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    return found
