"""Threads that import different parts of tileprof at once never wait for each other in a circle."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import tileprof

ROOT = Path(__file__).parent.parent
FILES = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): (
        path
    )
    for path in sorted((ROOT / "tileprof").rglob("*.py"))
}
"""The file of each module of tileprof, by the module's name."""
LATE = {f"tileprof.{name}": module for name, module in tileprof._LATE.items()}
"""The modules that hold the names of `tileprof` itself."""


def run_at_import(nodes: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that are executed while a module is imported."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from run_at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from run_at_import(
                [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            )


def imported_by(module: str) -> set[str]:
    """Return the modules of tileprof whose locks may be taken while `module` is imported.

    They are its parent, which Python imports first, and what its imports name.  A package that is
    named as a whole counts with all that its names load.
    """
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = {module.rpartition(".")[0]}
    for node in run_at_import(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            modules = {alias.name for alias in node.names}
            found |= modules | {f"{each}.public" for each in modules}
            continue
        above = package.split(".")[: len(package.split(".")) + 1 - node.level]
        base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
        found.add(base)
        for name in (f"{base}.{alias.name}" for alias in node.names):
            # A name that is no module's is one of the package's.
            found |= {name, f"{name}.public"} if name in FILES else {f"{base}.public"}
            found.add(LATE.get(name, ""))
    return found & set(FILES)


def test_imports_take_the_locks_of_modules_in_one_order() -> None:
    """No two modules can each be imported while the other one's lock is held."""
    # A circle raises CycleError, which names the modules.
    tuple(TopologicalSorter({module: imported_by(module) for module in FILES}).static_order())


def test_no_public_name_is_that_of_a_module() -> None:
    """Importing a module would otherwise put it where its package has the name."""
    for module in FILES:
        package, _, last = module.rpartition(".")
        if last == "public":
            for name in importlib.import_module(module).__all__:
                found = getattr(importlib.import_module(package), name)
                assert isinstance(found, ModuleType) or f"{package}.{name}" not in FILES


MEETING = """
import _frozen_importlib, importlib.machinery, sys, threading, time

def stop(spec):  # with the lock of the package, which is not in `sys.modules` yet
    held.set()
    until = time.monotonic() + 20
    while other.ident not in _frozen_importlib._blocking_on and time.monotonic() < until:
        time.sleep(0.001)

class Finder:
    def find_spec(self, name, path, target=None):
        if name == package and threading.current_thread().name == "package":
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            spec.loader.create_module = stop
            return spec

def load(name):
    if name != package:
        held.wait(20)
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(f"{package} and {module}: {name}: {error!r}")

sys.meta_path.insert(0, Finder())
for package, module in (pair.split() for pair in sys.argv[1:]):
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]
    held = threading.Event()
    first = threading.Thread(target=load, args=(package,), name="package")
    other = threading.Thread(target=load, args=(module,), name="module")
    for each in (first, other):
        each.start()
    for each in (first, other):
        each.join()
"""


@pytest.mark.sweep
def test_a_package_and_its_module_can_be_imported_by_two_threads() -> None:
    """The thread with the module waits for the package, which waits for none of its modules."""
    pairs = ["tileprof tileprof.errors"]
    for module in sorted(FILES, key=lambda name: name.count(".")):
        package, _, last = module.rpartition(".")
        if last == "public":
            inner = min(n for n in imported_by(module) if n.startswith(f"{package}."))
            pairs.append(f"{package} {inner}")
    command = [sys.executable, "-c", MEETING, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert (done.stdout, done.stderr) == ("", "")
