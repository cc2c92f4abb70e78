"""The packages that tileprof imports: each is a dependency or comes with an extra that is named."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import tileprof
from tests.imported import imports_in
from tests.viewer.samples import matmul
from tileprof import figures
from tileprof.errors import MissingDependencyError
from tileprof.viewer import export_folder

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"cuda": "cuda-python", "hatchet": "llnl-hatchet"}
"""Of packages that are imported by another name than they are installed by."""
NEEDLESS = {"cupy", "pytest", "triton"}
"""What only a program that has it already brings to tileprof."""


def required(lines: list[str]) -> set[str]:
    """The names of distributions in requirements."""
    return {re.split(r"[<>=;\[ ]", line)[0] for line in lines}


def imported() -> set[str]:
    """The distributions of all packages that are imported anywhere, those of Python's left out."""
    found: set[str] = set()
    for path in (ROOT / "tileprof").rglob("*.py"):
        for node in imports_in(path):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif not node.level:
                found.add(str(node.module).partition(".")[0])
    return {DISTRIBUTIONS.get(n, n) for n in found - sys.stdlib_module_names - {"tileprof"}}


def test_what_is_imported_can_be_installed() -> None:
    """Every dependency is imported somewhere; all else that is imported comes with an extra."""
    core, extras = required(PROJECT["dependencies"]), PROJECT["optional-dependencies"]
    optional = set().union(*(required(extras[name]) for name in extras if name != "test"))
    found = imported()
    assert core <= found
    assert found - core - NEEDLESS <= optional


def test_all_has_every_extra() -> None:
    """`tileprof[all]` installs the same as all extras but those for tests and the site."""
    extras = PROJECT["optional-dependencies"]
    named = re.findall(r"\[(.*)\]", extras["all"][0])[0].split(",")
    assert {*named} == {*extras} - {"all", "docs", "test"}


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("pandas", "pandas", lambda: matmul().frame()),
        ("hatchet", "hatchet", lambda: matmul().to_hatchet()),
        ("pyarrow", "parquet", lambda: export_folder({"m": matmul()}, "parquet")),
        ("plotly", "plotly", lambda: figures.cta_page(matmul())),
    ],
)
def test_a_missing_package_names_its_extra(
    package: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is not installed and the command that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError) as error:
        use()
    expected = f'{package} is not installed\nInstall it: pip install "tileprof[{extra}]"'
    assert str(error.value) == expected
    assert extra in PROJECT["optional-dependencies"]


@pytest.mark.parametrize(("package", "make"), [("torch", tileprof.op), ("jax", tileprof.jax_call)])
def test_operators_name_the_extra_of_their_framework(
    package: str, make: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else is looked at."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match="is not installed") as error:
        make(len)
    assert error.value.hint == f'Install it: pip install "tileprof[{package}]".'
