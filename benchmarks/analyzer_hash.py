"""The hash of all sources that an analysis is made by, which results name.

In: the tree of the package.  Out: the SHA-256 over names and contents of `tileprof/analyzer` and of
every module of the package that it imports, with the data beside them.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["analyzer_hash", "analyzer_sources"]

ROOT = Path(__file__).parents[1]
_DATA = (".json", ".csv", ".toml")


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
    found: dict[tuple[str, ...], None] = {}
    for level, parts in _names(path.read_text()):
        start = package[: len(package) - level + 1] if level else ()
        found[*start, *parts] = None
    for parts in found:
        if parts[:1] == ("tileprof",):
            yield from _files(parts, root)


@cache
def _names(source: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return what a text imports: the dots before a name, and its parts.

    Kept, because most of the time goes into parsing, and results are hashed before and after.
    """
    found: list[tuple[int, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(0, tuple(each.name.split("."))) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = tuple(node.module.split(".")) if node.module else ()
            found.append((node.level, base))
            found += [(node.level, (*base, each.name)) for each in node.names]
    return tuple(found)


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
