"""Errors that a user of the command line can cause have a way out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "tileprof"
ERRORS = {"UsageError", "ArgumentError", "ProfileFileError", "CubinError", "OutputError"}
"""Errors of wrong use; a kernel's error has its place, and sometimes nothing else to say."""
PLACES = (
    *("cli", "viewer", "lang", "runtime", "profiler/session", "profiler/options.py"),
    *("profiler/pcs/options.py", "profile/storage/file.py"),
    *("binary/elf.py", "binary/cubin.py", "binary/disassembly.py"),
)
"""Where they are raised as a user sees them; readers of parts of a file have the file's hint."""


def without_hint(text: str) -> Iterator[tuple[int, str]]:
    """Yield the errors that are made with a sentence alone, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        hinted = any(each.arg in ("hint", None) for each in node.keywords) or len(node.args) > 1
        if node.func.id in ERRORS and not hinted:
            yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize("place", PLACES)
def test_errors_of_wrong_use_have_a_hint(place: str) -> None:
    """A sentence says what is wrong; the hint says what to do."""
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files
    found = [
        (str(f.relative_to(ROOT)), *each) for f in files for each in without_hint(f.read_text())
    ]
    assert not found


def test_an_error_without_a_hint_is_found() -> None:
    """The check can fail."""
    text = 'raise UsageError("no")\nraise UsageError("no", hint="yes")\nraise CubinError("a")'
    assert [line for line, _ in without_hint(text)] == [1, 3]
