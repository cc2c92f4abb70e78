"""Hashes of what decides the figures: programs, harness, and the analyzer that was judged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from benchmarks.analyzer_hash import analyzer_hash

__all__ = ["hashes"]

ROOT = Path(__file__).parents[2]
PARTS = {
    "programs": "benchmarks/programs/scripts",
    "harness": "benchmarks/programs",
}
"""Folders by part; the analyzer is all that an analysis is made by."""


def hashes() -> dict[str, str]:
    """Return the SHA-256 of each part's sources, by part."""
    found = {name: _hash(sorted((ROOT / folder).glob("*.py"))) for name, folder in PARTS.items()}
    return {**found, "analyzer": analyzer_hash()}


def _hash(files: Iterable[Path]) -> str:
    """Of names and texts, in order."""
    whole = hashlib.sha256()
    for path in files:
        text = path.read_bytes()
        whole.update(f"{path.relative_to(ROOT).as_posix()}\0{len(text)}\0".encode() + text)
    return whole.hexdigest()
