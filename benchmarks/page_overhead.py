"""The part of docs/benchmarks.md about the overhead of profiling, from overhead*.json.

In: what `benchmarks/overhead.py` measured on a GPU, on the CPU, or both.  Out: a section; no number
is typed by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_rows import measured

RESULTS = Path(__file__).parent / "results"
FILES = ("overhead.json", "overhead_cpu.json")
TITLE = "## What profiling costs"
TEXT = f"""{TITLE}

This section shows how much profiling slows a program down. `python benchmarks/overhead.py` runs the
same programs (`benchmarks/overhead_programs.py`) without a profiler, under `tileprof run`, and with
other profilers, and writes `benchmarks/results/overhead.json` after each row. `--cpu` runs smaller
programs on a machine without a GPU and writes `overhead_cpu.json`. `--only RE` selects rows, and
after `--budget SECONDS` no further row starts. `python benchmarks/page.py` then writes this
section.

- Each variant runs in its own process. All processes stay alive and work alternately in bursts of
  steps or launches. A pair is a burst of one variant and the burst of the plain program in the same
  round. The order within a round is random. Other profilers take part in only some rounds.
- A figure is the mean over all pairs (for ratios the geometric mean), from several sets of fresh
  processes. Brackets give its 95 % interval, by a bootstrap over sets and over the pairs in each.
  A requirement is met if the upper end meets it.
- A burst ends when the device is idle. It excludes what a profiler does at the end of the program;
  the rows about finishing show that. Their brackets give the smallest and largest of single runs.
- The training that fills the GPU is synchronised after every ten steps. More synchronisation would
  make profiling cost more, because the first launches after each are late.
- `plain again` is the plain program in a second process. It shows the noise of the method.
- Three rows are lower bounds for any profiler: kernel records that are dropped, an observer of
  operations that returns at once, and CUPTI after it has stopped recording.
- On the CPU, time is processor time of all threads, because such machines are shared.
"""


def section() -> str:
    """From the title on; nothing where nothing was measured."""
    paths = [RESULTS / name for name in FILES if (RESULTS / name).exists()]
    if not paths:
        return ""
    parts = [one_machine(json.loads(path.read_text())) for path in paths]
    return "\n".join([TEXT, *parts])


def one_machine(record: dict[str, Any]) -> str:
    """Where it was measured, and the table."""
    where = record["circumstances"]
    names = [n for n in ("python", "torch", "triton", "tileprof") if where[n] != "not installed"]
    versions = ", ".join(f"{name} {where[name]}" for name in names)
    driver = f", driver {where['gpu']['driver_version']}" if "gpu" in where else ""
    said = f"{where['device']}{driver}, {where['cores']} cores, {where['date']} UTC, {versions}."
    dated = (row for row in record["rows"] if "date" in row)
    said += measured((" and ".join(row.get("dates", [row["date"]])), row["work"]) for row in dated)
    left = [f"- {name}: not reached in the time given" for name in record.get("skipped", [])]
    told = ["", *left] if left else []
    return "\n".join([said, "", *table(record["rows"]), *told, ""])


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A row for each work and way."""
    yield "| work | profiler | measured | required | |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        if "error" in row:
            yield f"| {row['work']} | – | not measured | | {clean(row['error'])} |"
            continue
        ours = row["ours"] and row["ours"]["name"]
        for number, variant in enumerate(ordered(row["variants"], ours)):
            mine = variant["name"] == ours
            cells = [
                row["work"] if number == 0 else "",
                variant["name"],
                figure(variant, row["unit"]),
                bar(row) if mine else "",
                "missed" if mine and row["met"] is False else clean(variant.get("error", "")),
            ]
            yield f"| {' | '.join(cells)} |"


def ordered(variants: list[dict[str, Any]], ours: str | None) -> list[dict[str, Any]]:
    """Ours first."""
    return sorted(variants, key=lambda variant: variant["name"] != ours)


def figure(variant: dict[str, Any], unit: str) -> str:
    """The value and its interval."""
    if "value" not in variant:
        return "not measured"
    value, low, high = (number(variant[key], unit) for key in ("value", "low", "high"))
    sign = "+" if unit.startswith("µs") and variant["value"] >= 0 else ""
    return f"{sign}{value} {unit} [{low}, {high}]"


def number(value: float, unit: str) -> str:
    """Three digits behind the point for ratios, else three that count."""
    return f"{value:.3f}" if unit == "×" else f"{value:.3g}"


def bar(row: dict[str, Any]) -> str:
    """What is asked, and aimed for."""
    if row["asked"] is None:
        return ""
    peers = ", below other profilers" if row["below_peers"] else ""
    aim = "" if row["aim"] is None else f" (aim {row['aim']:g})"
    return f"≤ {row['asked']:g} {row['unit']}{peers}{aim}"


def clean(text: str) -> str:
    """The first line, as a cell."""
    return (text.splitlines()[0] if text else "").replace("|", "\\|")[:160]
