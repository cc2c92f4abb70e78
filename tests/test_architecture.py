"""The import table of docs/architecture.md holds, and `import tileprof` stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.imported import imports_in

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tileprof"
SOURCES = {".py", ".h", ".cpp", ".cuh", ".js", ".css", ".html"}


def read_table() -> dict[str, set[str]]:
    """Package -> packages that it may import, from the page."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    page = page.partition("## Who may import whom")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| ([\w, –]+) \|$", page, re.MULTILINE)
    return {name: set(re.findall(r"\w+", allowed)) for name, allowed in rows if name != "package"}


def imports_of(path: Path) -> Iterator[tuple[list[str], int]]:
    """Yield the dotted names of tileprof's that a file imports, at any level, with their lines."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in imports_in(path):
        if isinstance(node, ast.ImportFrom):
            base = list(parts[: len(parts) - node.level]) if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            names = [[*module, a.name] for a in node.names]
        else:
            names = [a.name.split(".") for a in node.names]
        for name in names:
            if name[0] == "tileprof" and len(name) > 1:
                yield name, node.lineno


def test_imports_follow_the_table() -> None:
    """Every import between packages is allowed by the page."""
    table = read_table()
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        owner = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if owner in ("__init__", "__main__"):
            continue
        for (_, target, *_), line in imports_of(path):
            if target in table and target != owner and target not in table[owner]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {owner} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_every_permission_is_used() -> None:
    """A package that may import another one does."""
    table = read_table()
    used: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        owner = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        used.setdefault(owner, set()).update(name[1] for name, _ in imports_of(path))
    needless = {package: allowed - used[package] for package, allowed in table.items()}
    assert not any(needless.values()), needless


@pytest.mark.parametrize(
    "package",
    ["analyzer", "cli", "instrument", "ir", "native", "profiler", "remarks", "viewer"],
)
def test_modules_of_a_package_form_no_cycle(package: str) -> None:
    """No module names one that needs it, for types alone or inside functions included."""
    paths = [p for p in (PACKAGE / package).rglob("*.py") if p.name != "__init__.py"]
    modules = {p.relative_to(ROOT).with_suffix("").parts: p for p in paths}
    graph: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, path in modules.items():
        named = {tuple(name) for name, _ in imports_of(path)}
        # Each name is a module, or something in one.
        graph[module] = {n for name in named for n in (name, name[:-1]) if n in modules}
    # An import of itself, or a longer cycle, raises CycleError, which names the modules.
    tuple(TopologicalSorter(graph).static_order())


def test_the_analyzer_has_one_direction() -> None:
    """Machine code and text know of no kernel, facts of a kernel of no rule."""
    below = ("cases", "contexts", "copies", "kernel", "rules", "report", "drafts")
    forbidden = {"machine": below, "tiles": below, "program": below, "kernel": ("rules", "report")}
    for folder, names in forbidden.items():
        for path in (PACKAGE / "analyzer" / folder).glob("*.py"):
            found = re.findall(r"^from tileprof\.analyzer\.(\w+)", path.read_text(), re.MULTILINE)
            assert not set(found) & set(names), path


def test_the_table_names_every_package() -> None:
    """A package that holds code is in the table, and the table has no cycle."""
    table = read_table()
    held = {
        p.name.removesuffix(".py")
        for p in PACKAGE.iterdir()
        if any(p.rglob("*.py")) or p.suffix == ".py"
    }
    assert held - {"__init__", "__main__", "__pycache__"} == set(table)
    order: list[str] = []
    while len(order) < len(table):
        ready = [n for n in table if n not in order and table[n] <= set(order)]
        assert ready, f"a cycle among {sorted(set(table) - set(order))}"
        order += ready


def test_heavy_packages_are_not_imported() -> None:
    """`import tileprof` loads neither pandas, rich, plotly nor torch."""
    heavy = "{'pandas', 'rich', 'plotly', 'torch'}"
    code = f"import sys, tileprof; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_package_has_an_owners_note() -> None:
    """The top of each package says what it is for, what comes in and what goes out."""
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        note = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert "In:" in note, path
        assert "Out:" in note, path


@pytest.mark.parametrize("page", ["architecture.md", "internals.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    """Each is a path in tileprof/, or its end."""
    text = (ROOT / "docs" / page).read_text()
    named = set(re.findall(r"`([\w/]+\.(?:py|h|cuh|cpp))`", text))
    there = [f"/{each.relative_to(ROOT).as_posix()}" for each in ROOT.glob("t*/**/*.*")]
    assert len(named) >= 15
    assert not {name for name in named if not any(each.endswith(f"/{name}") for each in there)}


def test_modules_that_docstrings_name_exist() -> None:
    """A module that a module's docstring names is one of its package, or the end of a path."""
    sources = sorted(PACKAGE.rglob("*.py"))
    there = [f"/{each.relative_to(PACKAGE).as_posix()}" for each in sources]
    wrong = []
    for path, own in zip(sources, there):
        note = path.read_text().partition('"""')[2].partition('"""')[0]
        near = [each for each in there if each.split("/")[1] == own.split("/")[1]]
        for name in re.findall(r"`([a-z_/]+\.py)`", note):
            known = there if "/" in name else near
            if not any(each.endswith(f"/{name}") for each in known) and not (ROOT / name).is_file():
                wrong.append(f"{own[1:]} names {name}")
    assert not wrong, "\n".join(wrong)


def test_the_page_lists_the_passes_for_gpus() -> None:
    """All of them, in their order."""
    from tileprof.compiler.cuda.pipeline import PASSES

    page = (ROOT / "docs" / "internals.md").read_text()
    table = page.partition("| pass | leaves |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == [each.name for each in PASSES]


def test_folders_stay_small_enough_to_read() -> None:
    """A folder with more files than fit on a screen gets rooms."""
    folders = [each for each in PACKAGE.rglob("*") if each.is_dir() and each.name != "__pycache__"]
    large = {
        str(folder.relative_to(ROOT)): count
        for folder in folders
        if (count := sum(each.suffix in SOURCES for each in folder.iterdir())) > 25
    }
    assert not large
