"""What the files of tileprof import, read once by all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def imports_in(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the imports of a file, wherever they stand: only statements hold any."""
    found: list[ast.Import | ast.ImportFrom] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        # `match` and `try` keep statements in nodes that are none.
        elif not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)
    return tuple(found)
