"""English of docstrings and messages, in the packages that have been edited for it.

A docstring that leans on the name before it ("Of a thread.") makes its reader search for a noun.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1] / "tileprof"
_WHOLE = (
    "binary", "bisecting", "checker", "cli", "compiler", "drawing", "instrument", "ir", "lang",
    "learn", "profile", "profiler", "remarks", "runtime", "trying", "tui", "tuning", "viewer",
)  # fmt: skip
"""Packages in which no docstring begins with one of `_LEANING`, of a module, class, function or
attribute."""
_MESSAGES = ("cli", "viewer", "analyzer", "runtime", "lang", "tui")
"""Packages whose messages, help and report sentences avoid `_PRIVATE`."""
_LEANING = {"Of", "As", "By", "In", "Per", "What", "That", "Where", "How", "Who", "Which", "For"}
"""First words after which a reader looks for the noun that the sentence is about."""
_PRIVATE = re.compile(r"\b(told|tells?|is none of|makes surer)\b")
"""Words of ours in place of report, show, state; "invalid choice"; "would confirm"."""


@pytest.mark.parametrize("package", _WHOLE)
def test_docstring_begins_with_verb_or_noun(package: str) -> None:
    """No docstring of a module, class, function or attribute leans on the name before it."""
    wrong = [
        f"{path.relative_to(_ROOT)}:{line} {text.splitlines()[0]}"
        for path, tree in _trees(package)
        for line, text in _docstrings(tree)
        if text.split(maxsplit=1)[0] in _LEANING
    ]
    assert not wrong


@pytest.mark.parametrize("package", _MESSAGES)
def test_messages_have_no_private_words(package: str) -> None:
    """Messages, help and report sentences use the field's words."""
    wrong = [
        f"{path.relative_to(_ROOT)}:{line} {text}"
        for path, tree in _trees(package)
        for line, text in _sentences(tree)
        if _PRIVATE.search(text)
    ]
    assert not wrong


def test_leaning_docstring_and_private_word_are_found() -> None:
    """Both checks can fail."""
    tree = ast.parse('def f():\n    """Of it."""\n    return f"what {told} is told"\n')
    assert [text for _, text in _sentences(tree) if _PRIVATE.search(text)] == [" is told"]
    assert ast.get_docstring(tree.body[0]).split()[0] in _LEANING  # type: ignore[arg-type,union-attr]


def _trees(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((_ROOT / package).rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield strings that stand alone as a statement, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text


def _sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield string constants of several words that are not docstrings, with their lines."""
    alone = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield from [(node.lineno, node.value)] * (node.value.count(" ") >= 2)
