"""Numbers by which the analyzer judges stand in modules of their own, each with its meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ANALYZER = Path(__file__).parents[2] / "tileprof" / "analyzer"
NUMBERS = (
    *(f"numbers/{of}.py" for of in (
        "kernels", "machine", "programs", "reports", "shared", "tiles",
    )),
    *(f"rules/numbers/{of}.py" for of in ("blocks", "memory", "waiting", "work")),
    *(f"rules/{of}/numbers.py" for of in ("machine_code", "program", "tile_program")),
)  # fmt: skip
ALLOWED = {
    ("calibrated.py", "FACTORS"): "a table that calibration writes",
    ("json_form.py", "SCHEMA"): "version of a format",
    ("kernel/global_memory.py", "_WIDTHS"): "how opcodes are read",
    ("machine/arithmetic.py", "FORMS"): "a table whose rows say what each number is",
    ("machine/lane_arithmetic.py", "WORD"): "mask of a 32-bit word",
    ("program/host_passes.py", "_WIDTHS"): "sizes of types",
    ("rules/program/optimizer_passes.py", "_FORMS"): "a table whose rows say what each number is",
    ("rules/program/optimizer_passes.py", "_MOMENTS"): "a part of that table",
}
"""Module-level constants outside of these, with the reason."""
UNITS = {0.0, 0.5, 1.0, 2.0, 100.0, 1e3, 1e6, 1e9, 1e12}
"""Floats that may be compared with: ends and middles of shares, and factors of units."""


def constants(source: str) -> Iterator[str]:
    """Yield names of a module that are assigned an expression with a number in it."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[target]):
                value: ast.expr | None = node.value
            case ast.AnnAssign(target=target, value=value):
                pass
            case _:
                continue
        if value is not None and any(map(_is_number, ast.walk(value))):
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (ast.unparse(name) for name in names)


def thresholds(source: str) -> Iterator[tuple[int, float]]:
    """Yield floats with their lines that are compared with, or that a minimum or maximum has."""
    for node in ast.walk(ast.parse(source)):
        is_bound = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("min", "max")
        )
        for each in ast.walk(node) if isinstance(node, ast.Compare) or is_bound else ():
            if _is_number(each) and isinstance(each.value, float) and each.value not in UNITS:  # type: ignore[attr-defined]
                yield each.lineno, each.value  # type: ignore[attr-defined]


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def modules() -> Iterator[tuple[str, str]]:
    """Yield the analyzer's modules but for those of numbers, with their text."""
    for path in sorted(ANALYZER.rglob("*.py")):
        name = path.relative_to(ANALYZER).as_posix()
        if name not in NUMBERS:
            yield name, path.read_text(encoding="utf-8")


def test_numbers_stand_in_their_modules() -> None:
    """No other module of the analyzer has a constant with a number, but for those allowed."""
    found = {(name, constant) for name, text in modules() for constant in constants(text)}
    assert found == ALLOWED.keys()


def test_no_threshold_is_a_literal() -> None:
    """Comparisons and bounds have names, not numbers."""
    assert not [(name, *each) for name, text in modules() for each in thresholds(text)]


@pytest.mark.parametrize("module", NUMBERS)
def test_each_number_says_what_it_is(module: str) -> None:
    """A docstring follows each number, and each number is used."""
    text = (ANALYZER / module).read_text(encoding="utf-8")
    body = ast.parse(text).body
    documented = {
        ast.unparse(node.targets[0])
        for node, after in pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
    assert set(constants(text)) <= documented
    others = [text for _, text in modules()]
    assert not [name for name in documented if not any(name in each for each in others)]


def test_numbers_elsewhere_are_found() -> None:
    """Both checks can fail."""
    assert list(constants("_A, _B = 1, x\n_C: int = 1 << 3\n_D = ('text',)\nE = True")) == [
        "_A", "_B", "_C",
    ]  # fmt: skip
    assert list(thresholds("a > 0.3 * b\nmin(c, 0.98)\nd = 0.2\ne >= 0.5")) == [(1, 0.3), (2, 0.98)]
