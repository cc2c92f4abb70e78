"""Pages that are written down before a GPU runs their kernels, so that a run judges them.

In: cases.  Out: a JSON file with the numbers of each page, and from it the pages again.  What is in
the file stays: kernels are only added.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tileprof
from benchmarks.show_counters.kernels import Case
from benchmarks.show_counters.pages import Shown, shown

FROZEN_PAGES = Path(__file__).parents[1] / "results" / "show-counters-frozen.json"


_FOLDERS = ("drawing", "compiler", "ir", "lang", "runtime")


def code_of_pages() -> str:
    """Return the SHA-256 of all code that a page follows from: the language, the compiler, the
    interpreter and the counting, and the kernels themselves."""
    held = hashlib.sha256()
    folders = [Path(tileprof.__file__).parent / each for each in _FOLDERS]
    kinds = ("*.py", "*.cuh")
    files = [each for folder in folders for kind in kinds for each in folder.rglob(kind)]
    for each in sorted([*files, *Path(__file__).parent.glob("fresh*.py")]):
        held.update(str(each.name).encode() + b"\0" + each.read_bytes())
    return held.hexdigest()


def codes_of(names: Iterable[str], path: Path = FROZEN_PAGES) -> list[str]:
    """Return the codes that pages of the file were made with."""
    held = json.loads(path.read_text())["kernels"]
    return sorted({held[name]["code"] for name in names if "code" in held[name]})


def freeze(
    cases: Iterable[Case], again: Collection[str] = (), path: Path = FROZEN_PAGES
) -> list[str]:
    """Write down the pages of kernels that are not in the file yet, and those of kernels that are
    to be written `again`; return their names."""
    held = json.loads(path.read_text()) if path.exists() else {"kernels": {}}
    held["description"] = (
        "Numbers of pages of `tileprof show`, written down before a GPU ran the kernels. Lines "
        "count from that of the launch."
    )
    added, code = [], code_of_pages()
    for case in cases:
        if case.name not in held["kernels"] or case.name in again:
            now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
            row = {"date": now, "about": case.about, "code": code}
            held["kernels"][case.name] = {**row, **_written(shown(case))}
            added.append(case.name)
    path.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")
    return added


def _written(page: Shown) -> dict[str, Any]:
    """Return a page as JSON values."""
    first = page.first
    return {
        "launch": page.quantities,
        "lines": {str(line - first): numbers for line, numbers in sorted(page.lines.items())},
        "uncounted": sorted(page.uncounted),
        "by_engine": sorted(line - first for line in page.by_engine),
        "disturbed": sorted(line - first for line in page.disturbed),
    }


def frozen_pages(now: Mapping[str, Shown], path: Path = FROZEN_PAGES) -> dict[str, Shown]:
    """Return the pages of the file, at the lines at which the kernels stand now."""
    held = json.loads(path.read_text())["kernels"]
    return {
        name: replace(
            page,
            quantities=held[name]["launch"],
            uncounted=frozenset(held[name]["uncounted"]),
            lines={int(at) + page.first: row for at, row in held[name]["lines"].items()},
            by_engine=frozenset(at + page.first for at in held[name]["by_engine"]),
            disturbed=frozenset(at + page.first for at in held[name]["disturbed"]),
        )
        for name, page in now.items()
        if name in held
    }


def changed(now: Mapping[str, Shown], frozen: Mapping[str, Shown]) -> list[str]:
    """Return the kernels whose pages say something else than the file."""
    return [name for name, page in frozen.items() if _written(page) != _written(now[name])]
