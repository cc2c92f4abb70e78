"""Hashes: of a split's cases, and of the analyzer that reads them.

In: mutants; the tree of the package.  Out: the SHA-256 of each mutant, and one of every source of
the package that an analysis imports. A file of results holds the hash of the analyzer that made it
and says whether it claims to be of the analyzer as it is (`"claims": "current"`) or of an earlier
one (`"history"`); a test fails where a claim is false.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer_hash import analyzer_hash, analyzer_sources

if TYPE_CHECKING:
    from .mutants import Mutant

__all__ = ["ROOT", "analyzer_hash", "analyzer_sources", "false_claims", "split_record"]

ROOT = Path(__file__).parents[3]


def split_record(name: str, part: str, mutants: Sequence[Mutant]) -> dict[str, Any]:
    """Return what a split's file says: its families, and the hash of each case."""
    families = sorted({each.family.name for each in mutants})
    cases = {each.name: each.digest for each in mutants}
    return {"split": name, "part": part, "families": families, "cases": cases}


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
