"""Cells of tables about rows of results, and what was measured when."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["asked", "beside", "clean", "measured"]


def beside(row: dict[str, Any]) -> str:
    """The ratio to the fastest peer, and who that is."""
    best = min(row.get("peers", []), key=lambda p: p["peer_ms"], default=None)
    if best is None:
        return "–"
    return f"{best['ratio']:.3f} × {best['peer']} [{best['low']:.3f}, {best['high']:.3f}]"


def asked(row: dict[str, Any]) -> str:
    """A ratio, or a time that is not to be exceeded."""
    return f"≥ {row['asked']:g} ×" if "peers" in row and "aim" in row else (
        f"≤ {row['asked']:g} {row['unit']}"
    )  # fmt: skip


def clean(text: str) -> str:
    """The first line, without folders of the machine, as a cell."""
    return re.sub(r"\S*/(?=\w+\.py)", "", text.splitlines()[0] if text else "").replace("|", "\\|")


def measured(rows: Iterable[tuple[str, str]]) -> str:
    """What was measured when, of dates and works, a sentence for each date."""
    works: dict[str, list[str]] = {}
    for date, work in rows:
        works.setdefault(date, []).append(work)
    return "".join(f" Measured {date}: {', '.join(names)}." for date, names in works.items())
