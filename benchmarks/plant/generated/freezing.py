"""Hashes: of a split's cases, and of the analyzer that reads them.

In: mutants; the tree of the package.  Out: the SHA-256 of each mutant, and one of every source of
the package that an analysis imports. A file of results holds the hash of the analyzer that made it
and says whether it claims to be of the analyzer as it is (`"claims": "current"`) or of an earlier
one (`"history"`); a test fails where a claim is false.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .mutants import Mutant

__all__ = ["ROOT", "analyzer_hash", "analyzer_sources", "false_claims", "split_record"]

ROOT = Path(__file__).parents[3]
_DATA = (".json", ".csv", ".toml")


def split_record(name: str, part: str, mutants: Sequence[Mutant]) -> dict[str, Any]:
    """Return what a split's file says: its families, and the hash of each case."""
    families = sorted({each.family.name for each in mutants})
    cases = {each.name: each.digest for each in mutants}
    return {"split": name, "part": part, "families": families, "cases": cases}


def analyzer_sources(root: Path = ROOT) -> list[Path]:
    """Return all files that an analysis is made by: `tileprof/analyzer`, whole, and every module of
    the package that it imports, at first or second hand, with the data beside them."""
    waiting = set((root / "tileprof" / "analyzer").rglob("*.py"))
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= set(_imported(path, root)) - found
    data = {each for path in found for each in path.parent.iterdir() if each.suffix in _DATA}
    return sorted(found | data)


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """Yield the modules of the package that a module names in imports, wherever they stand."""
    package = path.relative_to(root).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        names: Iterable[tuple[str, ...]] = ()
        if isinstance(node, ast.Import):
            names = [tuple(each.name.split(".")) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = (*start, *(node.module.split(".") if node.module else ()))
            names = [base, *((*base, each.name) for each in node.names)]
        for parts in names:
            if parts[:1] == ("tileprof",):
                yield from _files(parts, root)


def _files(parts: tuple[str, ...], root: Path) -> Iterator[Path]:
    """Yield a module's file; of a package, also that of its public names."""
    place = root.joinpath(*parts)
    candidates = [place.with_suffix(".py")]
    # The package as a whole is no part of an analysis.
    if len(parts) > 1:
        candidates += [place / "__init__.py", place / "public.py"]
    yield from (each for each in candidates if each.is_file())


def analyzer_hash(root: Path = ROOT) -> str:
    """Return the SHA-256 over names and contents of all sources of the analyzer."""
    held = hashlib.sha256()
    for path in analyzer_sources(root):
        held.update(str(path.relative_to(root).as_posix()).encode())
        held.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return held.hexdigest()


def false_claims(results: Iterable[Path], now: str) -> list[str]:
    """Return names of results that claim to be of the analyzer as it is and are not.

    Results without a hash are of the time before there was one; they may not claim anything.
    """
    wrong = []
    for path in results:
        record = json.loads(path.read_text())
        if record.get("claims") == "current" and record.get("analyzer") != now:
            wrong.append(path.name)
    return wrong
