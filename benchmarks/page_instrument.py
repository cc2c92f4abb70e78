"""The part of docs/benchmarks.md about measuring inside kernels, from instrument.json.

In: what `benchmarks/instrument.py` measured on a GPU.  Out: a section; no number is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "instrument.json"
TITLE = "## Measuring inside kernels"
TEXT = f"""{TITLE}

This section shows what `--instrument` costs, and how exact its times are. `python
benchmarks/instrument.py` measures kernels with and without `--instrument`, and writes
`benchmarks/results/instrument.json` after each row. `--only RE` selects rows, `--modes` modes.
`python benchmarks/page.py` then writes this section.

- Overhead is that of the kernel itself: two CUDA graphs of one process are replayed alternately,
  after half a second of replays. The table has the {{statistic}} over pairs, and the middle 90 % of
  them. Different blocks are measured in each launch, so some pairs contain more of them.
- The error of a scope: a chain of dependent operations in a scope is run at two lengths. The
  difference of the scope's times is compared with the difference of the unmeasured kernels' times;
  in the second column, with that of the measured launches, as CUPTI reports it.
- Shares are shares of a role's time by op, from 5 % on. The table has the largest difference
  between the share by samples and the share by records of every op. Marks change how the warps of a
  block meet, and records do so in another way than samples. Part of a difference is therefore in
  the kernels, not in the measurement. Records of a kernel's own scopes have few marks.
"""
Row = dict[str, Any]


def section() -> str:
    """From the title on; nothing where nothing was measured."""
    if not RESULTS.exists():
        return ""
    record = json.loads(RESULTS.read_text())
    where = record["circumstances"]
    versions = ", ".join(f"{k} {where[k]}" for k in ("python", "torch", "cuda", "tileprof"))
    driver = where["gpu"]["driver_version"]
    said = f"{where['device']}, driver {driver}, {where['date']} UTC, {versions}."
    rows: list[Row] = record["rows"]
    parts = [overheads(rows), errors(rows), shares(rows), samples(rows)]
    # What varies from pair to pair is part of a mean; the first results have medians alone.
    means = any("median" in row for row in rows)
    text = TEXT.format(statistic="geometric mean" if means else "median")
    return "\n".join([text, said, *("\n" + "\n".join(part) for part in parts), ""])


def of(rows: list[Row], what: str) -> list[Row]:
    """Those of one group."""
    return [row for row in rows if row["what"] == what]


def met(row: Row) -> str:
    """Whether a bar was missed."""
    return "missed" if row.get("met") is False else ""


def overheads(rows: list[Row]) -> Iterator[str]:
    """Kernels beside modes, and the bars of the means."""
    found = of(rows, "overhead")
    modes = list(dict.fromkeys(row["mode"] for row in found))
    yield f"| kernel | {' | '.join(modes)} |"
    yield f"| --- |{' --- |' * len(modes)}"
    for kernel in dict.fromkeys(row["kernel"] for row in found):
        cells = []
        for row in (r for r in found if r["kernel"] == kernel):
            spread = f" [{row['low']:.3f}, {row['high']:.3f}]" if "low" in row else ""
            cells.append(f"{row['ratio']:.3f}{spread}" if "ratio" in row else row["error"])
        yield f"| {kernel} | {' | '.join(cells)} |"
    means = [row for row in found if row["kernel"] == "geometric mean"]
    asked = [f"≤ {r['asked']:g} {met(r)}".strip() if r["asked"] else "–" for r in means]
    yield f"| required of the mean | {' | '.join(asked)} |"


def errors(rows: list[Row]) -> Iterator[str]:
    """Of the time of a scope."""
    yield "| a scope's time, mode | error | against the same launches | required | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in of(rows, "error"):
        same = f"{row['error_of_same_launches']:+.2%}"
        told = f"{row['error']:+.2%} | {same} | ± {row['asked']:.0%} | {met(row)}"
        yield f"| {row['mode']} | {told} |"


def shares(rows: list[Row]) -> Iterator[str]:
    """Samples against records."""
    yield "| shares of time | largest difference | where | required | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in of(rows, "shares"):
        where = max(row["apart"], key=lambda path: abs(row["apart"][path]))
        apart = f"{100 * row['apart'][where]:+.1f} points"
        asked = f"± {100 * row['asked']:g}"
        yield f"| {row['kernel']} | {apart} | {where} | {asked} | {met(row)} |"


def samples(rows: list[Row]) -> Iterator[str]:
    """Of each role of the case studies."""
    yield "| case study, 100 launches | samples by role |"
    yield "| --- | --- |"
    for row in of(rows, "samples"):
        if "share" in row:
            told = f"{row['share']:.0%}, required ≥ {row['asked']:.0%} {met(row)}".strip()
            yield f"| with 1,000 in each role | {told} |"
        else:
            told = ", ".join(f"{role} {count:,.0f}" for role, count in row["roles"].items())
            yield f"| {row['kernel']} | {told or '; '.join(row['refused'])} |"
