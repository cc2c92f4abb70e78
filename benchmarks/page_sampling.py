"""The part of docs/benchmarks.md about samples of program counters, from sampling.json.

In: what `benchmarks/sampling.py` measured on a GPU.  Out: a section; no number is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "sampling.json"
TITLE = "## Sampling instructions"
TEXT = f"""{TITLE}

This section shows what `--pc-sampling` costs, how many samples it loses, and how exact they are.
`python benchmarks/sampling.py` measures it and writes `benchmarks/results/sampling.json` after each
row. `--only RE` selects groups. `python benchmarks/page.py` then writes this section.

- Slowdown is measured in bursts of processes that work alternately, as under "What profiling
  costs". A requirement is met if the upper end of the interval meets it. Start and end of a
  recording are separate rows.
- Shares of stall reasons are compared with those of Nsight Compute for one launch of the same
  kernel. Nsight Compute has no column for `warpgroup_arrive`; the rest that its columns do not add
  up to is taken for it.
- Samples by code that the compiler inserts (`--instrument sample`), and records (`ops`), are
  compared by source line with samples of the same kernel without marks. The difference shows what
  marks change. Without marks, the compiler may mix instructions of neighbouring ops, and a wait may
  have the line of the enclosing loop. A share missing at one op is then found at the next.
"""
Row = dict[str, Any]


def section() -> str:
    """From the title on; nothing where nothing was measured."""
    if not RESULTS.exists():
        return ""
    record = json.loads(RESULTS.read_text())
    where, rows = record["circumstances"], record["rows"]
    versions = ", ".join(f"{k} {where[k]}" for k in ("python", "torch", "cuda", "tileprof"))
    driver = where["gpu"]["driver_version"]
    said = f"{where['device']}, driver {driver}, {where['date']} UTC, {versions}."
    left = [f"- {row['what']}: {row['error']}" for row in rows if "error" in row]
    return "\n".join([TEXT, said, "", *costs(rows), "", *rights(rows), "", *left, ""])


def costs(rows: list[Row]) -> Iterator[str]:
    """What it costs, loses and takes."""
    yield "| what | measured | required | |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        match row["what"]:
            case "slowdown":
                for name, way in row["ways"].items():
                    ours = name.startswith("tileprof --pc")
                    figure = f"{way['value']:.3f} × [{way['low']:.3f}, {way['high']:.3f}]" \
                        if "value" in way else way["error"]  # fmt: skip
                    yield bar(f"{row['work']}, {name}", figure, row if ours else {}, "≤ {:g} ×")
            case "loss" if "lost" in row:
                figure = f"{row['lost']:.2%} of {row['total']:,}, buffer full {row['overflows']} ×"
                yield bar(f"lost in {row['seconds']:.0f} s", figure, row, "< {:.0%}")
            case "lines" if "share" in row:
                yield bar(f"with a line, {row['kernel']}", f"{row['share']:.2%}", row, "≥ {:.0%}")
            case "attribution" if "took_s" in row:
                what = f"attribution of {row['samples']:,} samples"
                yield bar(what, f"{row['took_s']:.2f} s", row, "≤ {:g} s")
            case "ends" if "begin_s" in row:
                what = "with samples" if row["sampling"] else "without"
                told = (
                    f"{row['begin_s']:.3f} s, {row['first_launch_s']:.3f} s, {row['end_s']:.3f} s"
                )
                yield bar(f"begin, first launch, end: {what}", told, {}, "")


def bar(what: str, figure: str, row: Row, asked: str) -> str:
    """A line of the table."""
    held = asked.format(row["asked"]) if row.get("asked") is not None else "–"
    return f"| {what} | {figure} | {held} | {'missed' if row.get('met') is False else ''} |"


def rights(rows: list[Row]) -> Iterator[str]:
    """How right it is."""
    yield "| kernel | compared with | largest difference | where | required | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        if row["what"] == "ncu" and "apart" in row:
            where = max(row["apart"], key=lambda reason: abs(row["apart"][reason]))
            apart = f"{100 * row['apart'][where]:+.1f} points"
            missed = "" if row["met"] else "missed"
            yield f"| {row['kernel']} | Nsight Compute | {apart} | {where} | ± 3 | {missed} |"
        elif row["what"] == "inside" and "lines" in row:
            for mode, lines in row["lines"].items():
                line = max(lines, key=lambda at: abs(lines[at][0] - lines[at][1]))
                apart = f"{100 * (lines[line][0] - lines[line][1]):+.1f} points"
                yield f"| {row['kernel']} | `--instrument {mode}` | {apart} | line {line} | – | |"
